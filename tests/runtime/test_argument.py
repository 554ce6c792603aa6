"""Arguments over arrays of every kind: where they lie, and new memory of any shape."""

import ml_dtypes
import numpy as np
import pytest

from migraphx.ir.shape import Shape, permuted
from migraphx.runtime.argument import Argument, address

FLAT = np.arange(60, dtype=np.float32)
FROZEN = FLAT.copy()
FROZEN.flags.writeable = False
ARRAYS = {
    "plain": FLAT,
    "behind the first": FLAT[7:],
    "with gaps": FLAT[3::2],
    "transposed": FLAT.reshape(3, 20).T,
    "backwards": FLAT[::-1],
    "read-only": FROZEN,
    "of bytes": np.frombuffer(b"abc", np.uint8),
    "bf16": FLAT.astype(ml_dtypes.bfloat16)[1:],
    "fp8": FLAT.astype(ml_dtypes.float8_e4m3fn),
    "empty": np.zeros((0, 3), np.float32),
    "a number": np.array(3.0),
    "bools": np.zeros(3, np.bool_),
    "of the other byte order": FLAT.astype(">f4"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_address_of_an_array(name: str) -> None:
    array, own = ARRAYS[name], ARRAYS[name].copy()
    for each in (array, own):
        assert address(each) == each.__array_interface__["data"][0]
    del each
    own.resize(100)  # which NumPy refuses while somebody holds it


SHAPES = [
    Shape("float", (2, 3)),
    Shape("float", (2, 3, 4), (12, 1, 3)),
    Shape("bf16", (5,)),
    Shape("fp8e4m3fn", (2, 2)),
    Shape("double", ()),
    Shape("int64", (0, 4)),
    Shape("int8", (2, 3), (0, 1)),
    Shape("float", (1, 4), (9, 1)),
    permuted("half", (2, 3, 4, 5), (0, 2, 3, 1)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_new_memory(shape: Shape) -> None:
    made = Argument.empty(shape)
    array = made.array
    assert made.shape is shape and array.shape == shape.lens and array.dtype == shape.numpy_dtype
    assert made.pointer == array.__array_interface__["data"][0]
    if shape.elements:
        steps = [s * array.itemsize for s in shape.strides]
        long = [d for d, n in enumerate(shape.lens) if n > 1]
        assert [array.strides[d] for d in long] == [steps[d] for d in long]
    array[...] = np.ones(shape.lens).astype(array.dtype)
    assert (np.asarray(array, np.float64) == 1).all()


def test_shapes_of_arrays_do_not_depend_on_those_before() -> None:
    for _ in range(2):
        for array in (FLAT, FLAT.astype(">f4"), FLAT.reshape(3, 20), FLAT.reshape(3, 20).T, FLAT.view(np.int32)):
            if not array.dtype.isnative:
                with pytest.raises(ValueError, match="no MIGraphX type"):
                    Shape.of(array)
                continue
            steps = tuple(s // array.itemsize for s in array.strides)
            assert Shape.of(array) == Shape({"f": "float", "i": "int32"}[array.dtype.kind], array.shape, steps)
        records = np.zeros(3, np.dtype([("a", "f4"), ("b", "u1")]))
        for array in (FLAT[::-1], records["a"]):
            with pytest.raises(ValueError, match="negative or no multiples of 4 bytes"):
                Shape.of(array)

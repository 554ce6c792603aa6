import ml_dtypes
import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import DynamicDimension, Shape, elementwise, permuted, standard_strides


@pytest.mark.parametrize(
    ("type", "lens", "strides"),
    [
        ("float", (2**31, 2**31), None),
        ("double", (2**60,), None),
        ("float", (2, 2), (2**62, 1)),
        ("int8", (3, 2), (2**62, 1)),
        ("float", (2**62, 0), None),  # which NumPy refuses too
        ("int8", (2**64, 0), None),
    ],
)
def test_more_bytes_than_an_address_counts(type: str, lens: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    with pytest.raises(ValueError, match=r"shape: more than 2\*\*63 (bytes|elements) in"):
        Shape(type, lens, strides)  # type: ignore[arg-type]


def test_as_many_bytes_as_an_address_counts() -> None:
    assert Shape("double", (2**59,)).bytes == 2**62
    assert Shape("float", (2**31, 2**31), (0, 0)).bytes == 4
    assert Shape("int8", (2**62,)).bytes == 2**62


def test_strides_default_to_row_major():
    assert Shape("float", (2, 3, 4)).strides == (12, 4, 1)
    assert Shape("float", (2, 0, 4)).strides == standard_strides((2, 0, 4)) == (4, 4, 1)
    assert Shape("float_type", (2,)) == Shape("float", [2], [1])  # type: ignore[arg-type]
    assert hash(Shape("float", (2,))) == hash(Shape("float", (2,)))


@pytest.mark.parametrize(
    ("lens", "strides", "standard", "packed", "broadcasted", "transposed", "scalar"),
    [
        ((2, 3), (3, 1), True, True, False, False, False),
        ((2, 3), (1, 2), False, True, False, True, False),
        ((2, 3), (0, 1), False, False, True, False, False),
        ((2, 3), (0, 0), False, False, True, False, True),
        ((2, 3), (6, 2), False, False, False, False, False),
        ((2, 1, 3), (3, 77, 1), True, True, False, False, False),
        ((1,), (0,), True, True, False, False, True),
        ((), (), True, True, False, False, True),
    ],
)
def test_properties(lens, strides, standard, packed, broadcasted, transposed, scalar):
    s = Shape("float", lens, strides)
    assert (s.standard, s.packed, s.broadcasted, s.scalar) == (standard, packed, broadcasted, scalar)
    assert s.transposed == transposed


def test_sizes():
    s = Shape("half", (2, 3), (8, 1))
    assert (s.elements, s.element_space, s.bytes) == (6, 11, 22)
    assert Shape("float", (3, 0)).element_space == Shape("float", (3, 0)).bytes == 0
    assert Shape.tuple_of([s, Shape("double", (2,))]).bytes == 22 + 16
    assert Shape.tuple_of([]).bytes == 0 and Shape.tuple_of([]).lens == ()


def test_of_an_array():
    x = np.zeros((4, 6), np.int16)
    assert Shape.of(x.T[::2]) == Shape("int16", (3, 4), (2, 6))
    assert Shape.of(np.broadcast_to(x[0], (2, 6))).strides == (0, 1)
    with pytest.raises(ValueError, match="strides"):
        Shape.of(x[::-1])
    with pytest.raises(ValueError, match="no MIGraphX type"):
        Shape.of(np.zeros(2, np.complex64))


def test_permutation_of_what_permuted_makes():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lens = tuple(int(n) for n in rng.integers(2, 5, 4))
        order = tuple(int(d) for d in rng.permutation(4))
        s = permuted("float", lens, order)
        assert s.permutation == order and s.packed
        array = np.zeros([lens[d] for d in order], np.float32).transpose(np.argsort(order))
        assert s == Shape.of(array)


def test_elementwise_keeps_the_layout_that_packed_inputs_share():
    nhwc = permuted("float", (1, 3, 4, 4), (0, 2, 3, 1))
    nchw, scalar = Shape("float", (1, 3, 4, 4)), Shape("float", (1, 3, 4, 4), (0, 0, 0, 0))
    assert elementwise("half", [nhwc, nhwc]) == nhwc.with_type("half")
    assert elementwise("float", [scalar, nhwc]) == nhwc
    assert elementwise("float", [nhwc, nchw]) == nchw
    assert elementwise("float", [scalar]) == nchw


def test_elementwise_of_slices_keeps_their_order():
    """Halves of an image's channels have gaps between their pixels; what is made of them lies as the image does."""
    half, scalar = Shape("float", (2, 3, 4, 4), (96, 1, 24, 6)), Shape("float", (2, 3, 4, 4), (0, 0, 0, 0))
    nhwc, nchw = permuted("float", (2, 3, 4, 4), (0, 2, 3, 1)), Shape("float", (2, 3, 4, 4))
    assert elementwise("float", [half, half]) == nhwc
    assert elementwise("half", [scalar, half]) == nhwc.with_type("half")
    assert elementwise("float", [half, nchw]) == nchw
    rows = Shape("float", (2, 3, 4, 4), (96, 32, 8, 1))
    assert elementwise("float", [half, rows]) == elementwise("float", [rows]) == nchw


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="unknown type 'floaty'"):
        Shape("floaty", (2,))
    with pytest.raises(ValueError, match="negative"):
        Shape("float", (-1,))
    with pytest.raises(ValueError, match="2 lens but 1 strides"):
        Shape("float", (2, 3), (1,))
    with pytest.raises(ValueError, match="0 <= min <= max"):
        DynamicDimension(3, 2)


def test_dynamic():
    s = Shape("float", dyn_dims=(DynamicDimension(1, 4), DynamicDimension(3, 3)))
    assert s.dynamic and s.ndim == 2 and s.lens == () and Shape.tuple_of([s]).dynamic
    assert [d.is_fixed for d in s.dyn_dims] == [False, True]


def test_types():
    for name, dtype in dtypes.NUMPY_TYPES.items():
        assert dtypes.from_numpy(dtype) == name and dtypes.to_numpy(f"{name}_type") == dtype
    assert dtypes.accumulator("bf16") == dtypes.accumulator("fp8e5m2") == np.float32
    assert dtypes.accumulator("double") == np.float64 and dtypes.accumulator("int8") == np.int8
    assert dtypes.from_numpy(ml_dtypes.bfloat16) == "bf16"


def test_strides_of_length_1_have_no_say_in_an_elementwise_layout():
    """A value that every image of one shares lies as the image does."""
    image, shared = Shape("float", (1, 4, 6), (24, 1, 4)), Shape("float", (1, 4, 6), (0, 1, 4))
    for inputs in ((image, shared), (shared, image)):
        assert elementwise("float", inputs) == image
    assert elementwise("float", (image, Shape("float", (1, 4, 6)))).standard

"""migraphx.argument and its makers against NumPy, torch and the protocols between them."""

from __future__ import annotations

import array
import copy
import gc
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import migraphx
from migraphx.ir.dtype import NUMPY_TYPES, numbers
from migraphx.ir.operation import ShapeError
from migraphx.mxr import container
from migraphx.runtime import dlpack
from migraphx.runtime.argument import Argument

TORCH_TYPES = {
    "bool": torch.bool,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "bf16": torch.bfloat16,
    "fp8e4m3fn": torch.float8_e4m3fn,
    "fp8e4m3fnuz": torch.float8_e4m3fnuz,
    "fp8e5m2": torch.float8_e5m2,
    "fp8e5m2fnuz": torch.float8_e5m2fnuz,
}


def sample(name: str, *lens: int) -> np.ndarray:
    """Small values that every type holds exactly."""
    values = np.random.default_rng(3).integers(0, 2 if name == "bool" else 9, lens)
    values = 2**values if name == "fp8e8m0fnu" else values  # it has no 0
    return values.astype(NUMPY_TYPES[name])


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_arrays_are_viewed(name: str) -> None:
    whole = sample(name, 4, 6, 5)
    for a in (whole, whole.T, whole[1:3, ::2], whole[:, :, 2], np.broadcast_to(whole[:1], whole.shape), whole[0, 0, 0]):
        x = migraphx.argument(a)
        s = x.get_shape()
        assert (s.type_string(), s.lens()) == (f"{name}_type", list(a.shape))
        if a.ndim:
            assert x.data_ptr() == a.__array_interface__["data"][0]
            assert s.strides() == [k // a.itemsize for k in a.strides]
        back = np.array(x, copy=False) if a.ndim else np.array(x)
        assert back.dtype == a.dtype and back.tobytes() == a.tobytes()
        assert x.tolist() == numbers(a).ravel().tolist() and x == migraphx.argument(a.copy())


def test_what_numpy_asks_for() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = migraphx.argument(a)
    assert np.shares_memory(np.asarray(x), a) and not np.shares_memory(np.array(x), a)
    assert np.asarray(x, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.array(x, np.float64, copy=False)
    np.asarray(x)[0, 0] = 7
    assert a[0, 0] == 7
    assert np.add(x, 1).sum() == a.sum() + 6


def test_printed_as_upstream_does() -> None:
    for values, text in (
        (np.array([[1.5, -0.01487761], [2, np.inf]], np.float32), "1.5, -0.0148776, 2, inf"),
        (np.arange(30, dtype=np.int8).reshape(2, 15).T[:2], "0, 15, 1, 16"),
        (np.array([True, False]), "1, 0"),
        (b"ab", "97, 98"),
    ):
        assert repr(migraphx.argument(values)) == str(migraphx.argument(values)) == text


@pytest.mark.parametrize("name", TORCH_TYPES)
def test_torch_tensors_both_ways(name: str) -> None:
    t = torch.from_numpy(sample("float", 4, 6)).to(TORCH_TYPES[name])
    for view in (t, t.T, t[1:, ::2], t[:0]):
        x = migraphx.argument(view)
        assert x.get_shape().type_string() == f"{name}_type" and x.get_shape().lens() == list(view.shape)
        assert not view.numel() or x.data_ptr() == view.data_ptr()
        np.testing.assert_array_equal(np.asarray(x).astype(np.float32), view.float().numpy())
        if name.startswith("fp8") and not view.numel():
            continue
        back = torch.from_dlpack(x)
        assert back.dtype is view.dtype and torch.equal(back.float(), view.float())
        assert not view.numel() or back.data_ptr() == view.data_ptr()


@pytest.mark.usefixtures("own_objects")
def test_dlpack_owns_its_memory() -> None:
    t = torch.randn(64, 64).bfloat16()
    want = t.float().numpy().copy()
    x = migraphx.argument(t)
    del t
    gc.collect()
    rivals = [torch.zeros(64, 64).bfloat16() for _ in range(50)]
    np.testing.assert_array_equal(np.asarray(x).astype(np.float32), want)
    before = dlpack.alive()
    back = torch.from_dlpack(x)
    del x, rivals
    gc.collect()
    np.testing.assert_array_equal(back.float().numpy(), want)
    assert dlpack.alive() == before + 1
    del back
    assert dlpack.alive() == before
    dlpack.write(Argument.of(np.zeros(3, NUMPY_TYPES["bf16"])))  # a capsule that nobody takes
    assert dlpack.alive() == before


@pytest.mark.parametrize("type", ["bf16", "fp8e5m2"])
def test_numpy_says_what_it_does_not_take(type: str) -> None:
    before = dlpack.alive()
    x = migraphx.generate_argument(migraphx.shape(type, [2, 3]))
    with pytest.raises((BufferError, RuntimeError), match="dtype"):
        np.from_dlpack(x)
    assert dlpack.alive() == before


def test_numpy_takes_dlpack() -> None:
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    x = migraphx.argument(a.T)
    assert x.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(x), a.T)


def test_buffers_numbers_and_lists() -> None:
    assert migraphx.argument(array.array("d", [1, 2])).tolist() == [1, 2]
    assert migraphx.argument(bytearray(b"ab")).get_shape() == migraphx.shape("uint8", [2])
    assert migraphx.argument([[1, 2], [3, 4]]).get_shape() == migraphx.shape("int64", [2, 2])
    assert migraphx.argument(3.5).get_shape() == migraphx.shape("double", [])
    again = migraphx.argument(migraphx.argument([1.0]))
    assert again.tolist() == [1.0]


def test_buffer_protocol() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for values in (a, a.T, a[:, :1], np.array(2.5), np.array([], np.int8), np.array([True, False])):
        view = memoryview(migraphx.argument(values))
        assert (view.tolist(), view.shape) == (values.tolist(), values.shape)
        assert view.strides == values.strides or not values.size
        assert bytes(migraphx.argument(values)) == values.tobytes()
    np.frombuffer(migraphx.argument(a), np.float32)[0] = 9  # no copy
    assert a[0, 0] == 9
    narrow = migraphx.argument(a.astype(NUMPY_TYPES["bf16"]))
    with pytest.raises(BufferError, match="bf16_type has no buffer format"):
        narrow.__buffer__(0)
    with pytest.raises(BufferError if sys.version_info >= (3, 12) else SystemError):
        memoryview(narrow)
    with pytest.raises((BufferError, ValueError) if sys.version_info >= (3, 12) else SystemError):
        np.frombuffer(migraphx.argument(a.T), np.float32)  # asks for memory without strides


@pytest.mark.usefixtures("own_objects")
def test_views_keep_the_memory() -> None:
    view = memoryview(migraphx.argument(np.full(1 << 16, 3.0)))
    gc.collect()
    assert set(view) == {3.0}
    kept = sys.getrefcount(migraphx.argument)
    for _ in range(100):
        memoryview(migraphx.argument([1.0])).release()
    assert abs(sys.getrefcount(migraphx.argument) - kept) < 5


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: np.ones((2, 3))[:, ::-1], ValueError, "negative"),
        (lambda: np.ones(3, ">f4"), ValueError, "no MIGraphX type.*>f4"),
        (lambda: np.ones(3, np.complex64), ValueError, "no MIGraphX type.*complex64"),
        (lambda: "abc", ValueError, "no MIGraphX type"),
        (lambda: None, ValueError, "no MIGraphX type"),
        (lambda: np.ones(3, [("a", "f4"), ("b", "i1")])["a"], ValueError, "no multiples of 4"),
        (lambda: torch.ones(3, requires_grad=True), BufferError, "detach"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj(), (BufferError, RuntimeError, TypeError), "conj"),
        (lambda: torch.ones(3, device="meta"), (BufferError, RuntimeError, TypeError, ValueError), "meta|device"),
        (lambda: torch.eye(3).to_sparse(), (BufferError, RuntimeError, TypeError), "layout|[Ss]parse"),
    ],
)
def test_refused(make, error, words: str) -> None:
    with pytest.raises(error, match=words):
        migraphx.argument(make())


def test_read_only_and_nan() -> None:
    a = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    a.flags.writeable = False
    x = migraphx.argument(a)
    assert x == migraphx.argument(a.copy()) and np.signbit(np.asarray(x)[3]) and not np.asarray(x).flags.writeable
    assert x != migraphx.argument(np.zeros(4, np.float32)) and x != migraphx.argument(a.astype(np.float64)) and x != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


@pytest.mark.parametrize("name", ["float", "bf16", "int64", "bool"])
def test_files_copies_and_pickles(name: str, tmp_path: Path) -> None:
    x = migraphx.argument(sample(name, 3, 4).T)
    x.save(str(tmp_path / "a.mxa"))
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), migraphx.argument.load(tmp_path / "a.mxa")):
        assert y == x and y.data_ptr() != x.data_ptr()
        assert y.data_ptr() == np.asarray(y).__array_interface__["data"][0]


def test_files_of_others(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(container.FileError, match="header"):
        migraphx.argument.load(tmp_path / "a.npy")
    container.write(tmp_path / "b", {"x": np.zeros(3)}, {})
    with pytest.raises(container.FileError, match="no tensor 'argument'"):
        migraphx.argument.load(tmp_path / "b")


@pytest.mark.parametrize("name", NUMPY_TYPES)
@pytest.mark.parametrize("strides", [[3, 1], [1, 2]])
def test_created(name: str, strides: list[int]) -> None:
    s = migraphx.shape(name, [2, 3], strides)
    values = sample(name, 2, 3)
    made = migraphx.create_argument(s, numbers(values).ravel().tolist())
    assert made.get_shape() == s and np.array_equal(np.asarray(made), values)
    assert np.asarray(migraphx.fill_argument(s, 1)).astype(np.float32).tolist() == [[1, 1, 1]] * 2
    one, two, other = (migraphx.generate_argument(s, seed) for seed in (1, 1, 2))
    assert one.get_shape() == s and one == two and (name == "bool" or one != other)


def test_created_values_that_the_type_changes() -> None:
    for name, value in (("int32", 1.5), ("uint8", 300), ("int8", np.nan), ("uint32", -1), ("bool", 2)):
        with pytest.raises((ValueError, OverflowError)):
            migraphx.create_argument(migraphx.shape(name, [1]), [value])
        with pytest.raises((ValueError, OverflowError)):
            migraphx.fill_argument(migraphx.shape(name, [1]), value)
    with pytest.raises(ValueError, match=r"2 values for .* holds 3"):
        migraphx.create_argument(migraphx.shape("float", [3]), [1, 2])
    wrong: Any = ("1", None, 1j, 2**70)
    for value in wrong:
        with pytest.raises(ValueError, match="a value is no int64"):
            migraphx.fill_argument(migraphx.shape("int64"), value)
    with pytest.raises(ValueError, match="takes one value, got 2"):
        migraphx.fill_argument(migraphx.shape("int64"), [1, 2])  # type: ignore[arg-type]
    assert migraphx.create_argument(migraphx.shape("int64", [1]), [2**63 - 1]).tolist() == [2**63 - 1]
    for values in ([2**63 + 1, 1], [2**64 - 1, np.int64(0)]):  # NumPy makes floats of such lists
        assert migraphx.create_argument(migraphx.shape("uint64", [2]), values).tolist() == values
    for values in ([2**63 + 1, -1], [2**63 + 1, 1.5]):
        with pytest.raises(ValueError, match="a value is no uint64"):
            migraphx.create_argument(migraphx.shape("uint64", [2]), values)
    assert migraphx.fill_argument(migraphx.shape("half", [1]), 1e9).tolist() == [np.inf]


def test_one_element_holds_one_value() -> None:
    s = migraphx.shape("float", [2, 2], [0, 1])
    assert migraphx.create_argument(s, [1, np.nan, 1, np.nan]).tolist()[::2] == [1, 1]
    with pytest.raises(ValueError, match="must be equal where the stride is 0"):
        migraphx.create_argument(s, [1, 2, 3, 4])


def test_shapes_that_no_memory_has() -> None:
    range = migraphx.shape.dynamic_dimension(1, 4)
    wrong: Any = (migraphx.shape(dyn_dims=[range]), migraphx.shape("tuple"), "float")
    for s in wrong:
        for make in (
            lambda s: migraphx.create_argument(s, [1]),
            lambda s: migraphx.fill_argument(s, 1),
            migraphx.generate_argument,
        ):
            with pytest.raises((ValueError, TypeError), match=r"_argument: .* (is no memory's shape|migraphx\.shape)"):
                make(s)


def test_from_pointer() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = migraphx.argument_from_pointer(migraphx.shape("float", [3, 2], [1, 3]), a.ctypes.data)
    np.testing.assert_array_equal(np.asarray(x), a.T)
    np.asarray(x)[0, 0] = 9
    assert a[0, 0] == 9
    assert migraphx.argument_from_pointer(migraphx.shape("float", [0]), 0).tolist() == []
    one, address = migraphx.shape("float", [1]), a.ctypes.data
    wrong: Any = (
        (one, 0, ValueError, "null pointer"),
        (one, -8, ValueError, "negative pointer"),
        (one, 1.5, TypeError, "integer"),
        (one, None, TypeError, "integer"),
        ("float", address, TypeError, "must be a migraphx.shape, got 'float'"),
        (migraphx.shape(dyn_dims=[migraphx.shape.dynamic_dimension(1, 4)]), address, ValueError, "no memory's shape"),
    )
    for s, place, error, words in wrong:
        with pytest.raises(error, match=words):
            migraphx.argument_from_pointer(s, place)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_packed_fp4(target: str) -> None:
    """A parameter of upstream's type of two fp4 numbers takes its bytes."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("fp4x2_type", [3, 4]))
    ops = (migraphx.op("unpack_fp4", axis=1), migraphx.op("contiguous"))
    m.add_return([m.add_instruction(op, [x]) for op in ops])
    p.compile(migraphx.get_target(target))
    codes = np.random.default_rng(4).integers(0, 256, (3, 4), np.uint8)
    parts, same = p.run({"x": codes})
    want = np.stack([codes & 15, codes >> 4], -1).reshape(3, 8).view(NUMPY_TYPES["fp4e2m1fn"])
    np.testing.assert_array_equal(np.array(parts).astype(np.float32), want.astype(np.float32))
    assert same.get_shape().type_string() == "fp4x2_type" and same.tolist() == codes.ravel().tolist()
    assert p.run({"x": same})[1] == same
    with pytest.raises(ValueError, match="input 'x' must have shape fp4x2_type"):
        p.run({"x": codes.astype(np.float32)})
    with pytest.raises(ShapeError, match="does not take fp4x2"):
        m.add_instruction(migraphx.op("add"), [x, x])

"""Programs on a device that is not the host: where their values are, and what crosses to main memory."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.argument import publish
from migraphx.runtime import device as devices
from migraphx.runtime import dlpack
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import CUDA, HOST, device_of, provide
from migraphx.targets import registry
from tests.targets.common import test_dynamic
from tests.targets.interpreted import NAME, InterpretedTarget
from tests.targets.separate import KIND, SEPARATE, SeparateDevice

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TARGETS, NAME, lambda: InterpretedTarget(SEPARATE))
    monkeypatch.setattr(devices, "_makers", {})
    monkeypatch.setattr(devices, "_devices", {})
    provide(KIND, lambda index: SEPARATE)


def there(array: np.ndarray) -> migraphx.argument:
    return publish(Argument.of(np.ascontiguousarray(array)).to(SEPARATE))


def negated(**options: Any) -> migraphx.program:
    """x -> -x, x w."""
    p = migraphx.program()
    m = p.get_main_module()
    x, w = m.add_parameter("x", migraphx.shape("float", [2, 3])), m.add_literal(np.ones((3, 2), np.float32))
    m.add_return([m.add_instruction(migraphx.op("neg"), [x]), m.add_instruction(migraphx.op("dot"), [x, w])])
    p.compile(migraphx.get_target(NAME), **options)
    return p


# ---- programs ----


def test_host_values_go_there_and_back() -> None:
    p = negated()
    for given in (X, np.asfortranarray(X), migraphx.argument(X)):
        minus, product = p.run({"x": given})
        np.testing.assert_array_equal(np.asarray(minus), -X)
        np.testing.assert_allclose(np.asarray(product), X @ np.ones((3, 2)), rtol=1e-6)
    place, other = np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32)
    p.run({"x": X, "main:#output_0": place, "main:#output_1": other})
    np.testing.assert_array_equal(place, -X)


def test_values_stay_where_the_program_runs() -> None:
    p, x = negated(offload_copy=False), there(X)
    SEPARATE.read_bytes = SEPARATE.written_bytes = 0
    SEPARATE.streams.clear()
    results = p.run_async({"x": x}, 7, "ihipStream_t")
    assert SEPARATE.read_bytes == SEPARATE.written_bytes == 0 and set(SEPARATE.streams) == {7}
    assert [r.device for r in results] == [SEPARATE] * 2
    np.testing.assert_array_equal(results[0].tolist(), (-X).ravel())
    y, z = there(np.zeros_like(X)), there(np.zeros((2, 2), np.float32))
    p.run({"x": x, "main:#output_0": y, "main:#output_1": z})
    assert y == migraphx.argument(-X)


def test_an_address_alone_is_where_the_device_knows_it() -> None:
    p, x, y, z = negated(offload_copy=False), there(X), there(X), there(X[:, :2])
    shape = migraphx.shape("float", [2, 3])
    given = migraphx.argument_from_pointer(shape, x.data_ptr())
    minus, _ = p.run({"x": given})
    assert minus == migraphx.argument(-X)
    p.run_at([x.data_ptr()], [y.data_ptr(), z.data_ptr()])
    assert y == migraphx.argument(-X)


def test_what_is_elsewhere_is_named() -> None:
    p = negated(offload_copy=False)
    with pytest.raises(ValueError, match=r"runs on separate:0 and was compiled with offload_copy=False; 'x' is on cpu"):
        p.run({"x": X})
    outputs = {"main:#output_0": np.zeros_like(X), "main:#output_1": there(X[:, :2])}
    with pytest.raises(ValueError, match="'main:#output_0' is on cpu: copy first"):
        p.run({"x": there(X), **outputs})
    p = p.clone(compiled=False)
    p.compile(migraphx.get_target("ref"))
    with pytest.raises(ValueError, match=r"runs on cpu; 'x' is on separate:0"):
        p.run({"x": there(X)})
    with pytest.raises(ValueError, match=r"stream 0x7: programs on the cpu run in no stream"):
        p.run_async({"x": X}, 7)
    with pytest.raises(ValueError, match="stream_type 'SYCL' is none of"):
        p.run_async({"x": X}, 0, "SYCL")
    with pytest.raises(ValueError, match=r"are on separate:0, not in main memory: copy"):
        p.get_main_module().add_literal(there(X))


# ---- dynamic shapes ----

DYNAMIC = [
    test_dynamic.test_dynamic_equals_static_for_random_sizes,
    test_dynamic.test_sizes_that_depend_on_data,
    test_dynamic.test_values_decide_shapes,
    test_dynamic.test_modules_that_take_dynamic_lengths,
    test_dynamic.test_bad_input,
    test_dynamic.test_small_operators_about_sizes,
]


@pytest.mark.parametrize("test", DYNAMIC, ids=lambda test: test.__name__)
def test_dynamic_shapes(test: Any) -> None:
    test(target=NAME)


def test_a_new_length_brings_nothing_to_main_memory() -> None:
    p = test_dynamic.network(test_dynamic.dimension(1, 8), 3)
    p.compile(migraphx.get_target(NAME), offload_copy=False)
    given = {n: there(RNG.standard_normal((n, 3, 6)).astype(np.float32)) for n in (2, 5)}
    SEPARATE.read_bytes = 0
    for n, x in given.items():
        (got,) = p.run_async({"x": x}, 3)
        assert SEPARATE.read_bytes == 0 and got.shape.lens == (3 * n, 5)


def test_steps_say_what_comes_to_main_memory() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [2, 3]))
    m.add_return([m.add_instruction(migraphx.op("nonzero_exact"), [m.add_instruction(migraphx.op("relu"), [x])])])
    p.compile(migraphx.get_target(NAME), offload_copy=False)
    given = there(X)
    SEPARATE.read_bytes = 0
    (found,) = p.run({"x": given})
    assert SEPARATE.read_bytes == X.nbytes
    np.testing.assert_array_equal(np.array(found.tolist()).reshape(2, -1), np.nonzero(X > 0))
    executable: Any = p.executable
    assert [(s.kernel, s.bytes) for s in executable.steps if s.kernel == "to the host"] == [("to the host", X.nbytes)]
    assert len(executable.profile([given], 1)) == len(executable.steps)


def test_results_share_no_memory() -> None:
    """An input that is given back, and one value as two outputs, beside a value whose size depends on data."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [2, 3]))
    doubled = m.add_instruction(migraphx.op("add"), [x, x])
    one = m.add_literal(np.ones((2, 3), np.float32))
    m.add_return([m.add_instruction(migraphx.op("nonzero_exact"), [x]), x, doubled, doubled, one])
    for target in (NAME, "cpu"):
        q = p.clone()
        q.compile(migraphx.get_target(target))
        results = q.run({"x": X})
        places = [a.data_ptr() for a in results]
        assert len({*places, X.ctypes.data}) == 6
        for got, want in zip(results[1:], (X, 2 * X, 2 * X, np.ones_like(X)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
            np.asarray(got)[...] = 9  # nobody else's
        np.testing.assert_array_equal(np.asarray(q.run({"x": X})[4]), np.ones_like(X))


# ---- arguments ----


class Exported:
    """A tensor of another library, on a device."""

    def __init__(self, of: migraphx.argument, kind: int = KIND) -> None:
        self.of, self.kind = of, kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.of.__dlpack__(**kwargs)


def test_tensors_cross_where_they_are() -> None:
    x = there(X)
    assert x.__dlpack_device__() == (KIND, 0)
    y = migraphx.argument(Exported(x))
    assert y.device is SEPARATE and y.data_ptr() == x.data_ptr() and y.get_shape() == x.get_shape() and y == x
    assert np.array_equal(negated().run({"x": Exported(x)})[0], -X)
    for z in (copy.deepcopy(x), migraphx.argument(X)):
        assert z == x and z.data_ptr() != x.data_ptr()
    assert copy.deepcopy(x).device is SEPARATE and repr(x) == repr(migraphx.argument(X))
    before = dlpack.alive()
    for refused in (lambda: memoryview(x), lambda: np.from_dlpack(x), lambda: x.__dlpack__(dl_device=(1, 0))):
        with pytest.raises((BufferError, RuntimeError, SystemError)):
            refused()
    assert dlpack.alive() == before, "what nobody took is freed"
    with pytest.raises(ValueError, match=r"are on separate:0, not in main memory"):
        np.asarray(x)


def test_a_device_without_a_target_is_named() -> None:
    for kind, name in ((CUDA, "cuda:0"), (99, "device type 99:0")):
        with pytest.raises(ValueError, match=f"the data is on {name}, where no target of this build runs"):
            migraphx.argument(Exported(there(X), kind))
        with pytest.raises(ValueError, match=f"input 'x': the data is on {name}"):
            negated().run({"x": Exported(there(X), kind)})


def test_devices_are_made_once_and_late() -> None:
    made: list[int] = []

    class Other(SeparateDevice):
        kind = CUDA

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index
            made.append(index)

    provide(CUDA, Other)
    assert device_of(1, 0) is device_of(3, 2) is HOST and not made
    assert device_of(CUDA, 1) is device_of(CUDA, 1) is not device_of(CUDA, 0) and made == [1, 0]


def test_cuda_array_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hasattr(there(X), "__cuda_array_interface__") and not hasattr(
        migraphx.argument(X), "__cuda_array_interface__"
    )
    device = SeparateDevice()
    monkeypatch.setattr(device, "kind", CUDA)
    x = publish(Argument.of(X).to(device))
    want = {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (x.data_ptr(), False),
        "strides": (12, 4),
        "version": 3,
        "stream": 1,
    }
    assert x.__cuda_array_interface__ == want
    narrow = publish(Argument.of(X.astype(migraphx.ir.dtype.to_numpy("bf16"))).to(device))
    assert not hasattr(narrow, "__cuda_array_interface__"), "it has no type string"

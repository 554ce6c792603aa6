"""Devices and streams in the bridge. Without a GPU: fake tensors, and a place that only says it is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import migraphx
from torch_migraphx import devices
from torch_migraphx.devices import Place, on_device_of, type_of
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.mgx_module import MGXModule

X = torch.randn(2, 3)


def on_cuda(*lens: int) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(lens, device="cuda:0")


class Nowhere(torch.Tensor):
    """A tensor without memory that says where it is; for a fake one torch asks the driver for the device."""

    __torch_dispatch__ = classmethod(lambda *_: NotImplemented)


def negated() -> migraphx.program:
    p = migraphx.program()
    m = p.get_main_module()
    m.add_return([m.add_instruction(migraphx.op("neg"), [m.add_parameter("x", migraphx.shape("float", [2, 3]))])])
    return p


class Stand:
    """A target by name that says where it runs."""

    def __init__(self, kind: int, index: int = 0) -> None:
        self.device = self
        self.kind, self.index, self.name = kind, index, f"kind {kind}"


def test_a_target_says_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Place.of("cpu").device == Place.of("ref").device == torch.device("cpu")
    for kind, index, device in ((2, 1, "cuda:1"), (10, 0, "cuda:0"), (1, 0, "cpu")):
        made = Stand(kind, index)
        monkeypatch.setattr(migraphx, "get_target", lambda name, made=made: made)
        assert Place.of("gpu").device == torch.device(device)
    monkeypatch.setattr(migraphx, "get_target", lambda name: Stand(12))
    with pytest.raises(RuntimeError, match="'gpu' runs on kind 12, which torch does not know"):
        Place.of("gpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float8_e4m3fn, torch.bool])
@pytest.mark.parametrize(
    ("size", "strides"), [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((4, 2), (0, 1)), ((0, 3), (3, 1)), ((), ())]
)
def test_new_tensors(size: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> None:
    """As torch.empty_strided makes them, in inference mode, too."""
    for mode in (False, True):
        with torch.inference_mode(mode):
            made = Place(torch.device("cpu")).maker(torch.Size(size), strides, dtype)()
            like = torch.empty_strided(size, strides, dtype=dtype)
            told = [
                (x.shape, x.stride(), x.dtype, x.device, x.is_inference(), x.untyped_storage().nbytes())
                for x in (made, like)
            ]
            assert told[0] == told[1]


def test_new_tensors_lie_on_their_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is torch's current one."""
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(devices, "EMPTY_CUDA", lambda *given: made.append(("current", *given)))
    monkeypatch.setattr(torch, "empty_strided", lambda *given, **more: made.append((str(more["device"]), *given)))
    make = Place(torch.device("cuda", 1)).maker((2, 3), (3, 1), torch.half)
    for current in (1, 0):
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda now=current: now, raising=False)
        make()
    assert made == [("current", (2, 3), (3, 1), torch.half), ("cuda:1", (2, 3), (3, 1))]


def test_what_a_place_holds() -> None:
    cpu, gpu, other = Place(torch.device("cpu")), Place(torch.device("cuda:0")), Place(torch.device("cuda:1"))
    fake = on_cuda(2, 3)
    assert cpu.holds(X) and not cpu.holds(fake)
    assert gpu.holds(fake) and not gpu.holds(X) and not other.holds(fake)
    assert type_of([X, 3, X]) == "cpu" and type_of([fake]) == "cuda" and type_of([X, fake]) == type_of([]) == "cpu"
    assert not not_held(fake, ("cuda",)) and not not_held(X)
    assert not_held(fake, ("cpu",)) == "is on cuda; the engine compiles for cpu"
    assert not_held(X, ("cuda",)) == "is on cpu; the engine compiles for cuda"


def test_what_is_elsewhere_is_named() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(NotImplementedError, match=r"'cpu' runs on the CPU; .*: input 0 on meta\. Move them .*'cpu'"):
        lower_to_mgx(layer, [X.to("meta")])
    with pytest.raises(NotImplementedError, match=r"weight 'weight' on meta, weight 'bias' on meta\."):
        lower_to_mgx(nn.Linear(3, 2, device="meta"), [X])
    many = {f"weight {k}": X for k in range(7)}
    with pytest.raises(NotImplementedError, match=r"'gpu' runs on cuda:1; .*weight 4 on cpu and 2 more\. .*'cuda:1'"):
        Place(torch.device("cuda:1")).refuse_others("gpu", [many])
    fakes = [on_cuda(2), X]
    with on_device_of(fakes):
        pass
    fakes.append(torch.Tensor._make_wrapper_subclass(Nowhere, (2,), device=torch.device("cuda:1")))
    several = on_device_of(fakes)
    with pytest.raises(NotImplementedError, match=r"one device; there are input 0 on cuda:0; input 2 on cuda:1\."):
        several.__enter__()
    module = MGXModule(negated(), ["x"])
    with pytest.raises(ValueError, match=r"input 0 \('x'\) must be torch.float32 \[2, 3\] on the CPU, .*on meta"):
        module(X.to("meta"))


class Elsewhere(Place):
    """A place that calls itself cuda:1, and is main memory: what MGXModule does there can be seen."""

    def __init__(self) -> None:
        super().__init__(torch.device("cuda:1"))
        self.made: list[torch.Tensor] = []

    def _has(self, x: torch.Tensor) -> bool:
        return x.is_cpu

    def _current_stream(self) -> int:
        return 7

    def maker(self, size: Any, strides: Any, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        def make() -> torch.Tensor:
            self.made.append(torch.empty_strided(size, strides, dtype=dtype))
            return self.made[-1]

        return make


def test_a_run_is_in_the_stream_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Elsewhere()
    monkeypatch.setattr(devices.Place, "of", lambda target: place)
    module = MGXModule(negated(), ["x"])
    program: Any = module.program
    streams: list[Any] = []
    run_at = program.run_at
    monkeypatch.setattr(program, "run_at", lambda i, o, stream: streams.append(stream) or run_at(i, o))
    (made,) = [module(X)]
    torch.testing.assert_close(made, -X)
    assert streams == [7] and made is place.made[0], "outputs are made on the device"
    with pytest.raises(ValueError, match=r"must be torch.float32 \[2, 3\] on cuda:1, in memory; got .* on meta"):
        module(X.to("meta"))


def test_the_current_stream_is_asked_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    name = "_cuda_getCurrentRawStream"  # which torch without CUDA does not have
    monkeypatch.setattr(torch._C, name, lambda index: asked.append(index) or 11, raising=False)
    assert Place(torch.device("cuda:1")).stream() == 11 and asked == [1]
    assert Place(torch.device("cpu")).stream() is None

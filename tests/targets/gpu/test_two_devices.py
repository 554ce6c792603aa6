"""Programs on two GPUs of one machine: each runs on its own, whichever is the current one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import migraphx
from migraphx.ir.shape import Shape
from migraphx.runtime.device import HOST
from tests.targets.gpu.side_by_side import built
from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx

pytestmark = pytest.mark.device
DEVICES = ("cuda:0", "cuda:1")


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    """The first one is the current one before and behind each test."""
    if torch.cuda.device_count() < 2:
        pytest.skip("torch finds no two GPUs")
    torch._dynamo.reset()
    torch.cuda.set_device(0)
    with torch.no_grad():
        yield
    torch.cuda.set_device(0)


class Net(nn.Module):
    """Large enough for libraries; a norm, attention, and what indices may be out of range for."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(16, 256, 3, padding=1), nn.GroupNorm(8, 256)
        self.wide, self.table = nn.Linear(256, 1024), nn.Embedding(50, 1024)

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        y = self.norm(self.stem(x).relu()).flatten(2).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(y, y, y)
        return self.wide(y) + self.table(i)[:, None]


def net(device: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    x, i = torch.randn(2, 16, 32, 32), torch.tensor([3, 49])
    return Net().eval().half().to(device), (x.half().to(device), i.to(device))


@pytest.mark.parametrize("current", [0, 1])
def test_modules_run_where_their_inputs_lie(current: int) -> None:
    """Lowered and compiled, on the device that is not the current one, too."""
    torch.cuda.set_device(current)
    for device in DEVICES:
        model, inputs = net(device)
        want = model(*inputs)
        lowered = lower_to_mgx(model, list(inputs))
        compiled = torch.compile(model, backend="migraphx", fullgraph=True)
        for made in (lowered, compiled):
            for _ in range(2):
                got = made(*inputs)
                assert str(got.device) == device and torch.cuda.current_device() == current
                assert_close(got.cpu().numpy(), want.cpu().numpy(), scale=4)


def test_gradients_on_the_second_one() -> None:
    model, (x, i) = net("cuda:1")
    other, _ = net("cuda:1")
    compiled = torch.compile(model.float(), backend="migraphx")
    with torch.enable_grad():
        for run in (compiled, other.float()):
            run(x.float(), i).square().mean().backward()
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        assert got.grad is not None and want.grad is not None and got.grad.device == x.device
        assert_close(got.grad.cpu().numpy(), want.grad.cpu().numpy(), scale=300)


def test_one_compiled_function_for_both() -> None:
    """Each device has a program of its own; inputs on both are refused by torch, as in eager."""
    compiled = torch.compile(lambda x, y: (x @ y).relu() + 1, backend="migraphx")
    for device in (*DEVICES, *DEVICES):
        x, y = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
        got = compiled(x, y)
        assert got.device == x.device
        assert_close(got.cpu().numpy(), ((x @ y).relu() + 1).cpu().numpy(), scale=30)
    with pytest.raises(RuntimeError, match=r"cuda:0.*cuda:1|cuda:1.*cuda:0|same device"):
        compiled(torch.randn(64, 64, device="cuda:0"), torch.randn(64, 64, device="cuda:1"))


def test_inputs_on_the_other_device_are_named() -> None:
    model, inputs = net("cuda:1")
    lowered = lower_to_mgx(model, list(inputs))
    with pytest.raises(ValueError, match=r"on cuda:1.* got .*on cuda:0"):
        lowered(*(x.to("cuda:0") for x in inputs))
    with pytest.raises((NotImplementedError, RuntimeError, ValueError), match=r"cuda:0[^.]*cuda:1|cuda:1[^.]*cuda:0"):
        lower_to_mgx(model, [x.to("cuda:0") for x in inputs])


def test_an_index_out_of_range_is_told_by_its_own_device() -> None:
    model, (x, i) = net("cuda:1")
    lowered = lower_to_mgx(model, [x, i])
    lowered(x, i + 1)
    torch.cuda.synchronize(1)
    first, inputs = net("cuda:0")
    lower_to_mgx(first, list(inputs))(*inputs)
    with pytest.raises(IndexError, match="50"):
        lowered(x, i)


def test_saved_here_and_loaded_there(tmp_path: Path) -> None:
    """On the GPU that `map_location` names, whichever is the current one."""
    model, inputs = net("cuda:0")
    want = model(*inputs)
    torch.save(lower_to_mgx(model, list(inputs)), tmp_path / "saved.pt")
    loaded = torch.load(tmp_path / "saved.pt", weights_only=False, map_location="cuda:1")
    got = loaded(*(x.to("cuda:1") for x in inputs))
    assert got.device == torch.device("cuda:1")
    assert_close(got.cpu().numpy(), want.cpu().numpy(), scale=4)


@pytest.mark.parametrize("copies", [False, True])
def test_the_current_device_is_that_of_the_target(copies: bool) -> None:
    """Without torch's tensors: programs, memory, and views by DLPack."""
    x = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)
    made = built(lambda b, x: b.softmax(x, axis=1), Shape.of(x))
    for index in (1, 0, 1):
        torch.cuda.set_device(index)
        here = made.clone()
        here.compile(migraphx.get_target("gpu"), offload_copy=copies)
        given = migraphx.argument(x) if copies else migraphx.to_gpu(migraphx.argument(x))
        torch.cuda.set_device(1 - index)  # which changes nothing for what is compiled
        (got,) = here.run({"x0": given})
        assert (got.device is HOST) if copies else got.device.name == f"cuda:{index}"
        assert_close(np.asarray(migraphx.from_gpu(got)), torch.softmax(torch.from_numpy(x), 1).numpy())
        if not copies:
            seen = torch.from_dlpack(got)
            assert seen.device == torch.device("cuda", index) and seen.data_ptr() == got.data_ptr()
            np.testing.assert_array_equal(migraphx.from_gpu(migraphx.to_gpu(got)), seen.cpu())  # by the other one
            with pytest.raises(ValueError, match=rf"cuda:{1 - index}.*cuda:{index}|cuda:{index}.*cuda:{1 - index}"):
                here.run({"x0": migraphx.to_gpu(migraphx.argument(x))})


def test_threads_on_both_at_once() -> None:
    """Each thread has a current device; the lowered modules of both are used by all."""
    models = {device: net(device) for device in DEVICES}
    lowered = {device: lower_to_mgx(model, list(inputs)) for device, (model, inputs) in models.items()}
    wrong: list[str] = []

    def work(number: int) -> None:
        torch.cuda.set_device(number % 2)
        with torch.no_grad():
            for turn in range(6):
                device = DEVICES[(number + turn) % 2]
                model, (x, i) = models[device]
                x = x + number + turn
                with torch.cuda.stream(torch.cuda.Stream(device)):
                    got, want = lowered[device](x, i), model(x, i)
                    torch.cuda.current_stream(device).synchronize()
                if not torch.allclose(got, want, atol=2e-2, rtol=2e-2):
                    wrong.append(f"{device}, thread {number}: {(got - want).abs().max()}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

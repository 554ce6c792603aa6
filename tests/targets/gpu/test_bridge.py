"""The bridge on a GPU: what only tensors there can show."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.tolerances import assert_close
from tests.torch_migraphx.dynamo.test_words import CHANGES, data, is_told
from tests.torch_migraphx.test_decompose import windows
from torch_migraphx.fx import lower_to_mgx

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if not torch.cuda.device_count():
        pytest.skip("torch finds no GPU")


ELSEWHERE = {"another device": data(torch.Tensor.cpu)}
ON_HOST = ("shared", "set", "swapped")  # memory on a GPU is shared as it is; the others make a tensor in main memory
HERE = [name for name in CHANGES if name not in ON_HOST]


@pytest.mark.parametrize("name", [*HERE, *ELSEWHERE])
def test_every_change_of_a_weight_is_told(name: str) -> None:
    is_told((CHANGES | ELSEWHERE)[name], "cuda")


@torch.no_grad()
@pytest.mark.parametrize("frozen", [False, True])
def test_weights_that_are_replaced(frozen: bool) -> None:
    """Other weights are other answers at the next call; what is written to weights too, unless they are frozen."""
    torch._dynamo.reset()
    layers = [nn.Linear(8, 8, device="cuda") for _ in range(6)]
    model = nn.Sequential(*layers)
    x = torch.randn(4, 8, device="cuda")
    compiled = torch.compile(model, backend="migraphx", options={"frozen": frozen})

    def same() -> bool:
        return all(torch.allclose(compiled(x), model(x), atol=1e-5) for _ in range(3))

    assert same()
    if not frozen:
        layers[1].weight.data.mul_(2)
        assert same()
        layers[2].weight.data = torch.randn(8, 8, device="cuda")
        assert same()
    layers[3].weight = nn.Parameter(torch.randn(8, 8, device="cuda"))
    assert same()
    model[4] = nn.Linear(8, 8, device="cuda")
    assert same()


@torch.no_grad()
@pytest.mark.parametrize("type", [torch.half, torch.bfloat16])
def test_norms_that_change(type: torch.dtype) -> None:
    """Weights are scaled by the norm behind them at each run: what is written to either is seen."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layers = [nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 1),
              nn.BatchNorm2d(64)]  # fmt: skip
    model = nn.Sequential(*layers).to("cuda", type).eval()
    x = torch.randn(2, 16, 32, 32, device="cuda", dtype=type)
    compiled, state = torch.compile(model, backend="migraphx"), model.state_dict()
    for changed in (None, "0.weight", "1.running_var", "1.bias", "4.weight", "4.running_mean"):
        if changed:
            state[changed].mul_(0.5).add_(0.1)
        assert_close(compiled(x).float().cpu(), model(x).float().cpu(), str(type).removeprefix("torch."), scale=8)


@torch.no_grad()
@pytest.mark.parametrize("place", [None, "cpu", "cuda"])
def test_modules_are_loaded_wherever_torch_puts_the_file(place: str | None, tmp_path: Path) -> None:
    model, x = nn.Linear(8, 8, device="cuda"), torch.randn(4, 8, device="cuda")
    torch.save(lower_to_mgx(model, [x]), tmp_path / "saved.pt")
    loaded = torch.load(tmp_path / "saved.pt", weights_only=False, map_location=place)
    assert torch.allclose(loaded(x), model(x), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("compile_", [False, True])
def test_numbers_that_are_written_to_a_mask_are_part_of_the_program(compile_: bool) -> None:
    """They are tensors in main memory to ATen."""
    torch._dynamo.reset()
    x = torch.randn(4, 5, device="cuda")
    if compile_:
        run = torch.compile(windows, backend="migraphx", options={"fallback": "error"})
    else:
        run = lower_to_mgx(windows, [x], use_aten=True, fallback="error")
    assert torch.equal(run(x), windows(x))

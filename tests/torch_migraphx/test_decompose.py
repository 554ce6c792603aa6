"""What has no converter is taken apart by torch, in either tracer's graph."""

import logging
from typing import Any

import pytest
import torch
from torch import nn

from tests.tolerances import assert_close
from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call
from torch_migraphx.fx import lower_to_mgx

PARTS = {
    "several results": lambda x: x.relu().kthvalue(2).values + x.median(1).indices,
    "method": lambda x: x.unfold(1, 2, 1) + 1,
    "through others": lambda x: torch.trapezoid(x) + torch.block_diag(x, x).sum(),
    "with a constant": lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x),
    "running": lambda x: torch.diff(x).cummax(1)[1],
    "windows": lambda x: nn.functional.max_pool1d(x[None], 2, return_indices=True)[1],
}


@pytest.mark.parametrize("use_aten", [False, True], ids=["acc", "aten"])
@pytest.mark.parametrize("name", PARTS)
def test_all_of_it_runs_in_the_engine(name: str, use_aten: bool, caplog: Any) -> None:
    model, x = Call(PARTS[name]), torch.randn(3, 5)
    with caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(model, [x], target="ref", use_aten=use_aten)
    assert not caplog.records, caplog.text
    assert_close(lowered(x).numpy(), model(x).numpy())


def test_what_no_part_of_can_be_converted_stays_one_node(caplog: Any) -> None:
    model, x = Call(lambda x: torch.fft.fft(x).real + 1), torch.randn(3, 5)
    lowered = lower_to_mgx(model, [x], target="ref")
    assert "%fft_fft is torch.complex64, a type that the engine does not have" in caplog.text
    assert_close(lowered(x).numpy(), model(x).numpy(), scale=4)

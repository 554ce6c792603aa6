"""Graphs that torch took apart down to Prims run in the engine."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._decomp import decomposition_table
from torch._prims.context import TorchRefsMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.tolerances import assert_close
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.options import Options

EVERYTHING: Any = {op: fn for op, fn in decomposition_table.items() if op.namespace == "aten"}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.linear, self.last = nn.Linear(64, 6), nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(F.gelu(self.norm(self.conv(x))).flatten(1))
        y = F.softmax(self.last(y), -1)
        return y.log().var(1), torch.cat([y, y.flip([0])], 1).amax(0), (y > 0.1).to(torch.int64).sum(1)


def check(graph: torch.fx.GraphModule, x: torch.Tensor, wanted: tuple[torch.Tensor, ...]) -> None:
    prims = [n for n in graph.graph.nodes if str(n.target).startswith("prims.")]
    assert len(prims) > 20
    for got, want in zip(lower(graph, [x], Options(target="ref", fallback="error"))(x), wanted, strict=True):
        assert got.dtype == want.dtype
        assert_close(got.numpy(), want.numpy(), scale=8)


def test_every_decomposition_of_torch() -> None:
    model, x = Net().eval(), torch.randn(2, 3, 4, 4)
    with torch.no_grad():
        check(make_fx(model, decomposition_table=EVERYTHING)(x), x, model(x))


def test_torch_written_in_references() -> None:
    model, x = Net().eval(), torch.randn(2, 3, 4, 4)

    def function(x: torch.Tensor) -> Any:
        with TorchRefsMode():
            return model(x)

    with torch.no_grad():
        check(make_fx(function)(x), x, model(x))

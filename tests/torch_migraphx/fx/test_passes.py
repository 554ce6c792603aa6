"""Passes on graphs of the FX road, and what else Torch-MIGraphX's users take from beside them."""

import operator
from typing import Any

import pytest
import torch
from torch import fx, nn

from torch_migraphx.fx.lower import Lowerer
from torch_migraphx.fx.lower_setting import LowerSetting
from torch_migraphx.fx.passes.graph_opts import common_subexpression_elimination
from torch_migraphx.fx.passes.pass_utils import chain_passes, validate_inference
from torch_migraphx.fx.passes.remove_duplicate_output_args import remove_duplicate_output_args
from torch_migraphx.fx.utils import LowerPrecision, req_torch_version, torch_qdtype_from_mgx, torch_qdtype_to_mgx

X = torch.randn(2, 3)


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(
            [torch.sum(x, 1), torch.sum(x, 1), torch.sum(x, 0), torch.rand_like(x[0]), torch.rand_like(x[0])]
        )


def test_what_is_computed_twice_is_computed_once() -> None:
    gm = fx.symbolic_trace(Twice())
    assert common_subexpression_elimination(gm)
    names = [n.target.__name__ for n in gm.graph.nodes if n.op == "call_function"]
    assert names == ["sum", "sum", "getitem", "rand_like", "rand_like", "cat"]
    torch.testing.assert_close(gm(X)[:-6], Twice()(X)[:-6])
    assert not common_subexpression_elimination(gm)


def test_passes_are_chained_and_checked() -> None:
    shapes = []

    def see(module: fx.GraphModule, input: object) -> fx.GraphModule:
        shapes.append([tuple(n.meta["tensor_meta"].shape) for n in module.graph.nodes])
        return module

    @validate_inference(rtol=1e-5, atol=1e-6)
    def double(module: fx.GraphModule, input: object) -> fx.GraphModule:
        (relu,) = [n for n in module.graph.nodes if n.target is torch.relu]
        relu.target = torch.abs
        module.recompile()
        return module

    gm = fx.symbolic_trace(nn.Sequential(nn.Flatten(0)))
    assert chain_passes(see, see)(gm, [X]) is gm and shapes == [[(2, 3), (6,), (6,)]] * 2

    class Relu(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    chain_passes(double)(fx.symbolic_trace(Relu()), [X.abs()])
    with pytest.raises(AssertionError):
        chain_passes(double)(fx.symbolic_trace(Relu()), [-X.abs()])


def test_results_are_returned_once() -> None:
    class Part(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.relu()
            return y, x + 1, y

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    part, graph = fx.symbolic_trace(Part()), fx.Graph()
    called = graph.call_module("part", (graph.placeholder("x"),))
    graph.output([graph.call_function(operator.getitem, (called, k)) for k in (2, 1, 0)])
    top = fx.GraphModule({"part": part}, graph)
    want = top(X)
    result = remove_duplicate_output_args(top, ["part"])["part"]
    assert result.has_dup and result.replacement_map == [0, 1, 0] and len(part(X)) == 2
    torch.testing.assert_close(top(X), want)
    assert not remove_duplicate_output_args(top, ["part"])["part"].has_dup
    graph.output_node().args = (called,)
    output: Any = part.graph.output_node()
    output.args = ((output.args[0][0],) * 2,)
    with pytest.raises(ValueError, match="as a whole"):
        remove_duplicate_output_args(top, ["part"])


def test_a_lowerer() -> None:
    setting = LowerSetting(LowerPrecision.FP16, min_acc_module_size=1, options={"target": "ref"})
    model = nn.Linear(3, 4).eval()
    lowered = Lowerer.create(setting)(model, [X])
    assert 0 < (lowered(X) - model(X)).abs().max() < 1e-2


def test_types_of_codes_and_versions_of_torch() -> None:
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        assert torch_qdtype_from_mgx(torch_qdtype_to_mgx(dtype)) is dtype
    with pytest.raises(ValueError, match="no quantized type"):
        torch_qdtype_to_mgx(torch.int8)
    with pytest.raises(ValueError, match="'half_type'"):
        torch_qdtype_from_mgx("half_type")
    assert req_torch_version("2.1")(abs)(-2) == 2
    with pytest.raises(RuntimeError, match=r"abs needs torch 99\.0"):
        req_torch_version("99.0")(abs)(-2)

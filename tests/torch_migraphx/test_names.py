"""Torch-MIGraphX's public names, and what its users do with them, as they type it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

import torch_migraphx
import torch_migraphx.fx.tracer.acc_tracer.acc_tracer as acc_tracer
from tools.upstream_names import NAMES, existing
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.tracer.acc_tracer import acc_ops, acc_utils
from torch_migraphx.fx.tracer.acc_tracer.acc_shape_prop import AccShapeProp

MISSING = {"torch_migraphx.executorch", "torch_migraphx.fx.observer"}
"""Modules that this project does not have: SUPPORT.md says so."""


@pytest.mark.parametrize("module", sorted(NAMES.keys() - MISSING))
def test_a_module_of_upstream_can_be_imported(module: str) -> None:
    import_module(module)
    assert existing(module, NAMES[module])


@pytest.mark.parametrize("module", sorted(MISSING))
def test_what_is_missing_is_said_to_be(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(module)


def classifier() -> nn.Sequential:
    features = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*features, nn.Linear(4, 5))


@pytest.mark.slow
def test_image_classification() -> None:
    """Traced, interpreted and run step by step; and in one call each way."""
    model, sample_inputs = classifier().eval(), [torch.randn(2, 3, 8, 8)]
    torch_out = model(*sample_inputs)
    traced = acc_tracer.trace(model, sample_inputs)
    interp = MGXInterpreter(traced, sample_inputs)
    interp.run()
    mgx_module = MGXModule(program=interp.program, input_names=interp.get_input_names())
    assert torch.allclose(mgx_module(*sample_inputs), torch_out, rtol=3e-3, atol=1e-2)
    mgx_model = torch_migraphx.fx.lower_to_mgx(model, sample_inputs, verbose_log=True)
    assert torch.allclose(mgx_model(*sample_inputs), torch_out, rtol=3e-3, atol=1e-2)
    torch._dynamo.reset()
    with torch.no_grad():
        options: dict[str, Any] = {"verbose": True, "use_aot": True, "fp16": True, "deallocate": True}
        compiled = torch.compile(model, backend="migraphx", options=options)
        assert torch.allclose(compiled(*sample_inputs), torch_out, rtol=3e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_shape_propagation(dtype: torch.dtype) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attr, self.submod = nn.Parameter(torch.randn(3, 4)), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.neg(self.submod(x.relu() + self.attr))

    model, x = Model().to(dtype), torch.rand(3, 4, dtype=dtype)
    for gm in (acc_tracer.rewriter_base_trace(model, None, None), acc_tracer.trace(model, [x])):
        for n in gm.graph.nodes:
            n.meta.pop("tensor_meta", None)
        with pytest.raises(RuntimeError, match="has no tensor_meta"):
            acc_utils.get_tensor_meta(next(iter(gm.graph.nodes)))
        AccShapeProp(gm).propagate(x)
        assert {acc_utils.get_tensor_meta(n).dtype for n in gm.graph.nodes} == {dtype}
    (relu, *_) = [n for n in gm.graph.nodes if acc_utils.is_acc_op(n)]
    assert relu.target is acc_ops.relu and acc_utils.is_acc_op_with_kwarg(relu, "input")
    assert not acc_utils.is_acc_op(torch.relu)
    meta = acc_utils.build_raw_tensor_meta(dtype=dtype)
    assert acc_utils.map_tensor_metadata([meta, (meta, None)], lambda m: m.dtype) == [dtype, (dtype, 1)]


def test_the_block_list_of_the_normalization() -> None:
    traced = acc_tracer.trace(
        nn.ReLU(), [torch.randn(2)], acc_normalization_block_list={("call_function", torch.nn.functional.relu)}
    )
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [torch.nn.functional.relu]

"""What the tests of the acc tracer share: a module from a function, and the checks of an acc graph."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from tests.tolerances import assert_close
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import is_acc_op


class Call(nn.Module):
    """A function as a module of as many inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def acc_names(gm: fx.GraphModule) -> list[str]:
    """The acc operators of a graph, in order; the graph may hold nothing else."""
    names = []
    for node in gm.graph.nodes:
        assert node.op in ("placeholder", "get_attr", "call_function", "output"), node.format_node()
        if node.op in ("get_attr", "call_function"):
            assert "tensor_meta" in node.meta, node.format_node()
        if node.op == "call_function":
            assert is_acc_op(node.target), node.format_node()
            assert node.args == (), node.format_node()
            names.append(node.target.__name__)
    return names


def same_answer(traced: Callable[..., Any], model: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Both give equal tensors, in equal shapes and types; neither sees what the other did to the inputs."""
    with torch.no_grad():
        got, want = (tree_leaves(f(*[_copy(x) for x in inputs])) for f in (traced, model))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert a.dtype == b.dtype
        assert_close(a.double(), b.double(), dtype=str(b.dtype).removeprefix("torch."))


def _copy(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


def traced_names(model: nn.Module, inputs: Sequence[Any]) -> list[str]:
    """Trace `model` in eval mode, check the answer, return the names of its acc operators."""
    gm = acc_tracer.trace_leaves(model.eval(), inputs)
    same_answer(gm, model, inputs)
    return acc_names(gm)

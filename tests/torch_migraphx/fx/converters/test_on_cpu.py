"""The converters' samples on target cpu, one program for each family."""

from pkgutil import iter_modules
from typing import Any

import pytest
import torch
from torch import fx, nn

from tests.tolerances import assert_close
from tests.torch_migraphx.declared import OTHER_TYPES
from tests.torch_migraphx.fx.converters.test_converters import (
    MISDECLARED,
    UNINITIALISED,
    arguments,
    graph_of,
    precision,
    samples,
)
from torch_migraphx.fx import converters
from torch_migraphx.fx.builder import to_numpy
from torch_migraphx.fx.converter_registry import CONVERTERS, target_name
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.options import Options


def targets(family: str) -> list[Any]:
    """One target of each converter of a family."""
    found: dict[Any, Any] = {}
    for target, made in CONVERTERS.items():
        numbers = target_name(target).startswith("aten.sym_") or target in (acc_ops.dtype, acc_ops.numel, acc_ops.size)
        if (
            made.function.__module__.endswith(f".{family}")
            and not numbers
            and not target_name(target).startswith("prims")
        ):
            found.setdefault(made.function, target)
    return [t for t in found.values() if target_name(t).split(".")[1] not in UNINITIALISED and t not in OTHER_TYPES]


def calls(family: str) -> list[tuple[Any, dict[str, Any]]]:
    found = []
    for target in targets(family):
        for sample in samples(target):
            kwargs = arguments(target, sample)
            if kwargs is None:
                continue
            try:
                target(**kwargs)
            except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
                continue  # not for this overload
            found.append((target, kwargs))
    return found


ELSEWHERE = ("prims", "control", "special")  # the last are long chains of words that others have: see test_some_special
FAMILIES = [m.name for m in iter_modules(converters.__path__) if m.name not in ELSEWHERE]


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    """All calls of a family as one graph."""
    graph, inputs, outputs, names = fx.Graph(), [], [], []
    for target, kwargs in calls(family):
        gm, tensors = graph_of(target, kwargs)
        copies: dict[fx.Node, fx.Node] = {}
        for n in gm.graph.nodes:
            if n.op == "placeholder":
                copies[n] = graph.placeholder(f"in{len(inputs)}")
                inputs.append(tensors[len(copies) - 1])
            elif n.op == "call_function":
                copies[n] = graph.node_copy(n, copies.__getitem__)
        result = gm.graph.output_node().args[0]
        results = result if isinstance(result, tuple) else (result,)
        outputs += [copies[r] for r in results]  # type: ignore[index]
        names += [target] * len(results)
    graph.output(tuple(outputs))
    gm = fx.GraphModule(nn.Module(), graph)
    fallback = "error" if family == "lengths_by_data" else "torch"  # one that is refused would take all to torch
    with torch.no_grad():
        want = gm(*inputs)
        got = lower(gm, inputs, Options(target="cpu", fallback=fallback))(*inputs)
    for name, g, w in zip(names, got, want, strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w, name
            continue
        misdeclared = target_name(name).split(".")[1] in MISDECLARED
        assert (g.dtype == w.dtype or misdeclared) and g.shape == w.shape, name
        assert_close(to_numpy(g), to_numpy(w.contiguous()), precision(name), scale=4)


def test_some_special():
    x = torch.linspace(-3, 9, 100)
    lowered = lower(fx.symbolic_trace(Special()), [x], Options(target="cpu", fallback="error"))
    for got, want in zip(lowered(x), Special()(x), strict=True):
        assert_close(to_numpy(got), to_numpy(want), scale=4)


class Special(nn.Module):
    def forward(self, x):
        return torch.ops.aten.special_log_ndtr(x), torch.ops.aten.special_i0e(x), torch.ops.aten.logcumsumexp(x, 0)

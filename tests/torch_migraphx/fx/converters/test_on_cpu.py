"""The converters' samples on target cpu, one program for each family."""

from pkgutil import iter_modules
from typing import Any

import pytest
import torch
from torch import fx, nn

from tests.tiers import few
from tests.tolerances import assert_close
from tests.torch_migraphx.declared import OTHER_TYPES
from tests.torch_migraphx.fx.converters.test_converters import UNINITIALISED, calls, check, graph_of
from torch_migraphx.fx import converters
from torch_migraphx.fx.converter import target_name
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.dtypes import to_numpy
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


ELSEWHERE = ("prims", "control", "special")  # the last are long chains of words that others have: see test_some_special
FAMILIES = [m.name for m in iter_modules(converters.__path__) if m.name not in ELSEWHERE]


@pytest.mark.parametrize(
    "family", few(FAMILIES, "activation", "convolution", "matmul", "normalization", "pooling", "shape")
)
def test_family(family):
    """All calls of a family as one graph."""
    gm, inputs, operators = graph_of(call for target in targets(family) for call in calls(target))
    fallback = "error" if family == "lengths_by_data" else "torch"  # one that is refused would take all to torch
    with torch.no_grad():
        want = gm(*inputs)
        got = lower(gm, inputs, Options(target="cpu", fallback=fallback))(*inputs)
    check(got, want, operators)


@pytest.mark.slow
def test_some_special():
    x = torch.linspace(-3, 9, 100)
    lowered = lower(fx.symbolic_trace(Special()), [x], Options(target="cpu", fallback="error"))
    for got, want in zip(lowered(x), Special()(x), strict=True):
        assert_close(to_numpy(got), to_numpy(want), scale=4)


class Special(nn.Module):
    def forward(self, x):
        return torch.ops.aten.special_log_ndtr(x), torch.ops.aten.special_i0e(x), torch.ops.aten.logcumsumexp(x, 0)

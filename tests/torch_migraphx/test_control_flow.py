"""torch's control flow runs in the engine as branches and loops, in either tracer's graph and under torch.compile."""

import logging
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as rowwise
from torch._higher_order_ops import scan, while_loop
from torch.utils._pytree import tree_leaves

from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.errors import UnsupportedError

LINEAR = nn.Linear(4, 4)


def either(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (LINEAR(x).relu(), x.t() + 1), lambda x: (x * 2, x.cos().t()), (x,))


def nested(x: torch.Tensor) -> Any:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x + 1, lambda x: x - 1, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))


def until(x: torch.Tensor) -> Any:
    def more(count: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (count < 9) & (y.norm() < 20)

    return while_loop(more, lambda count, y: (count + 1, LINEAR(y).tanh() + y), (torch.tensor(0), x))


def running(x: torch.Tensor) -> Any:
    return scan(lambda total, row: (total + row, total * row), torch.zeros(3), x, dim=1, reverse=True)


def each_row(x: torch.Tensor) -> Any:
    return rowwise(lambda row, other: LINEAR(row).relu() + other, x, x[0] * 2)  # type: ignore[arg-type]


CASES = {"cond": either, "nested": nested, "while_loop": until, "scan": running, "map": each_row}


def check(fast: Any, function: Any) -> None:
    with torch.no_grad():
        for x in (torch.randn(3, 4) + 2, torch.randn(3, 4) - 2):
            for got, want in zip(tree_leaves(fast(x)), tree_leaves(function(x)), strict=True):
                assert got.dtype == want.dtype
                assert_close(got.numpy(), want.numpy(), scale=8)


def every(x: torch.Tensor) -> Any:
    """All of them as one model: torch.export takes longer for each than all else."""
    return {name: function(x) for name, function in CASES.items()}


@pytest.mark.slow
def test_lower() -> None:
    check(lower_to_mgx(every, [torch.randn(3, 4)], target="cpu", use_aten=True, fallback="error"), every)


def test_compile() -> None:
    torch._dynamo.reset()
    options: Any = {"target": "ref", "fallback": "error"}
    check(torch.compile(every, backend="migraphx", options=options), every)


@pytest.mark.slow
def test_a_branch_that_the_engine_cannot_take_stays_in_torch_whole(caplog: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.special.airy_ai(x[0]), lambda x: x[0] * 2, (x,)) + 1

    x = torch.eye(3)
    with caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(function, [x], target="ref", use_aten=True)
    assert "higher_order.cond" in caplog.text and "inside of it, %" in caplog.text
    assert_close(lowered(x).numpy(), function(x).numpy(), scale=4)


@pytest.mark.parametrize(
    ("name", "values"),
    [("while_loop", (torch.neg, torch.neg, [])), ("scan", (torch.neg, [], [])), ("map_impl", (torch.neg, []))],
)
def test_a_loop_that_writes_to_its_inputs_is_refused(name: str, values: tuple[Any, ...]) -> None:
    """As newer versions of torch say by an argument that older ones do not have."""
    loop = CONVERTERS[getattr(torch.ops.higher_order, name)].function
    with pytest.raises(UnsupportedError, match="writes to its inputs"):
        loop(None, *values, mutated_arg_indices="0")

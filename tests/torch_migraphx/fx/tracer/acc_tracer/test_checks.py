"""Assertions and conditional raises that depend on data: left out of a graph, or kept as upstream keeps them."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call, acc_names, same_answer
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.acc_tracer.acc_tracer import AccTraceError, ConditionalExceptionWrapper

X = torch.tensor([[0.5, 2.0]])


def of_equal(x):
    assert torch.equal(x, x), "differ"
    return x + 1


def of_a_comparison(x):
    if torch.sum(x) < 0:
        message = f"is {x}"
        raise ValueError(message)
    return x + 1


def of_parts(x):
    if not (x.max() < 9 and not torch.isnan(x).any()):
        raise ValueError
    return x + 1


def of_either(x):
    assert x.sum() > 0 or bool(x.min() > -1)
    return x + 1


def of_all(x):
    if all([x[0, 0] > 0, x[0, 1] > 0]) and 0 < x.sum() < 9:
        return_value = x + 1
    else:
        raise ValueError
    return return_value


def of_a_helper(x):
    def check(y):
        if (y < 0).any():
            raise ValueError("negative")

    check(x)
    torch._assert((x < 9).all(), "large")
    return x + 1


@pytest.mark.parametrize("forward", [of_equal, of_a_comparison, of_parts, of_either, of_all, of_a_helper])
def test_checks_are_left_out(forward: Callable[..., Any]) -> None:
    gm = acc_tracer.trace(Call(forward), [X])
    assert set(acc_names(gm)) - {"getitem"} == {"add"}
    same_answer(gm, Call(forward), [X])


def test_the_log_says_what_is_not_checked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(Call(lambda x: of_a_comparison(of_a_comparison(x))), [X], target="ref")
    assert caplog.text.count("a check of the data is not compiled") == 1 and "test_checks.py" in caplog.text
    assert torch.equal(lowered(-X), -X + 2)


@pytest.mark.parametrize("forward", [of_a_comparison, of_parts])
def test_exceptions_are_kept(forward: Callable[..., Any]) -> None:
    gm = acc_tracer.trace(Call(forward), [X], remove_exceptions=False, ast_rewriter_allow_list={Call})
    kept = gm.get_submodule("_conditional_exception_wrapper_ValueError")
    assert isinstance(kept, ConditionalExceptionWrapper) and kept.exc is ValueError
    same_answer(gm, Call(forward), [X])
    with pytest.raises(ValueError, match="is" if forward is of_a_comparison else ""):
        gm(torch.tensor([[torch.nan, -10.0]] if forward is of_parts else -X))


def test_assertions_are_kept() -> None:
    gm = acc_tracer.trace(Call(of_equal), [X], remove_assertions=False, use_acc_normalization=False)
    (kept,) = [n for n in gm.graph.nodes if n.target is torch._assert]
    assert kept.args[1] == "differ"
    same_answer(gm, Call(of_equal), [X])
    with pytest.raises(AssertionError, match="differ"):
        gm(X * torch.nan)


def test_a_part_of_a_choice_is_no_check_of_its_own() -> None:
    with pytest.raises(AccTraceError, match="one part of a condition"):
        acc_tracer.trace(Call(of_either), [X], remove_assertions=False)


def raises(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        raise ValueError
    return x


def caught_outside(x: torch.Tensor) -> torch.Tensor:
    try:
        return raises(x)
    except ValueError:
        return x + 1


def test_other_decisions_on_data_are_none() -> None:
    def chosen(x):
        if x.sum() > 0:
            x = x + 1
        return x

    def conditional(x):
        if (x if x.sum() > 0 else -x).min() > 3:
            raise ValueError
        return x

    def works(x):
        if x.sum() > 0:
            for _ in range(2):
                x = x + 1
            raise ValueError
        return x

    def caught(x):
        try:
            if x.sum() > 0:
                raise ValueError
        except ValueError:
            x = x + 1
        return x

    for forward in (chosen, conditional, works, caught, caught_outside):
        with pytest.raises(AccTraceError, match="control flow depends on"):
            acc_tracer.trace(Call(forward), [X])

"""Passes that take a module and sample inputs, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp

Input = Sequence[Any]
PassFunc = Callable[[fx.GraphModule, Input], fx.GraphModule]


def chain_passes(*passes: PassFunc) -> PassFunc:
    """A pass that calls `passes` in order; before each, nodes are given the shapes that the inputs lead to."""

    def chained(module: fx.GraphModule, input: Input) -> fx.GraphModule:
        for one in passes:
            if isinstance(module, fx.GraphModule):
                ShapeProp(module).propagate(*input)
            module = one(module, input)
        return module

    return chained


def validate_inference(rtol: float | None = None, atol: float | None = None) -> Callable[[PassFunc], PassFunc]:
    """A decorator of passes: AssertionError where a pass changes the answer on the inputs by more than the tolerances.

    Without tolerances these are torch.testing's own for the type of each result.
    """

    def decorate(one: PassFunc) -> PassFunc:
        @wraps(one)
        def checked(module: fx.GraphModule, input: Input) -> fx.GraphModule:
            with torch.no_grad():
                want = module(*input)
                made = one(module, input)
                torch.testing.assert_close(made(*input), want, rtol=rtol, atol=atol, equal_nan=True)
            return made

        return checked

    return decorate

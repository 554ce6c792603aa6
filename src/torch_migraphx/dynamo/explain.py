"""`torch_migraphx.explain`: a model on its whole way, from Python to kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import FunctionType
from typing import Any

import torch
from torch import nn

from torch_migraphx.options import Options
from torch_migraphx.random_state import same_random_state
from torch_migraphx.report.report import Report


def explain(
    model: nn.Module | Callable[..., Any],
    inputs: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """What `torch.compile(model, backend="migraphx")` makes of the model for these inputs, without gradients.

    The report has every graph that Dynamo captures: Torch IR, ATen (joint and for inference), core ATen, Prims, the
    engine's program before and after the passes, the kernels with bytes and FLOPs; what runs in torch, and why; and for
    each line of Python what it became. `inputs` is the list of positional arguments (anything else is the only one).
    The model is called once. `options` are the fields of Options; TypeError or ValueError for a wrong one; what the
    model itself raises is raised.
    """
    report = Report(type(model).__name__ if isinstance(model, nn.Module) else getattr(model, "__name__", "a function"))
    given = {**options, "report": report}
    Options.of(**given)  # said now, and not inside of Dynamo
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    compiled = torch.compile(_own_code(model), backend="migraphx", options=given)
    with torch.no_grad(), same_random_state():
        compiled(*args, **(kwargs or {}))
    return report


def _own_code(model: Callable[..., Any]) -> Callable[..., Any]:
    """A call of the model by code of its own.

    Dynamo keeps what it compiled by code object, and what lengths it met by the code's name and place.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    code = call.__code__.replace(co_name=f"call_{next(_calls)}")
    return FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


_calls = count()

"""Acc operators that are one operator of the engine, as their declarations say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch_migraphx.fx.builder import Builder, Value
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.tracer.acc_tracer import acc_ops  # noqa: F401  # declares them
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import CONVERSIONS, Conversion


def _converted(conversion: Conversion) -> Callable[..., Value]:
    signature = inspect.signature(conversion.acc_op)
    floats = {p.name for p in signature.parameters.values() if isinstance(p.default, float)}

    def convert(b: Builder, **arguments: Any) -> Value:
        if conversion.form == "unary":
            return b.unary(conversion.operator, **arguments)
        if conversion.form == "pointwise":
            return b.pointwise(conversion.operator, *arguments.values())
        attributes = {n: float(x) if n in floats else x for n, x in arguments.items() if n != "input"}
        return getattr(b, conversion.operator)(arguments["input"], **attributes)

    first = inspect.Parameter("b", inspect.Parameter.POSITIONAL_ONLY)
    vars(convert)["__signature__"] = signature.replace(parameters=[first, *signature.parameters.values()])
    convert.__name__ = conversion.acc_op.__name__
    return convert


for _conversion in CONVERSIONS:
    converter(_conversion.acc_op, *_conversion.aten)(_converted(_conversion))

"""Operators that move elements move strings too: the numbers of their places are moved in their stead."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, parameters
from migraphx.onnx.graph import LaterStrings, Strings
from migraphx.onnx.registry import Convert


def moves(function: Convert) -> Convert:
    """A converter that moves the elements of its tensors and looks at none: takes strings in their place."""

    @wraps(function)
    def convert(b: OnnxBuilder, *inputs: Any, **attributes: Any) -> Any:
        words = [i.value for i in inputs if isinstance(i, Strings)]
        if not words:
            return function(b, *inputs, **attributes)
        ends = iter(np.cumsum([0, *(w.size for w in words)]))
        numbered = [places(b, i, next(ends)) if isinstance(i, Strings) else i for i in inputs]
        made = function(b, *numbered, **attributes)
        every = np.concatenate([w.reshape(-1) for w in words])
        moved = tuple(picked(b, every, m) for m in (made if isinstance(made, tuple) else (made,)))
        return moved if isinstance(made, tuple) else moved[0]

    given = inspect.signature(function)
    kinds = [p.replace(annotation=strings_too(p.annotation)) for p in given.parameters.values()]
    convert.__signature__ = given.replace(parameters=kinds)  # type: ignore[attr-defined]
    return convert


def strings_too(annotation: str) -> str:
    """A parameter's annotation, tensors with tensors of strings beside them."""
    return " | ".join([*annotation.split(" | "), "Strings"]) if "Value" in annotation.split(" | ") else annotation


def places(b: OnnxBuilder, x: Strings, first: int) -> Instruction:
    return b.literal(np.arange(first, first + x.value.size).reshape(x.value.shape))


def picked(b: OnnxBuilder, words: np.ndarray, places: Instruction) -> Strings | LaterStrings:
    known = b.constant(places)
    return LaterStrings(parameters(places)) if known is None else Strings(words[known])

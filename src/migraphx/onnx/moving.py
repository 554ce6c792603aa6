"""Operators that move elements move strings too: the numbers of their places are moved in their stead."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, parameters
from migraphx.onnx.graph import LaterStrings, OnnxError, Strings
from migraphx.onnx.registry import Convert


def moves(function: Convert) -> Convert:
    """A converter that moves elements of its first input, or of all where that repeats, and looks at none of them.

    It takes strings there.
    """
    given = inspect.signature(function)
    _, data, *_ = given.parameters.values()

    @wraps(function)
    def convert(b: OnnxBuilder, *inputs: Any, **attributes: Any) -> Any:
        count = len(inputs) if data.kind is data.VAR_POSITIONAL else 1
        moved, others = inputs[:count], inputs[count:]
        words = [i.value for i in moved if isinstance(i, Strings)]
        if not words:
            return function(b, *inputs, **attributes)
        if len(words) < len(moved):
            raise OnnxError("its inputs are tensors and tensors of strings")
        starts = np.cumsum([0, *(w.size for w in words)])
        made = function(b, *(places(b, w, n) for w, n in zip(words, starts, strict=False)), *others, **attributes)
        every = np.concatenate([w.reshape(-1) for w in words])
        found = tuple(picked(b, every, m) for m in (made if isinstance(made, tuple) else (made,)))
        return found if isinstance(made, tuple) else found[0]

    too = data.replace(annotation=f"{data.annotation} | Strings")
    kinds = [too if p is data else p for p in given.parameters.values()]
    convert.__signature__ = given.replace(parameters=kinds)  # type: ignore[attr-defined]
    return convert


def places(b: OnnxBuilder, words: np.ndarray, first: int) -> Instruction:
    return b.literal(np.arange(first, first + words.size).reshape(words.shape))


def picked(b: OnnxBuilder, words: np.ndarray, places: Instruction) -> Strings | LaterStrings:
    known = b.constant(places)
    return LaterStrings(parameters(places)) if known is None else Strings(words[known])

"""Operators that move elements move strings, too: the program moves the numbers of the elements, which pick strings."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, parameters
from migraphx.onnx.graph import DeferredStrings, OnnxError, Strings
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
        texts = [i.value for i in moved if isinstance(i, Strings)]
        if not texts:
            return function(b, *inputs, **attributes)
        if len(texts) < len(moved):
            raise OnnxError("its inputs are tensors and tensors of strings")
        starts = np.cumsum([0, *(w.size for w in texts)])
        made = function(
            b, *(element_numbers(b, w, n) for w, n in zip(texts, starts, strict=False)), *others, **attributes
        )
        every = np.concatenate([w.reshape(-1) for w in texts])
        found = tuple(picked(b, every, m) for m in (made if isinstance(made, tuple) else (made,)))
        return found if isinstance(made, tuple) else found[0]

    too = data.replace(annotation=f"{data.annotation} | Strings")
    kinds = [too if p is data else p for p in given.parameters.values()]
    convert.__signature__ = given.replace(parameters=kinds)  # type: ignore[attr-defined]
    return convert


def element_numbers(b: OnnxBuilder, texts: np.ndarray, first: int) -> Instruction:
    return b.literal(np.arange(first, first + texts.size).reshape(texts.shape))


def picked(b: OnnxBuilder, texts: np.ndarray, numbers: Instruction) -> Strings | DeferredStrings:
    known = b.constant(numbers)
    return DeferredStrings(parameters(numbers)) if known is None else Strings(texts[known])

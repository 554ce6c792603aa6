"""Build and run one composite, as tests of composites need it."""

from collections.abc import Callable
from typing import Any

import numpy as np

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir.builder import Builder
from migraphx.ir.module import Module
from migraphx.ir.shape import Shape
from migraphx.ir.text import module_text, parse_module
from migraphx.ir.verify import verify
from migraphx.targets.ref.evaluate import evaluate
from tests.ops.one_operator import random


def build(arrays: list[np.ndarray], write: Callable[..., Any]) -> tuple[Module, list[np.ndarray]]:
    """The module that `write(builder, *parameters)` makes, and its values; its text is read back."""
    module = Module()
    params = [module.add_parameter(f"x{k}", Shape.of(a)) for k, a in enumerate(arrays)]
    result = write(Builder(module), *params)
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    module.add_return(outputs)
    verify(module)
    text = module_text(module, full=True)
    assert module_text(parse_module(text), full=True) == text
    got = evaluate(module, {f"x{k}": a for k, a in enumerate(arrays)})
    for value, ins in zip(got, outputs, strict=True):
        assert (value.dtype, value.shape) == (ins.shape.numpy_dtype, ins.shape.lens)
    return module, got


def run(arrays: list[np.ndarray], write: Callable[..., Any]) -> np.ndarray:
    return build(arrays, write)[1][0]


def randoms(*lens: tuple[int, ...], type: str = "float") -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [random(rng, n, type) for n in lens]


def operators(module: Module) -> list[str]:
    return [i.name for i in module if not i.name.startswith("@")]

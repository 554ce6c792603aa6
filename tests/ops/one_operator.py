"""Run one operator by itself, as tests of operators need it."""

from typing import Any

import ml_dtypes
import numpy as np
import torch

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Module
from migraphx.ir.operation import operation
from migraphx.ir.shape import Shape
from migraphx.ir.text import module_text, parse_module
from migraphx.ir.verify import verify
from migraphx.targets.ref.evaluate import evaluate

FLOATS = ("float", "half", "bf16", "double")
NUMBERS = (*FLOATS, "int8", "int32", "int64")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def apply(name: str, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    """The operator's answer; its type and lens are the inferred ones, its text is read back."""
    module = Module()
    inputs = [module.add_parameter(f"x{n}", Shape.of(a)) for n, a in enumerate(arrays)]
    ins = Builder(module).instruction(name, inputs, **attributes)
    module.add_return([ins])
    verify(module)
    text = module_text(module)
    assert module_text(parse_module(text)) == text
    before = [a.copy() for a in arrays]
    (got,) = evaluate(module, {f"x{n}": a for n, a in enumerate(arrays)})
    assert isinstance(got, np.ndarray)
    assert got.dtype == ins.shape.numpy_dtype, f"{got.dtype}, inferred {ins.shape}"
    assert got.shape == ins.shape.lens, f"{got.shape}, inferred {ins.shape}"
    for a, b in zip(arrays, before, strict=True):
        assert a.tobytes() == b.tobytes(), "an input was changed"
    return got


def infer(name: str, *shapes: Shape, **attributes: Any) -> Shape:
    """The operator's shape rule alone."""
    return operation(name, **attributes).infer_with(shapes, ())


def random(rng: np.random.Generator, lens: tuple[int, ...], type: str = "float") -> np.ndarray:
    """Normal floats, integers of [-20, 20] (from 0 where unsigned), bools."""
    dtype = dtypes.to_numpy(type)
    if type == "bool":
        return np.asarray(rng.random(lens) < 0.5)
    if type in dtypes.INTEGERS:
        return np.asarray(rng.integers(0 if type in dtypes.UNSIGNED else -20, 21, lens), dtype)
    return np.asarray(rng.standard_normal(lens), dtype)


def tensor(array: np.ndarray) -> torch.Tensor:
    """A copy as torch holds it; bf16 and half as float, so that the oracle rounds once."""
    narrow = array.dtype in (BFLOAT16, np.float16)
    return torch.from_numpy(np.array(array, np.float32 if narrow else array.dtype, order="C"))

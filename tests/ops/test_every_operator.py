"""What holds for every operator: the answer has the inferred type and lens, declarations are documented."""

from typing import Any

import numpy as np
import pytest

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import OPERATIONS
from migraphx.ir.ranges import ranges
from migraphx.ir.shape import UNKNOWN, Shape
from migraphx.targets.ref.evaluate import evaluate
from tests.ir.samples import INPUTS, add_random, plain_operators
from tests.ops.one_operator import random


def check(ins: Instruction, value: Any) -> None:
    """The value is what the instruction's shape says."""
    if ins.shape == UNKNOWN:
        return
    whole = ins.shape.type != "tuple"
    shapes, values = ((ins.shape,), (value,)) if whole else (ins.shape.sub_shapes, value)
    for shape, array in zip(shapes, values, strict=True):
        assert isinstance(array, np.ndarray), f"{ins.op}: {type(array)}"
        assert array.dtype == shape.numpy_dtype, f"{ins.op}"
        fits = (d.min <= n <= d.max for d, n in zip(ranges(shape), array.shape, strict=True))
        assert all(fits), f"{ins.op}: {array.shape}, inferred {shape}"


def value_of(shape: Shape, rng: np.random.Generator) -> Any:
    if shape.sub_shapes:
        return tuple(value_of(s, rng) for s in shape.sub_shapes)
    return random(rng, shape.lens, shape.type)


@pytest.mark.parametrize("name", plain_operators())
def test_answers_have_the_inferred_shape(name):
    rng = np.random.default_rng(list(name.encode()))
    answered = 0
    for _ in range(8):
        module = Module()
        add_random(module, name, rng)
        arguments = {k: value_of(p.shape, rng) for k, p in module.parameters.items()}
        try:
            with np.errstate(all="ignore"):
                evaluate(module, arguments, trace=check)
        except (IndexError, ValueError):
            assert OPERATIONS[name].can_fail
            continue
        answered += 1
    assert answered or OPERATIONS[name].can_fail


@pytest.mark.parametrize("name", plain_operators())
def test_declarations_are_documented(name):
    first = (OPERATIONS[name].__doc__ or "").splitlines()[0]
    assert first and not first.startswith(f"{OPERATIONS[name].__name__}("), "dataclass wrote it"


@pytest.mark.parametrize("name", [n for n in plain_operators() if OPERATIONS[n].view and n not in INPUTS])
def test_views_are_views(name):
    """The answer of a view shares its input's memory, at the strides that were inferred."""
    rng = np.random.default_rng(list(name.encode()))
    for _ in range(8):
        module = Module()
        ins = add_random(module, name, rng)
        (source,) = ins.inputs
        value = random(rng, source.shape.lens, source.shape.type)
        answer = ins.op.compute(value)
        assert not answer.size or np.shares_memory(answer, value)
        dims = zip(answer.shape, Shape.of(answer).strides, ins.op.infer(Shape.of(value)).strides, strict=True)
        assert all(n == 1 or given == inferred for n, given, inferred in dims)

"""Programs in parts, for who builds them from a graph of which a target may not take all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.api.argument import as_array
from migraphx.api.module import instruction_ref
from migraphx.api.program import program, published
from migraphx.ir.extract import extract as extract_program
from migraphx.ir.operation import Literal
from migraphx.ir.refusal import Refusal
from migraphx.targets.target import Target


def supports(t: Target, ins: instruction_ref) -> Refusal[instruction_ref] | None:
    """Why a target cannot compile an instruction of an uncompiled program; None where it can."""
    refusal = t.supports(ins._impl)
    return None if refusal is None else Refusal(ins, refusal.rule, refusal.why)


def extract(p: program, inputs: Mapping[str, instruction_ref], outputs: Sequence[instruction_ref]) -> program:
    """What computes `outputs` from `inputs`, all instructions of the main module, as a program of its own.

    The inputs become parameters of these names, row-major. ValueError where an output needs another parameter.
    """
    return published(extract_program(p.graph, {n: i._impl for n, i in inputs.items()}, [o._impl for o in outputs]))


def refit(p: program, literals: Mapping[int, Any]) -> program:
    """A copy of a program, not compiled, in which some literals of the main module have other values.

    They are counted in the module's order, from 0; values are copied. What is compiled of the copy is found in the
    cache, as far as code does not depend on values. IndexError for a literal that there is not, ValueError for another
    shape or type.
    """
    copy = p.clone(compiled=False)
    found = [i for i in copy.graph.main if isinstance(i.op, Literal)]
    for place, data in literals.items():
        if not 0 <= place < len(found):
            raise IndexError(f"refit: the program has {len(found)} literals; got number {place}")
        old, value = found[place], as_array(data)
        assert isinstance(old.op, Literal)
        if value.shape != old.op.value.shape or value.dtype != old.op.value.dtype:
            want, got = (f"{a.dtype} {list(a.shape)}" for a in (old.op.value, value))
            raise ValueError(f"refit: literal {place} is {want}; got {got}")
        laid_out = np.empty_like(old.op.value)  # in the strides that the instruction's shape has
        laid_out[...] = value
        old.op = Literal(laid_out)
    return copy

"""Programs in parts, for who builds them from a graph of which a target may not take all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migraphx.api.module import instruction_ref
from migraphx.api.program import program, published
from migraphx.ir.extract import extract as extract_program
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

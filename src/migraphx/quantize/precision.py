"""Floats in a narrower float type: fp16, bf16."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from migraphx.ir.builder import Builder
from migraphx.ir.expansion import Expansion
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, ShapeError
from migraphx.ir.program import Program
from migraphx.ops.dynamic import Converted
from migraphx.passes.dead_code import dead_code

ALL = "all"
WIDE = ("float", "double")


def narrow(program: Program, type: str, names: Collection[str] = (ALL,)) -> None:
    """Let the named operators (default: all) read and give floats of `type`; inputs and outputs keep their types.

    Every such operator gets converts round it; where two meet, the passes drop what changes nothing. Operators
    without floats, and those whose result has another type than their inputs, stay as they are.
    """
    _walk(program.main, type, names, set())


def _walk(module: Module, type: str, names: Collection[str], seen: set[Module]) -> None:
    """Narrow `module`, inner modules first where they are used; shapes follow where a convert changed a layout."""
    seen.add(module)
    for ins in list(module):
        for inner in ins.modules:
            if inner not in seen:
                _walk(inner, type, names, seen)
        if not isinstance(ins.op, (Parameter, Literal)):
            module.replace_operation(ins, ins.op, ins.inputs, ins.modules)
        if isinstance(ins.op, Converted):
            module.replace_operation(ins, _narrowed(ins.op, type, names), ins.inputs, ins.modules)
        elif (ALL in names or ins.name in names) and _narrows(ins):
            _convert(module, ins, type)
    dead_code(module)


def _narrowed(op: Converted, type: str, names: Collection[str]) -> Converted:
    """The same whose instructions are narrowed when they are written."""

    def convert(context: Expansion, inputs: Sequence[Instruction]) -> tuple[Instruction, ...]:
        module = context.module
        last = next(reversed(module), None)
        made: tuple[Instruction, ...] = op.convert(context, inputs)
        became: dict[Instruction, Instruction] = {}
        for ins in reversed(list(takewhile(lambda i: i is not last, reversed(module)))):
            if isinstance(ins.op, Converted):
                module.replace_operation(ins, _narrowed(ins.op, type, names), ins.inputs, ins.modules)
            elif (ALL in names or ins.name in names) and not ins.shape.dynamic and _narrows(ins):
                became[ins] = _convert(module, ins, type)
        return tuple(became.get(i, i) for i in made)

    return replace(op, convert=convert)


def _narrows(ins: Instruction) -> bool:
    """Whether an instruction computes floats from floats of the same type."""
    if ins.name.startswith("@") or ins.name == "convert" or ins.modules or ins.shape.type not in WIDE:
        return False
    return any(i.shape.type == ins.shape.type for i in ins.inputs)


def _convert(module: Module, ins: Instruction, type: str) -> Instruction:
    """What takes its place."""
    b = Builder(module, before=ins, origin=ins.origin)
    inputs = [_low(b, i, type) if i.shape.type in WIDE else i for i in ins.inputs]
    try:
        made = module.add_instruction(ins.op, inputs, before=ins, origin=ins.origin)
    except ShapeError:
        return ins  # an operator that does not take the type keeps its own
    wide = b.convert(made, target_type=ins.shape.type)
    module.replace(ins, wide)
    return wide


def _low(b: Builder, x: Instruction, type: str) -> Instruction:
    """`x` in `type`: what it was widened from, if that has the type."""
    if x.name == "convert" and x.inputs[0].shape.type == type:
        return x.inputs[0]
    return b.convert(x, target_type=type)

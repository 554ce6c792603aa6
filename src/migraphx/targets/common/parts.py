"""Divides a dynamic program where lengths depend on data: parts that are programs of their own, for all lengths."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.operation import Literal, Return
from migraphx.ir.program import Program
from migraphx.ir.shape import UNBOUNDED, DynamicDimension, Shape
from migraphx.targets.common.specialise import (
    ProgramSplit,
    SpecialisedProgram,
    above,
    copied_modules,
    feed_name,
    flat,
    is_leaf,
)


@dataclass
class Part:
    """Some instructions of a program as one of their own, which returns the values of `results`.

    `feeds`: its parameters, by name, are values of these instructions; those in `known` must be known by value, and
    why. `cuts`: it holds what no target compiles for many lengths.
    """

    results: list[Instruction]
    cuts: bool
    program: Program = field(default_factory=Program)
    feeds: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    known: dict[str, str] = field(default_factory=dict[str, str])


def parts_of(module: Module, made: SpecialisedProgram, cut: ProgramSplit) -> list[Part] | None:
    """What lies before the cut, the instructions that cut, and the rest; None where values that are no tensors cross.

    `made` is the module for some lengths and `cut` its split: for other lengths the parts are the same, since whatever
    a part cannot compile is cut in it again.
    """
    touched = {*cut.host, *cut.late}
    cutting, late = dict[Instruction, None](), dict[Instruction, None]()
    for ins in module:
        if isinstance(ins.op, Return):
            break
        values = list(flat(made.values[ins]))
        item = ins.name == "get_tuple_elem" and ins.inputs[0] in cutting
        if is_leaf(ins) or not (item or any(v in touched for v in values)):
            continue
        first = not any(i in cutting or i in late for i in (*ins.inputs, *captured(ins)))
        waits = any(v in made.needs for v in values)
        (cutting if item or (first and not waits) else late)[ins] = None
    outputs, last = [o for o in module.outputs if not is_leaf(o)], all(o in late for o in module.outputs)
    used = dict.fromkeys([*outputs, *(i for ins in (*cutting, *late) for i in _read(ins))])
    before = {i for i in above([i for i in used if i not in cutting and i not in late]) if not is_leaf(i)}
    if not late and not before:
        return None
    groups: list[Collection[Instruction]] = [before, cutting, late]
    crossing = {i for group in groups for ins in group for i in _read(ins) if i not in group}
    crossing |= {o for o in outputs if o not in late}
    if not all(isinstance(v := made.values[i], Instruction) and v.shape.type != "tuple" for i in crossing):
        return None
    shapes = {i: _any_length(i.shape, made.values[i].shape) for i in crossing}
    parts: list[Part] = []
    for group in groups:
        outside = {i for ins in (*cutting, *late) if ins not in group for i in _read(ins)} | set(outputs)
        results = [i for i in module if i in group and i in outside]
        if group is late and last:
            results = list(module.outputs)  # one may be a sequence
        if results:
            parts.append(_part(module, group, Part(results, group is cutting), shapes))
    return parts if not late or _noted(parts[-1], made, late) else None


def _noted(rest: Part, made: SpecialisedProgram, late: Iterable[Instruction]) -> bool:
    """Note which feeds the rest must know by value; False where it is another value that it must know."""
    for ins in late:
        for needed in (n for v in flat(made.values[ins]) for n in made.needs.get(v, ())):
            names = [n for n, i in rest.feeds.items() if made.values[i] is needed]
            if not names:
                return False
            rest.known[names[0]] = f"{ins.name} {ins.origin}".strip()
    return True


def _read(ins: Instruction) -> list[Instruction]:
    return [i for i in (*ins.inputs, *captured(ins)) if not is_leaf(i)]


def _any_length(shape: Shape, at_hand: Shape) -> Shape:
    """The shape of a parameter for all values of an instruction, of which nothing but one at hand may be known."""
    if shape.type == "tuple":
        return Shape.of_dims(at_hand.type, [DynamicDimension(0, UNBOUNDED)] * at_hand.ndim)
    return shape if shape.dynamic else shape.as_standard()


def _part(
    module: Module, wanted: Collection[Instruction], part: Part, shapes: Mapping[Instruction, Shape]
) -> Part:  # fmt: skip
    """The part, with the program of these instructions filled in."""
    main, env = part.program.main, dict[Instruction, Instruction]()

    def enter(ins: Instruction) -> None:
        if isinstance(ins.op, Literal):
            env[ins] = main.add_literal(ins.op.value, ins.origin)
        else:
            name = feed_name(ins, module, part.feeds)
            part.feeds[name] = ins
            env[ins] = main.add_parameter(name, shapes[ins] if ins in shapes else _any_length(ins.shape, ins.shape))

    for ins in module:
        if ins in wanted:
            for i in (*ins.inputs, *captured(ins)):
                if i not in env:
                    enter(i)
            modules = copied_modules(part.program, ins, env)
            env[ins] = main.append(Instruction(ins.op, [env[i] for i in ins.inputs], ins.shape, modules, ins.origin))
    main.add_return([env[r] for r in part.results])
    return part

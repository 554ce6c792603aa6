"""Specialises a program for one set of lengths: static shapes, deferred instructions expanded, the rest split off."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeGuard

import numpy as np

from migraphx.ir.expansion import Expansion, ValueNeeded
from migraphx.ir.inference import infer_shape
from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.operation import Literal, OpenLiteral, Parameter, Return, operation
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open, ones_matter
from migraphx.ops.open_values import computed, is_open_array, small_values
from migraphx.passes.dead_code import dead_code


def is_dynamic(program: Program) -> bool:
    """Whether some length of the program is known only at run time."""
    return any(ins.shape.dynamic or ins.op.deferred for m in reachable(program.main) for ins in m)


def runs_in_parts(program: Program) -> bool:
    """Whether the program must be specialised, or NumPy computes some of it, before a target compiles the rest."""
    return is_dynamic(program) or any(ins.op.on_host for ins in program.main)


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def flat(value: Any) -> Iterator[Any]:
    """The tensors of a value: itself, or the items of a sequence; none of an empty optional."""
    if _is_sequence(value):
        for item in value:
            yield from flat(item)
    elif value is not None:
        yield value


# ---- static shapes ----


@dataclass
class SpecialisedProgram:
    """A program with static shapes, as far as they are known.

    `needs`: the values that must be known to expand an instruction that is left; `refusals`: why it is left. `values`:
    what each instruction of the module became; a sequence is a list of instructions, an empty optional None.
    """

    program: Program
    needs: dict[Instruction, tuple[Instruction, ...]] = field(
        default_factory=dict[Instruction, tuple[Instruction, ...]]
    )
    refusals: dict[Instruction, str] = field(default_factory=dict[Instruction, str])
    values: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])


def specialise(module: Module, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray]) -> SpecialisedProgram:
    """The module with parameters of these shapes, literals in place of parameters whose values are given."""
    made = SpecialisedProgram(Program())
    main = made.program.main
    expansion = Expansion(made.program, main)
    env = made.values
    for ins in module:
        if isinstance(ins.op, Parameter):
            name = ins.op.parameter
            known = values.get(name)
            env[ins] = main.add_parameter(name, shapes[name]) if known is None else main.add_literal(known, name)
        elif isinstance(ins.op, Literal):
            env[ins] = main.add_literal(ins.op.value, ins.origin)
        elif isinstance(ins.op, Return):
            main.add_return(flat([env[o] for o in ins.inputs]))
        else:
            with ones_matter():
                env[ins] = _instruction(made, expansion, ins, env)
    dead_code(main)
    made.program.drop_unused_modules()
    for inner in reachable(main):
        made.program.modules[inner.name] = inner
    return made


def _instruction(made: SpecialisedProgram, expansion: Expansion, ins: Instruction, env: dict[Instruction, Any]) -> Any:
    inputs = [env[i] for i in ins.inputs]
    if ins.name == "get_tuple_elem" and _is_tuple(inputs[0]):
        index: int = ins.op.attributes()["index"]
        return inputs[0][index]
    expansion.origin = ins.origin
    needs: ValueNeeded | None = None
    if not any(is_deferred(i) for i in flat(inputs)):
        try:
            expanded = ins.op.expand(expansion, inputs)
        except ValueNeeded as error:
            needs = error
        else:
            if expanded is not NotImplemented:
                return expanded
    operands = [packed(expansion, i) for i in inputs]
    if ins.op.on_host and (known := constants(operands)) is not None:
        return _literals(expansion, ins.op.compute(*known), ins.origin)
    modules = [_inner(made.program, m, operands, env) for m in ins.modules]
    folded = None if modules else _of_constants(expansion, ins, operands)
    if folded is not None:
        return folded
    kept = expansion.module.add_instruction(ins.op, operands, modules, origin=ins.origin)
    if needs is not None:
        made.needs[kept], made.refusals[kept] = needs.values, str(needs)
    return kept


def _of_constants(expansion: Expansion, ins: Instruction, operands: Sequence[Instruction]) -> Instruction | None:
    """A small constant, where the instruction computes it from small ones; some may be made of sizes.

    What shapes are made of is known here, and not put off to passes, so that an array of sizes and of a length that
    the model computes is made of sizes.
    """
    known = small_values(operands)
    if known is None or (ins.op.view and not any(map(is_open_array, known))):
        return None
    value = computed(ins.op, known, infer_shape(ins.op, [o.shape for o in operands]))
    if value is None:
        return None
    if is_open_array(value):
        return expansion.module.add_open_literal(OpenLiteral(value, ins.shape.type), ins.origin)
    return expansion.module.add_literal(value, ins.origin)


def constants(instructions: Sequence[Instruction]) -> list[np.ndarray] | None:
    """The values of instructions that depend on literals alone, not on sizes or chance; None where one does not."""
    values: list[np.ndarray] = []
    for ins in instructions:
        plain = ins.op.pure and not (ins.modules or ins.shape.sub_shapes or is_open(ins.shape.lens))
        if isinstance(ins.op, (Parameter, OpenLiteral)) or not plain or is_deferred(ins):
            return None
        own = constants(ins.inputs)
        if own is None:
            return None
        values.append(ins.op.compute(*own))
    return values


def _literals(expansion: Expansion, value: Any, origin: str) -> Any:
    """A literal, or a tuple of some."""
    if _is_tuple(value):
        return tuple(_literals(expansion, v, origin) for v in value)
    return expansion.module.add_literal(np.ascontiguousarray(value), origin)


def packed(expansion: Expansion, value: Any) -> Instruction:
    """A sequence, or an empty optional, as one instruction."""
    if isinstance(value, Instruction):
        return value
    items = [packed(expansion, v) for v in value or ()]
    op = operation("pack", empty=value is None)
    return expansion.module.add_instruction(op, items, origin=expansion.origin)


def is_deferred(ins: Instruction) -> bool:
    """Whether the instruction's size, or what it expands to, is not known yet."""
    return ins.shape.dynamic or ins.op.deferred


def _inner(program: Program, module: Module, inputs: Sequence[Instruction], env: dict[Instruction, Any]) -> Module:
    """A copy of a module argument, its shapes inferred anew; its last parameters are the last inputs."""
    free = module.name not in program.modules
    copy = program.create_module(module.name) if free else program.fresh_module(module.name)
    own = dict(env)
    parameters = list(module.parameters.values())
    given = dict(zip(parameters[::-1], inputs[::-1], strict=False))
    for ins in module:
        if isinstance(ins.op, Parameter):
            shape = given[ins].shape.as_standard() if ins.shape.dynamic and ins in given else ins.shape
            own[ins] = copy.add_parameter(ins.op.parameter, shape)
        elif isinstance(ins.op, Literal):
            own[ins] = copy.add_literal(ins.op.value, ins.origin)
        else:
            operands = [own[i] for i in ins.inputs]
            modules = [_inner(program, m, operands, own) for m in ins.modules]
            own[ins] = copy.add_instruction(ins.op, operands, modules, origin=ins.origin)
    return copy


# ---- cutting where lengths depend on data ----


@dataclass
class ProgramSplit:
    """A program cut into what is static, what NumPy must do next, and the rest.

    The static part gives `wanted`, which are instructions of the program that was cut, as are `host`; the values of
    `feeds` are the parameters of `rest`, by name, and those in `known` must be known by value before `rest` can go on.
    """

    wanted: list[Instruction]
    host: list[Instruction]
    rest: Program | None = None
    feeds: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    known: dict[str, str] = field(default_factory=dict[str, str])  # and why
    outputs: list[Instruction] = field(default_factory=list[Instruction])
    late: list[Instruction] = field(default_factory=list[Instruction])  # those of the rest

    @property
    def whole(self) -> bool:
        """Nothing had to be cut off."""
        return self.rest is None and not self.host

    @property
    def host_reads(self) -> list[Instruction]:
        """What comes to main memory: for NumPy's instructions, and what must be known by value."""
        used = [*(i for h in self.host for i in h.inputs), *(self.feeds[n] for n in self.known)]
        return [i for i in dict.fromkeys(used) if i not in self.host]


def split(made: SpecialisedProgram) -> ProgramSplit:
    """Cut where lengths are not known yet. ValueNeeded where nothing is left that could be done."""
    main = made.program.main
    late: dict[Instruction, None] = {}
    host: dict[Instruction, None] = {}
    for ins in main:
        inputs = {*ins.inputs, *captured(ins)}
        if isinstance(ins.op, Return):
            break
        if ins.name == "get_tuple_elem" and ins.inputs[0] in host:
            host[ins] = None
        elif any(i in late or i in host for i in inputs):
            late[ins] = None
        elif is_deferred(ins) or ins.op.on_host:
            (late if ins.op.deferred or ins in made.needs else host)[ins] = None
    cut = ProgramSplit([], list(host), outputs=list(main.outputs), late=list(late))
    if late:
        _rest(cut, made, late)
    used = [*(i for h in host for i in h.inputs), *cut.feeds.values(), *cut.outputs]
    cut.wanted = [i for i in dict.fromkeys(used) if i not in late and i not in host and not is_leaf(i)]
    return cut


def compiled_parts(program: Program) -> Iterator[Program]:
    """The programs that a target compiles of one of static shapes: all of it, or what lies between NumPy's parts."""
    made = specialise(program.main, {n: i.shape for n, i in program.main.parameters.items()}, {})
    cut = split(made)
    if cut.whole:
        yield made.program
    elif cut.wanted:
        yield static_part(made.program.main, cut.wanted)
    if cut.rest is not None:
        yield from compiled_parts(cut.rest)


def is_leaf(ins: Instruction) -> bool:
    return isinstance(ins.op, (Parameter, Literal))


def static_part(main: Module, wanted: Sequence[Instruction]) -> Program:
    """What `wanted` needs, as a program of its own that returns them."""
    program, env = Program(), dict[Instruction, Instruction]()
    needed = above(wanted)
    for ins in main:
        if ins in needed:
            modules = copied_modules(program, ins, env)
            copy = Instruction(ins.op, [env[i] for i in ins.inputs], ins.shape, modules, ins.origin)
            env[ins] = program.main.append(copy)
    program.main.add_return([env[w] for w in wanted])
    return program


def copied_modules(program: Program, ins: Instruction, env: dict[Instruction, Instruction]) -> list[Module]:
    """Copies of the instruction's modules, which use the copies of what is around them."""
    modules = [m.clone(env) for m in ins.modules]
    for m in (inner for outer in modules for inner in reachable(outer)):
        program.modules[m.name] = m
    return modules


def above(roots: Iterable[Instruction]) -> set[Instruction]:
    seen, stack = set(roots), list(roots)
    while stack:
        ins = stack.pop()
        new = [i for i in (*ins.inputs, *captured(ins)) if i not in seen]
        seen.update(new)
        stack.extend(new)
    return seen


def feed_name(ins: Instruction, module: Module, feeds: Collection[str]) -> str:
    """What a value of the module is called as a parameter of a part of it, beside these."""
    if isinstance(ins.op, Parameter):
        return ins.op.parameter
    return next(n for k in count(len(feeds)) if (n := f"@{k}") not in feeds and n not in module.parameters)


def _rest(cut: ProgramSplit, made: SpecialisedProgram, late: Mapping[Instruction, None]) -> None:
    """Fill in the program of the late instructions; what they use of the others becomes its parameters."""
    cut.rest = rest = Program()
    env: dict[Instruction, Instruction] = {}

    def enter(ins: Instruction) -> None:
        if ins in env or ins in late:
            return
        if isinstance(ins.op, Literal):
            env[ins] = rest.main.add_literal(ins.op.value, ins.origin)
            return
        name = feed_name(ins, made.program.main, cut.feeds)
        cut.feeds[name] = ins
        env[ins] = rest.main.add_parameter(name, ins.shape.as_standard())

    for ins in late:
        for i in (*ins.inputs, *captured(ins)):
            enter(i)
        inputs, modules = [env[i] for i in ins.inputs], copied_modules(rest, ins, env)
        env[ins] = rest.main.add_instruction(ins.op, inputs, modules, origin=ins.origin)
        for needed in made.needs.get(ins, ()):
            name = next((n for n, i in cut.feeds.items() if i is needed), None)
            if name is not None:
                cut.known[name] = f"{ins.name} {ins.origin}".strip()
    rest.main.add_return([env[o] for o in cut.outputs if o in late])
    working = any(not is_leaf(i) for i in cut.feeds.values())
    if not (cut.known or cut.host or working):
        stuck = next(iter(late))
        raise ValueError(f"{stuck.name} {stuck.origin}: {made.refusals.get(stuck, 'its size cannot be known')}")

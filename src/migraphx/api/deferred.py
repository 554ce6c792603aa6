"""Programs that somebody else writes once their lengths are known: another framework's graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from migraphx.api.module import instruction_ref, module
from migraphx.api.program import program
from migraphx.api.shape import shape
from migraphx.ir.expansion import Expansion
from migraphx.ir.module import Instruction
from migraphx.ir.operation import operation
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.ops.dynamic import Converted

Symbol = tuple[str, int, int] | tuple[str, int, int, Collection[int]]
Length = int | Symbol
"""A length, or a symbol with its least and largest one, and perhaps those that are compiled ahead for."""
Convert = Callable[[module, list[instruction_ref]], Sequence[instruction_ref]]


def deferred_program(
    parameters: Mapping[str, tuple[str, Sequence[Length]]],
    convert: Convert,
    outputs: Sequence[shape],
    lasting: Callable[[], Sequence[np.ndarray]] = tuple,
) -> program:
    """A program that `convert` writes into a module whenever it is compiled for lengths that come.

    `parameters`: element type and lengths by name; dimensions of one symbol have one length. `convert` is given the
    module and the parameters, and returns the outputs, which have the (dynamic) shapes `outputs`. Lengths that it finds
    there compute as ints do, but need not be ints: what is compiled serves all for which its decisions hold. It may be
    called from any thread. `lasting` gives memory of constants that stays as it is while the program lives: those of
    two conversions are told by where they lie there, not by what they hold. Programs that are given the same function
    may have what they pack of it in one memory. The program cannot be saved.
    """
    made = program()
    main = made.get_main_module()
    inputs = [main._impl.add_parameter(n, _shape(type, dims), last=True) for n, (type, dims) in parameters.items()]
    main.add_return(add_deferred(main, convert, [instruction_ref(i) for i in inputs], outputs, lasting))
    return made


def add_deferred(
    main: module,
    convert: Convert,
    inputs: Sequence[instruction_ref],
    outputs: Sequence[shape],
    lasting: Callable[[], Sequence[np.ndarray]] = tuple,
) -> list[instruction_ref]:
    """What `convert` writes into a module once the lengths of `inputs` are known, as `deferred_program` has it.

    A conversion may add more of the kind: for what follows on lengths that depend on data (`nonzero_exact`, `unique`).
    """

    def expand(context: Expansion, given: Sequence[Instruction]) -> tuple[Instruction, ...]:
        found = convert(module(context.module, context.program), [instruction_ref(i) for i in given])
        return tuple(o._impl for o in found)

    op = Converted(expand, tuple(s._impl for s in outputs), lasting)
    whole = main._impl.add_instruction(op, [i._impl for i in inputs])
    parts = [main._impl.add_instruction(operation("get_tuple_elem", index=k), [whole]) for k in range(len(outputs))]
    return [instruction_ref(p) for p in parts]


def _shape(type: str, dims: Sequence[Length]) -> Shape:
    return Shape.of_dims(type, [d if isinstance(d, int) else _range(d) for d in dims])


def _range(d: Symbol) -> DynamicDimension:
    symbol, least, most = d[:3]
    return DynamicDimension(least, most, tuple(sorted(d[3])) if len(d) == 4 else (), symbol=symbol)

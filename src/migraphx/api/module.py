"""`migraphx.module`, `instruction_ref`, `op` and `macro`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from inspect import Parameter, signature
from typing import Any

import numpy as np

from migraphx.api.argument import argument, as_array
from migraphx.api.shape import shape, wrap
from migraphx.ir.builder import COMPOSITES, Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation, Return, operation
from migraphx.ir.origin import DebugSymbols, symbols_of
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open
from migraphx.ir.text import attribute_text, module_text, operation_text
from migraphx.mxr.layers import as_ours
from migraphx.mxr.upstream import ENUMS, by_name
from migraphx.ops.macros import MACROS, find_macro
from migraphx.ops.open_values import open_literal


class pooling_mode(Enum):
    """Upstream's pooling modes, for `op("pooling", mode=...)`."""

    average, max, lpnorm = range(3)


class rnn_direction(Enum):
    """Upstream's directions of recurrent layers."""

    forward, reverse, bidirectional = range(3)


def _plain(operator: str, key: str, value: Any) -> Any:
    """An attribute as the engine holds it: of an enumeration the name, given by its member or by upstream's number."""
    if isinstance(value, Enum):
        known = value.value < len(ENUMS.get((operator, key), ()))
        value = value.value if known else value.name.removesuffix("_type")
    if isinstance(value, (list, tuple)) and any(isinstance(v, shape) for v in value):  # of a tuple
        return Shape.tuple_of(v._impl for v in value)
    return value._impl if isinstance(value, shape) else by_name(operator, key, value)


def name_of(what: str, name: Any) -> str:
    """The name; TypeError where it is none."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{what}: the name must be a string and not empty, got {name!r}")
    return name


class op:
    """An operator with its attributes: `op("transpose", permutation=[1, 0])`; an enumeration's member or its name.

    ValueError for an unknown operator or attribute (naming the nearest) and for a value that the attribute cannot hold.
    """

    pooling_mode = pooling_mode
    rnn_direction = rnn_direction
    __slots__ = ("_impl",)

    def __init__(self, name: str, **attributes: Any) -> None:
        name_of("op", name)
        self._impl: Operation = operation(name, **{key: _plain(name, key, value) for key, value in attributes.items()})

    def name(self) -> str:
        """The name of the operator."""
        return self._impl.name

    def values(self) -> dict[str, Any]:
        """The attributes by name, those that were not given included."""
        return self._impl.attributes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, op) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return operation_text(self._impl)


class macro:
    """A composite of operators with its attributes: `macro("gelu", approximate="tanh")`.

    ValueError for an unknown macro or attribute, naming the nearest.
    """

    __slots__ = ("_attributes", "_build", "_name")

    def __init__(self, name: str, **attributes: Any) -> None:
        build = find_macro(name_of("macro", name))
        if build is None:
            near = get_close_matches(name, [*MACROS, *COMPOSITES], 1)
            raise ValueError(f"unknown macro {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        found = list(signature(build).parameters.values())[1:]  # the first is the builder
        known = [p.name for p in found if p.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
        if any(p.kind is Parameter.VAR_KEYWORD for p in found):  # an operator as it is
            known = list(operation(name, **attributes).attributes())
        for key in attributes:
            if key not in known:
                near = get_close_matches(key, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
                raise ValueError(f"{name}: unknown attribute {key!r}{hint}")
        self._build, self._name = build, name
        self._attributes = {key: _plain(name, key, value) for key, value in attributes.items()}

    def name(self) -> str:
        """The name of the composite."""
        return self._name

    def values(self) -> dict[str, Any]:
        """The attributes that were given, by name."""
        return dict(self._attributes)

    options = values  # upstream's name

    def __repr__(self) -> str:
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in self._attributes.items()}
        given = ",".join(f"{k}={attribute_text(v)}" for k, v in plain.items())
        return f"{self._name}[{given}]" if given else self._name


class instruction_ref:
    """A reference to one instruction; equal and hashed by identity."""

    __slots__ = ("_impl",)

    def __init__(self, impl: Instruction) -> None:
        self._impl = impl

    def shape(self) -> shape:
        """The shape of the result."""
        return wrap(self._impl.shape)

    def op(self) -> op:
        """The operator with its attributes."""
        made = op.__new__(op)
        made._impl = self._impl.op
        return made

    def inputs(self) -> list[instruction_ref]:
        """The instructions whose results it reads, in order."""
        return [instruction_ref(i) for i in self._impl.inputs]

    def outputs(self) -> list[instruction_ref]:
        """The instructions that read its result."""
        return [instruction_ref(i) for i in self._impl.users]

    def name(self) -> str:
        """The name of its operator."""
        return self._impl.name

    def get_literal(self) -> argument:
        """The value of a literal; ValueError where it is none."""
        if self._impl.literal is None:
            raise ValueError(f"{self._impl.name} is not a literal")
        return argument(self._impl.literal)

    def get_debug_symbols(self) -> set[str]:
        """The names given as `debug_symbols` when it was added, or by `parse_onnx(use_debug_symbols=True)`."""
        return set(symbols_of(self._impl.origin))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, instruction_ref) and self._impl is other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return repr(self._impl)


class module:
    """A list of instructions of a program."""

    def __init__(self, impl: Module, program: Program) -> None:
        self._impl = impl
        self._program = program
        self._origin = ""

    def set_origin(self, origin: str) -> None:
        """Where the instructions added from now on come from (an ONNX node, a line of Python).

        `debug_symbols`, which everything that adds has, are names to keep with what it adds, in place of this.
        """
        self._origin = origin

    def _named(self, debug_symbols: Sequence[str]) -> str:
        """The origin of what is added under these names."""
        if isinstance(debug_symbols, str) or not all(isinstance(s, str) for s in debug_symbols):
            raise TypeError(f"debug_symbols must be a list of names, got {debug_symbols!r}")
        return DebugSymbols(debug_symbols) if debug_symbols else self._origin

    def add_instruction(
        self,
        op: op,
        args: Sequence[instruction_ref] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Sequence[str] = (),
    ) -> instruction_ref:
        """Append an operator on earlier instructions; `mod_args` are the modules that it runs (if, loop).

        TypeError where something is of another kind; ValueError for instructions of another program; ShapeError (a
        ValueError) where the operator refuses its inputs, naming the shapes.
        """
        impl = getattr(op, "_impl", None)
        if not isinstance(impl, Operation):
            raise TypeError(f"add_instruction: the operator must be a migraphx.op, got {op!r}")
        modules = [m._impl for m in mod_args]
        impl, inputs = as_ours(self._impl, impl, self._own(args))
        return instruction_ref(self._impl.add_instruction(impl, inputs, modules, origin=self._named(debug_symbols)))

    def _own(self, args: Sequence[instruction_ref]) -> list[Instruction]:
        """The instructions behind references, which must be of this program."""
        if isinstance(args, instruction_ref):
            raise TypeError("the inputs must be a list of instructions, got one instruction")
        for a in args:
            if not isinstance(a, instruction_ref):
                raise TypeError(f"an input must be an instruction, got {a!r}")
            owner = a._impl.owner
            if owner is None or self._program.modules.get(owner.name) is not owner:
                raise ValueError(f"the input {a!r} belongs to another program, or was removed")
        return [a._impl for a in args]

    def add_macro(
        self,
        composite: macro,
        args: Sequence[instruction_ref | None] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Sequence[str] = (),
    ) -> list[instruction_ref]:
        """Append a composite's instructions; returns its results. Errors as of `add_instruction`.

        No composite runs modules: `mod_args`, which upstream has, must be empty.
        """
        return self._expand(composite, args, None, mod_args, self._named(debug_symbols))

    def insert_macro(
        self,
        before: instruction_ref,
        composite: macro,
        args: Sequence[instruction_ref | None] = (),
        mod_args: Sequence[module] = (),
        debug_symbols: Sequence[str] = (),
    ) -> list[instruction_ref]:
        """As `add_macro`, ahead of an instruction; ValueError where that is not of this module."""
        (place,) = self._own([before])
        if place.owner is not self._impl:
            raise ValueError(f"insert_macro: {before!r} is not of module {self._impl.name!r}")
        return self._expand(composite, args, place, mod_args, self._named(debug_symbols))

    def _expand(
        self,
        composite: macro,
        args: Sequence[instruction_ref | None],
        before: Instruction | None,
        mod_args: Sequence[module],
        origin: str,
    ) -> list[instruction_ref]:
        if not isinstance(composite, macro):
            raise TypeError(f"add_macro: the composite must be a migraphx.macro, got {composite!r}")
        if isinstance(args, instruction_ref):
            raise TypeError("the inputs must be a list of instructions, got one instruction")
        if mod_args:
            raise ValueError(f"add_macro: {composite.name()} runs no modules, got {len(mod_args)}")
        inputs = [None if a is None else self._own([a])[0] for a in args]
        made = composite._build(Builder(self._impl, before, origin), *inputs, **composite.values())
        return [instruction_ref(i) for i in ([made] if isinstance(made, Instruction) else made)]

    def add_literal(self, data: Any, debug_symbols: Sequence[str] = ()) -> instruction_ref:
        """A constant from anything an argument is made from.

        The memory is shared; only arrays of foreign byte order or negative strides are copied.
        """
        return instruction_ref(self._impl.add_literal(as_array(data), self._named(debug_symbols)))

    def add_sizes(self, values: Any) -> instruction_ref:
        """A constant of int64: whole numbers, or lengths that a `deferred_program`'s conversion was given."""
        sizes = np.asarray(values, object)
        if not any(map(is_open, sizes.reshape(-1))):
            return self.add_literal(sizes.astype(np.int64))
        return instruction_ref(self._impl.add_open_literal(open_literal(sizes), self._origin))

    def add_parameter(self, name: str, shape: shape, debug_symbols: Sequence[str] = ()) -> instruction_ref:
        """Add an input; TypeError for a name or shape that is none, ValueError where the name is taken."""
        impl = getattr(shape, "_impl", None)
        if not isinstance(impl, Shape):
            raise TypeError(f"add_parameter: {name!r} needs a migraphx.shape, got {shape!r}")
        origin = self._named(debug_symbols)
        return self._told(self._impl.add_parameter(name_of("add_parameter", name), impl), origin)

    def _told(self, made: Instruction, origin: str) -> instruction_ref:
        """A parameter or return, of which only names are kept."""
        made.origin = origin if symbols_of(origin) else ""
        return instruction_ref(made)

    def add_return(self, args: Sequence[instruction_ref], debug_symbols: Sequence[str] = ()) -> instruction_ref:
        """End the module with these outputs; ValueError where it ends already, or they are of another program."""
        origin = self._named(debug_symbols)
        return self._told(self._impl.add_return(self._returned(args)), origin)

    def replace_return(self, args: Sequence[instruction_ref], debug_symbols: Sequence[str] = ()) -> instruction_ref:
        """End the module with these outputs instead; ValueError where they are of another program."""
        origin = self._named(debug_symbols)
        return self._told(self._impl.replace_return(self._returned(args)), origin)

    def _returned(self, args: Sequence[instruction_ref]) -> list[Instruction]:
        return as_ours(self._impl, Return(), self._own(args))[1]

    def get_returns(self) -> list[instruction_ref]:
        """The outputs; none where the module has no return."""
        last = self._impl.last
        return [instruction_ref(i) for i in last.inputs] if last is not None and isinstance(last.op, Return) else []

    def print(self) -> None:
        """Print the instructions."""
        print(self)

    def __iter__(self) -> Iterator[instruction_ref]:
        return (instruction_ref(i) for i in self._impl)

    def __reversed__(self) -> Iterator[instruction_ref]:
        return (instruction_ref(i) for i in reversed(self._impl))

    def __repr__(self) -> str:
        return module_text(self._impl)

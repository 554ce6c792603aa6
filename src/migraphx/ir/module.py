"""Instruction and Module: the graph. Values are frozen, the graph changes only through Module's methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from migraphx.ir.inference import infer_shape
from migraphx.ir.operation import Literal, OpenLiteral, Operation, Parameter, Return, ShapeError
from migraphx.ir.shape import Shape, native


class Instruction:
    """One operation applied to earlier instructions of the same module (or of an enclosing one).

    `users`, `owner`, and the neighbours `prev` and `next` are Module's to change.
    """

    __slots__ = ("inputs", "modules", "next", "op", "origin", "owner", "prev", "shape", "users")

    def __init__(
        self,
        op: Operation,
        inputs: Sequence[Instruction],
        shape: Shape,
        modules: Sequence[Module] = (),
        origin: str = "",
    ) -> None:
        self.op = op
        self.inputs: tuple[Instruction, ...] = tuple(inputs)
        self.shape = shape
        self.modules: tuple[Module, ...] = tuple(modules)
        self.origin = origin  # where it came from: an ONNX node, a line of Python
        self.users: dict[Instruction, None] = {}
        self.owner: Module | None = None
        self.prev: Instruction | None = None
        self.next: Instruction | None = None

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def literal(self) -> np.ndarray | None:
        return self.op.value if isinstance(self.op, Literal) else None

    @property
    def flops(self) -> int:
        """Operations of one run, a multiply and an add counted as two; 0 while a size is not known."""
        shapes = [i.shape for i in self.inputs]
        if any(s.dynamic for s in (*shapes, self.shape)):
            return 0
        return self.op.flops(shapes, self.shape, self.modules)

    def __repr__(self) -> str:
        return f"<{self.name} -> {self.shape}>"


def captured(ins: Instruction) -> Iterator[Instruction]:
    """What the instruction's module arguments use of the modules around them."""
    for module in ins.modules:
        for inner in module:
            yield from (i for i in (*inner.inputs, *captured(inner)) if i.owner is not module)


class Module:
    """A list of instructions in an order in which every one comes after its inputs.

    As in MIGraphX, literals and parameters go to the front, everything else to the end or before a given
    instruction. The last instruction is a `@return` once `add_return` was called.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self._first: Instruction | None = None
        self._last: Instruction | None = None
        self._size = 0

    # ---- reading ----

    def __iter__(self) -> Iterator[Instruction]:
        """In order; the current instruction may be removed and others inserted while iterating."""
        ins = self._first
        while ins is not None:
            following = ins.next
            yield ins
            ins = following if ins.owner is not self else ins.next

    def __reversed__(self) -> Iterator[Instruction]:
        ins = self._last
        while ins is not None:
            before = ins.prev
            yield ins
            ins = before

    def __len__(self) -> int:
        return self._size

    @property
    def last(self) -> Instruction | None:
        return self._last

    @property
    def parameters(self) -> dict[str, Instruction]:
        """By name, in the order in which they were added."""
        found = [(i.op.parameter, i) for i in self if isinstance(i.op, Parameter)]
        return dict(reversed(found))

    @property
    def outputs(self) -> tuple[Instruction, ...]:
        """What the module returns: the inputs of `@return`, or the last instruction where there is none."""
        if self._last is None:
            return ()
        return self._last.inputs if isinstance(self._last.op, Return) else (self._last,)

    @property
    def output_shapes(self) -> list[Shape]:
        return [o.shape for o in self.outputs]

    # ---- building ----

    def add_parameter(self, name: str, shape: Shape, *, last: bool = False) -> Instruction:
        """Insert before all instructions, or behind them: a reader keeps the order that it finds."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # readers pass what a file has
            raise TypeError(f"module {self.name!r}: the name of a parameter is no text: {name!r}")
        if name in self.parameters:
            raise ValueError(f"module {self.name!r} already has a parameter {name!r}")
        return self._link(Instruction(Parameter(name), (), shape), None if last else self._first)

    def add_literal(self, value: Any, origin: str = "") -> Instruction:
        """`value`: anything that NumPy reads as an array; it must not change later.

        It is copied only where its byte order is not this machine's or a stride is negative.
        """
        array = native(np.asarray(value)).view()
        array.flags.writeable = False
        return self._link(Instruction(Literal(array), (), Shape.of(array), origin=origin), self._first)

    def add_open_literal(self, op: OpenLiteral, origin: str = "") -> Instruction:
        """A constant made of sizes."""
        return self._link(Instruction(op, (), Shape(op.type, op.sizes.shape), origin=origin), self._first)

    def add_instruction(
        self,
        op: Operation,
        inputs: Iterable[Instruction] = (),
        modules: Sequence[Module] = (),
        *,
        before: Instruction | None = None,
        origin: str = "",
    ) -> Instruction:
        """Insert before another instruction, or at the end, where a `@return` stays the last.

        Infers the shape; a ShapeError names the origin.
        """
        inputs = tuple(inputs)
        if before is None and self._last is not None and isinstance(self._last.op, Return):
            before = self._last
        try:
            shape = infer_shape(op, [i.shape for i in inputs], modules)
        except ShapeError as error:
            raise ShapeError(f"{error}" + (f", from {origin}" if origin else "")) from None
        return self._link(Instruction(op, inputs, shape, modules, origin), before)

    def append(self, ins: Instruction) -> Instruction:
        """Put an instruction of no module behind all others, as it is: its shape is not inferred.

        For readers and copies, which keep the order that they find, of literals and parameters as well.
        """
        if ins.owner is not None:
            raise ValueError(f"{ins.name} is part of module {ins.owner.name!r} already")
        return self._link(ins, None)

    def add_return(self, outputs: Iterable[Instruction]) -> Instruction:
        if self._last is not None and isinstance(self._last.op, Return):
            raise ValueError(f"module {self.name!r} already returns; use replace_return")
        return self.add_instruction(Return(), outputs)

    def replace_return(self, outputs: Iterable[Instruction]) -> Instruction:
        if self._last is not None and isinstance(self._last.op, Return):
            self.remove(self._last)
        return self.add_return(outputs)

    # ---- changing ----

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Every user of `old` uses `new` instead; `old` stays, unused, until dead code is removed."""
        if old is new:
            return
        for user in list(old.users):
            if user is not new:  # its other inputs, of which a concat may have thousands, know it already
                user.inputs = tuple(new if i is old else i for i in user.inputs)
                del old.users[user]
                new.users[user] = None

    def replace_operation(
        self, ins: Instruction, op: Operation, inputs: Iterable[Instruction], modules: Sequence[Module] = ()
    ) -> None:
        """Change an instruction in place; its users stay. The shape is inferred anew."""
        inputs = tuple(inputs)
        ins.shape = infer_shape(op, [i.shape for i in inputs], modules)
        ins.op, ins.modules = op, tuple(modules)
        self._set_inputs(ins, inputs)

    def remove(self, ins: Instruction) -> None:
        if ins.users:
            raise ValueError(f"{ins.name} still has {len(ins.users)} users")
        self._set_inputs(ins, ())
        self._unlink(ins)

    def move(self, ins: Instruction, before: Instruction) -> None:
        """Put `ins` right before another instruction of this module."""
        if ins is not before:
            self._unlink(ins)
            self._place(ins, before)

    def sort(self) -> None:
        """Restore the order inputs-first, as close to the present order as can be."""
        done: set[Instruction] = set()
        order: list[Instruction] = []
        for root in list(self):
            stack = [(root, chain(root.inputs, captured(root)))]
            while stack:
                ins, rest = stack[-1]
                child = next((i for i in rest if i.owner is self and i not in done), None)
                if ins in done:
                    stack.pop()
                elif child is not None:
                    stack.append((child, chain(child.inputs, captured(child))))
                else:
                    done.add(ins)
                    order.append(ins)
                    stack.pop()
        for ins in order:
            self._unlink(ins)
            self._place(ins, None)

    def inline(
        self, other: Module, arguments: dict[str, Instruction], before: Instruction | None = None
    ) -> list[Instruction]:
        """Copy another module's instructions here, its parameters replaced; returns its outputs' copies."""
        env: dict[Instruction, Instruction] = {}
        for ins in other:
            if isinstance(ins.op, Parameter):
                env[ins] = arguments[ins.op.parameter]
            elif isinstance(ins.op, Literal):
                env[ins] = self.add_literal(ins.op.value, ins.origin)
            elif not isinstance(ins.op, Return):
                inputs = [env.get(i, i) for i in ins.inputs]
                modules = [m.clone(env) for m in ins.modules] if any(captured(ins)) else ins.modules
                env[ins] = self.add_instruction(ins.op, inputs, modules, before=before, origin=ins.origin)
        return [env[o] for o in other.outputs]

    def clone(
        self, env: dict[Instruction, Instruction] | None = None, copies: dict[Module, Module] | None = None
    ) -> Module:
        """A copy that shares operations and literals' memory, and nothing that can change.

        `env` and `copies` gather what became of each instruction and of each module.
        """
        env, copies = {} if env is None else env, {} if copies is None else copies
        copy = copies[self] = Module(self.name)
        for ins in self:
            inputs = [env.get(i, i) for i in ins.inputs]
            modules = [copies[m] if m in copies else m.clone(env, copies) for m in ins.modules]
            env[ins] = copy.append(Instruction(ins.op, inputs, ins.shape, modules, ins.origin))
        return copy

    def clear(self) -> None:
        """Remove every instruction."""
        for ins in reversed(self):
            self._set_inputs(ins, ())
            self._unlink(ins)

    # ---- the linked list ----

    def _link(self, ins: Instruction, before: Instruction | None) -> Instruction:
        for i in ins.inputs:
            i.users[ins] = None
        self._place(ins, before)
        return ins

    def _place(self, ins: Instruction, before: Instruction | None) -> None:
        prev = self._last if before is None else before.prev
        ins.owner, ins.prev, ins.next = self, prev, before
        if prev is None:
            self._first = ins
        else:
            prev.next = ins
        if before is None:
            self._last = ins
        else:
            before.prev = ins
        self._size += 1

    def _unlink(self, ins: Instruction) -> None:
        if ins.prev is None:
            self._first = ins.next
        else:
            ins.prev.next = ins.next
        if ins.next is None:
            self._last = ins.prev
        else:
            ins.next.prev = ins.prev
        ins.owner = None
        self._size -= 1

    def _set_inputs(self, ins: Instruction, inputs: tuple[Instruction, ...]) -> None:
        for i in ins.inputs:
            i.users.pop(ins, None)
        ins.inputs = inputs
        for i in inputs:
            i.users[ins] = None

"""A pointwise body of what a kernel has just computed, stored by that kernel, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from migraphx.ir.module import Instruction, Module
from migraphx.targets.common.body import Scope
from migraphx.targets.common.views import View, standard_strides
from migraphx.targets.gpu.emit.body import reading_of, store_line, stored_body
from migraphx.targets.gpu.emit.scalar import NARROW
from migraphx.targets.gpu.kernel import GpuCall

FIRST_NAME = 1 << 12  # of the body's values, which stand among the kernel's


@dataclass(frozen=True)
class Also:
    """The body, of one operand, and where its result goes: to elements that lie as the kernel's own output.

    `alone`: nobody reads that output.
    """

    module: Module
    write: View
    alone: bool

    def writes(self, own: View) -> list[View]:
        """What a kernel stores that would store `own`."""
        return [self.write] if self.alone else [own, self.write]

    def lines(self, value: str, type: str, pointer: str, at: str, mask: str) -> list[str]:
        """Statements that compute the body of what memory would hold of `value`, and store it."""
        scope = Scope(reading_of(self.module), [], FIRST_NAME)
        stored = scope.bind(f'widen(narrow({value}, "{type}"), "{type}")' if type in NARROW else value)
        given = dict.fromkeys(self.module.parameters, stored)
        result = stored_body(self.module, given, scope, self.write.type)
        return [*scope.lines, store_line(pointer, at, result, mask)]


@dataclass(frozen=True)
class Finished:
    """The call, number `at`, that writes all of an instruction's result, and how it is made to store something more."""

    ins: Instruction
    write: View
    at: int
    again: Callable[[Also], GpuCall]

    def place(self, read: View, write: View) -> View | None:
        """`write`, as the call has its own output, where each of its elements is that of `read` in its place."""
        own = self.write
        if write.buffer.kind != "arena" or own.moves or read.moves or write.moves or read.offset != own.offset:
            return None
        if (read.lens, read.strides, write.strides) == (own.lens, own.strides, own.strides):
            return write
        if read.standard and write.standard and _is_dense(own) and own.elements == read.elements:
            return View(write.buffer, write.type, own.lens, own.strides, write.offset)
        return None

    def serves(self, user: Instruction) -> bool:
        """Whether nothing else reads the result than `user`, of one operand, through views."""
        x = user.inputs[0]
        while x is not self.ins and len(x.users) == len(x.inputs) == 1:
            x = x.inputs[0]
        return x is self.ins and len(x.users) == 1


def _is_dense(view: View) -> bool:
    """Whether its elements are a block of memory, in any order."""
    order = sorted(range(len(view.lens)), key=lambda d: (-view.strides[d], -view.lens[d]))
    lens = [view.lens[d] for d in order]
    want = standard_strides(lens)
    return all(n == 1 or view.strides[d] == s for d, n, s in zip(order, lens, want, strict=True))

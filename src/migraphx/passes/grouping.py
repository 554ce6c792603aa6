"""Which instructions one kernel can hold: pointwise operators, and the reductions among them.

A group has one output, its root, and grows from there towards the inputs: an instruction joins when all its
users are in the group already, so that nothing is computed twice and nothing else is needed outside.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refuse
from migraphx.ir.shape import Shape
from migraphx.ops.movement import Multibroadcast
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.constants import scalar_of
from migraphx.passes.rewrite import remove_unused, substitute

MOST = 100  # members of a group


@dataclass(frozen=True)
class ReductionSpace:
    """What a fused reduction reduces: values of `full` lens over `axes`, to `reduced` lens."""

    full: tuple[int, ...]
    reduced: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, reduction: Instruction) -> ReductionSpace:
        x = reduction.inputs[0].shape
        return cls(x.lens, reduction.shape.lens, axes_of(reduction))


def axes_of(reduction: Instruction) -> tuple[int, ...]:
    """The axes that a reduction reduces, counted from the front, in order."""
    ndim = reduction.shape.ndim
    return tuple(sorted(a % ndim for a in reduction.op.attributes()["axes"])) or tuple(range(ndim))


@dataclass
class Group:
    """Members in the module's order, the root last; `space` where reductions are among them.

    `refused`: what stands before a member and might have been one, and why it is not.
    """

    root: Instruction
    members: list[Instruction]
    refused: dict[Instruction, str]
    space: ReductionSpace | None = None
    inputs: list[Instruction] = field(default_factory=list[Instruction])

    def __post_init__(self) -> None:
        inside = set(self.members)
        outer = [i for m in self.members for i in m.inputs if i not in inside]
        numbers = [i for i in outer if scalar_of(i) is not None]
        varying = [i for i in outer if i not in numbers]
        self.inputs = list(dict.fromkeys(varying or numbers[:1]))  # a kernel needs an input to know its lens


@dataclass
class Grouping:
    """Finds the groups of one module.

    `nearest`: the reduction that an instruction is made of, itself included, and how many steps behind it is.
    `epilogues`: pointwise operators that can be the epilogue of a dot, a convolution ...
    """

    module: Module
    position: dict[Instruction, int] = field(default_factory=dict[Instruction, int])
    nearest: dict[Instruction, tuple[int, Instruction]] = field(
        default_factory=dict[Instruction, tuple[int, Instruction]]
    )
    epilogues: set[Instruction] = field(default_factory=set[Instruction])

    def __post_init__(self) -> None:
        for n, ins in enumerate(self.module):
            self.position[ins] = n
            behind = [self.nearest[i] for i in ins.inputs if i in self.nearest and inner(i)]
            if isinstance(ins.op, Reduction):
                self.nearest[ins] = (0, ins)
            elif behind and isinstance(ins.op, (Pointwise, Multibroadcast)):
                steps, reduction = min(behind, key=lambda found: found[0])
                self.nearest[ins] = (steps + 1, reduction)
            elif isinstance(ins.op, Pointwise) and any(
                (i.op.takes_epilogue and len(i.users) == 1) or (i in self.epilogues and not _repeated(i))
                for i in ins.inputs
            ):
                self.epilogues.add(ins)

    def groups(self) -> Iterator[Group]:
        """Every group of at least one pointwise operator or reduction; later ones first."""
        taken: set[Instruction] = set()
        for ins in reversed(list(self.module)):
            if ins in taken or ins.owner is not self.module or not ins.users:
                continue
            if not isinstance(ins.op, (Pointwise, Reduction)):
                continue
            group = self._with_reductions(ins) or Group(ins, *self._grow(ins, self._unlike_pointwise))
            inside = set(group.members)
            taken.update(m for m in group.members if m is ins or all(u in inside for u in m.users))
            yield group

    def _with_reductions(self, root: Instruction) -> Group | None:
        if root not in self.nearest:
            return None
        space = ReductionSpace.of(self.nearest[root][1])
        if root.shape.lens not in (space.full, space.reduced):
            return None
        members, refused = self._grow(root, lambda ins: self._unfit(ins, space))
        while True:  # a broadcast of what did not join stays outside too
            inside = set(members)
            kept = [m for m in members if m.name != "multibroadcast" or m.inputs[0] in inside]
            if len(kept) == len(members):
                break
            members = kept
        return Group(root, members, refused, space) if any(isinstance(m.op, Reduction) for m in members) else None

    def _unfit(self, ins: Instruction, space: ReductionSpace) -> str | None:
        """Why an instruction is no part of a reduction's kernel, None where it is one, "" for another operator."""
        if isinstance(ins.op, Reduction):
            same = axes_of(ins) == space.axes and ins.inputs[0].shape.lens == space.full
            return None if same else Refuse("it reduces other axes, or other lens")
        if ins.name == "multibroadcast":
            small = ins.inputs[0]
            there_and_back = ins.shape.lens == space.full and small.shape.lens == space.reduced
            return None if there_and_back and small in self.nearest else ""
        if not isinstance(ins.op, Pointwise):
            return ""
        if ins in self.epilogues and not widens(ins):  # which would be stored wider than what it is made of
            return Refuse("it can be the epilogue of a dot or convolution")
        if ins in self.nearest and ReductionSpace.of(self.nearest[ins][1]) != space:
            return Refuse("it is the end of another reduction's kernel")
        return None

    def _unlike_pointwise(self, ins: Instruction) -> str | None:
        """As `_unfit`, for a kernel without reductions."""
        if not isinstance(ins.op, Pointwise):
            return ""
        return Refuse("it is what a product that waits for another stores") if self._waits(ins) else None

    def _waits(self, ins: Instruction) -> bool:
        """Whether a product stores it until a later product meets it: its narrowest form, or that and a bias."""
        if ins not in self.epilogues or (ins.name != "convert" and not _is_biased(ins)):
            return False
        above = list(self._above(ins))
        if ins.name == "convert" and any(_bytes(i) < _bytes(ins) + i.op.takes_epilogue for i in above):
            return False
        last = max(self.position[i] for i in above if i.op.takes_epilogue)
        below = ins
        while len(below.users) == 1 and isinstance((user := next(iter(below.users))).op, Pointwise):
            others = (i for i in user.inputs if i is not below and (i in self.epilogues or i.op.takes_epilogue))
            if any(self.position[a] > last for i in others for a in (i, *self._above(i)) if a.op.takes_epilogue):
                return True
            below = user
        return False

    def _above(self, ins: Instruction) -> Iterator[Instruction]:
        """The products of whose epilogue `ins` may be a part, and what is between."""
        for i in ins.inputs:
            if i.op.takes_epilogue or i in self.epilogues:
                yield i
            if i in self.epilogues:
                yield from self._above(i)

    def _grow(
        self, root: Instruction, unfit: Callable[[Instruction], str | None]
    ) -> tuple[list[Instruction], dict[Instruction, str]]:
        """The root and whatever fits and only members use, converts that widen apart; and why others are none.

        Candidates are looked at from the last to the first, so that all users of each are decided by then. A group
        holds MOST at most: a kernel's operands are counted, and compilers take long over what is longer.
        """
        refused: dict[Instruction, str] = {}
        inside = {root}
        queued = {root}
        heap: list[tuple[int, Instruction]] = []

        def push_inputs(ins: Instruction) -> None:
            for i in ins.inputs:
                if i not in queued and i.owner is self.module:
                    queued.add(i)
                    heapq.heappush(heap, (-self.position[i], i))

        push_inputs(root)
        while heap and len(inside) < MOST:
            _, ins = heapq.heappop(heap)
            why = unfit(ins)
            if why is None and not (widens(ins) or all(u in inside for u in ins.users)):
                why = Refuse("its result is used outside the kernel too")
            if why is None:
                inside.add(ins)
                push_inputs(ins)
            elif why:
                refused[ins] = why
        if heap:
            refused |= {ins: Refuse("the kernel is full") for _, ins in heap if unfit(ins) is None}
        return sorted(inside, key=self.position.__getitem__), refused


def inner(ins: Instruction) -> bool:
    """Whether all users might be in one kernel with it."""
    return all(isinstance(u.op, (Pointwise, Reduction, Multibroadcast)) for u in ins.users)


def widens(ins: Instruction) -> bool:
    """A convert to a larger type: cheaper to repeat in each user than to store."""
    return ins.name == "convert" and _bytes(ins) > _bytes(ins.inputs[0])


def _bytes(ins: Instruction) -> int:
    """Of an element."""
    return ins.shape.numpy_dtype.itemsize


def _is_biased(ins: Instruction) -> bool:
    """A product and a bias."""
    return ins.name == "add" and {i.name == "multibroadcast" or i.op.takes_epilogue for i in ins.inputs} == {True}


def _repeated(ins: Instruction) -> bool:
    """A convert that several users do for themselves: no epilogue computes what is behind it for all of them."""
    return widens(ins) and len(ins.users) > 1


def body_names(module: Module, stem: str) -> Iterator[str]:
    """Names for new bodies that no module argument of this module has: main:pointwise0, ..."""
    used = {m.name for ins in module for m in ins.modules}
    return (name for n in count() if (name := f"{module.name}:{stem}{n}") not in used)


def body_of(group: Group, name: str) -> Module:
    """The members as a module of their own, with a parameter for each input of the group.

    In a pointwise body everything is one element; round a reduction everything has its own lens.
    """
    body = Module(name)
    b = Builder(body)
    env: dict[Instruction, Instruction] = {}
    for n, i in enumerate(group.inputs):
        shape = i.shape if group.space else Shape(i.shape.type, (1,), (0,))
        env[i] = body.add_parameter(f"x{n}", shape)
    for ins in group.members:
        inputs: list[Instruction] = []
        for i in ins.inputs:
            if i not in env:
                value = np.asarray(scalar_of(i)).astype(i.shape.numpy_dtype)
                env[i] = body.add_literal(np.broadcast_to(value, (1,)))
            inputs.append(b.broadcast_to(env[i], i.shape.lens) if group.space else env[i])
        env[ins] = body.add_instruction(ins.op, inputs, origin=ins.origin)
    body.add_return([env[group.root]])
    return body


def put(module: Module, group: Group, name: str, body: Module, **attributes: object) -> None:
    """The fused operator `name` in the place of the group's root."""
    b = Builder(module, before=group.root, origin=group.root.origin)
    fused = b.instruction(name, group.inputs, [body], **attributes)
    substitute(group.root, fused)
    remove_unused(module, [group.root])

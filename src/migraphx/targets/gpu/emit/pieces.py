"""The tiles that a program takes its rows in, and rows that begin and end between vectors of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from migraphx.ir.module import Instruction
from migraphx.ir.size import is_open
from migraphx.targets.common.body import Scope
from migraphx.targets.common.stages import FusedReduction
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import VECTOR, aligned
from migraphx.targets.gpu.emit.plans import SHORT


@dataclass
class Piece:
    """A tile across: statements, and values that differ within a row.

    `tag` sets the names of its elements apart. `masked`: some lanes have no element. `width`: of its text. `ends`: it
    has the elements before and behind the whole vectors. `keep`: of its loads, as `load_text` says.
    """

    scope: Scope
    tag: str = ""
    width: str = "COLS"
    masked: bool = False
    ends: bool = False
    keep: str = ""
    done: dict[Instruction, str] = field(default_factory=dict[Instruction, str])


def whole_vectors(found: FusedReduction, reads: Sequence[View], write: View) -> int:
    """Elements of the widest vector in which all that differs within and among rows may be moved; 0: none.

    Where all views that have elements of their own for each row lie alike, and the compiler would not find vectors by
    itself, which it does where 16 divides lengths and strides. Short rows of 4 bytes and more are as fast element by
    element where some begin or end between vectors.
    """
    kept, reduced = found.kept, found.reduced
    length = prod(reduced.lens)
    if is_open((*kept.lens, *reduced.lens)) or kept.rank > 1 or reduced.rank > 1:
        return 0
    views = (*reads, write)
    own = [k for k in range(len(views)) if kept.strides[k][0] and reduced.strides[k][0]]
    if not own or any(reduced.strides[k][0] != 1 or not aligned(views[k]) for k in own):
        return 0
    vector = VECTOR // min(views[k].itemsize for k in own)
    numbers = [length, *(kept.strides[k][0] for k in own)]
    between = any(n % vector for n in numbers)
    if (
        length < 2 * vector
        or len({n % vector for n in numbers[1:]}) > 1
        or (between and vector <= 4 and length <= SHORT)
    ):
        return 0
    return vector if any(n % 16 for n in numbers) else 0


@dataclass(frozen=True)
class Ends:
    """Of rows `step` elements apart: every `period`th begins alike; whole vectors of a row, at least and at most."""

    vector: int
    period: int
    least: int
    most: int
    step: int
    own: tuple[int, ...]  # views
    none: bool  # rows begin and end with vectors

    @classmethod
    def of(cls, found: FusedReduction, vector: int) -> Ends:
        held = [*enumerate(zip(found.kept.strides, found.reduced.strides, strict=True))]
        own = tuple(k for k, (kept, reduced) in held if kept[0] and reduced[0])
        step = found.kept.strides[own[0]][0] % vector
        period, length = vector // gcd(vector, step) if step else 1, prod(found.reduced.lens)
        whole = [(length - -row * step % vector) // vector * vector for row in range(period)]
        return cls(vector, period, min(whole), max(whole), step, own, not step and whole == [length])

    def lines(self, length: str) -> list[str]:
        """How many elements are before the whole vectors, how many are in them."""
        v = self.vector
        before = f"({v} - beside * {self.step} % {v}) % {v}" if self.step else "0"
        return [f"before = {before}", f"whole = ({length} - before) // {v} * {v}"]

    def last_lines(self, length: str, width: int) -> list[str]:
        """The tile of the elements before and behind the whole vectors."""
        v = self.vector
        return [
            f"at_e = tl.arange(0, {width})[None, :]",
            f"ce = tl.where(at_e < {v}, at_e, before + whole + at_e - {v})",
            f"inside_ce = tl.where(at_e < {v}, at_e < before, (ce < {length}) & (at_e < {2 * v}))",
            "ce0 = ce",
        ]

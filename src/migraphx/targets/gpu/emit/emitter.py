"""What the shared lowerings ask of target gpu."""

from __future__ import annotations

from dataclasses import dataclass, field

from migraphx.ir.module import Instruction, Module
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.choices import Choices
from migraphx.targets.gpu.emit.also import Finished
from migraphx.targets.gpu.emit.chained import Link
from migraphx.targets.gpu.emit.indexing import gather_call
from migraphx.targets.gpu.emit.pointwise import copy_call, pointwise_call
from migraphx.targets.gpu.emit.rows import Row
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.library import LibraryCall

Sums = tuple[Instruction, View, View, View, GpuCall | LibraryCall]


@dataclass(frozen=True)
class TritonEmitter:
    """The Emitter of target gpu.

    `choices`: what its products know of the device. `finished`: calls that can store more, by what they write.
    `rows`, `bodies`: norms of one row, and bodies of one operand (None: copies, and pixels that are there several
    times), which who reads them may compute for himself, with their calls, by what those write. `sums`, `gates`:
    likewise products without an epilogue that a convolution may compute, or a product of the same rows: whose,
    operands, what they write. `links`: products that may multiply what they make again, by what they write. `needless`:
    calls whose results are read where they come from.
    """

    choices: Choices = field(default_factory=Choices)
    finished: dict[Buffer, Finished] = field(default_factory=dict[Buffer, Finished])

    rows: dict[Buffer, tuple[Row, GpuCall]] = field(default_factory=dict[Buffer, "tuple[Row, GpuCall]"])
    bodies: dict[Buffer, tuple[Module | None, GpuCall]] = field(
        default_factory=dict[Buffer, "tuple[Module | None, GpuCall]"]
    )
    needless: list[GpuCall] = field(default_factory=list[GpuCall])
    sums: dict[Buffer, Sums] = field(default_factory=dict[Buffer, "Sums"])
    gates: dict[Buffer, Sums] = field(default_factory=dict[Buffer, "Sums"])
    links: dict[Buffer, Link] = field(default_factory=dict[Buffer, Link])

    copy = staticmethod(copy_call)
    pointwise = staticmethod(pointwise_call)
    gather = staticmethod(gather_call)

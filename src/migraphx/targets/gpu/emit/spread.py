"""Norms over places and runs of channels, such as group norms of channels-last images, in three short kernels.

The elements of a norm are runs side by side, place after place: a tile of places and neighbouring channels, whose norms
it is, is whole vectors of memory. One kernel has the mean and the spread of each channel in a part of the places, a
second joins those of each norm's channels, a third applies them. Parts are joined as by Chan, Golub, LeVeque: Updating
Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open
from migraphx.targets.common.body import Scope, apply
from migraphx.targets.common.stages import FusedReduction
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import load_text, reading_of, store_text
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import MOST_BESIDE, WIDE, blocks, power_of_two, span
from migraphx.targets.gpu.kernel import GpuCall

LEAST = 8192  # elements of a norm, below which one program holds it
MOST_RUN = 512  # channels of a norm
LANES = 64  # channels of a tile
PLACES = 32  # of a tile of a part, which has several of large images
MOST_PARTS = 256
APPLIED, LARGE = 16, 64  # places of a tile that the last kernel takes; of images of several tiles a part


def is_side_by_side(found: FusedReduction) -> bool:
    """Whether rows lie as a group norm's of channels-last images, and are long."""
    kept, reduced, lead = found.kept, found.reduced, found.lead
    if is_open((*kept.lens, *reduced.lens)) or not found.full_output or reduced.rank != 2 or kept.rank > 2:
        return False
    run, places = reduced.lens[-1], reduced.lens[0]
    apart = (kept.strides[lead][-1], reduced.strides[lead][-1]) == (run, 1) and 1 < run <= MOST_RUN
    narrow = not any(span(v) > WIDE or v.moves for v in found.views)
    if max(prod(kept.lens[:-1]), blocks(kept.lens[-1] * run, LANES)) > MOST_BESIDE:
        return False
    return apart and narrow and run * places >= LEAST


def spread_calls(
    found: FusedReduction, mean: Instruction, spread: Instruction, temporary: Callable[[Shape], View], label: str,
    origin: str,
) -> list[GpuCall]:  # fmt: skip
    """The calls of a fused reduction whose reductions are a `mean` and the mean of squares about it, `spread`."""
    groups, images = found.kept.lens[-1], prod(found.kept.lens[:-1])
    run, places = found.reduced.lens[-1], found.reduced.lens[0]
    tiles = blocks(places, PLACES * MOST_PARTS)
    parts = blocks(places, PLACES * tiles)
    sums, squares = (temporary(Shape("float", (images, parts, groups * run))) for _ in range(2))
    means, spreads = (temporary(Shape("float", (images, groups))) for _ in range(2))
    return [
        _Tile(found, PLACES, tiles).parts(mean.inputs[0], sums, squares, label, origin),
        _join(sums, squares, means, spreads, (run, places, PLACES * tiles), label, origin),
        _Tile(found, APPLIED if tiles == 1 else LARGE).applied({mean: means, spread: spreads}, label, origin),
    ]


@dataclass
class _Tile:
    """The text of a kernel whose programs have `tiles` times `height` places of LANES channels."""

    found: FusedReduction
    height: int
    tiles: int = 1
    shell: Shell = field(default_factory=Shell)
    names: dict[Instruction, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reading = reading_of(self.found.module)
        self.groups, self.images = self.found.kept.lens[-1], prod(self.found.kept.lens[:-1])
        self.run, self.places = self.found.reduced.lens[-1], self.found.reduced.lens[0]
        self.channels = self.groups * self.run
        self.pointers = [self.shell.pointer(v) for v in self.found.views[:-1]]
        lines, size = self.shell.lines, self.shell.size
        run = size(self.run, loose=True)
        lines += [
            "part, block, image = tl.program_id(0), tl.program_id(1), tl.program_id(2)",
            f"lane = (block * {LANES} + tl.arange(0, {LANES}))[None, :]",
            f"group, element = lane // {run}, lane % {run}",
        ]
        whole = self.height * self.tiles
        self.whole_lanes, self.whole_places = self.channels % LANES == 0, self.places % whole == 0
        lines += [] if self.whole_lanes else [f"inside_l = lane < {size(self.channels, fine=True)}"]
        self.of_tile = lines if self.tiles == 1 else list[str]()  # of each
        self.scope = Scope(self.reading, self.of_tile)
        at = "part" if self.tiles == 1 else f"(part * {size(self.tiles, loose=True)} + tile)"
        self.of_tile += [
            f"begin = {at} * {self.height}",
            f"place = (begin + tl.arange(0, {self.height}))[:, None]",
        ]
        self.of_tile += [] if self.whole_places else [f"inside_p = place < {size(self.places, loose=True)}"]
        self.of_tile += [] if self.whole_lanes or self.whole_places else ["inside = inside_l & inside_p"]

    def parts(self, value: Instruction, sums: View, squares: View, label: str, origin: str) -> GpuCall:
        """Of each channel and part the sum of a value, and the squares of what differs from its mean."""
        scope, mask = self.scope, self._mask(True, True)
        text, size = self._value(value), self.shell.size
        left = f"tl.maximum(tl.minimum({size(self.places, loose=True)} - begin, {self.height}), 0).to(tl.float32)"
        count = f"{self.height}.0" if self.whole_places else scope.bind(left)  # the last part's tile may have none
        kept = scope.bind(f"tl.where({mask}, {text}, 0)") if mask else text
        total = scope.bind(f"tl.sum({kept}, 0, keep_dims=True)")
        apart = scope.bind(f"{text} - {total} / tl.maximum({count}, 1)")
        apart = scope.bind(f"tl.where({mask}, {apart}, 0)") if mask else apart
        square = scope.bind(f"tl.sum({apart} * {apart}, 0, keep_dims=True)")
        if self.tiles > 1:
            total, square = self._joined(total, square, count)
        at = f"(image * tl.num_programs(0) + part) * {size(self.channels, fine=True)} + lane"
        for view, name in ((sums, total), (squares, square)):
            stored = store_text(self.shell.pointer(view), "float", f"({at})", name, self._mask(False, True))
            self.shell.lines.append(stored)
        return self._call("spread", label, origin, 2)

    def _joined(self, total: str, square: str, count: str) -> tuple[str, str]:
        """Lines that go through the part's tiles; the names of the sum and of the squares of them all."""
        tile = [
            *self.of_tile,
            f"differs = {total} / tl.maximum({count}, 1) - sums / tl.maximum(seen, 1)",
            f"squares += {square} + differs * differs * (seen * {count} / (seen + {count}))",
            f"sums += {total}",
            f"seen += {count}",
        ]
        self.shell.lines += [
            f"seen = tl.zeros([1, {LANES}], tl.float32)",
            f"sums, squares = tl.zeros([1, {LANES}], tl.float32), tl.zeros([1, {LANES}], tl.float32)",
            f"for tile in range({self.shell.size(self.tiles, loose=True)}):",
            *(f"    {line}" for line in tile),
        ]
        return "sums", "squares"

    def applied(self, given: dict[Instruction, View], label: str, origin: str) -> GpuCall:
        """The output, from what the reductions are."""
        at = f"(image * {self.shell.size(self.groups, loose=True)} + group)"
        for ins in self.found.number:  # all loads at once
            self._value(ins)
        for ins, view in given.items():
            self.names[ins] = self.scope.bind(load_text(self.shell.pointer(view), "float", at, self._mask(False, True)))
        value, write = self._value(self.found.module.outputs[0]), self.found.views[-1]
        out, where = self.shell.pointer(write), f"({self._offset(self.found.out)})"
        self.scope.lines.append(store_text(out, write.type, where, value, self._mask(True, True)))
        return self._call("norm", label, origin, 1)

    def _call(self, name: str, label: str, origin: str, writes: int) -> GpuCall:
        grid = (blocks(self.places, self.height * self.tiles), blocks(self.channels, LANES), self.images)
        warps = max(1, self.height * LANES // 1024)
        return self.shell.call(name, grid, {}, warps, 1, label, origin, writes)

    def _value(self, ins: Instruction) -> str:
        known = self.names.get(ins)
        if known:
            return known
        if ins in self.found.number:
            k = self.found.number[ins]
            (place, element), view = self.found.reduced.strides[k], self.found.views[k]
            mask = self._mask(bool(place), bool(element) or any(self.found.kept.strides[k]))
            text = self.scope.bind(load_text(self.pointers[k], view.type, f"({self._offset(k)})", mask))
        elif isinstance(ins.op, Literal):
            text = self.scope.bind(self.reading.literal(ins))
        else:
            text = apply(ins, [self._value(i) for i in ins.inputs], self.scope)
        self.names[ins] = text
        return text

    def _mask(self, down: bool, across: bool) -> str:
        down, across = down and not self.whole_places, across and not self.whole_lanes
        return {(True, True): "inside", (True, False): "inside_p", (False, True): "inside_l"}.get((down, across), "")

    def _offset(self, k: int) -> str:
        """Where view k has its elements of the tile: of its shape, less dimensions along which it stays."""
        kept, (place, element), view = self.found.kept.strides[k], self.found.reduced.strides[k], self.found.views[k]
        group, image = kept[-1], kept[0] if len(kept) > 1 else 0
        terms = [("image", image), ("place", place)]
        terms += [("lane", element)] if group == self.run * element else [("group", group), ("element", element)]
        texts = [n if s == 1 else f"{n} * {self.shell.stride(s, view)}" for n, s in terms if s]
        return " + ".join(texts) or "0"


def _join(
    sums: View, squares: View, means: View, spreads: View, sizes: tuple[int, int, int], label: str, origin: str
) -> GpuCall:
    """The mean of each norm's elements, and the mean of squares about it, from those of its channels' parts.

    `sizes`: channels of a norm, places, and those of a part.
    """
    shell, (images, parts, channels), (run, places, of_part) = Shell(), sums.lens, sizes
    s, q = shell.pointer(sums), shell.pointer(squares)
    wide, high = power_of_two(run), power_of_two(parts)
    total, runs, each = (shell.size(n, loose=True) for n in (parts, run, of_part))
    shell.lines += [
        "group, image = tl.program_id(0), tl.program_id(1)",
        f"part, element = tl.arange(0, {high})[:, None], tl.arange(0, {wide})[None, :]",
        f"inside = (part < {total}) & (element < {runs})",
        f"at = (image * {total} + part) * {shell.size(channels, fine=True)} + group * {runs} + element",
        f"total, square = tl.load({s} + at, inside, 0), tl.load({q} + at, inside, 0)",
        f"places = {shell.size(places, loose=True)}",
        f"count = tl.maximum(tl.minimum(places - part * {each}, {each}), 1).to(tl.float32)",
        f"whole = (places * {runs}).to(tl.float32)",
        "mean = tl.sum(tl.sum(total, 0), 0) / whole",
        "apart = tl.where(inside, total / count - mean, 0)",
        "spread = tl.sum(tl.sum(square + apart * apart * count, 0), 0) / whole",
        f"to = image * {shell.size(channels // run, loose=True)} + group",
    ]
    for view, name in ((means, "mean"), (spreads, "spread")):
        shell.lines.append(f"tl.store({shell.pointer(view)} + to, {name})")
    warps = max(1, min(8, high * wide // 256))
    return shell.call("join", (channels // run, images, 1), {}, warps, 1, label, origin, 2)

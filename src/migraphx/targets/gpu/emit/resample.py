"""Calls that resample images, and that normalise over neighbouring channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migraphx.targets.common.views import Loops, View
from migraphx.targets.gpu.emit.body import compute_type, load_text, pointer_type, store_text
from migraphx.targets.gpu.emit.indexing import as_bits
from migraphx.targets.gpu.emit.scalar import constant_text
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.tiles import SHORT_ROW, Numbers, Tiles, is_wide, pointer_marks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch

BLOCK = 1024  # elements of a program
UNROLLED = 4  # taps along an axis whose loop is none


def _walk(read: View, write: View, apart: Sequence[int]) -> Tiles:
    """Over the written view in memory order; dimensions stay apart, and of `apart` the read view has no stride."""
    lens = write.lens
    order = sorted(range(len(lens)), key=lambda d: (-abs(write.strides[d]), d))
    strides = tuple(0 if d in apart else read.strides[d] for d in order), tuple(write.strides[d] for d in order)
    nest = Loops(tuple(lens[d] for d in order), strides)
    inner = nest.lens[-1] if order else 1
    if order and order[-1] not in apart and inner >= SHORT_ROW and len(order) > 1:
        width = min(power_of_two(inner), BLOCK)
        return Tiles(nest, (), tuple(range(nest.rank - 1)), (nest.rank - 1,), max(1, BLOCK // width), width)
    return Tiles(nest, (), (), tuple(range(nest.rank)), 1, BLOCK)


class _Text:
    """A kernel that computes each element of `write` from some of `reads[0]`."""

    def __init__(self, reads: Sequence[View], write: View, apart: Sequence[int]) -> None:
        self.reads, self.write = reads, write
        self.walk = _walk(reads[0], write, apart)
        self.order = sorted(range(len(write.lens)), key=lambda d: (-abs(write.strides[d]), d))
        self.numbers = Numbers(len(reads) + 1, is_wide([reads[0], write]))
        self.lines = self.walk.head(self.numbers)
        whole = " + 0 * r + 0 * c" if self.walk.rows else " + 0 * c"
        self.mask = "inside" if self.walk.rows else "inside_c"
        self.lines.append(f"base = {self.walk.offset(0, self.numbers)}{whole}")
        self.place = f"({self.walk.offset(1, self.numbers)}{whole})"

    def digit(self, d: int) -> str:
        """Where an element lies along dimension d."""
        return f"d{self.order.index(d)}"

    def stride(self, d: int) -> str:
        return self.numbers.name(("read", d), self.reads[0].strides[d])

    def call(self, name: str, label: str, origin: str) -> GpuCall:
        views = (*self.reads, self.write)
        constants = (("ROWS", self.walk.height), ("COLS", self.walk.width))[0 if self.walk.rows else 1 :]
        arguments = [
            *(f"p{k}" for k in range(len(self.reads))),
            "out",
            *(f"n{k}" for k in range(len(self.numbers.values))),
        ]
        head = ", ".join([*arguments, *(f"{c}: tl.constexpr" for c, _ in constants)])
        text = f"@triton.jit\ndef {name}({head}):\n" + "".join(f"    {line}\n" for line in self.lines)
        pointers = tuple(pointer_type(v.type) for v in views)
        marks = pointer_marks(views, [True] * len(views))
        divisible = (*marks, *self.numbers.divisible)
        kernel = Kernel(name, complete(text), (*pointers, *self.numbers.types), constants, divisible)
        grid = (self.walk.programs, 1, 1)
        numbers = tuple(self.numbers.values)
        return GpuCall(Launch(kernel, grid), tuple(self.reads), (self.write,), numbers, label, origin)


def pick_call(read: View, indices: Mapping[int, View], write: View, origin: str) -> GpuCall:
    """The nearest element: along each dimension of `indices` {out, 1} at the index, else at the same place."""
    text = _Text([as_bits(read), *indices.values()], as_bits(write), [*indices])
    terms = ["base"]
    for k, d in enumerate(indices, 1):
        text.lines.append(f"i{d} = tl.load(p{k} + {text.digit(d)}, {text.digit(d)} < {_length(text, d)}, 0)")
        terms.append(f"i{d} * {text.stride(d)}")
    loaded = load_text("p0", text.reads[0].type, f"({' + '.join(terms)})", text.mask)
    text.lines.append(store_text("out", text.write.type, text.place, loaded, text.mask))
    return text.call("resize_nearest", "resize", origin)


def resize_call(read: View, taps: Mapping[int, tuple[View, View]], write: View, origin: str) -> GpuCall:
    """The sum of weight * element over the taps of each dimension: indices and weights {out, taps}."""
    views = [v for pair in taps.values() for v in pair]
    text = _Text([read, *views], write, [*taps])
    type = "double" if read.type == "double" else "float"
    text.lines.append(f"sum = tl.zeros_like(base).to({compute_type(type)})")
    indent, terms, weights = "", ["base"], []
    for n, (d, (index, _)) in enumerate(taps.items()):
        count = index.lens[1]
        where = f"{text.digit(d)} * {count} + t{d}"
        mask = f"{text.digit(d)} < {_length(text, d)}"
        text.lines.append(f"{indent}for t{d} in {'tl.static_range' if count <= UNROLLED else 'range'}({count}):")
        indent += "    "
        text.lines.append(f"{indent}i{d} = tl.load(p{2 * n + 1} + ({where}), {mask}, 0)")
        text.lines.append(f"{indent}w{d} = tl.load(p{2 * n + 2} + ({where}), {mask}, 0)")
        terms.append(f"i{d} * {text.stride(d)}")
        weights.append(f"w{d}")
    loaded = load_text("p0", read.type, f"({' + '.join(terms)})", text.mask, "0")
    text.lines.append(f"{indent}sum += {' * '.join(weights)} * {loaded}")
    text.lines.append(store_text("out", write.type, text.place, f'convert(sum, "{write.type}")', text.mask))
    return text.call("resize", "resize", origin)


def _length(text: _Text, d: int) -> str:
    """How long the written view is along a dimension: beyond its end a tile has no element."""
    return text.numbers.name(("length", d), text.write.lens[d], False)


def lrn_call(read: View, write: View, size: int, alpha: float, beta: float, bias: float, origin: str) -> GpuCall:
    """x / (bias + alpha / size * the sum of squares over `size` neighbouring channels)^beta; channels: dimension 1."""
    text = _Text([read], write, [1])
    type = compute_type("double" if read.type == "double" else "float")
    channel, channels, stride = text.digit(1), _length(text, 1), text.stride(1)

    def element(at: str, mask: str) -> str:
        return f"{load_text('p0', read.type, f'(base + {at} * {stride})', mask, '0')}.to({type})"

    text.lines += [
        f"sum = tl.zeros_like(base).to({type})",
        f"for k in range({size}):",
        f"    near = {channel} + (k - {(size - 1) // 2})",
        f"    value = {element('near', f'{text.mask} & (near >= 0) & (near < {channels})')}",
        "    sum += value * value",
        f"value = {element(channel, text.mask)}",
        f"power = scalar_pow({constant_text(bias, type)} + sum * {constant_text(alpha / size, type)}, "
        f"{constant_text(beta, type)})",
    ]
    result = f'convert(scalar_div(value, power), "{write.type}")'
    text.lines.append(store_text("out", write.type, text.place, result, text.mask))
    return text.call("lrn", "lrn", origin)

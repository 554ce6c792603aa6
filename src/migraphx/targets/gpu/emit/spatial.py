"""Convolutions and pooling with their epilogues: shells round kernels/convolution.py and kernels/pooling.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from migraphx.ir.module import Module
from migraphx.ir.size import divides, is_open
from migraphx.targets.common.body import Scope, pointwise_body
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.convolutions import LINED
from migraphx.targets.gpu.costs.products import thirds
from migraphx.targets.gpu.emit.body import TRITON, compute_type, load_text, reading_of, store_text
from migraphx.targets.gpu.emit.contract import (
    BYTES,
    Beside,
    Fetched,
    add_parts_call,
    ask_for_columns,
    assume_some,
    before_sums,
    finish,
    function_name,
    kind_of,
    part_of_depth,
    sums_type,
    to_part,
)
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import WIDE, span
from migraphx.targets.gpu.kernel import GpuCall

UNROLLED_TAPS = 49  # of a depthwise window, at most, that become straight code
PADDED = 512  # pixels of a program that copies them
EXACT = 1 << 24  # up to which float has all whole numbers


@dataclass(frozen=True)
class Upsampled:
    """Along the last two axes each pixel becomes `times` pixels of the output: phases, which have weights of their own.

    The windows of phase p along an axis begin (p + late) // times pixels later than those of the first.
    """

    times: tuple[int, ...]
    late: tuple[int, ...]

    @property
    def phases(self) -> int:
        return prod(self.times)


@dataclass(frozen=True)
class Conv:
    """A convolution of `x` {N, C, spatial...}, channels last, with weights {OC, taps, w_tap}, w_tap >= C / group.

    `tight` makes the same weights without gaps, as libraries take them, where `w` has some. `upsampled`: the weights
    are {phases x OC, taps, w_tap}, and the output has so many pixels for each that the window has.
    """

    x: View
    w: View
    window: Window
    group: int
    tight: Callable[[], View] | None = None
    upsampled: Upsampled | None = None

    @property
    def at_hand(self) -> Conv:
        """The same with the lengths at hand for those that are open."""
        return replace(self, x=self.x.at_hand, window=self.window.at_hand)

    @property
    def taps(self) -> int:
        return prod(self.window.kernel)

    @property
    def pixel(self) -> int:
        """Elements from one pixel to the next."""
        return self.x.strides[-1]

    @property
    def channels(self) -> int:
        """Of a group, in the input."""
        return self.x.lens[1] // self.group

    @property
    def rows(self) -> int:
        return self.x.lens[0] * prod(self.window.out)

    @property
    def matrices(self) -> int:
        """Products of matrices that it is: of its groups, or of its phases."""
        return self.group * (self.upsampled.phases if self.upsampled else 1)

    @property
    def columns(self) -> int:
        """Of a group, in the output."""
        return self.w.lens[0] // self.matrices

    @property
    def line(self) -> int:
        """How many numbers of a window's row follow each other in memory; 0 where they do not."""
        follow = self.group == 1 and self.pixel == self.channels and self.window.dilation[2] == 1
        return self.window.kernel[2] * self.channels if follow else 0

    @property
    def inside(self) -> bool:
        """Whether no window leaves its image, whatever sizes are open."""
        w = self.window
        axes = zip(w.size, w.out, w.kernel, w.stride, w.dilation, w.pad, strict=True)
        return not is_open((*w.size, *w.out)) and all(
            pad == 0 and (out - 1) * stride + (kernel - 1) * dilation < size
            for size, out, kernel, stride, dilation, pad in axes
        )

    @property
    def short(self) -> bool:
        """Whether sums are of 8-bit integers, and so few that floats hold them exactly."""
        bytes_ = [v.type for v in (self.x, self.w) if v.type in BYTES]
        most = prod(128 if type == "int8" else 255 for type in bytes_)
        return len(bytes_) == 2 and self.taps * self.channels * most <= EXACT

    def steps(self, config: Config) -> int:
        """Of the depth: a tile's each."""
        if config.kernel == "rows" or (config.kernel == LINED and self.window.kernel[2] > 1):
            return self.window.kernel[0] * self.window.kernel[1]
        if config.kernel == "flat":
            return -(-self.taps * self.channels // config.k)
        return self.taps * -(-self.channels // config.k)


def window_texts(shell: Shell, window: Window, x: View) -> dict[str, str]:
    """The window's numbers by name; those of leading axes of length 1 are constants."""
    lead, texts = 3 - (len(x.lens) - 2), {}
    for name in ("size", "out", "stride", "dilation", "pad"):
        numbers = enumerate(getattr(window, name))
        texts[name] = ", ".join(str(v) if d < lead else shell.size(v, loose=True) for d, v in numbers)
    return texts


def find_windows(shell: Shell, conv: Conv, row: str = "row") -> str:
    """A line that finds the windows of `row`; what functions of kernels/convolution.py take of them."""
    texts, found = window_texts(shell, conv.window, conv.x), "image, at0, at1, at2"
    shell.lines.append(f"{found} = corner({row}, {texts['size']}, {texts['out']}, {texts['stride']}, {texts['pad']})")
    shell.lines += [f"at{axis} += {late}" for axis, late in zip((1, 2), later(conv), strict=True) if late != "0"]
    return f"{found}, {texts['size']}, {texts['dilation']}"


def later(conv: Conv) -> tuple[str, str]:
    """How much later than those of the first the windows of a program's phase begin."""
    if conv.upsampled is None:
        return "0", "0"
    (s1, s2), (late1, late2) = conv.upsampled.times, conv.upsampled.late
    return f"(matrix // {s2} + {late1}) // {s1}", f"(matrix % {s2} + {late2}) // {s2}"


def conv_calls(
    conv: Conv, epilogue: Epilogue, config: Config, parts: View | None, label: str, origin: str,
    beside: Beside | None = None,
) -> list[GpuCall]:  # fmt: skip
    """The convolution with its epilogue, whose rows are pixels; `parts` {split, rows, OC} as for products."""
    shell = Shell()
    x, w = shell.pointer(conv.x), shell.pointer(conv.w)
    rows, cols = shell.size(conv.rows, loose=True), shell.size(conv.columns, fine=True)
    steps, each = conv.steps(config), -(-conv.steps(config) // config.split)
    count = str(steps) if config.kernel == "flat" else shell.size(steps, loose=True)
    shell.lines += [f"tiles_m, tiles_n = tl.cdiv({rows}, BM), tl.cdiv({cols}, BN)"]
    begin, end = part_of_depth(shell, config, each, count, loose=True)
    assume_some(shell, config, steps, each, begin, end)
    w_col = shell.size(conv.w.strides[0], span(conv.w) > WIDE, fine=True)
    at = find_matrix(shell, conv, w, f"{cols} * {w_col}")
    if conv.group > 1:
        shell.lines.append(f"{x} += matrix * {shell.size(conv.channels, fine=True)}")
    shell.lines += [
        f"tile_m, tile_n = tile_of({at}, tiles_m, tiles_n, GROUP)",
        "row = tile_m * BM + tl.arange(0, BM)",
        "col = tile_n * BN + tl.arange(0, BN)",
    ]
    if config.kernel == LINED and conv.channels % 8 and conv.pixel % 4 == 0:
        # neighbouring lanes load neighbouring fours, not every other one
        pixel = f"({shell.size(conv.pixel // 4, loose=True)} * 4)"
    else:
        pixel = shell.size(conv.pixel, span(conv.x) > WIDE, fine=True)
    short = config.kernel == "rows" and conv.short
    kind = "short" if short else kind_of(conv.x.type, conv.w.type, thirds(config))
    shell.lines += [f"cols_in, rows_in = col < {cols}, row < {rows}"]
    numbers = find_windows(shell, conv, f"tl.minimum(row, {rows} - 1)" if config.kernel == LINED else "row")
    first = f"{x}, {w}, {find_output(shell, conv)}, col, {rows}, {cols}, {begin}, {end}, {pixel}, {w_col}"
    if config.kernel == "convolution" and conv.group == 1 and divides(config.k, conv.channels):  # no gaps
        reach = f"({begin}) * BK", f"({end}) * BK", conv.steps(config) * config.k // config.split
        ask_for_columns(shell, config, conv.w, conv.rows, (w, cols, w_col), *reach)
    epilogue, fetched = before_sums(shell, epilogue, config, kind if conv.group == 1 else "", beside, rows, cols)
    shell.lines.append(f"acc = {_sums(shell, conv, config, first, numbers, kind)}")
    shell.lines += ["acc = acc.to(tl.int32)"] * short
    if conv.group > 1:
        shell.lines.append(f"col += matrix * {cols}")
    return finished(shell, conv, epilogue, config, parts, -(-conv.rows // config.m), label, origin, fetched)


def find_matrix(shell: Shell, conv: Conv, w: str, each: str) -> str:
    """Lines that find which of several matrices a program's is, and its weights, `each` on; the number of its tile."""
    if conv.matrices == 1:
        return "tl.program_id(0)"
    shell.lines += [
        "matrix, at = tl.program_id(0) // (tiles_m * tiles_n), tl.program_id(0) % (tiles_m * tiles_n)",
        f"{w} += matrix * {each}",
    ]
    return "at"


def find_output(shell: Shell, conv: Conv) -> str:
    """Lines that find the pixels of the output that rows of an upsampled image become; the name of those rows."""
    if conv.upsampled is None:
        return "row"
    (s1, s2), out2 = conv.upsampled.times, shell.size(conv.window.out[2], loose=True)
    shell.lines += ["source = row", f"row = phase_row(row, {out2}, matrix, {s1}, {s2})"]
    return "source"


def finished(
    shell: Shell, conv: Conv, epilogue: Epilogue, config: Config, parts: View | None, tiles_m: int, label: str,
    origin: str, fetched: Fetched | None = None,
) -> list[GpuCall]:  # fmt: skip
    """The call of a shell that has summed, and the one that adds parts of the sums up where they are split."""
    sums = sums_type(conv.x.type)
    finish(shell, epilogue if parts is None else to_part(shell, parts), sums, fetched)
    constants = {"BM": config.m, "BN": config.n, "BK": config.k, "GROUP": config.group}
    grid = (conv.matrices * tiles_m * -(-conv.columns // config.n), config.split, 1)
    name = function_name(label if config.split == 1 else "convolution part")
    call = shell.call(name, grid, constants, config.warps, config.stages, label, origin)
    return [call] if parts is None else [call, add_parts_call(parts, epilogue, sums, label, origin)]


def _sums(shell: Shell, conv: Conv, config: Config, first: str, numbers: str, kind: str) -> str:
    """The text that computes a tile's sums; `first`, `numbers`: what all functions take."""
    kernel = conv.window.kernel
    if config.kernel in ("flat", "rows"):
        name = "flat" if config.kernel == "flat" else "row"
        if name == "flat":
            planes = shell.size(conv.x.strides[0] // (prod(conv.window.size) * conv.pixel), span(conv.x) > WIDE, True)
            first += f", {planes}, {shell.stride(conv.x.strides[1], conv.x)}"
        consts = f'{conv.channels}, {kernel[0]}, {kernel[1]}, {kernel[2]}, "{kind}"'
        return f"{name}_convolution_sums({first}, {numbers}, {consts}, BK)"
    first += f", {shell.size(conv.channels, fine=True)}, {shell.size(conv.w.strides[1], fine=True)}"
    if config.kernel == LINED:
        line = shell.size(conv.window.size[2] * conv.pixel, fine=True)
        return f'lined_convolution_sums({first}, {line}, {numbers}, "{kind}", {conv.channels == config.k}, BK)'
    consts = f'{kernel[1]}, {kernel[2]}, "{kind}", {conv.channels % config.k == 0}, {conv.inside}'
    return f"convolution_sums({first}, {numbers}, {consts}, BK)"


def pad_call(x: View, image: View, before: Sequence[int], module: Module | None, origin: str) -> GpuCall:
    """`x` {N, C, H, W} into `image` {N, high, across, channels}, `before` pixels from its edges, zeros elsewhere.

    `module`: the pointwise body that makes elements of the image of those of `x`.
    """
    shell, (n, high, across, channels) = Shell(), image.lens
    p, (_, c, *size) = shell.pointer(x), x.lens
    total, h, w = (shell.size(v, loose=True) for v in (n * high * across, high, across))
    tops = [shell.size(v, loose=True) for v in (*before, *size)]
    scope = Scope(reading_of(module) if module else TRITON)
    shell.lines += [
        "pixel, channel = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)",
        f"line, at2 = pixel // {w}, pixel % {w} - {tops[1]}",
        f"image, at1 = line // {h}, line % {h} - {tops[0]}",
        f"inside = (at1 >= 0) & (at1 < {tops[2]}) & (at2 >= 0) & (at2 < {tops[3]}) & (pixel < {total})",
        f"there = inside[:, None] & (channel < {c})[None, :]",
        f"at = ({shell.at(('image', 'at1', 'at2'), (x.strides[0], *x.strides[2:]), x)})[:, None]",
        f"at += {shell.at(('channel[None, :]',), (x.strides[1],), x)}",
    ]
    value = scope.bind(load_text(p, x.type, "at", "there", "0"))
    if module is not None:
        value = pointwise_body(module, dict.fromkeys(module.parameters, value), scope)
    shell.lines += [*scope.lines, f"value = tl.where(there, {value}, 0)"]
    where = "pixel[:, None] * BN + channel[None, :]"
    stored = store_text(shell.pointer(image), image.type, where, "value", f"(pixel < {total})[:, None]")
    shell.lines.append(stored)
    constants, grid = {"BM": PADDED, "BN": channels}, (-(-n * high * across // PADDED), 1, 1)
    return shell.call("pad", grid, constants, 4, 1, "pad", origin)


def depthwise_call(conv: Conv, epilogue: Epilogue, config: Config, label: str, origin: str) -> GpuCall:
    """A convolution of each channel with its own filter; weights {taps, C}."""
    shell = Shell()
    x, w = shell.pointer(conv.x), shell.pointer(conv.w)
    channels = conv.x.lens[1]
    rows, cols = shell.size(conv.rows, loose=True), shell.size(channels, fine=True)
    kernel, kind = (
        conv.window.kernel,
        "integer" if kind_of(conv.x.type, conv.w.type) == "bytes" else kind_of(conv.x.type, conv.w.type),
    )
    pixel, tap = shell.size(conv.pixel, span(conv.x) > WIDE, fine=True), shell.size(conv.w.strides[0], fine=True)
    first = f"{x}, {w}, row, col, {rows}, {cols}, {pixel}, {tap}"
    consts = f'{kernel[0]}, {kernel[1]}, {kernel[2]}, "{kind}", {conv.taps <= UNROLLED_TAPS}'
    shell.lines += [
        f"tiles_n = tl.cdiv({cols}, BN)",
        "row = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)",
        "col = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)",
        f"cols_in, rows_in = col < {cols}, row < {rows}",
    ]
    numbers = find_windows(shell, conv)
    shell.lines.append(f"acc = depthwise_sums({first}, {numbers}, {consts})")
    finish(shell, epilogue, sums_type(conv.x.type))
    grid = (-(-conv.rows // config.m) * -(-channels // config.n), 1, 1)
    constants = {"BM": config.m, "BN": config.n}
    return shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin)


def strip_call(conv: Conv, epilogue: Epilogue, config: Config, label: str, origin: str) -> GpuCall:
    """The same for strips of `config.k` pixels that lie side by side: what windows share is loaded once."""
    shell, width, window = Shell(), config.k, conv.window
    sums = sums_type(conv.x.type)
    x, w, channels = shell.pointer(conv.x), shell.pointer(conv.w), conv.x.lens[1]
    size1, size2, out1, out2 = (shell.size(n, loose=True) for n in (*window.size[1:], *window.out[1:]))
    cols, tap = shell.size(channels, fine=True), shell.size(conv.w.strides[0], fine=True)
    pixel = shell.size(conv.pixel, span(conv.x) > WIDE, fine=True)
    stride1, stride2, pad1, pad2, dilation1 = (
        shell.size(n, loose=True) for n in (*window.stride[1:], *window.pad[1:], window.dilation[1])
    )
    each = -(-window.out[2] // width)
    strips = conv.rows // window.out[2] * each
    per_line, count = shell.size(each, loose=True), shell.size(strips, loose=True)
    of = compute_type(sums)
    shell.lines += [
        f"tiles_n = tl.cdiv({cols}, BN)",
        "strip = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)",
        "col = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)",
        f"line, first = strip // {per_line}, strip % {per_line} * {width}",
        f"at1, at2 = line % {out1} * {stride1} - {pad1}, first * {stride2} - {pad2}",
        f"image, there, cols_in = line // {out1} * {size1}, strip < {count}, col < {cols}",
        f"pw = {w} + strip[:, None] * 0 + col[None, :]",
        *(f"acc{j} = tl.zeros((BM, BN), {of})" for j in range(width)),
        f"for k1 in range({window.kernel[1]}):",
        f"    i1 = at1 + k1 * {dilation1}",
        f"    inside = there & (i1 >= 0) & (i1 < {size1})",
        f"    px = {x} + (((image + i1) * {size2} + at2) * {pixel})[:, None] + col[None, :]",
        *_strip_lines(window, width, size2, pixel, tap, of),
    ]
    head, shell.lines = shell.lines, []
    finish(shell, epilogue, sums)
    body, shell.lines = shell.lines, head
    for j in range(width):
        shell.lines += [
            f"acc, row, rows_in = acc{j}, line * {out2} + first + {j}, there & (first + {j} < {out2})", *body,
        ]  # fmt: skip
    grid = (-(-strips // config.m) * -(-channels // config.n), 1, 1)
    constants = {"BM": config.m, "BN": config.n}
    return shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin)


def _strip_lines(window: Window, width: int, size2: str, pixel: str, tap: str, of: str) -> list[str]:
    """A row of a window for all pixels of a strip: each column of the input goes to those that have it."""
    taps, stride, dilation = window.kernel[2], window.stride[2], window.dilation[2]
    lines = [f"w{k} = tl.load(pw + (k1 * {taps} + {k}) * {tap}, cols_in[None, :], 0).to({of})" for k in range(taps)]
    users: dict[int, list[tuple[int, int]]] = {}
    for j in range(width):
        for k in range(taps):
            users.setdefault(j * stride + k * dilation, []).append((j, k))
    for column, pairs in sorted(users.items()):
        i2 = f"(at2 + {column})"
        mask = f"(inside & ({i2} >= 0) & ({i2} < {size2}))[:, None] & cols_in[None, :]"
        lines.append(f"v = tl.load(px + {column} * {pixel}, {mask}, 0).to({of})")
        lines += [f"acc{j} += v * w{k}" for j, k in pairs]
    return [f"    {line}" for line in lines]

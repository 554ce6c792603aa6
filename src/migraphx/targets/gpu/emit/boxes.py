"""Convolutions whose tiles are boxes of pixels, which the hardware's own copies fetch with zeros round the images."""

from __future__ import annotations

from math import prod

from migraphx.ir.size import divides, is_open
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.convolutions import box_of, boxes
from migraphx.targets.gpu.emit.contract import ask_for_columns, assume_some, before_sums, part_of_depth
from migraphx.targets.gpu.emit.described import LINE, MOST_LENGTH
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.spatial import Conv, find_matrix, find_output, finished, later
from migraphx.targets.gpu.kernel import GpuCall


def has_boxes(conv: Conv) -> bool:
    """Whether tensor descriptors can be made of the images and weights, whose windows lie side by side in a plane."""
    x, w, window = conv.x, conv.w, conv.window
    plane = window.size[0] == window.kernel[0] == 1 and set(window.stride) == {1} and conv.group == 1
    if not plane or is_open((*x.lens, *window.out)) or x.type != w.type or x.type not in ("half", "bf16"):
        return False
    begins = (x.byte_offset, w.byte_offset, *(s * x.itemsize for s in (x.strides[0], *x.strides[2:], w.strides[0])))
    aligned = all(divides(LINE, n) for n in begins) and x.strides[1] == 1 and min(x.strides) > 0
    short = max(*x.lens, w.lens[0] * w.strides[0]) < MOST_LENGTH  # 32 bits count weights
    return aligned and short and not x.moves and not w.moves


def boxes_calls(
    conv: Conv, epilogue: Epilogue, config: Config, parts: View | None, label: str, origin: str
) -> list[GpuCall]:
    """As `conv_calls`, of a convolution that `has_boxes`."""
    shell, window = Shell(), conv.window
    x, w = shell.pointer(conv.x), shell.pointer(conv.w)
    images, rows = (shell.size(n, loose=True) for n in (conv.x.lens[0], conv.rows))
    cols = shell.size(conv.columns, fine=True)  # stores are vectors
    size1, size2, out1, out2 = (shell.size(n, loose=True) for n in (*window.size[1:], *window.out[1:]))
    box = box_of(conv, config.m)
    count, (_, *across) = prod(boxes(conv, box)), boxes(conv, box)
    high, wide = (shell.size(n, loose=True) for n in across)
    steps, each = conv.steps(config), -(-conv.steps(config) // config.split)
    shell.lines.append(f"tiles_m, tiles_n = {shell.size(count, loose=True)}, tl.cdiv({cols}, BN)")
    begin, end = part_of_depth(shell, config, each, shell.size(steps, loose=True), loose=True)
    assume_some(shell, config, steps, each, begin, end)
    w_col, w_tap, channels = (shell.size(n, fine=True) for n in (*conv.w.strides[:2], conv.channels))
    at = find_matrix(shell, conv, w, f"{cols} * {w_col}")
    sizes = ", ".join(map(str, box))
    shell.lines += [
        f"tile_m, tile_n = tile_of({at}, tiles_m, tiles_n, GROUP)",
        f"image = tile_m // ({high} * {wide}) * {box[0]}",
        f"at1, at2 = tile_m // {wide} % {high} * {box[1]}, tile_m % {wide} * {box[2]}",
        f"row, rows_in = box_rows(image, at1, at2, {images}, {out1}, {out2}, {sizes})",
        "col = tile_n * BN + tl.arange(0, BN)",
        f"cols_in = col < {cols}",
    ]
    find_output(shell, conv)
    reach = f"({begin}) * BK", f"({end}) * BK", steps * config.k // config.split
    ask_for_columns(shell, config, conv.w, conv.rows, (w, cols, w_col), *reach)
    epilogue, fetched = before_sums(shell, epilogue, config, "dot", None, rows, cols)
    steps_x = ", ".join(shell.size(s, fine=True) for s in (conv.x.strides[0], *_lines(conv.x)))
    pad1, pad2, dilation1, dilation2 = (shell.size(n, loose=True) for n in (*window.pad[1:], *window.dilation[1:]))
    later1, later2 = later(conv)
    shell.lines += [
        f"at1, at2 = at1 - {pad1} + {later1}, at2 - {pad2} + {later2}",
        f"pixels = tl.make_tensor_descriptor({x}, [{images}, {size1}, {size2}, {channels}], [{steps_x}, 1], "
        f"[{sizes}, BK])",
        f"columns = tl.make_tensor_descriptor({w}, [{cols}, {w_col}], [{w_col}, 1], [BN, BK])",
        f"acc = described_convolution_sums(pixels, columns, {x}, tile_n * BN, image, at1, at2, {begin}, "
        f'{end}, {channels}, {w_tap}, {dilation1}, {dilation2}, {window.kernel[2]}, "dot", BM, BN, BK)',
    ]
    return finished(shell, conv, epilogue, config, parts, count, label, origin, fetched)


def _lines(x: View) -> tuple[int, int]:
    """From one line of a plane to the next, and from one pixel: images of one dimension are one line."""
    return (x.strides[0], x.strides[2]) if len(x.lens) == 3 else (x.strides[-2], x.strides[-1])

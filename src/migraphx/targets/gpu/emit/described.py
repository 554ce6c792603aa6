"""Large products whose tiles the hardware's own copies fetch: few programs, each goes on to the next tile."""

from __future__ import annotations

from dataclasses import replace

from migraphx.ir.size import divides, hint_of, least_of
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.products import is_tall, resident
from migraphx.targets.gpu.emit.contract import Beside, Operands, finish, function_name, kind_of, sums_type
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.facts import Facts
from migraphx.targets.gpu.kernel import GpuCall

LINE = 16  # bytes that all but the innermost strides of what is described must be multiples of
MOST_LENGTH = 1 << 31


def describable(o: Operands) -> bool:
    """Whether tensor descriptors can be made of both operands: a contiguous side, the other on whole lines."""
    return not o.batch and all(_described(v) for v in (o.a, o.b)) and o.a.strides[-1] == 1


def _described(view: View) -> bool:
    rows, columns = view.strides[-2:]
    step = max(rows, columns)
    contiguous = 1 in (rows, columns) and step >= (view.lens[-1] if columns == 1 else view.lens[-2])
    aligned = divides(LINE, view.byte_offset) and divides(LINE, step * view.itemsize)
    return contiguous and aligned and not view.moves and all(n < MOST_LENGTH for n in view.lens)


def gateable(o: Operands, beside: Beside) -> bool:
    """Whether one descriptor describes the weights of both: alike, of 16 bits, the depth of each column in turn.

    They are constants, or parts of one input: a stride of a descriptor leads from one to the other (REACH).
    """
    more = Operands.of(beside.a, beside.b)
    alike = (more.a, more.b.lens, more.b.strides, more.b.type) == (o.a, o.b.lens, o.b.strides, o.b.type)
    near = o.b.buffer is more.b.buffer or o.b.buffer.kind == more.b.buffer.kind == "weight"
    turned = o.b.strides[0] == 1 and o.a.type in ("half", "bf16")
    return alike and near and turned and describable(o) and describable(more)


def _one_matrix(shell: Shell, o: Operands, b: str, n: str, k: str, sums: str) -> tuple[list[str], list[str]]:
    """Lines that describe weights as `columns`, and that sum a tile's products: `sums`, a call that lacks its end."""
    turned = o.b.strides[-2] == 1
    step = shell.size(o.b.strides[-1 if turned else -2])
    shape, block = (f"[{n}, {k}]", "[BN, BK]") if turned else (f"[{k}, {n}]", "[BK, BN]")
    lines = [f"columns = tl.make_tensor_descriptor({b}, {shape}, [{step}, 1], {block})"]
    return lines, [f"{sums}, {turned}, BM, BN, BK)"]


def _two_matrices(
    shell: Shell, o: Operands, b: str, n: str, k: str, given: str, more: str
) -> tuple[list[str], list[str]]:
    """The same of two products: the weights that lie first in memory are described, the others behind them."""
    step = shell.size(o.b.strides[-1])
    lines = [
        f"first, apart = is_before({b}, {more}), elements_between({b}, {more})",
        f"both = tl.where(first, {b}, {more})",
        f"columns = tl.make_tensor_descriptor(both, [{n}, 2, {k}], [{step}, apart, 1], [BN // 2, 2, BK])",
    ]
    return lines, [
        f"acc, more = gated_sums({given}, BM, BN, BK)",
        "acc, more = tl.where(first, acc, more), tl.where(first, more, acc)",
    ]


def described_call(
    o: Operands, epilogue: Epilogue, config: Config, facts: Facts, label: str, origin: str, beside: Beside | None = None
) -> GpuCall:
    """The product with its epilogue by as many programs as the device holds at once.

    With `beside` (`gateable`) the columns of a tile are half of this product's and half of that one's.
    """
    shell, tall = Shell(), is_tall(config)
    a, b = shell.pointer(o.a), shell.pointer(o.b)
    m, n, k = shell.size(o.m), shell.size(o.n), shell.size(o.k)
    a_step = shell.size(o.a.strides[-2])
    width = "BN" if beside is None else "(BN // 2)"
    heights = ["(BM // 3 * 2)", "(BM // 3)"] if tall else ["BM"]
    given = f'columns, {a}, tile_m * BM, tile_n * {width}, {k}, "{kind_of(o.a.type, o.b.type)}"'
    if beside is None:
        sums = "acc, more = tall_sums(rows, below" if tall else "acc = described_sums(rows"
        described, summed = _one_matrix(shell, o, b, n, k, f"{sums}, {given}")
    else:
        described, summed = _two_matrices(shell, o, b, n, k, f"rows, {given}", shell.pointer(beside.b))
    head = [
        f"tiles_m, tiles_n = tl.cdiv({m}, BM), tl.cdiv({n}, {width})",
        *(
            f"{name} = tl.make_tensor_descriptor({a}, [{m}, {k}], [{a_step}, 1], [{height}, BK])"
            for name, height in zip(("rows", "below"), heights, strict=False)
        ),
        *described,
        "then = tl.program_id(0)",
        "for at in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):",
    ]
    shell.lines = [
        "tile_m, tile_n = tile_of(at, tiles_m, tiles_n, GROUP)",
        *summed,
        # once more: what the sums need is in registers no longer
        "tile_m, tile_n = tile_of(then, tiles_m, tiles_n, GROUP)",
        "then += tl.num_programs(0)",
        f"row, col = tile_m * BM + tl.arange(0, {heights[0]}), tile_n * {width} + tl.arange(0, {width})",
        f"rows_in, cols_in = row < {m}, col < {n}",
    ]
    left, fetched = (epilogue, None) if beside is None else beside.fetched(shell, epilogue)
    finish(shell, left, sums_type(o.a.type), fetched)
    if tall:
        shell.lines.append(f"acc, row = more, tile_m * BM + {heights[0]} + tl.arange(0, {heights[1]})")
        shell.lines.append(f"rows_in = row < {m}")
        finish(shell, epilogue, sums_type(o.a.type))
    shell.lines = [*head, *(f"    {line}" for line in shell.lines)]
    tiles = -(-o.m // config.m) * -(-o.n * (1 if beside is None else 2) // config.n)
    programs = least_of(tiles, facts.processors * resident(config, o.a.itemsize, facts))
    constants = {"BM": config.m, "BN": config.n, "BK": config.k, "GROUP": config.group}
    grid = (programs, 1, 1)
    call = shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin)
    return call if beside is None else replace(call, also=2 * hint_of(o.m) * hint_of(o.n) * hint_of(o.k))

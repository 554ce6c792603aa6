"""Large products whose tiles the hardware's own copies fetch: few programs, each goes on to the next tile."""

from __future__ import annotations

from migraphx.ir.size import divides, least_of
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.products import resident
from migraphx.targets.gpu.emit.contract import Operands, finish, function_name, kind_of, sums_type
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


def described_call(o: Operands, epilogue: Epilogue, config: Config, facts: Facts, label: str, origin: str) -> GpuCall:
    """The product with its epilogue by as many programs as the device holds at once."""
    shell, turned = Shell(), o.b.strides[-2] == 1
    a, b = shell.pointer(o.a), shell.pointer(o.b)
    m, n, k = shell.size(o.m), shell.size(o.n), shell.size(o.k)
    a_step, b_step = shell.size(o.a.strides[-2]), shell.size(o.b.strides[-1 if turned else -2])
    b_shape, b_block = (f"[{n}, {k}]", "[BN, BK]") if turned else (f"[{k}, {n}]", "[BK, BN]")
    head = [
        f"tiles_m, tiles_n = tl.cdiv({m}, BM), tl.cdiv({n}, BN)",
        f"rows = tl.make_tensor_descriptor({a}, [{m}, {k}], [{a_step}, 1], [BM, BK])",
        f"columns = tl.make_tensor_descriptor({b}, {b_shape}, [{b_step}, 1], {b_block})",
        "then = tl.program_id(0)",
        "for at in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):",
    ]
    shell.lines = [
        "tile_m, tile_n = tile_of(at, tiles_m, tiles_n, GROUP)",
        f"acc = described_sums(rows, columns, {a}, tile_m * BM, tile_n * BN, {k}, "
        f'"{kind_of(o.a.type, o.b.type)}", {turned}, BM, BN, BK)',
        # once more: what the sums need is in registers no longer
        "tile_m, tile_n = tile_of(then, tiles_m, tiles_n, GROUP)",
        "then += tl.num_programs(0)",
        "row, col = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)",
        f"rows_in, cols_in = row < {m}, col < {n}",
    ]
    finish(shell, epilogue, sums_type(o.a.type))
    shell.lines = [*head, *(f"    {line}" for line in shell.lines)]
    tiles = -(-o.m // config.m) * -(-o.n // config.n)
    programs = least_of(tiles, facts.processors * resident(config, o.a.itemsize, facts))
    constants = {"BM": config.m, "BN": config.n, "BK": config.k, "GROUP": config.group}
    name = function_name(label)
    return shell.call(name, (programs, 1, 1), constants, config.warps, config.stages, label, origin)

"""Products of one row that is a norm's: each program computes the norm for itself, which a kernel less is worth."""

from __future__ import annotations

from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.emit.contract import Operands, fetch, finish, function_name
from migraphx.targets.gpu.emit.rows import Row
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import power_of_two
from migraphx.targets.gpu.kernel import GpuCall

TILE = 8192  # elements of the weights that a program holds


def row_product_call(
    o: Operands, row: Row, epilogue: Epilogue, config: Config, label: str, origin: str
) -> GpuCall | None:
    """The product of a norm's only row and constant weights whose depth is contiguous; None where it is another."""
    constant = o.b.buffer.kind == "weight" and o.b.strides[-2] == 1
    floats = o.a.type in ("half", "bf16", "float")
    if not constant or not floats or o.batch or (o.m, o.k) != (1, row.length):
        return None
    width = power_of_two(o.k)
    columns = max(1, min(config.n, TILE // width))
    shell = Shell(functions=[row.text])
    b, n, k = shell.pointer(o.b), shell.size(o.n, loose=True), shell.size(o.k, fine=True)
    step = shell.stride(o.b.strides[-1], o.b)
    shell.lines += [
        "row, col = tl.arange(0, 1), tl.program_id(0) * BN + tl.arange(0, BN)",
        f"rows_in, cols_in = row < 1, col < {n}",
        f"first = vector_weights({b}, {n}, 0, {k}, 1, {step}, col, True, {o.k == width}, BK)",
    ]
    fetched = fetch(shell, epilogue)
    given = [*(shell.pointer(v) for v in row.reads), *(shell.size(v, row.wide) for v in row.numbers)]
    shell.lines += [
        f"x = row_of({', '.join(given)}, 1, BK)",
        "acc = tl.sum(first.to(tl.float32) * x.to(tl.float32), 1)[None, :]",
    ]
    finish(shell, epilogue, "float", fetched)
    constants, warps = {"BN": columns, "BK": width}, 4 if columns * width <= TILE // 2 else 8
    return shell.call(function_name(label), (-(-o.n // columns), 1, 1), constants, warps, 1, label, origin)

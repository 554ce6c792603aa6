"""Products with weights of 4 bits: shells round kernels/int4.py."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.emit.contract import finish, function_name
from migraphx.targets.gpu.emit.shell import WAITS, Shell
from migraphx.targets.gpu.kernel import GpuCall

CHUNK = 64  # depths that lie in 32 bytes


def int4_call(
    a: View, packed: Sequence[View], block: int, epilogue: Epilogue, config: Config, label: str, origin: str = ""
) -> GpuCall:
    """`a` {M, K}, rows contiguous, times codes, scales and perhaps zeros of N columns; `block` depths share a scale."""
    (m, k), (n, blocks) = a.lens, packed[1].lens
    shell = Shell()
    pointers = [shell.pointer(v) for v in (a, *packed)]
    if len(pointers) < 4:
        pointers.append(pointers[1])
    rows, cols, depth = shell.size(m, loose=True), shell.size(n, loose=True), shell.size(k)
    count = shell.size(blocks, loose=True)
    shell.lines += [
        f"tiles_m, tiles_n = tl.cdiv({rows}, BM), tl.cdiv({cols}, BN)",
        "tile_m, tile_n = tile_of(tl.program_id(0), tiles_m, tiles_n, GROUP)",
        "row = tile_m * BM + tl.arange(0, BM)",
        "col = tile_n * BN + tl.arange(0, BN)",
        f"rows_in, cols_in = row < {rows}, col < {cols}",
    ]
    step = shell.stride(a.strides[0], a)
    kind, constant = f"{block}, {len(packed) == 3}", packed[0].buffer.kind == "weight"
    if config.kernel == "int4 vector":
        chunks = config.k // CHUNK
        first = f"words = int4_words({pointers[1]}, {cols}, {depth}, 0, col, {chunks})"
        shell.lines += [first, *[WAITS] * constant]
        given = f"{pointers[0]} + tile_m * {step}, {pointers[1]}, words, {pointers[2]}, {pointers[3]}"
        kind = f"{kind}, {chunks}, {k <= config.k}"
        shell.lines.append(f"acc = int4_vector_sums({given}, {cols}, {depth}, {count}, col, {kind})[None, :]")
    else:
        first = f"{', '.join(pointers)}, {rows}, {cols}, {depth}, {count}, {step}"
        shell.lines.append(f"acc = int4_sums({first}, row, col, {kind})")
    finish(shell, epilogue, "float")
    constants = {"BM": config.m, "BN": config.n, "GROUP": config.group}
    grid = (-(-m // config.m) * -(-n // config.n), 1, 1)
    return shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin)

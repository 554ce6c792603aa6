"""Products back to back (CUTLASS's B2B GEMM): one kernel writes the rows of the first and multiplies them again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migraphx.ir.size import is_open
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View, loops
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.emit.body import store_line
from migraphx.targets.gpu.emit.contract import INSIDE, Operands, applied, finish, function_name
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.library import LibraryCall

MOST_HELD = 128  # numbers of a row that a program holds whole: of the first product's depth, of the second one's sums
LEAST_HELD = 16
CHUNK = 64  # columns of the first product: of a tile, or a multiple


@dataclass(frozen=True)
class Link:
    """A product with its epilogue, and the one call that computes it."""

    operands: Operands
    epilogue: Epilogue
    call: GpuCall | LibraryCall

    @property
    def rows(self) -> View | None:
        """What it writes as a matrix {rows, columns}; None where that is no matrix."""
        write, o = self.epilogue.write, self.operands
        nest = loops([write], None, self.epilogue.row_dims)
        if nest.rank > 1 or write.strides[self.epilogue.col_dim] != 1:
            return None
        return replace(write, lens=(o.m, o.n), strides=(*nest.strides[0], 1))

    @property
    def passes(self) -> int:
        """How often memory sees an element of its result: it is written, and a residual is read."""
        return 1 + sum(any(v.strides[d] for d in self.epilogue.row_dims) for v in self.epilogue.views)


def begins(o: Operands, epilogue: Epilogue) -> bool:
    """Whether a kernel can compute the product chunk by chunk: a depth that it holds whole, columns in chunks."""
    return _plain(o, epilogue) and _fits(o.k) and o.n % CHUNK == 0


def follows(first: Link, o: Operands, epilogue: Epilogue) -> bool:
    """Whether the kernel of `first` can multiply what it makes: all of it, by weights, with no other matrix beside."""
    vectors = all(not any(v.strides[d] for d in epilogue.row_dims) for v in epilogue.views)
    return vectors and _plain(o, epilogue) and _fits(o.n) and first.rows == o.a


def _plain(o: Operands, epilogue: Epilogue) -> bool:
    """Whether rows and weights are as chained kernels read them, and their products what these write."""
    write, lines = epilogue.write, o.a.strides[-1] == 1 and o.b.strides == (1, o.b.strides[1])
    whole = lines and not any(v.moves for v in (o.a, o.b, *epilogue.views, write)) and not o.batch
    known = o.a.type in ("half", "bf16") and {o.b.type, write.type} == {o.a.type}
    return whole and known and write.buffer.kind == "arena" and not is_open((o.m, *write.lens))


def _fits(length: int) -> bool:
    """Whether a program holds as many numbers of each of its rows."""
    return LEAST_HELD <= length <= MOST_HELD and length & (length - 1) == 0


def chained_call(
    first: Link, o: Operands, epilogue: Epilogue, config: Config, label: str, origin: str, flops: int
) -> GpuCall:
    """Both products by one program for so many rows; `flops`: operations of that whose place it does not take.

    It holds the rows of the first one's left side and the second one's sums, and goes through the columns between.
    """
    shell, one = Shell(), first.operands
    a, b, c = (shell.pointer(v) for v in (one.a, one.b, o.b))
    rows = shell.size(one.m, loose=True)
    a_m, b_n, c_n = (shell.stride(v.strides[d], v) for v, d in ((one.a, 0), (one.b, 1), (o.b, 1)))
    head = [
        "row = tl.program_id(0) * BM + tl.arange(0, BM)",
        f"rows_in = row < {rows}",
        f"x = whole_rows({a}, row, rows_in, {a_m}, {one.k})",
        f"sums = tl.zeros((BM, {o.n}), tl.float32)",
        f"for first in range(0, {one.n}, BN):",
    ]
    shell.lines = [
        "col = first + tl.arange(0, BN)",
        "cols_in = tl.full((BN,), 1, tl.int1)",
        f"acc = tl.dot(x, some_columns({b}, col, {b_n}, 0, {one.k}))",
    ]
    value, at = applied(shell, first.epilogue, "float")
    places = [len(shell.views)]
    made = shell.pointer(first.epilogue.write)
    shell.lines += [
        f"made = ({value}).to({made}.dtype.element_ty)",
        store_line(made, at, "made", INSIDE),
        f"sums = tl.dot(made, some_columns({c}, tl.arange(0, {o.n}), {c_n}, first, BN), sums)",
    ]
    body = [f"    {line}" for line in shell.lines]
    shell.lines = [
        f"acc, col = sums, tl.arange(0, {o.n})",
        f"cols_in = tl.full(({o.n},), 1, tl.int1)",
    ]
    finish(shell, epilogue, "float")
    places.append(len(shell.views) - 1)
    shell.lines = [*head, *body, *shell.lines]
    grid = (-(-one.m // config.m), 1, 1)
    constants = {"BM": config.m, "BN": config.n}
    call = shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin, places)
    return replace(call, also=flops)

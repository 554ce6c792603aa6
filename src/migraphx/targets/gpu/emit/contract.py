"""Products with their epilogues: shells round kernels/product.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from migraphx.ir import dtype as dtypes
from migraphx.ir.size import divides, hint_of, is_open
from migraphx.targets.common.body import Scope
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View, loops
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.products import thirds
from migraphx.targets.gpu.emit.body import (
    LINE,
    TRITON,
    compute_type,
    load_text,
    reading_of,
    store_line,
    stored_body,
    stored_text,
)
from migraphx.targets.gpu.emit.shell import WAITS, Shell
from migraphx.targets.gpu.kernel import GpuCall

BYTES = ("int8", "uint8")
FP8 = ("fp8e4m3fn", "fp8e5m2")  # that tensor cores multiply


def label_of(name: str, epilogue: Epilogue) -> str:
    return " ".join((name, *(op.name for op in epilogue.operators)))


def function_name(label: str) -> str:
    """A Python name for a label."""
    return "_".join(label.split())[:80]


def kind_of(a: str, b: str, by_thirds: bool = False) -> str:
    """How products of these types are summed, as kernels/product.py calls it."""
    if by_thirds:
        return "thirds"
    if a in BYTES and b in BYTES:
        return "bytes"
    if a in dtypes.INTEGERS:
        return "integer"
    return "exact" if a in ("float", "double") else a if a in FP8 else "dot"


def sums_type(a: str) -> str:
    """The type that sums of products have before the epilogue."""
    if a in dtypes.INTEGERS:
        return "int64" if a in ("int64", "uint64") else "int32"
    return "double" if a == "double" else "float"


# ---- epilogues ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fetched:
    """What an epilogue reads, as far as it is loaded: names by position, and where they and others are known."""

    scope: Scope
    names: dict[int, str]
    digits: list[str]


def fetch(shell: Shell, epilogue: Epilogue, begins: bool = False) -> Fetched:
    """Lines that load what the epilogue reads at rows `row` and columns `col`.

    The shell has `row` and `col`, one-dimensional, and `rows_in` and `cols_in`, which say which of them exist. Views
    are added to the shell. `begins`: the kernel has read nothing yet but weights; those that are read here come first.
    """
    nest = loops((*epilogue.views, epilogue.write), None, epilogue.row_dims)
    fetched = Fetched(
        Scope(reading_of(epilogue.module) if epilogue.module else TRITON), {}, shell.split("row", nest.lens)
    )
    strides = dict(zip(epilogue.views, nest.strides, strict=False))
    places = {
        position: (view, _place(shell, view, fetched.digits, strides[view], epilogue.col_dim), shell.pointer(view))
        for position, view in enumerate(epilogue.reads)
        if view is not None
    }
    for ahead in (True, False):
        for position, (view, place, pointer) in places.items():
            if (view.buffer.kind == "weight") == ahead:
                fetched.names[position] = fetched.scope.bind(load_text(pointer, view.type, *place))
        shell.lines += [*fetched.scope.lines, *[WAITS] * (begins and ahead)]
        fetched.scope.lines.clear()
    return fetched


MOST_HELD = 32  # elements of a tile that a thread holds beside its sums


def fetches_first(config: Config, kind: str) -> bool:
    """Whether what an epilogue reads is asked for before the sums: few numbers a thread, and slow to come.

    On an H200 that takes 1 to 2 % off images of batch 1, whose kernels are a few waits long.
    """
    held = config.m * config.n // (32 * config.warps)
    return config.split == config.tail == 1 and (kind == "bytes" or (kind == "dot" and held <= MOST_HELD))


def finish(shell: Shell, epilogue: Epilogue, sums: str, fetched: Fetched | None = None) -> None:
    """Lines that apply the epilogue to `acc`, sums of type `sums`, and store it; what it reads may be there already.

    The view that is written is the shell's last.
    """
    value, at = applied(shell, epilogue, sums, fetched)
    shell.lines.append(store_line(shell.pointer(epilogue.write), at, value, INSIDE))


def applied(shell: Shell, epilogue: Epilogue, sums: str, fetched: Fetched | None = None) -> tuple[str, str]:
    """Lines that apply the epilogue, as `finish` has it; the texts of the result and of where it is to be stored."""
    fetched = fetched or fetch(shell, epilogue)
    scope, names = fetched.scope, fetched.names
    for position, view in enumerate(epilogue.reads):
        if view is None and position not in names:
            names[position] = scope.bind(_sums(epilogue, position, sums))
    if epilogue.module is None:
        value = stored_text(_converted("acc", sums, epilogue.write.type), epilogue.write.type)
    else:
        given = {p: names[n] for n, p in enumerate(epilogue.module.parameters)}
        value = stored_body(epilogue.module, given, scope, epilogue.write.type)
    steps = loops((*epilogue.views, epilogue.write), None, epilogue.row_dims).strides[-1]
    at, _ = _place(shell, epilogue.write, fetched.digits, steps, epilogue.col_dim, whole=True)
    shell.lines += scope.lines
    return value, at


INSIDE = "rows_in[:, None] & cols_in[None, :]"


def _place(
    shell: Shell, view: View, digits: Sequence[str], steps: Sequence[int], col_dim: int, whole: bool = False
) -> tuple[str, str]:
    """The texts of a view's offsets and of its mask; `whole`: of every element even where the view is broadcast."""
    row, col = shell.at(digits, steps, view), shell.at(["col"], [view.strides[col_dim]], view)
    if whole or (row != "0" and col != "0"):
        rows = f"({row})[:, None]" if row != "0" else "row[:, None] * 0"
        return (f"{rows} + ({col})[None, :]" if col != "0" else f"{rows} + col[None, :] * 0"), INSIDE
    if row != "0":
        return f"({row})[:, None]", "rows_in[:, None]"
    return f"({col})[None, :]" if col != "0" else "col[None, :] * 0", "cols_in[None, :]"


def _sums(epilogue: Epilogue, position: int, sums: str) -> str:
    """The sums as the body's parameter at `position` takes them."""
    assert epilogue.module is not None or position == 0
    if epilogue.module is None:
        return "acc"
    return _converted("acc", sums, [*epilogue.module.parameters.values()][position].shape.type)


def _converted(text: str, have: str, want: str) -> str:
    """As the type in which `want` is computed."""
    return text if compute_type(have) == compute_type(want) else f"{text}.to({compute_type(want)})"


@dataclass(frozen=True)
class Beside:
    """A second product, {rows, K} times {K, columns}, whose sums stand for what an epilogue reads at `position`.

    So two kernels are one, and nothing is written between them.
    """

    a: View
    b: View
    position: int

    def lines(self, shell: Shell, epilogue: Epilogue, config: Config, rows: str, cols: str) -> tuple[Epilogue, Fetched]:
        """Lines that compute the sums `more` at `row` and `col`; what is left to read, and is read here."""
        a, b, depth = shell.pointer(self.a), shell.pointer(self.b), self.a.lens[1]
        k, a_m, b_n = shell.size(depth, fine=True), shell.stride(self.a.strides[0], self.a), self.b.strides[1]
        sizes = f"{rows}, {cols}, 0, {k}, {a_m}, 1, 1, {shell.stride(b_n, self.b)}, row, col"
        assume_some(shell, config, depth, depth, "0", k)
        shell.lines.append(f'more = product_sums({a}, {b}, {sizes}, "dot", True, True, {depth % config.k == 0}, BK)')
        return self.fetched(shell, epilogue)

    def fetched(self, shell: Shell, epilogue: Epilogue, begins: bool = False) -> tuple[Epilogue, Fetched]:
        """What is left to read for an epilogue that takes these sums from `more`; lines that load it (`fetch`)."""
        left = replace(epilogue, reads=tuple(None if n == self.position else v for n, v in enumerate(epilogue.reads)))
        fetched = fetch(shell, left, begins)
        fetched.names[self.position] = "more"
        return left, fetched


def before_sums(
    shell: Shell, epilogue: Epilogue, config: Config, kind: str, beside: Beside | None, rows: str, cols: str
) -> tuple[Epilogue, Fetched | None]:
    """Lines before sums of this kind: a product beside them, what the epilogue reads; the epilogue, what is known."""
    if beside is not None:
        return beside.lines(shell, epilogue, config, rows, cols)
    return epilogue, fetch(shell, epilogue, begins=True) if fetches_first(config, kind) else None


def takes_beside(config: Config) -> bool:
    """Whether a kernel has room for a second tile of sums."""
    return config.kernel in ("product", "convolution") and fetches_first(config, "dot")


# ---- products -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operands:
    """a {batch, M, K} and b {batch, K, N} with their batches as few dimensions as they merge to."""

    a: View
    b: View
    batch: tuple[int, ...]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]
    m: int
    n: int
    k: int

    @classmethod
    def of(cls, a: View, b: View) -> Operands:
        """Of a {.., M, K} and b {.., K, N} of equal batches; rows of all batches are one matrix's where b is shared."""
        (m, k), n, rank = a.lens[-2:], b.lens[-1], len(a.lens)
        shared = all(s == 0 or length == 1 for s, length in zip(b.strides[:-2], b.lens[:-2], strict=True))
        if shared:
            rows = loops([a], None, range(rank - 1))
            if rows.rank == 1:
                (step,), (total,) = rows.strides[0], rows.lens
                a = View(a.buffer, a.type, (total, k), (step, a.strides[-1]), a.offset, a.moves)
                b = View(b.buffer, b.type, (k, n), b.strides[-2:], b.offset, b.moves)
                return cls(a, b, (), (), (), total, n, k)
        nest = loops([a, b], None, range(rank - 2))
        if nest.lens == (1,):
            return cls(a, b, (), (), (), m, n, k)
        a_batch, b_batch = nest.strides
        return cls(a, b, nest.lens, a_batch, b_batch, m, n, k)

    @property
    def batches(self) -> int:
        total = 1
        for n in self.batch:
            total *= n
        return total


def product_calls(
    o: Operands, epilogue: Epilogue, config: Config, parts: View | None, label: str, origin: str,
    beside: Beside | None = None,
) -> list[GpuCall]:  # fmt: skip
    """The product with its epilogue.

    Where the depth is split, a second call adds `parts` {split, rows, N} up; where that of the last tiles is,
    {tiles, tail, BM, BN}.
    """
    sums, shell = sums_type(o.a.type), Shell()
    a, b = shell.pointer(o.a), shell.pointer(o.b)
    a_strides, b_strides = o.a.strides[-2:], o.b.strides[-2:]
    m = shell.size(o.m, loose=a_strides[0] != 1)
    n = shell.size(o.n, loose=b_strides[1] != 1 and not divides(8, o.n), fine=True)
    k = shell.size(o.k, fine=True)
    each = part_depth(o.k, config)
    begin, end = part_of_depth(shell, config, each, k)
    if config.tail > 1:
        begin, end = _last_tiles(shell, config, shell.size(each), k)
    assume_some(shell, config, o.k, each, begin, end)
    _tile(shell, o, config, m, n)
    a_m, a_k = (shell.stride(s, o.a) for s in a_strides)
    b_k, b_n = (shell.stride(s, o.b) for s in b_strides)
    if o.batch:
        digits = shell.split("batch", o.batch)
        shell.lines += [
            f"{a} += {shell.at(digits, o.a_batch, o.a)}", f"{b} += {shell.at(digits, o.b_batch, o.b)}",
        ]  # fmt: skip
    shell.lines.append(f"cols_in, rows_in = col < {n}, row < {m}")
    if config.kernel == "vector":
        given = f"{a}, {b}, first, {n}, {begin}, {end}, {a_k}, {b_k}, {b_n}, col"
        first = f"{b}, {n}, {begin}, {end}, {b_k}, {b_n}, col"
        fetched = _vector_lines(shell, o, epilogue, config, first, given)
    else:
        given = f"{a}, {b}, {m}, {n}, {begin}, {end}, {a_m}, {a_k}, {b_k}, {b_n}, row, col"
        kind = kind_of(o.a.type, o.b.type, thirds(config))
        rows = f"{a_strides[1] == 1}, {b_strides[0] == 1}, {divides(config.k, o.k)}"
        if b_strides[0] == 1 and not o.batch:
            names = b, n, shell.stride(b_strides[1], o.b)
            ask_for_columns(shell, config, o.b, o.m, names, begin, end, part_depth(o.k, config))
        epilogue, fetched = before_sums(shell, epilogue, config, "" if o.batch else kind, beside, m, n)
        shell.lines.append(f'acc = product_sums({given}, "{kind}", {rows}, BK)')
    if o.batch:
        shell.lines.append(f"row += batch * {m}")
    constants = {"BM": config.m, "BN": config.n, "BK": config.k, "GROUP": config.group}
    tiles = o.batches * -(-o.m // config.m) * -(-o.n // config.n)
    target = to_part(shell, parts) if config.split > 1 and parts is not None else epilogue
    if config.tail > 1:
        assert parts is not None
        return _tail_calls(shell, o, epilogue, config, parts, label, origin)
    finish(shell, target, sums, fetched)
    call = shell.call(
        function_name(label if config.split == 1 else label.split()[0] + " part"), (tiles, config.split, 1),
        constants, config.warps, config.stages, label, origin,
    )  # fmt: skip
    if config.split == 1:
        return [call]
    assert parts is not None
    return [call, add_parts_call(parts, epilogue, sums, label, origin)]


def _vector_lines(
    shell: Shell, o: Operands, epilogue: Epilogue, config: Config, first: str, given: str
) -> Fetched | None:
    """Lines that multiply one row; what the epilogue reads, where that is loaded before."""
    rows, even = o.b.strides[-2] == 1, divides(config.k, o.k)
    full = even and (config.split == 1 or (config.split - 1) * part_depth(o.k, config) < o.k)
    shell.lines.append(f"first = vector_weights({first}, {rows}, {full}, BK)")
    whole = not is_open(o.k) and part_depth(o.k, config) <= config.k
    constant = o.b.buffer.kind == "weight"
    if config.split == 1 and not o.batch:
        fetched = fetch(shell, epilogue, begins=constant)
    else:
        fetched = None
        shell.lines += [WAITS] * constant
    sums = "vector_step" if whole else "vector_sums"
    shell.lines.append(f"acc = {sums}({given}, {rows}, {even}, BK)[None, :]")
    return fetched


MOST_ASKED = 1024  # lines of the cache that a program asks for before it waits
MOST_BYTES = 16 << 20  # of weights, up to which that is faster on an H200
MOST_ROWS = 4096  # beyond, many programs ask for the same
NOT_COMPUTED = ("weight", "input")  # kinds of buffers that are there before the first kernel


def ask_for_columns(
    shell: Shell, config: Config, w: View, rows: int, names: tuple[str, str, str], begin: str, end: str, depth: int
) -> None:
    """A line that brings a tile's columns of `w` to the device's cache before the kernel waits, where that pays.

    `names`: of the pointer, the number of columns and the step between them, whose elements follow one another. The
    tile needs them from `begin` to `end`, about `depth`. That cache is coherent: what is written later is seen.
    """
    fits = hint_of(rows) <= MOST_ROWS and 0 < hint_of(w.elements) * w.itemsize <= MOST_BYTES
    if not fits or w.buffer.kind not in NOT_COMPUTED or config.tail > 1:
        return
    pointer, count, step = names
    each = LINE // w.itemsize
    lines = max(1, min(MOST_ASKED // config.n, 1 << (hint_of(depth) // each - 1).bit_length()))
    shell.lines.append(f"prefetch_columns({pointer}, {count}, {begin}, {end}, {step}, col, {each}, {lines})")


def part_of_depth(shell: Shell, config: Config, each: int, depth: str, loose: bool = False) -> tuple[str, str]:
    """Lines that divide the depth where it is split; the texts where a program's part, `each` long, begins and ends."""
    if config.split == 1:
        return "0", depth
    step = shell.size(each, loose=loose)
    shell.lines += [f"begin = tl.program_id(1) * {step}", f"end = tl.minimum(begin + {step}, {depth})"]
    return "begin", "end"


def assume_some(shell: Shell, config: Config, depth: int, each: int, begin: str, end: str) -> None:
    """A line that says that no part of the depth, `each` long, is empty, where that is so.

    Triton 3.6's ptxas (C7515) lets no products of wide tiles overlap in a loop that may do nothing.
    """
    if not is_open(depth) and (max(config.split, config.tail) - 1) * each < depth:
        shell.lines.append(f"tl.assume({begin} < {end})")


def part_depth(depth: int, config: Config) -> int:
    """How deep a part of a split depth is: whole steps."""
    return -(-depth // (config.split * config.tail * config.k)) * config.k


def _last_tiles(shell: Shell, config: Config, each: str, depth: str) -> tuple[str, str]:
    """Lines that give a program its tile `at`; the texts where its depth begins and ends: a part from `whole` on."""
    whole, tail = shell.size(config.whole, loose=True), shell.size(config.tail, loose=True)
    shell.lines += [
        f"over = tl.maximum(tl.program_id(0) - {whole}, 0)",
        f"at = tl.minimum(tl.program_id(0), {whole} + over // {tail})",
        f"begin = tl.where(tl.program_id(0) < {whole}, 0, over % {tail} * {each})",
        f"end = tl.where(tl.program_id(0) < {whole}, {depth}, tl.minimum(begin + {each}, {depth}))",
    ]
    return "begin", "end"


def _tail_calls(
    shell: Shell, o: Operands, epilogue: Epilogue, config: Config, parts: View, label: str, origin: str
) -> list[GpuCall]:
    """Whole tiles are finished at once, parts of the others stored for a second call."""
    sums, head = sums_type(o.a.type), shell.lines
    shell.lines = []
    finish(shell, epilogue, sums)
    part = shell.pointer(parts)
    shell.lines = [
        *head,
        f"if tl.program_id(0) < {shell.size(config.whole, loose=True)}:",
        *(f"    {line}" for line in shell.lines),
        "else:",
        "    inner = (over * BM + tl.arange(0, BM))[:, None] * BN + tl.arange(0, BN)[None, :]",
        f"    tl.store({part} + inner, acc)",
    ]
    tiles = -(-o.m // config.m) * -(-o.n // config.n)
    constants = {"BM": config.m, "BN": config.n, "BK": config.k, "GROUP": config.group}
    grid = (config.whole + (tiles - config.whole) * config.tail, 1, 1)
    call = shell.call(function_name(label), grid, constants, config.warps, config.stages, label, origin, writes=2)
    return [call, _add_tail_call(o, epilogue, config, parts, label, origin)]


def _add_tail_call(o: Operands, epilogue: Epilogue, config: Config, parts: View, label: str, origin: str) -> GpuCall:
    """The second pass over the last tiles: their parts added in order, then the epilogue."""
    shell, left = Shell(), parts.lens[0]
    p, m, n = shell.pointer(parts), shell.size(o.m, loose=True), shell.size(o.n)
    height = max(1, min(config.m, 1024 // config.n))
    shell.lines += [
        f"tiles_m, tiles_n = tl.cdiv({m}, TM), tl.cdiv({n}, BN)",
        "tile, strip = tl.program_id(0) // (TM // BM), tl.program_id(0) % (TM // BM)",
        f"tile_m, tile_n = tile_of(tile + {shell.size(config.whole, loose=True)}, tiles_m, tiles_n, GROUP)",
        "inner = strip * BM + tl.arange(0, BM)",
        "row, col = tile_m * TM + inner, tile_n * BN + tl.arange(0, BN)",
        f"rows_in, cols_in = row < {m}, col < {n}",
        f"at = (tile * {config.tail} * TM + inner)[:, None] * BN + tl.arange(0, BN)[None, :]",
        f"acc = add_parts({p}, {config.tail}, TM * BN, at, {INSIDE})",
    ]
    finish(shell, epilogue, sums_type(o.a.type))
    constants = {"BM": height, "BN": config.n, "TM": config.m, "GROUP": config.group}
    grid = (left * config.m // height, 1, 1)
    return shell.call(function_name(label + " sum"), grid, constants, 4, 1, label, origin)


def _tile(shell: Shell, o: Operands, config: Config, m: str, n: str) -> None:
    """Lines that give a program its rows `row` and columns `col`, and its `batch`."""
    at = "at" if config.tail > 1 else "tl.program_id(0)"
    if config.m == 1:
        shell.lines.append(f"tiles_m, tiles_n = {m}, tl.cdiv({n}, BN)")
    else:
        shell.lines.append(f"tiles_m, tiles_n = tl.cdiv({m}, BM), tl.cdiv({n}, BN)")
    if o.batch:
        shell.lines += [f"batch = {at} // (tiles_m * tiles_n)", f"at = {at} % (tiles_m * tiles_n)"]
        at = "at"
    shell.lines += [
        f"tile_m, tile_n = tile_of({at}, tiles_m, tiles_n, GROUP)",
        "row = tile_m * BM + tl.arange(0, BM)",
        "col = tile_n * BN + tl.arange(0, BN)",
    ]


def to_part(shell: Shell, parts: View) -> Epilogue:
    """Stores sums as they are into the part of this program: the row counts through all parts."""
    split, rows, n = parts.lens
    shell.lines.append(f"row += tl.program_id(1) * {shell.size(rows, loose=True)}")
    flat = View(parts.buffer, parts.type, (split * rows, n), (n, 1), parts.offset)
    return Epilogue(None, (None,), flat, (0,), 1)


def add_parts_call(parts: View, epilogue: Epilogue, sums: str, label: str, origin: str) -> GpuCall:
    """The second pass of a split depth: `parts` {split, rows, N}, added in order, then the epilogue."""
    split, rows, n = parts.lens
    bn = min(256, max(16, 1 << (hint_of(n) - 1).bit_length()))
    bm = max(1, min(512 // bn, hint_of(rows)))
    bm = 1 << (bm.bit_length() - 1)
    shell = Shell()
    p, m_text, n_text = shell.pointer(parts), shell.size(rows, loose=True), shell.size(n)
    part = shell.size(rows * n, loose=True)
    shell.lines += [
        f"tiles_n = tl.cdiv({n_text}, BN)",
        "row = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)",
        "col = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)",
        f"rows_in = row < {m_text}",
        f"cols_in = col < {n_text}",
        f"at = row[:, None] * {n_text} + col[None, :]",
    ]
    fetched = fetch(shell, epilogue, begins=True)
    shell.lines.append(f"acc = add_parts({p}, {split}, {part}, at, {INSIDE})")
    finish(shell, epilogue, sums, fetched)
    name = function_name(label + " sum")
    grid = (-(-rows // bm) * -(-n // bn), 1, 1)
    return shell.call(name, grid, {"BM": bm, "BN": bn}, 4, 1, label, origin)

"""Attention: shells round kernels/attention.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from migraphx.ir.size import hint_of, is_open
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.attentions import WHOLE_HEADS
from migraphx.targets.gpu.costs.products import thirds
from migraphx.targets.gpu.emit.also import Also
from migraphx.targets.gpu.emit.body import compute_type, store_text
from migraphx.targets.gpu.emit.contract import INSIDE
from migraphx.targets.gpu.emit.reduce import MOST_ROW
from migraphx.targets.gpu.emit.rows import Row
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import WIDE, power_of_two, span
from migraphx.targets.gpu.kernel import GpuCall

MOST_AGAIN = 24 << 10  # bytes of parts that each program of a product reads
LEAST = 16  # of a dimension that tensor cores sum over
MOST_BLOCK = 128  # keys


@dataclass(frozen=True)
class Attention:
    """q {B, H, Lq, D}, k {B, Hkv, Lk, D}, v {B, Hkv, Lk, Dv}, perhaps a mask {B, H, Lq, Lk}; out {B, H, Lq, Dv}.

    `more`: a few keys and values that follow those in `k` and `v`, where they lie elsewhere.
    """

    q: View
    k: View
    v: View
    mask: View | None
    out: View
    scale: float
    causal: bool
    zero_rows: bool
    more: tuple[View, View] | None = None

    @property
    def kv_heads(self) -> int:
        return self.k.lens[1]

    @property
    def group(self) -> int:
        """Heads that share one head of keys and values."""
        return self.q.lens[1] // self.kv_heads

    @property
    def rows(self) -> int:
        """Of one head of keys and values."""
        return self.q.lens[2] * self.group

    @property
    def heads(self) -> int:
        """Of keys and values, of all batches."""
        return self.q.lens[0] * self.kv_heads

    @property
    def keys(self) -> int:
        return self.k.lens[2] + (self.more[0].lens[2] if self.more else 0)

    @property
    def width(self) -> int:
        return self.v.lens[3]

    @property
    def masks_alike(self) -> bool:
        """Whether the mask is the same for all rows of a head of keys."""
        return self.mask is not None and self.mask.strides[2] == 0 and (self.group == 1 or self.mask.strides[1] == 0)

    @property
    def at_hand(self) -> Attention:
        """The same with the lengths at hand for those that are open."""
        q, k, v, out = (view.at_hand for view in (self.q, self.k, self.v, self.out))
        more = (self.more[0].at_hand, self.more[1].at_hand) if self.more else None
        return replace(self, q=q, k=k, v=v, out=out, mask=self.mask and self.mask.at_hand, more=more)


def blocks_kept(keys: int) -> list[int]:
    """The sizes of the blocks that so many keys are held in: powers of two, at most the last of them not full."""
    left, sizes = -(-keys // LEAST) * LEAST, list[int]()
    while left > 0:
        sizes.append(min(MOST_BLOCK, 1 << left.bit_length() - 1))
        left -= sizes[-1]
    return sizes


def whole_heads_call(a: Attention, config: Config, origin: str, also: Also | None = None) -> GpuCall:
    """The attention where a program holds all keys and values of a head and takes `config.group` tiles of rows in turn.

    Nothing is scaled again for later keys, and what is held is read once. On an H200 384 heads of 197 tokens took 18 us
    so, and 23 with online softmax. The queries of the next tile are on their way while one is computed, by which a ViT
    takes 1 % less on an H100. The compiler must hoist nothing out of the loop: three programs share a processor's
    registers.
    """
    shell = Shell()
    q, k, v = map(shell.pointer, (a.q, a.k, a.v))
    rows, heads, keys = (shell.size(n, loose=True) for n in (a.rows, a.kv_heads, a.keys))
    shell.lines += [
        f"programs = tl.cdiv({rows}, BM * TURNS)",
        "first, head = tl.program_id(0) % programs * (BM * TURNS), tl.program_id(0) // programs",
        f"batch, head = head // {heads}, head % {heads}",
    ]
    for name, view, by in ((q, a.q, a.group), (k, a.k, 1), (v, a.v, 1)):
        shell.lines.append(f"{name} += {shell.at(('batch', 'head'), (view.strides[0], view.strides[1] * by), view)}")
    steps = {name: ", ".join(shell.stride(s, view) for s in view.strides[2:]) for name, view in ((k, a.k), (v, a.v))}
    d, sizes = a.width, blocks_kept(a.keys)
    known = list(enumerate(zip(sizes, accumulate(sizes, initial=0), strict=False)))
    for kind, name in (("keys", k), ("values", v)):
        for n, (size, start) in known:
            block = f"{keys}, {start}, {size}, {d}, {start + size > a.keys}"
            shell.lines.append(f"{kind}{n} = kept_{kind}({name}, {steps[name]}, {block})")
    of_rows = ", ".join(shell.stride(s, a.q) for s in a.q.strides[1:])
    queries = f"query = queries({q}, {{}}, {rows}, {of_rows}, {a.group}, {d})"
    lines = ["row = first + turn * BM + tl.arange(0, BM)"]
    for n, (size, start) in known:
        lines.append(f"s{n} = scores(query, keys{n}, {keys}, {start}, {start + size > a.keys})")
    lines.append(queries.format("row + BM"))
    lines.append("top = tl.max(s0, 1)")
    lines += [f"top = tl.maximum(top, tl.max(s{n}, 1))" for n, _ in known[1:]]
    lines.append('base = tl.where(top == float("-inf"), 0.0, top * UNIT)[:, None]')
    lines += [f"e{n} = tl.exp2(s{n} * UNIT - base)" for n, _ in known]
    lines.append("total = " + " + ".join(f"tl.sum(e{n}, 1)" for n, _ in known))
    lines.append("acc = tl.dot(e0.to(values0.dtype), values0)")
    lines += [f"acc = tl.dot(e{n}.to(values{n}.dtype), values{n}, acc)" for n, _ in known[1:]]
    lines += [f"col = tl.arange(0, {d})", f"rows_in, cols_in = row < {rows}, col < {d}"]
    shell.lines, before = lines, shell.lines
    writes = _store(shell, a, also)
    shell.lines = [
        *before,
        queries.format("first + tl.arange(0, BM)"),
        "for turn in tl.range(0, TURNS, disable_licm=True):",
        *("    " + line for line in shell.lines),
    ]
    constants = {"BM": config.m, "TURNS": config.group, "UNIT": a.scale * math.log2(math.e)}
    grid = (a.heads * -(-a.rows // (config.m * config.group)), 1, 1)
    return shell.call("attention", grid, constants, config.warps, config.stages, "attention", origin, writes)


def attention_calls(
    a: Attention, config: Config, parts: tuple[View, View] | None, origin: str, also: Also | None = None
) -> list[GpuCall]:
    """The attention.

    Where keys are divided, `parts` are the values {split, rows, Dv} and the maxima and sums {split, rows, 2} of all
    heads' rows, which a second call puts together. `also`: what the call stores as well where they are not.
    """
    if config.kernel == WHOLE_HEADS:
        return [whole_heads_call(a, config, origin, also)]
    shell = Shell()
    q = shell.pointer(a.q)
    rows, heads = shell.size(a.rows, loose=True), shell.size(a.kv_heads, loose=True)
    tile = "tiles - 1 - tl.program_id(0) % tiles" if a.causal else "tl.program_id(0) % tiles"
    shell.lines += [
        f"tiles = tl.cdiv({rows}, BM)",
        "head = tl.program_id(0) // tiles",
        f"row = ({tile}) * BM + tl.arange(0, BM)",
        f"batch, head = head // {heads}, head % {heads}",
        f"{q} += {shell.at(('batch', 'head'), (a.q.strides[0], a.q.strides[1] * a.group), a.q)}",
    ]
    keys, first, last = shell.size(a.k.lens[2], loose=True), "0", ""
    if config.split > 1:
        each = shell.size(part_keys(a.k.lens[2], config), loose=True)
        shell.lines += [f"first = tl.program_id(1) * {each}", f"last = first + {each}"]
        first, last = "first", "last"
    own = [q, "row", rows, *(shell.stride(s, a.q) for s in a.q.strides[1:])]
    dv = a.width
    blocks = f"BN, {rest_of(a, config)}"
    sums = _sums_text(shell, a, (a.k, a.v), a.mask, own, (keys, first, last or keys), blocks, thirds(config))
    shell.lines.append(f"top, total, acc = {sums}")
    if a.more:  # whose keys the last part has
        count = shell.size(a.more[0].lens[2], loose=True)
        shell.lines.append(f"few = tl.where(tl.program_id(1) == tl.num_programs(1) - 1, {count}, 0)")
        mask = a.mask and a.mask.sliced(3, a.k.lens[2], a.keys)
        sums = _sums_text(shell, a, a.more, mask, own, (count, "0", "few"), f"{LEAST}, {LEAST}", thirds(config))
        shell.lines.append(f"top, total, acc = joined_sums(top, total, acc, *{sums})")
    shell.lines += [
        f"col = tl.arange(0, {power_of_two(max(dv, LEAST))})",
        f"rows_in, cols_in = row < {rows}, col < {dv}",
    ]
    constants = {"BM": config.m, "BN": config.n}
    grid = (a.heads * -(-a.rows // config.m), config.split, 1)
    if config.split > 1:
        assert parts is not None
        _store_part(shell, a, parts)
        call = shell.call("attention_part", grid, constants, config.warps, config.stages, "attention", origin, writes=2)
        return [call, _combine_call(a, parts, origin)]
    writes = _store(shell, a, also)
    return [shell.call("attention", grid, constants, config.warps, config.stages, "attention", origin, writes)]


def _sums_text(
    shell: Shell, a: Attention, keys_and_values: tuple[View, View], mask_view: View | None, own: Sequence[str],
    keys: tuple[str, str, str], blocks: str, by_thirds: bool,
) -> str:  # fmt: skip
    """The call of attention_sums. `own`: queries, rows, how many, strides; `keys`: how many, first, last."""
    k_view, v_view = keys_and_values
    k, v = shell.pointer(k_view), shell.pointer(v_view)
    mask = shell.pointer(mask_view) if mask_view else k
    for name, view, by in ((k, k_view, 1), (v, v_view, 1), (mask, mask_view, a.group)):
        if view is not None:
            strides = (view.strides[0], view.strides[1] * by)
            shell.lines.append(f"{name} += {shell.at(('batch', 'head'), strides, view)}")
    strides = [shell.stride(s, view) for view in (k_view, v_view) for s in view.strides[2:]]
    m_strides = ["0"] * 3
    if mask_view is not None:  # whose strides are lengths
        m_strides = [str(s) if s in (0, 1) else shell.size(s, span(mask_view) > WIDE) for s in mask_view.strides[1:]]
    kind = mask_view.type if mask_view else "none"
    fold = a.scale > 0 and kind in ("none", "bool")
    d, dv = a.q.lens[3], a.width
    q, row, rows, *q_strides = own
    given = ", ".join((q, k, v, mask, row, rows, *keys, *q_strides, *strides, *m_strides))
    first, rest = head_tiles(d)
    sizes = f"{d}, {dv}, {first}, {power_of_two(max(dv, LEAST))}"
    forms = f'"{kind}", {a.masks_alike}, {a.causal}, {fold}, {by_thirds}, {rest}'
    return f"attention_sums({given}, {a.scale!r}, {a.group}, {sizes}, {blocks}, {forms})"


def head_tiles(width: int) -> tuple[int, int]:
    """Of how many numbers the tiles of queries and keys are: 64 and 16 for heads of 80; LEAST where one has all.

    On an H200 the attention of heads of 40, 80 and 160 takes 3 to 10 % less time so; values as two tiles gain nothing.
    """
    whole = power_of_two(max(width, LEAST))
    first, rest = whole // 2, power_of_two(max(width - whole // 2, LEAST))
    return (first, rest) if first >= 2 * LEAST and first + rest < whole else (whole, LEAST)


def rest_of(a: Attention, config: Config) -> int:
    """How many keys at a time come behind the whole blocks."""
    rest = hint_of(a.k.lens[2]) % config.n
    return max(LEAST, power_of_two(rest)) if rest and not a.causal and config.split == 1 else config.n


def part_keys(keys: int, config: Config) -> int:
    """How many keys a part has: whole blocks."""
    return -(-keys // (config.split * config.n)) * config.n


def combined_row(a: Attention, parts: Sequence[View]) -> Row | None:
    """What the second call makes of `parts`, as a function for other kernels; None where it is no single row.

    Nor where each program would read more than MOST_AGAIN: on an H200 GPT-2's 24 KiB are faster so, Llama's 32 are not.
    """
    rows, (batch, _, queries, width) = a.heads * a.rows, a.out.lens
    if is_open((rows, batch, queries, width)):
        return None
    one = batch == queries == 1 and a.out.strides[1] == width and a.out.strides[3] == 1 and not a.out.moves
    again = 4 * parts[0].lens[0] * rows * width
    if not one or width != power_of_two(width) or rows * width > MOST_ROW or again > MOST_AGAIN:
        return None
    body = f"return combined_row(p0, p1, {parts[0].lens[0]}, n0, {width}, {a.zero_rows}, COLS)"
    text = f"@triton.jit\ndef row_of(p0, p1, n0, ROWS: tl.constexpr, COLS: tl.constexpr):\n    {body}\n"
    return Row(text, tuple(parts), (rows,), False, rows * width)


def _store(shell: Shell, a: Attention, also: Also | None = None) -> int:
    """Divide `acc` by `total` and store it at rows `row` of `head` of `batch`; how many views are written."""
    b, h, r, c = a.out.strides
    index = ("batch", "head", f"row // {a.group}", f"row % {a.group}")
    at = shell.at(index, (b, h * a.group, r, h if a.group > 1 else 0), a.out)
    shell.lines.append(f"acc = attention_result(total, acc, {a.zero_rows})")
    shell.lines.append(f"acc = acc.to({compute_type(a.out.type)})")
    text = f"({at})[:, None] + ({shell.at(['col'], [c or 1], a.out)})[None, :]"
    if not also or not also.alone:
        shell.lines.append(store_text(shell.pointer(a.out), a.out.type, text, "acc", INSIDE))
    if also:
        shell.lines += also.lines("acc", a.out.type, shell.pointer(also.write), text, INSIDE)
    return len(also.writes(a.out)) if also else 1


def _store_part(shell: Shell, a: Attention, parts: tuple[View, View]) -> None:
    sums, tops = shell.pointer(parts[0]), shell.pointer(parts[1])
    total = shell.size(a.heads * a.rows, loose=True)
    rows = shell.size(a.rows, loose=True)
    shell.lines += [
        f"at = (tl.program_id(1) * {total} + tl.program_id(0) // tiles * {rows} + row)",
        f"tl.store({sums} + at[:, None] * {a.width} + col[None, :], acc, {INSIDE})",
        f"tl.store({tops} + at * 2, top, rows_in)",
        f"tl.store({tops} + at * 2 + 1, total, rows_in)",
    ]


def _combine_call(a: Attention, parts: tuple[View, View], origin: str) -> GpuCall:
    shell, wide = Shell(), power_of_two(a.width)
    sums, tops = shell.pointer(parts[0]), shell.pointer(parts[1])
    rows, heads = shell.size(a.rows, loose=True), shell.size(a.kv_heads, loose=True)
    total, count = shell.size(a.heads * a.rows, loose=True), parts[0].lens[0]
    shell.lines += [
        "number = tl.program_id(0) * BM + tl.arange(0, BM)",
        f"col = tl.arange(0, {wide})",
        f"rows_in, cols_in = number < {total}, col < {a.width}",
        f"at = number[:, None] * {a.width} + col[None, :]",
        f"total, acc = combine_parts({sums}, {tops}, at, number, {INSIDE}, rows_in, {count}, {total}, {a.width})",
        f"row, head = number % {rows}, number // {rows}",
        f"batch, head = head // {heads}, head % {heads}",
    ]
    _store(shell, a)
    bm = max(1, min(512 // wide, 16))
    grid = (-(-a.heads * a.rows // bm), 1, 1)
    return shell.call("attention_sum", grid, {"BM": bm}, 4, 1, "attention", origin)

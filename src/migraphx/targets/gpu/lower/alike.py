"""Small calls that differ in their operands alone become one launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

from migraphx.ir.size import is_open
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.emit.taps import EACH, PROGRAMS
from migraphx.targets.gpu.kernel import GpuCall, Launch
from migraphx.targets.gpu.library import LibraryCall

TINY = 32  # programs of a launch that takes as long as one: sizes of others beside it may differ
BYTES = 8 << 20  # that a call may write; its result waits in memory for those who read it
MOST, MOST_VIEWS = 16, 8  # calls of a launch, and views of each: all are among its arguments


def merge_alike(ctx: LoweringContext) -> None:
    """One launch for all calls of one kernel, with the same sizes, whose operands are there when the first one runs.

    They may have other sizes where each has a few programs, as the rotations of a token's queries and keys, or where
    programs take turns, as those that copy weights. The projections of a text in each layer of a diffusion model, whose
    weights are inputs, are such calls; compiled in, weights are one wide matrix.
    """
    if any(call.flow is not None for call in ctx.calls):  # steps are counted there
        return
    touched, written = _uses(ctx.calls)
    open_, dropped = dict[Hashable, list[int]](), set[int]()
    merged: dict[int, list[int]] = defaultdict(list)
    for n, call in enumerate(ctx.calls):
        if not _is_small(call):
            continue
        assert call.kernel is not None
        key = call.kernel.kernel, tuple(v.itemsize for v in call.views), *_sizes(call)
        group = open_.get(key)
        if group is not None and len(group) < MOST and _can_move(call, n, group[0], touched, written):
            group.append(n)
            merged[group[0]] = group
            dropped.add(n)
            for places in (touched, written):  # what reads its result may follow it
                for v in call.views:
                    places[v.buffer] = [group[0] if m == n else m for m in places[v.buffer]]
        else:
            open_[key] = [n]
    for first, group in merged.items():
        ctx.calls[first] = _one(ctx, group)
    kept = [n for n in range(len(ctx.calls)) if n not in dropped]
    ctx.calls, ctx.sources = [ctx.calls[n] for n in kept], [ctx.sources[n] for n in kept]


def _uses(calls: Sequence[GpuCall | LibraryCall]) -> tuple[dict[Buffer, list[int]], dict[Buffer, list[int]]]:
    """The calls that touch each buffer, and those that write it, in order."""
    touched, written = defaultdict[Buffer, list[int]](list), defaultdict[Buffer, list[int]](list)
    for n, call in enumerate(calls):
        for v in call.views:
            touched[v.buffer].append(n)
        for v in call.writes:
            written[v.buffer].append(n)
    return touched, written


def _is_small(call: GpuCall | LibraryCall) -> TypeGuard[GpuCall]:
    """Whether it is a launch that does not fill a large device more than once, into memory of the program's own."""
    if not isinstance(call.kernel, Launch) or len(call.views) > MOST_VIEWS:
        return False
    if is_open((*call.kernel.grid, *call.numbers, *(n for v in call.views for n in v.lens))):
        return False
    own = all(v.buffer.kind == "arena" for v in call.writes) and all(v.buffer.kind != "status" for v in call.reads)
    few = prod(call.kernel.grid) <= PROGRAMS and sum(v.elements * v.itemsize for v in call.writes) <= BYTES
    plain = call.kernel.grid[2] == 1 and "program_id(2)" not in call.kernel.kernel.source
    return own and few and plain and not any(v.moves for v in call.views)


def _sizes(call: GpuCall) -> tuple[Hashable, ...]:
    """What must be alike of the sizes."""
    assert call.kernel is not None
    tiny = prod(call.kernel.grid) <= TINY and "num_programs" not in call.kernel.kernel.source
    return call.kernel.grid[1:] if tiny or _takes_turns(call) else (call.kernel.grid, call.numbers)


def _takes_turns(call: GpuCall) -> bool:
    """Whether its programs share what there is, however many they are."""
    return call.kernel is not None and EACH in call.kernel.kernel.source


def _can_move(
    call: GpuCall, at: int, first: int, touched: dict[Buffer, list[int]], written: dict[Buffer, list[int]]
) -> bool:
    """Whether a call may run as early as call `first`: nothing between makes what it reads, or uses what it writes."""
    between = lambda places: any(first <= n < at for n in places)  # noqa: E731
    return not any(between(written[v.buffer]) for v in call.reads) and not any(
        between(touched[v.buffer]) for v in call.writes
    )


def _chosen(names: Sequence[str]) -> str:
    """Of one a call the one of call `which`."""
    chosen = names[0]
    for n, name in enumerate(names[1:], 1):
        chosen = f"tl.where(which == {n}, {name}, {chosen})"
    return chosen


def _one(ctx: LoweringContext, group: Sequence[int]) -> GpuCall:
    """A launch whose programs along the third axis are those of one call each."""
    calls: list[GpuCall] = [ctx.calls[n] for n in group]
    first = calls[0]
    assert first.kernel is not None
    base, reads, names = first.kernel.kernel, list[View](), list[str]()
    lines, divisible, given = ["which = tl.program_id(2)"], list[int](), 0
    arguments = list[str]()
    for k, views in enumerate(zip(*(call.views for call in calls), strict=True)):
        alike = len({(v.buffer, v.byte_offset) for v in views}) == 1
        own = [f"p{k}_{n}" for n in range(1 if alike else len(views))]
        lines.append(f"p{k} = {_chosen(own)}")
        if k in base.divisible:
            divisible += range(given, given + len(own))
        given += len(own)
        names += own
        arguments += [base.arguments[k]] * len(own)
        reads += views[: len(own)]
    count, numbers = len(first.views), list[int]()
    for k, values in enumerate(zip(*(call.numbers for call in calls), strict=True)):
        own = [f"n{k}_{n}" for n in range(1 if len({*values}) == 1 else len(values))]
        lines.append(f"n{k} = {_chosen(own)}")
        if k + count in base.divisible:
            divisible += range(given, given + len(own))
        given += len(own)
        names += own
        arguments += [base.arguments[k + count]] * len(own)
        numbers += values[: len(own)]
    inner = [*(f"p{k}" for k in range(count)), *(f"n{k}" for k in range(len(first.numbers)))]
    run = f"{base.name}({', '.join([*inner, *(name for name, _ in base.constants)])})"
    programs = [call.kernel.grid[0] for call in calls if call.kernel is not None]
    if len({*programs}) > 1 and not _takes_turns(first):
        lines += [f"if tl.program_id(0) < {_chosen([str(n) for n in programs])}:", f"    {run}"]
    else:
        lines.append(run)
    head = ", ".join([*names, *(f"{name}: tl.constexpr" for name, _ in base.constants)])
    text = f"@triton.jit\ndef {base.name}s({head}):\n" + "".join(f"    {line}\n" for line in lines)
    kernel = replace(
        base, name=f"{base.name}s", source=f"{base.source}\n\n{text}",
        arguments=tuple(arguments), divisible=tuple(divisible),
    )  # fmt: skip
    writes = len(calls) * len(first.writes)
    also = sum(call.also for call in calls)
    for n in group[1:]:
        source, after = ctx.sources[n], ctx.sources[n + 1] if n + 1 < len(ctx.sources) else None
        also += source.flops if source is not None and source is not after else 0
    grid = (max(programs), first.kernel.grid[1], len(calls))
    label = f"{len(calls)} x {first.label}"
    return replace(
        first, kernel=Launch(kernel, grid), reads=tuple(reads[:-writes]), writes=tuple(reads[-writes:]),
        numbers=tuple(numbers), label=label, also=also,
    )  # fmt: skip

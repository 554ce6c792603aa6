"""Attention in all its forms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.size import hint_of, is_open, note_class
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config, Problem
from migraphx.targets.gpu.costs.attentions import WHOLE_HEADS, attention_cost, attentions
from migraphx.targets.gpu.emit.also import Finished
from migraphx.targets.gpu.emit.attention import Attention, attention_calls, combined_row
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.lower.contractions import call_best, choices_of
from migraphx.targets.gpu.lower.registry import GPU

FEW = 16  # rows, and new keys, that are one tile
MULTIPLIED = ("half", "bf16", "float", "double")


@GPU.of("attention")
def attention(ctx: LoweringContext, ins: Instruction) -> None:
    """Narrow types that tensor cores sum in too few bits become float first, and so does their result."""
    attributes, (q, k, v, *masks) = ins.op.attributes(), ctx.reads(ins)
    write = ctx.result(ins)
    if not write.elements:
        return
    if not k.lens[2]:  # sums of nothing
        fill(ctx, write, 0, ins.origin)
        return
    out = write
    if q.type not in MULTIPLIED:
        q, k, v = (_as_float(ctx, view, ins.origin) for view in (q, k, v))
        out = ctx.temporary(permuted("float", write.lens, (0, 2, 1, 3)))
    scale, causal, zero_rows = (attributes[name] for name in ("scale", "causal", "zero_rows"))
    a = Attention(q, k, v, masks[0] if masks else None, out, scale, causal, zero_rows)
    if out is write:
        a = _with_the_last_keys_apart(ctx, ins, a)
    config = lower_attention(ctx, a, ins.origin)
    if out is not write:
        ctx.convert(out, write, ins.origin)
        return
    assert isinstance(ctx.emit, TritonEmitter)
    if config.split > 1:
        row = combined_row(a, ctx.calls[-1].reads)
        if row and write.buffer.kind == "arena":
            ctx.emit.rows[write.buffer] = row, ctx.calls[-1]
    else:
        again = partial(attention_calls, a, config, None, ins.origin)
        ctx.emit.finished[write.buffer] = Finished(ins, write, len(ctx.calls) - 1, lambda also: again(also)[0])


def _with_the_last_keys_apart(ctx: LoweringContext, ins: Instruction, a: Attention) -> Attention:
    """Where a cache and a few new keys are joined for this attention alone: reads both where they lie."""
    _, keys, values, *_ = ins.inputs
    joined = [_joined(ctx, i) for i in (keys, values) if len(i.users) == 1]
    if a.causal or hint_of(a.rows) > FEW or len(joined) < 2 or None in joined:
        return a
    (k, more_k, copies), (v, more_v, more_copies) = (j for j in joined if j is not None)
    if k.lens[2] != v.lens[2] or hint_of(more_k.lens[2]) > FEW or not (copies or more_copies):
        return a
    assert isinstance(ctx.emit, TritonEmitter)
    ctx.emit.needless.extend([*copies, *more_copies])
    return replace(a, k=k, v=v, more=(more_k, more_v))


def _joined(ctx: LoweringContext, ins: Instruction) -> tuple[View, View, list[GpuCall]] | None:
    """The two parts of a concat along keys, and the copies that join them; None where it is none."""
    if ins.name != "concat" or ins.op.attributes()["axis"] != 2 or len(ins.inputs) != 2 or ins in ctx.output_views:
        return None
    whole, first, second = map(ctx.view, (ins, *ins.inputs))
    if whole.buffer.kind != "arena":
        return None
    made = {(part.buffer, part.offset): at * whole.strides[2] for part, at in ((first, 0), (second, first.lens[2]))}
    copies = [c for c in ctx.calls if c.writes[-1].buffer is whole.buffer and len(c.reads) == 1]
    copies = [c for c in copies if made.get((c.reads[0].buffer, c.reads[0].offset)) == c.writes[-1].offset]
    return first, second, copies


def lower_attention(ctx: LoweringContext, a: Attention, origin: str) -> Config:
    """With the best configuration, which is returned."""
    choices = choices_of(ctx)
    mask = a.mask.type if a.mask else "none"
    near = a.at_hand
    shape = (near.heads, near.group, near.q.lens[2], near.keys, near.q.lens[3], near.width)
    for n in (a.heads, a.rows, a.keys):
        note_class(n)
    problem = Problem("attention", shape, (a.q.type, mask), "causal" if a.causal else "")

    def build(config: Config) -> list[GpuCall]:
        parts = None
        if config.split > 1:
            sums, rows = "double" if a.q.type == "double" else "float", a.heads * a.rows
            parts = (
                ctx.temporary(Shape(sums, (config.split, rows, a.width))),
                ctx.temporary(Shape(sums, (config.split, rows, 2))),
            )
        return attention_calls(a, config, parts, origin)

    facts = choices.facts
    found = attentions(near, facts)
    if is_open(a.keys):  # parts must not be empty, however few there are, and blocks that are held have one size
        found = [c for c in found if c.split == 1 and c.kernel != WHOLE_HEADS]
    return call_best(ctx, problem, found, lambda c: attention_cost(c, near, facts), build)


def _as_float(ctx: LoweringContext, view: View, origin: str) -> View:
    wide = ctx.temporary(Shape("float", view.lens))
    ctx.convert(view, wide, origin)
    return wide

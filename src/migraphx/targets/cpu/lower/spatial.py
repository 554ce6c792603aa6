"""Attention and the operators that slide windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Refusal
from migraphx.ir.size import bounds_of
from migraphx.ops.pooling import Pooling
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import pool_call
from migraphx.targets.cpu.emit.indexing import simple_call
from migraphx.targets.cpu.emit.kernel import Instances
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.scalar import STORAGE_TYPES, cpp_type
from migraphx.targets.cpu.emit.structs import Attention, Strides
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.lower.registry import CPU
from migraphx.targets.target import UnsupportedOperator

FEW = constant("FEW", "attention.hpp")


@CPU.of("attention")
def attention(ctx: LoweringContext, ins: Instruction) -> None:
    if any(i.shape.type == "double" for i in ins.inputs):
        why = "attention sums in float: that of doubles is given as products and a softmax"
        raise UnsupportedOperator("cpu", [Refusal(ins, "target cpu", why)])
    reads = ctx.reads(ins)
    q, k, v = (_last_contiguous(ctx, view, ins.origin) for view in reads[:3])
    masks = reads[3:]
    attributes = ins.op.attributes()
    mask_steps = masks[0].strides if masks else (0, 0, 0, 0)
    ctx.call(_attention_call(q, k, v, masks, ctx.result(ins), mask_steps, attributes, ins.origin))


def _last_contiguous(ctx: LoweringContext, view: View, origin: str) -> View:
    return view if view.strides[-1] == 1 or view.lens[-1] == 1 else ctx.standard(view, origin)


def _attention_call(
    q: View, k: View, v: View, masks: list[View], out: View, mask_steps: tuple[int, ...],
    attributes: Mapping[str, Any], origin: str,
) -> Call:  # fmt: skip
    (batch, heads, queries, dim), (_, kv_heads, keys, value_dim) = q.lens, v.lens
    numbers, (mask_batch, mask_head, mask_row, mask_key) = Numbers(), mask_steps
    fill = Attention(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        dim=dim,
        value_dim=value_dim,
        q=Strides(*q.strides[:3]),
        k=Strides(*k.strides[:3]),
        v=Strides(*v.strides[:3]),
        out=Strides(*out.strides[:3]),
        mask_batch=mask_batch,
        mask_head=mask_head,
        mask_row=mask_row,
        mask_key=mask_key,
        scale=attributes["scale"],
        causal=attributes["causal"],
        zero_rows=attributes["zero_rows"],
        causal_offset=0,
    ).cpp(numbers)
    type = cpp_type(STORAGE_TYPES, q.type)
    if not masks:
        mask, last, of_mask = "static_cast<const float*>(nullptr)", 3, "float"
    elif masks[0].type == "bool":
        mask, last, of_mask = "reinterpret_cast<const uint8_t*>(p3)", 4, "uint8_t"
    else:
        mask, last, of_mask = "p3", 4, cpp_type(STORAGE_TYPES, masks[0].type)
    low, high = bounds_of(heads // kv_heads * queries)
    groups = [group for group, is_it in (("few", low <= FEW), ("many", high > FEW)) if is_it]
    known = f"<Group::{groups[0]}>" if len(groups) == 1 else ""
    head = f"attention{known}(t, {fill}, p0, p1, p2, {mask}, p{last}, scratch);"
    operands = f"const {type}*, const {type}*, const {type}*, const {of_mask}*, {type}*"
    functions = [
        f"void attention<Group::{group}, {type}, {of_mask}>(const Team&, const Attention&, {operands}, char*)"
        for group in groups
    ]
    return simple_call(
        head, (q, k, v, *masks), (out,), numbers, "attention", origin, "attention.hpp",
        f"attention_scratch<{type}>({fill})", instances=tuple(Instances("attention.hpp", (f,)) for f in functions),
    )  # fmt: skip


POOLS = {"max": "PoolMax", "average": "PoolAverage", "lpnorm": "PoolLp"}


@CPU.of("pooling")
def pooling(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, Pooling)
    source, write = channels_last(ctx, ctx.view(ins.inputs[0]), ins.origin), ctx.result(ins)
    lengths, stride, dilations = op.window(source.lens[2:])
    pads = op.pads(source.lens[2:])
    before, behind = ([p[k] for p in pads] for k in (0, 1))
    window = Window.of(source.lens[2:], write.lens[2:], lengths, stride, dilations, before)
    rank, order = len(write.lens), op.lp_order
    epilogue = Epilogue(None, (None,), write, (0, *range(2, rank)), 1)
    ctx.call(pool_call(POOLS[op.mode], source, window, behind, op.count_include_pad, order, epilogue, ins.origin))

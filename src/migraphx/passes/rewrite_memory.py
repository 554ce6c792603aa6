"""Operators of upstream's lowered programs and caches, in terms of what every target knows."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.control import pick
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, rewrite, rewrites, substitute


@rewrites(lambda b, x: b.fixed_pad(x))
def fixed_pad(b: Builder, x: Instruction, root: Instruction) -> Instruction:
    """pad(x), behind"""
    behind = [m - n for n, m in zip(x.shape.lens, root.shape.lens, strict=True)]
    return b.pad(x, pads=(*[0] * len(behind), *behind))


@rewrites(lambda b, new, lengths, cache: b.concat_past_present(new, lengths, cache))
def concat_past_present(b: Builder, new: Instruction, lengths: Instruction, cache: Instruction) -> Instruction:
    """where(step == length, new, cache); concat(new, what is behind it) for a prompt"""
    batch, _, total, _ = cache.shape.lens
    steps = new.shape.lens[2]
    if steps != 1:
        rest = b.slice(cache, axes=(2,), starts=(steps,), ends=(total,))
        return b.concat(new, rest, axis=2) if steps < total else new
    numbers = b.literal(np.arange(total, dtype=np.int64).reshape(1, 1, total, 1))
    at = b.reshape(b.cast(lengths, "int64"), dims=(batch, 1, 1, 1))
    here, there = (b.multibroadcast(v, out_lens=cache.shape.lens) for v in (numbers, at))
    return b.where(b.cast(b.equal(here, there), "bool"), b.multibroadcast(new, out_lens=cache.shape.lens), cache)


@rewrites(lambda b, x, lengths, cos, sin: b.gqa_rotary_embedding(x, lengths, cos, sin))
def gqa_rotary_embedding(
    b: Builder, x: Instruction, lengths: Instruction, cos: Instruction, sin: Instruction, root: Instruction
) -> Instruction:
    """concat(rotary_embedding(queries and keys), values)"""
    attributes = root.op.attributes()
    batch, heads, steps, _ = x.shape.lens
    turning = attributes["num_heads"] + attributes["kv_num_heads"]
    if steps == 1:
        at = b.reshape(lengths, dims=(batch,))
        tables = [b.unsqueeze(b.gather(t, at, axis=0), axes=(1, 2)) for t in (cos, sin)]
    else:
        tables = [b.unsqueeze(b.slice(t, axes=(0,), starts=(0,), ends=(steps,)), axes=(0, 1)) for t in (cos, sin)]
    rotated = b.slice(x, axes=(1,), starts=(0,), ends=(turning,))
    wide = [batch, turning, steps, cos.shape.lens[1]]
    wide_tables = [b.multibroadcast(t, out_lens=wide) for t in tables]
    rotated = b.rotary_embedding(rotated, *wide_tables, interleaved=attributes["interleaved"])
    return b.concat(rotated, b.slice(x, axes=(1,), starts=(turning,), ends=(heads,)), axis=1)


RULES = [fixed_pad, concat_past_present, gqa_rotary_embedding]


def rewrite_memory(module: Module) -> Refusals:
    """Buffers become constants, `capture` goes, and updates of a cache become `where` and `concat`.

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @1 = fixed_pad[output_lens={4, 3}](x) -> float_type, {4, 3}, {3, 1}
        @2 = capture[ins_index=7](@1) -> float_type, {4, 3}, {3, 1}
        @3 = @return(@2)

    after:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @1 = pad[pads={0, 0, 2, 0},value=0,mode=constant](x) -> float_type, {4, 3}, {3, 1}
        @2 = @return(@1)
    """
    for ins in module:
        if ins.name == "capture":
            substitute(ins, ins.inputs[0])
        elif ins.name in ("allocate", "outline") and not ins.shape.dynamic:
            substitute(ins, Builder(module, before=ins, origin=ins.origin).full(0, ins))
        elif ins.name == "select_module" and not ins.shape.dynamic:
            chosen = pick([i.shape for i in ins.inputs], ins.modules)
            assert chosen is not None
            outputs = module.inline(chosen, dict(zip(sorted(chosen.parameters), ins.inputs, strict=False)), before=ins)
            for user in list(ins.users):
                index: int = user.op.attributes()["index"]
                substitute(user, outputs[index])
                remove_unused(module, [user])
        else:
            continue
        remove_unused(module, [ins])
    return rewrite(module, RULES)

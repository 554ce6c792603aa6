"""What is dequantized and quantized again with the same scale and zero point keeps its codes: both steps go."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.passes.constants import broadcast_literal, compact, is_constant, scalar_of, value_of
from migraphx.passes.rewrite import remove_unused


def simplify_requantize(module: Module) -> None:
    """quantize(move(dequantize(codes))) -> move(codes), with one scale and one zero point on both sides.

    A move is a data movement of one input or a maximum over windows; there may be several. A relu before a
    quantization whose zero point is the least number of its type goes: saturation does the same. Maxima over windows
    of what is not dequantized are quantized before: then they read integers.

    before:
        x = @param:x -> uint8_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @1 = @literal{0.5} -> float_type, {1}, {1}
        @2 = @literal{0} -> uint8_type, {1}, {1}
        @3 = multibroadcast[out_lens={1, 1, 2, 2},out_dyn_dims={}](@1)
        @4 = multibroadcast[out_lens={1, 1, 2, 2},out_dyn_dims={}](@2)
        @5 = dequantizelinear(x,@3,@4)
        @6 = relu(@5)
        @7 = quantizelinear[out_type=uint8](@6,@3,@4)
        @8 = reshape[dims={4, 1}](@5)
        @9 = multibroadcast[out_lens={4, 1},out_dyn_dims={}](@1)
        @10 = multibroadcast[out_lens={4, 1},out_dyn_dims={}](@2)
        @11 = quantizelinear[out_type=uint8](@8,@9,@10)
        @12 = @return(@11,@7)

    after:
        x = @param:x -> uint8_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @1 = reshape[dims={4, 1}](x) -> uint8_type, {4, 1}, {1, 1}
        @2 = @return(@1,x)
    """
    for ins in module:
        if ins.name != "quantizelinear":
            continue
        made = _without_relu(module, ins)
        codes = _unmoved(module, made)
        if codes is not None:
            module.replace(made, codes)
            remove_unused(module, [made])


def _without_relu(module: Module, ins: Instruction) -> Instruction:
    x, step, *zero = ins.inputs
    low = dtypes.limits(ins.shape.type)[0]
    if x.name != "relu" or (scalar_of(zero[0]) if zero else 0) != low or not _positive(step):
        return ins
    made = module.add_instruction(ins.op, [x.inputs[0], step, *zero], before=ins, origin=ins.origin)
    module.replace(ins, made)
    remove_unused(module, [ins])
    return made


def _positive(step: Instruction) -> bool:
    return is_constant(step) and bool((value_of(step) > 0).all())


def _unmoved(module: Module, ins: Instruction) -> Instruction | None:
    """What a quantization gives, computed from the codes before the moves; None where there are no such codes.

    The codes are those that were dequantized, or quantized ones where that lets windows take their maximum over
    integers.
    """
    source, *given = ins.inputs
    moves: list[Instruction] = []
    while len(source.users) == 1 and _moves(source):
        moves.append(source)
        source = source.inputs[0]
    b = Builder(module, before=ins, origin=ins.origin)
    if source.name == "dequantizelinear" and _alike(source, ins):
        codes = source.inputs[0]
    elif _gains(moves) and None not in map(scalar_of, given) and _positive(given[0]):
        small = (broadcast_literal(b, compact(i), source.shape.lens) for i in given)
        codes = b.instruction(ins.name, [source, *small], **ins.op.attributes())
    else:
        return None
    for move in reversed(moves):
        codes = b.instruction(move.name, [codes], **move.op.attributes())
    return codes


def _gains(moves: Sequence[Instruction]) -> bool:
    """Whether windows are among the moves, and nothing else that drops elements: those would be quantized in vain."""
    kept = all(m.name == "pooling" or m.shape.elements >= m.inputs[0].shape.elements for m in moves)
    return kept and any(m.name == "pooling" for m in moves)


def _moves(ins: Instruction) -> bool:
    if ins.name == "pooling":
        return ins.op.attributes()["mode"] == "max"
    return ins.op.data_movement and len(ins.inputs) == 1


def _alike(dequantize: Instruction, quantize: Instruction) -> bool:
    """Whether both have one scale, of which all multiples are exact enough, one zero point and one type of codes."""
    if dequantize.inputs[0].shape.type != quantize.shape.type:
        return False
    pairs = [[scalar_of(i) for i in (*ins.inputs[1:], None)[:2] if i is not None] for ins in (dequantize, quantize)]
    (step, *zero), (other, *point) = pairs
    return step == other and step is not None and 1e-30 < step < 1e30 and (zero or [0]) == (point or [0]) != [None]

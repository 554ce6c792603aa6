"""ONNX Runtime's own versions of operators that the standard has otherwise, or not (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.microsoft.fused import MICROSOFT
from migraphx.onnx.converters.standard import movement
from migraphx.onnx.converters.standard.control import module_of
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same

Value = Instruction


@converter("Trilu", domain=MICROSOFT, takes=[same(("int64",), "k")])
def trilu(b: OnnxBuilder, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """As the standard's."""
    if x.shape.ndim < 2:
        raise OnnxError(f"takes an input of two dimensions or more, got lens {x.shape.lens}")
    return movement.trilu(b, x, k, upper=upper)


@converter("Inverse", domain=MICROSOFT, takes=[same(("float", "double", "half"), "x")])
def inverse(b: OnnxBuilder, x: Value) -> Value:
    """The inverse of each matrix of x {..., n, n}."""
    if x.shape.ndim < 2 or x.shape.lens[-1] != x.shape.lens[-2]:
        raise OnnxError(f"takes square matrices, got lens {x.shape.lens}")
    n = x.shape.lens[-1]
    if not x.shape.elements:
        return x
    wide = b.reshape(b.cast(x, "double" if x.shape.type == "double" else "float"), dims=(-1, n, n))
    unit = b.literal(np.eye(n)[None], wide.shape.type)
    state = b.concat(wide, b.broadcast_to(unit, wide.shape.lens), axis=2)
    body = module_of(b, "inverse_", lambda inner: eliminated(inner, state))
    trips, going = b.literal(np.array(n, np.int64)), b.literal(np.array(True))
    made = b.instruction("loop", [trips, going, state], [body], max_iterations=n)
    right = b.slice(b.outputs(made, 1)[0], axes=(2,), starts=(n,), ends=(2 * n,))
    return b.cast(b.reshape(right, dims=x.shape.lens), x.shape.type)


def eliminated(b: OnnxBuilder, state: Value) -> list[Value]:
    """A trip of Gauss and Jordan's elimination with row pivots of matrices {B, n, 2 n}: column k becomes a unit."""
    batch, n, width = state.shape.lens
    add = b.module.add_parameter
    k, going = add("trip", Shape("int64", ())), add("condition", Shape("bool", ()))
    x = add("state0", state.shape.as_standard())
    rows = b.broadcast_to(b.literal(np.arange(n, dtype=np.int64)[None]), (batch, n))
    here = b.broadcast_to(k, (batch, n))
    column = b.gather(x, k, axis=2)
    size = b.where(b.less(rows, here), b.full(-1.0, column), b.abs(column))
    best = b.broadcast_to(b.argmax(size, axis=1), (batch, n))
    order = b.where(b.equal(rows, here), best, b.where(b.equal(rows, best), here, rows))
    x = b.gather_elements(x, b.broadcast_to(b.unsqueeze(order, axes=(2,)), (batch, n, width)), axis=1)
    row = b.gather(x, k, axis=1)
    row = b.div(*b.common(row, b.unsqueeze(b.gather(row, k, axis=1), axes=(1,))))
    row = b.broadcast_to(b.unsqueeze(row, axes=(1,)), x.shape.lens)
    factor = b.broadcast_to(b.unsqueeze(b.gather(x, k, axis=2), axes=(2,)), x.shape.lens)
    chosen = b.broadcast_to(b.unsqueeze(b.equal(rows, here), axes=(2,)), x.shape.lens)
    return [going, b.where(chosen, row, b.sub(x, b.mul(factor, row)))]

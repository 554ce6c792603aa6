"""ONNX Runtime's operators of hybrid language models (domain com.microsoft): linear attention, gates, their norms."""

from __future__ import annotations

from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same
from migraphx.ops.composites.activation import scaled

Value = Instruction
STANDARD = 27
"""The opset whose LinearAttention and CausalConvWithState these are."""


@converter(
    "LinearAttention",
    domain=MICROSOFT,
    takes=[same(FLOATS16, "q", "k", "v", "decay", "beta"), same(FLOATS16, "past")],
)
def linear_attention(
    b: OnnxBuilder,
    q: Value,
    k: Value,
    v: Value,
    past: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
    *,
    state_window: int = 0,
    **attributes: Any,
) -> tuple[Value, ...]:
    """The standard's, whose state is that after the last token."""
    if state_window:
        raise OnnxError("a state_window is not supported")
    return b.standard("LinearAttention", STANDARD, (q, k, v, past, decay, beta), attributes)


@converter("CausalConvWithState", domain=MICROSOFT, takes=[same(FLOATS16, "x", "w", "bias", "past")])
def causal_convolution(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    past: Value | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> tuple[Value, ...]:
    """The standard's, of x {B, C, L}; or {B, L, C} where `channels_last`, as the state then is, too."""
    if state_window or dilation != 1 or ndim != 1:
        raise OnnxError("a state_window, a dilation and several dimensions are not supported")
    turned = [v if v is None or not channels_last else b.transpose(v, permutation=(0, 2, 1)) for v in (x, past)]
    made = b.standard("CausalConvWithState", STANDARD, (turned[0], w, bias, turned[1]), {"activation": activation})
    return tuple(b.transpose(v, permutation=(0, 2, 1)) for v in made) if channels_last else made


@converter(
    "LinearAttentionGate", domain=MICROSOFT, takes=[same(FLOATS16, "a", "rate"), same(("float",), "bias", "scale")]
)
def linear_attention_gate(
    b: OnnxBuilder, a: Value, bias: Value, scale: Value, rate: Value | None = None
) -> tuple[Value, ...]:
    """(scale {H} * softplus(a {B, T, H} + bias {H}), sigmoid(rate)), computed in float."""
    expect(a, "a", None, None, None)
    for what, value in (("dt_bias", bias), ("decay_scale", scale)):
        expect(value, what, a.shape.lens[2])
    expect(rate, "b", *a.shape.lens)
    total = b.add(*b.common(b.cast(a, "float"), bias))
    decay = b.cast(b.mul(*b.common(b.softplus(total, threshold=float("inf")), scale)), a.shape.type)
    if rate is None:
        return (decay,)
    return decay, b.cast(b.sigmoid(b.cast(rate, "float")), a.shape.type)


# ---- norms and gates ----


@converter("GatedRMSNorm", domain=MICROSOFT, takes=[same(FLOATS16, "x", "scale", "gate")])
def gated_rms_norm(
    b: OnnxBuilder, x: Value, scale: Value, gate: Value, *, activation: str = "silu", epsilon: float = 1e-5
) -> Value:
    """The RMS norm of each group of x {..., H * C} with a scale {C}, times silu or sigmoid of the gate; in float."""
    expect(scale, "scale", None)
    expect(gate, "gate", *x.shape.lens)
    if activation not in ("silu", "swish", "sigmoid"):
        raise OnnxError(f"activation must be silu, swish or sigmoid, is {activation!r}")
    wide = b.cast(gate, "float")
    gates = b.sigmoid(wide) if activation == "sigmoid" else b.silu(wide)
    return b.cast(b.mul(by_groups(b, x, scale, epsilon), gates), x.shape.type)


def by_groups(b: OnnxBuilder, x: Value, scale: Value, epsilon: float) -> Value:
    """The RMS norm of each group of as many elements of x's last dimension as `scale` {C} has; in float."""
    width, size = x.shape.lens[-1] if x.shape.ndim else 0, scale.shape.lens[0]
    if not size or width % size:
        raise OnnxError(f"a scale of {size} does not divide a width of {width}")
    groups = b.reshape(b.cast(x, "float"), dims=(*x.shape.lens[:-1], width // size, size))
    return b.reshape(b.rms_norm(groups, b.cast(scale, "float"), epsilon=epsilon), dims=x.shape.lens)


@converter("BranchwiseRMSNorm", domain=MICROSOFT, takes=[same(FLOATS16, "x"), same(FLOATS16, "scale")])
def branchwise_rms_norm(
    b: OnnxBuilder, x: Value, scale: Value | None = None, *, epsilon: float = 1e-5, num_branches: int = 0
) -> Value:
    """The RMS norm of each branch of x {..., C, H}, or {..., C * H} with `num_branches`.

    The scale is {C * H}, {C, H} or {H}.
    """
    lens = x.shape.lens
    if num_branches:
        if not lens or lens[-1] % num_branches:
            raise OnnxError(f"{num_branches} branches do not divide lens {lens}")
        branches = b.reshape(x, dims=(*lens[:-1], num_branches, lens[-1] // num_branches))
    else:
        branches = x
    count, size = branches.shape.lens[-2:] if branches.shape.ndim > 1 else (0, 0)
    y = b.rms_norm(b.cast(branches, "float"), None, epsilon=epsilon)
    if scale is not None:
        if scale.shape.lens not in ((count * size,), (count, size), (size,)):
            raise OnnxError(f"its scale has lens {scale.shape.lens}, there are {count} branches of {size}")
        each = scale if scale.shape.lens == (size,) else b.reshape(scale, dims=(count, size))
        y = b.mul(*b.common(y, b.cast(each, "float")))
    return b.reshape(b.cast(y, x.shape.type), dims=lens)


@converter("ScaledSiLU", domain=MICROSOFT, takes=[same(FLOATS16, "x"), same(FLOATS16, "scale")])
def scaled_silu(b: OnnxBuilder, x: Value, scale: Value | None = None, *, alpha: float = 1.0) -> Value:
    """silu(scale * x); the scale is one number, or `alpha`."""
    if scale is None:
        return b.silu(scaled(b, x, alpha))
    if scale.shape.elements != 1:
        raise OnnxError(f"its scale must have one element, has lens {scale.shape.lens}")
    factor = b.reshape(b.cast(scale, "float"), dims=())
    product = b.mul(*b.common(b.cast(x, "float"), factor))
    return b.silu(b.cast(product, x.shape.type))


@converter("GatedAdd", domain=MICROSOFT, takes=[same(FLOATS16, "x", "y", "gate")])
def gated_add(b: OnnxBuilder, x: Value, y: Value, gate: Value) -> Value:
    """x {..., C} + y {..., C} * gate {..., 1}"""
    expect(y, "Y", *x.shape.lens)
    expect(gate, "gate", *x.shape.lens[:-1], 1)
    return b.add(x, b.mul(y, b.broadcast_to(gate, y.shape.lens)))

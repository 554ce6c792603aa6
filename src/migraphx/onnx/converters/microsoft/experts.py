"""ONNX Runtime's mixtures of experts (domain com.microsoft): a router sends each token to a few of many networks.

Names of lengths: T tokens, E experts, H width of a token, I width inside an expert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, grouped, same
from migraphx.ops.composites.products import swapped

Value = Instruction
ACTIVATIONS: dict[str, Callable[[OnnxBuilder, Value], Value]] = {
    "relu": lambda b, x: b.relu(x),
    "gelu": lambda b, x: b.gelu(x, approximate="tanh"),
    "silu": lambda b, x: b.silu(x),
    "identity": lambda b, x: x,
}


@dataclass(frozen=True)
class Layer:
    """A linear layer of each expert: codes or weights {E, out, in}, how codes become weights, a bias {E, out}."""

    stored: tuple[Value, ...]
    bias: Value | None
    weights: Callable[[OnnxBuilder, tuple[Value, ...]], Value] = field(default=lambda b, stored: stored[0])

    def of(self, b: OnnxBuilder, x: Value, experts: Value | None) -> Value:
        """x {n, rows, in} through the layer of the n experts named, of all where None is."""
        stored, bias = self.stored, self.bias
        if experts is not None:
            stored = tuple(b.gather(v, experts, axis=0) for v in stored)
            bias = None if bias is None else b.gather(bias, experts, axis=0)
        y = b.matmul(x, swapped(b, b.cast(self.weights(b, stored), "float")))
        if bias is None:
            return y
        return b.add(*b.common(y, b.unsqueeze(b.cast(bias, "float"), axes=(1,))))


@dataclass(frozen=True)
class Mixture:
    """What the node's attributes say."""

    k: int = 1
    activation_type: str = "relu"
    normalize_routing_weights: int = 0
    use_sparse_mixer: int = 0
    swiglu_fusion: int = 0
    swiglu_limit: float | None = None
    activation_alpha: float = 1.0
    activation_beta: float = 0.0

    def inside(self, b: OnnxBuilder, first: Value, third: Value | None) -> Value:
        """What goes into the second layer: the activation of the first, times the third where there is one."""
        if self.activation_type != "swiglu":
            y = ACTIVATIONS[self.activation_type](b, first)
            return y if third is None else b.mul(y, third)
        gate, linear = self.halves(b, first) if third is None else (first, third)
        if self.swiglu_limit is not None:
            gate = b.min(gate, b.full(self.swiglu_limit, gate))
            linear = b.clamp(linear, -self.swiglu_limit, self.swiglu_limit)
        gate = b.mul(gate, b.sigmoid(b.mul(gate, b.full(self.activation_alpha, gate))))
        return b.mul(gate, b.add(linear, b.full(self.activation_beta, linear)))

    def halves(self, b: OnnxBuilder, x: Value) -> tuple[Value, Value]:
        """Gate and linear part: every other column (swiglu_fusion 1), or one half behind the other (2)."""
        *outer, width = x.shape.lens
        lens, axis = ((*outer, width // 2, 2), 3) if self.swiglu_fusion == 1 else ((*outer, 2, width // 2), 2)
        pairs = b.reshape(x, dims=lens)
        first, second = (b.slice(pairs, axes=(axis,), starts=(n,), ends=(n + 1,)) for n in (0, 1))
        return b.squeeze(first, axes=(axis,)), b.squeeze(second, axes=(axis,))

    def check(self, third: Layer | None) -> None:
        if self.use_sparse_mixer:
            raise OnnxError("use_sparse_mixer is not supported")
        known = (*ACTIVATIONS, "swiglu")
        if self.activation_type not in known:
            raise OnnxError(f"activation_type must be one of {', '.join(known)}, is {self.activation_type!r}")
        if self.activation_type == "swiglu" and third is None and self.swiglu_fusion not in (1, 2):
            raise OnnxError("swiglu needs fc3_experts_weights, or swiglu_fusion 1 or 2")

    def mixed(
        self, b: OnnxBuilder, x: Value, router: Value, first: Layer, second: Layer, third: Layer | None, share: Any
    ) -> Value:
        """The `k` likeliest experts' answers for each token of x {..., H}, by their probabilities or their `share`.

        Few tokens take the weights of their experts; many go through all experts, which is one product.
        """
        self.check(third)
        tokens = b.reshape(b.cast(x, "float"), dims=(-1, x.shape.lens[-1]))
        count, width = tokens.shape.lens
        expect(router, "router_probs", count, None)
        experts = router.shape.lens[1]
        if not 1 <= self.k <= experts:
            raise OnnxError(f"k is {self.k} of {experts} experts")
        likely = b.softmax(b.cast(router, "float"), axis=1)
        values, chosen = b.outputs(b.topk(likely, k=self.k, axis=1), 2)
        if share is not None:
            expect(share, "router_weights", count, experts)
            values = b.gather_elements(b.cast(share, "float"), chosen, axis=1)
        if self.normalize_routing_weights:
            values = b.div(*b.common(values, b.reduce_sum(values, axes=(1,))))
        few = count * self.k < experts
        if few:
            names = b.reshape(chosen, dims=(-1,))
            rows = b.broadcast_to(b.unsqueeze(tokens, axes=(1,)), (count, self.k, width))
            rows, part = b.reshape(rows, dims=(count * self.k, 1, width)), b.reshape(values, dims=(-1, 1, 1))
        else:
            names, rows = None, b.unsqueeze(tokens, axes=(0,))
            hot = b.equal(*b.common(b.unsqueeze(chosen, axes=(2,)), numbers(b, experts)))
            table = b.reduce_sum(b.mul(*b.common(b.cast(hot, "float"), b.unsqueeze(values, axes=(2,)))), axes=(1,))
            part = b.unsqueeze(b.transpose(b.squeeze(table, axes=(1,)), permutation=(1, 0)), axes=(2,))
        inner = self.inside(b, first.of(b, rows, names), None if third is None else third.of(b, rows, names))
        answers = b.mul(*b.common(second.of(b, inner, names), part))
        if few:
            total = b.reduce_sum(b.reshape(answers, dims=(count, self.k, width)), axes=(1,))
        else:
            total = b.reduce_sum(answers, axes=(0,))
        return b.cast(b.reshape(total, dims=x.shape.lens), x.shape.type)


def numbers(b: OnnxBuilder, count: int) -> Value:
    return b.literal(list(range(count)), "int64")


with_mixture = grouped("mixture", lambda _, **given: Mixture(**given), (f.name for f in fields(Mixture)))


@converter("MoE", domain=MICROSOFT, takes=[same(FLOATS16, "x", "router", "w1", "bias1", "w2", "bias2", "w3", "bias3")])
@with_mixture
def moe(
    b: OnnxBuilder,
    x: Value,
    router: Value,
    w1: Value,
    bias1: Value | None,
    w2: Value,
    bias2: Value | None = None,
    w3: Value | None = None,
    bias3: Value | None = None,
    *,
    mixture: Mixture,
) -> Value:
    """x {T, H} or {B, S, H}, router {T, E}, w1 and w3 {E, I, H}, w2 {E, H, I}; w1 {E, 2 I, H} of a fused swiglu."""
    layers = [None if w is None else Layer((w,), bias) for w, bias in ((w1, bias1), (w2, bias2), (w3, bias3))]
    outs = widths(mixture, x, router, w1, w3 is not None)
    for n, (w, bias, lens) in enumerate(zip((w1, w2, w3), (bias1, bias2, bias3), outs, strict=True), 1):
        expect(w, f"fc{n}_experts_weights", *lens)
        expect(bias, f"fc{n}_experts_bias", *lens[:2])
    first, second, third = layers
    assert first is not None and second is not None
    return mixture.mixed(b, x, router, first, second, third, None)


def widths(mixture: Mixture, x: Value, router: Value, w1: Value, third: bool) -> list[tuple[int, int, int]]:
    """The lens {experts, out, in} of the three layers."""
    if x.shape.ndim not in (2, 3) or router.shape.ndim != 2 or w1.shape.ndim != 3:
        lens = ", ".join(str(v.shape.lens) for v in (x, router, w1))
        raise OnnxError(f"takes x {{T, H}} or {{B, S, H}}, router {{T, E}} and weights {{E, I, H}}, got {lens}")
    experts, width, made = router.shape.lens[1], x.shape.lens[-1], w1.shape.lens[1]
    fused = mixture.activation_type == "swiglu" and not third
    if fused and made % 2:
        raise OnnxError(f"{made} columns of a fused swiglu are no pairs")
    inner = made // 2 if fused else made
    return [(experts, made, width), (experts, width, inner), (experts, inner, width)]


@converter(
    "QMoE",
    domain=MICROSOFT,
    takes=[
        same(FLOATS16, "x", "router", "bias1", "bias2", "bias3", "share"),
        same(("uint8",), "w1", "w2", "w3", "zero1", "zero2", "zero3"),
        same(FLOATS16, "scale1", "scale2", "scale3"),
    ],
)
@with_mixture
def quantized_moe(
    b: OnnxBuilder,
    x: Value,
    router: Value,
    w1: Value,
    scale1: Value,
    bias1: Value | None,
    w2: Value,
    scale2: Value,
    bias2: Value | None = None,
    w3: Value | None = None,
    scale3: Value | None = None,
    bias3: Value | None = None,
    zero1: Value | None = None,
    zero2: Value | None = None,
    zero3: Value | None = None,
    share: Value | None = None,
    *,
    expert_weight_bits: int = 4,
    block_size: int = 0,
    quant_type: str = "int",
    accuracy_level: int = 0,
    mixture: Mixture,
) -> Value:
    """As MoE, with weights of 4 or 8 bits: uint8 {E, out, in}, of 4 bits two in a byte, the first in the lower half.

    Scales {E, out}, or {E, out, blocks} of `block_size` numbers; a zero point that is absent is 2 ** (bits - 1).
    """
    if quant_type != "int" or expert_weight_bits not in (4, 8):
        raise OnnxError(f"weights of {expert_weight_bits} bits, quant_type {quant_type!r}, are not supported")
    lens = widths(mixture, x, router, w1, w3 is not None)
    rows = [(w1, scale1, zero1, bias1), (w2, scale2, zero2, bias2), (w3, scale3, zero3, bias3)]
    layers = [
        coded(n, row, at, expert_weight_bits, block_size) for n, (row, at) in enumerate(zip(rows, lens, strict=True), 1)
    ]
    first, second, third = layers
    assert first is not None and second is not None
    return mixture.mixed(b, x, router, first, second, third, share)


def coded(n: int, row: tuple[Value | None, ...], lens: tuple[int, int, int], bits: int, block: int) -> Layer | None:
    """The `n`-th layer of quantized weights; OnnxError for lens that do not fit each other."""
    codes, scale, zero, bias = row
    if codes is None:
        return None
    if scale is None:
        raise OnnxError(f"fc{n}_scales is missing")
    experts, out, width = lens
    each = 8 // bits
    blocks = -(-width // block) if block else 1
    expect(codes, f"fc{n}_experts_weights", experts, out, -(-width // each))
    expect(scale, f"fc{n}_scales", *(lens[:2] if not block else (experts, out, blocks)))
    expect(bias, f"fc{n}_experts_bias", experts, out)
    expect(zero, f"fc{n}_zero_points", experts, *((-(-out // each),) if not block else (out, -(-blocks // each))))

    def weights(b: OnnxBuilder, stored: tuple[Value, ...]) -> Value:
        held, factor, *points = stored
        count = held.shape.lens[0]
        plain = b.cast(unpacked(b, held, bits, width), "float")
        point = b.full(float(1 << (bits - 1)), plain)
        if points:
            per = unpacked(b, points[0], bits, blocks if block else out)
            point = spread(b, b.cast(per, "float"), (count, out, width), block)
        return b.mul(b.sub(plain, point), spread(b, b.cast(factor, "float"), (count, out, width), block))

    return Layer((codes, scale) if zero is None else (codes, scale, zero), bias, weights)


def unpacked(b: OnnxBuilder, x: Value, bits: int, length: int) -> Value:
    """The first `length` numbers of 4 or 8 bits that bytes hold along the last axis."""
    last = x.shape.ndim - 1
    wide = x if bits == 8 else b.unpack_int4(x, axis=last)
    return wide if wide.shape.lens[last] == length else b.slice(wide, axes=(last,), starts=(0,), ends=(length,))


def spread(b: OnnxBuilder, x: Value, lens: tuple[int, int, int], block: int) -> Value:
    """{E, out}, or {E, out, blocks}, for each weight {E, out, in}."""
    if not block:
        return b.broadcast_to(b.unsqueeze(x, axes=(2,)), lens)
    wide = b.repeat_interleave(x, repeats=block, axis=2)
    return b.slice(wide, axes=(2,), starts=(0,), ends=(lens[2],)) if wide.shape.lens[2] != lens[2] else wide

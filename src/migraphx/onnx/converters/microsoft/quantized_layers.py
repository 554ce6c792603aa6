"""ONNX Runtime's layers whose weights are quantized (domain com.microsoft): they are computed with the real numbers."""

from __future__ import annotations

from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.fused import MICROSOFT, embed_layer_normalization
from migraphx.onnx.converters.microsoft.quantize import BYTES, dequantize
from migraphx.onnx.converters.standard.recurrent import lstm
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same

Value = Instruction


@converter(
    "QEmbedLayerNormalization",
    domain=MICROSOFT,
    takes=[
        same(("int32",), "ids", "segments", "mask"),
        same(BYTES, "word", "position", "segment", "gamma", "beta", "word_zero", "position_zero", "segment_zero",
             "gamma_zero", "beta_zero"),
        same(("float",), "word_scale", "position_scale", "segment_scale", "gamma_scale", "beta_scale"),
    ],
)  # fmt: skip
def quantized_embed_layer_normalization(
    b: OnnxBuilder, ids: Value, segments: Value | None, word: Value, position: Value, segment: Value | None,
    gamma: Value, beta: Value, mask: Value | None, word_scale: Value, position_scale: Value,
    segment_scale: Value | None, gamma_scale: Value, beta_scale: Value, word_zero: Value, position_zero: Value,
    segment_zero: Value | None, gamma_zero: Value, beta_zero: Value, *, epsilon: float = 1e-12,
) -> tuple[Value, ...]:  # fmt: skip
    """EmbedLayerNormalization; tables and weights each have one scale and zero point."""
    groups = {v is None for v in (segments, segment, segment_scale, segment_zero)}
    if len(groups) > 1:
        raise OnnxError("segment_ids, their embedding, scale and zero point are there all or none")
    third = None if segment is None or segment_scale is None else dequantize(b, segment, segment_scale, segment_zero)
    real = [
        dequantize(b, *given)
        for given in (
            (word, word_scale, word_zero),
            (position, position_scale, position_zero),
            (gamma, gamma_scale, gamma_zero),
            (beta, beta_scale, beta_zero),
        )
    ]
    y, counts, _ = embed_layer_normalization(
        b, ids, segments, real[0], real[1], third, real[2], real[3], mask, epsilon=epsilon
    )
    return y, counts


@converter(
    "DynamicQuantizeLSTM",
    domain=MICROSOFT,
    takes=[
        same(("float",), "x", "bias", "h", "c", "peepholes", "w_scale", "r_scale"),
        same(BYTES, "w", "w_zero"),
        same(BYTES, "r", "r_zero"),
        same(("int32",), "lens"),
    ],
)
def dynamic_quantize_lstm(
    b: OnnxBuilder, x: Value, w: Value, r: Value, bias: Value | None, lens: Value | None, h: Value | None,
    c: Value | None, peepholes: Value | None, w_scale: Value, w_zero: Value, r_scale: Value, r_zero: Value,
    **given: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """The standard's LSTM with weights w {D, I, 4 H} and r {D, H, 4 H}, which have a scale a direction or a column.

    What the weights multiply stays float, where ONNX Runtime rounds it to 8 bits step by step.
    """
    expect(w, "W", None, None, None)
    expect(r, "R", w.shape.lens[0], None, w.shape.lens[2])
    real = []
    for what, value, scale, zero in (("W", w, w_scale, w_zero), ("R", r, r_scale, r_zero)):
        directions, _, columns = value.shape.lens
        wide = []
        for part in (scale, zero):
            if part.shape.lens not in ((directions,), (directions, columns)):
                raise OnnxError(f"its {what} has lens {value.shape.lens}, a scale or zero point of {part.shape.lens}")
            lens_ = (directions, 1, columns if part.shape.ndim > 1 else 1)
            wide.append(b.broadcast_to(b.reshape(part, dims=lens_), value.shape.lens))
        real.append(b.transpose(b.dequantizelinear(value, *wide), permutation=(0, 2, 1)))
    return lstm(b, x, real[0], real[1], bias, lens, h, c, peepholes, **given)

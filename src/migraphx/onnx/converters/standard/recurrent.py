"""Recurrent layers: RNN, GRU, LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ir.operation import declaration
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, register
from migraphx.ops.recurrent import Recurrent

Value = Instruction
NAMES = {
    "hardsigmoid": "hardsigmoid",
    "leakyrelu": "leaky_relu",
    "scaledtanh": "scaled_tanh",
    "thresholdedrelu": "thresholded_relu",
}
"""ONNX's names in lower case -> ours, where they differ."""
MISSPELT = "foward"
"""What opset 3's schema says for GRU's default direction."""


def layer(b: OnnxBuilder, name: str, inputs: tuple[Value | None, ...], given: dict[str, Any]) -> tuple[Value, ...]:
    """(all hidden states {T, D, N, H}, then each state after the last step {D, N, H}); of layout 1 batches first."""
    x, w, r, bias, lens, *states = inputs
    assert x is not None and r is not None
    expect(r, "R", None, None, None)
    hidden = given.get("hidden_size", r.shape.lens[2])
    turn, layout = (1, 0, 2), given.get("layout", 0)
    if layout not in (0, 1):
        raise OnnxError(f"layout {layout} is neither 0 nor 1")
    if layout:
        x = b.transpose(x, permutation=turn)
        states = [v if v is None else b.transpose(v, permutation=turn) for v in states[:2]] + states[2:]
    operands = [x, w, r, bias, lens, *states]
    while operands[-1] is None:
        operands.pop()
    direction = given.get("direction", "forward").replace(MISSPELT, "forward")
    attributes = {
        "hidden_size": hidden,
        "direction": direction,
        "actv_func": functions(b, name, given.get("activations", ()), direction),
        "actv_alpha": tuple(given.get("activation_alpha", ())),
        "actv_beta": tuple(given.get("activation_beta", ())),
        "clip": given.get("clip") or 0.0,
        **{k: bool(given[k]) for k in ("linear_before_reset", "input_forget") if k in given},
    }
    made = b.instruction(name, [b.undefined() if v is None else v for v in operands], **attributes)
    every = b.outputs(made, 2) if name == "lstm" else [made]
    ends = []
    for v, last in zip(every, (b.rnn_last_hs_output, b.rnn_last_cell_output), strict=False):
        ends.append(
            last(v, direction=direction) if lens is None else b.rnn_var_sl_last_output(v, lens, direction=direction)
        )
    if not layout:
        return (every[0], *ends)
    return (b.transpose(every[0], permutation=(2, 0, 1, 3)), *(b.transpose(e, permutation=turn) for e in ends))


def functions(b: OnnxBuilder, name: str, given: Any, direction: str) -> tuple[str, ...]:
    """ONNX's activations by our names; RNN's default names two, also for one direction.

    Of too few the last one stands for those that are missing, and one direction's are the other's too.
    """
    lower = [str(n).lower() for n in given]
    declared = declaration(name)
    assert issubclass(declared, Recurrent)
    each, both = len(declared.default), direction == "bidirectional"
    count = each * (2 if both else 1)
    if len(lower) > 2 * each:
        raise OnnxError(f"has {len(lower)} activations, must have {count}")
    if 0 < len(lower) < count:
        b.deviates(f"has {len(lower)} activations, must have {count}")
        first = [*lower, *[lower[-1]] * each][:each]
        lower = first * 2 if both else first
    return tuple(NAMES.get(n, n) for n in lower)[:count]


def of_one_state(name: str) -> Callable[..., tuple[Value, ...]]:
    def convert(
        b: OnnxBuilder, x: Value, w: Value, r: Value, bias: Value | None = None, lens: Value | None = None,
        h: Value | None = None, **given: Any,
    ) -> tuple[Value, ...]:  # fmt: skip
        return layer(b, name, (x, w, r, bias, lens, h), given)

    return convert


register("RNN", of_one_state("rnn"))
register("GRU", of_one_state("gru"))


@converter("LSTM")
def lstm(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lens: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    peepholes: Value | None = None,
    **given: Any,
) -> tuple[Value, ...]:
    """c = f c + i g(...), h = o k(c)"""
    return layer(b, "lstm", (x, w, r, bias, lens, h, c, peepholes), given)

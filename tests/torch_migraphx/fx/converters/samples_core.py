"""Samples of Prims, and of what the core ATen operators have beside the layers of models."""

import math

import torch

from tests.torch_migraphx.fx.converters.samples import NAN, SIZES, SQUARE, X4, Sample, each, f, i, m


def of_convolution(x: torch.Tensor, weight: torch.Tensor, groups: int = 1, transposed: bool = False, **how) -> Sample:
    n = x.dim() - 2
    how = {"stride": [1] * n, "padding": [0] * n, "dilation": [1] * n, "output_padding": [0] * n} | how
    y = torch.convolution(x, weight, None, transposed=transposed, groups=groups, **how)
    return {
        "grad_output": f(*y.shape),
        "input": x,
        "weight": weight,
        "bias_sizes": [y.shape[1]],
        "transposed": transposed,
        "groups": groups,
        "output_mask": [True, True, True],
    } | how


def of_pool(n: int, x: torch.Tensor, **how) -> Sample:
    how = {
        "kernel_size": [3, 2, 2][:n],
        "stride": [2, 1, 2][:n],
        "padding": [1, 0, 1][:n],
        "ceil_mode": False,
        "count_include_pad": True,
        "divisor_override": None,
    } | how
    pool = {2: torch.nn.functional.avg_pool2d, 3: torch.nn.functional.avg_pool3d}[n]
    return {"grad_output": f(*pool(x, *how.values()).shape), "input": x} | how


def of_attention(keys: int = 7, key_heads: int = 4, **how) -> Sample:
    query, key, value = f(2, 4, 5, 8), f(2, key_heads, keys, 8), f(2, key_heads, keys, 8)
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, **how)
    given = {"query": query, "key": key, "value": value, "out": out, "logsumexp": logsumexp}
    return {"grad_out": f(2, 4, 5, 8), "dropout_p": 0.0, "is_causal": False} | given | how


UNSEEN = torch.zeros(5, 7).index_fill(0, torch.tensor([2]), -math.inf)
X5 = f(1, 2, 6, 5, 7)
CORE: dict[str, list[Sample]] = {
    "backward.convolution_backward": [
        of_convolution(f(2, 4, 9), f(6, 2, 3), groups=2, stride=[2], padding=[1]),
        of_convolution(f(2, 4, 8, 7), f(3, 4, 3, 2), stride=[3, 2], dilation=[2, 1], padding=[1, 1]),
        of_convolution(f(2, 4, 5, 3), f(4, 3, 3, 2), transposed=True, groups=2, stride=[2, 3], output_padding=[1, 2]),
        of_convolution(f(1, 2, 4, 5, 3), f(3, 2, 2, 3, 2)),
    ],
    "backward.avg_pool2d_backward": [
        of_pool(2, X4),
        of_pool(2, X4, ceil_mode=True, count_include_pad=False),
        of_pool(2, X4[0], divisor_override=5, stride=[]),
    ],
    "backward.avg_pool3d_backward": [of_pool(3, X5), of_pool(3, X5, count_include_pad=False)],
    "backward._adaptive_avg_pool2d_backward": [
        {"grad_output": f(2, 6, 3, 3), "input": X4},
        {"grad_output": f(6, 1, 7), "input": X4[0]},
    ],
    "backward._adaptive_avg_pool3d_backward": [{"grad_output": f(1, 2, 4, 2, 3), "input": X5}],
    "attention.attention_cpu": [
        SQUARE,
        SQUARE | {"is_causal": True},
        SQUARE | {"attn_mask": f(2, 4, 5, 5), "scale": 0.3},
        SQUARE | {"attn_mask": UNSEEN[:, :5]},
        {"query": f(2, 4, 5, 8), "key": f(2, 2, 5, 8), "value": f(2, 2, 5, 8)},
    ],
    "attention.attention_cpu_backward": [
        of_attention(),
        of_attention(5, is_causal=True),
        of_attention(attn_mask=f(2, 4, 5, 7), scale=0.3),
        of_attention(attn_mask=UNSEEN),
        of_attention(key_heads=2),
        of_attention(5, 1, is_causal=True),
    ],
    "reduction.pdist": [{"input": f(5, 3), "p": p} for p in (0.0, 1.0, 2.0, math.inf)],
    "pointwise.angle": [{"input": f(3, 4)}, {"input": NAN}, {"input": i(5)}],
    "pointwise.hypot": [{"input": f(3, 4), "other": f(4)}, {"input": NAN, "other": NAN.flip(0)}],
    "creation.empty_strided": [
        {"size": [2, 3], "stride": [1, 2], "dtype": torch.float64, "input": i(2)},
        {"size": [2, 3], "stride": [1, 2]},
        {"size": [2, 3], "physical_layout": [1, 0]},
    ],
    **each(
        [f"pointwise.{w}" for w in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")],
        [
            {"input": i(3, 4), "other": i(4, low=0, high=70)},
            {"input": i(3, 4, dtype=torch.int8), "other": 2},
            {"input": 5, "other": i(4, low=0, dtype=torch.int32)},
        ],
    ),
    "fourier.dft": [
        {"input": x, "axis": 1, "length": n, "inverse": back, "onesided": half}
        for x, n, back, half in (
            (f(2, 6, 3, 1), None, False, True), (f(2, 6, 3, 2), None, False, False), (f(2, 6, 3, 2), 5, True, False),
            (f(2, 6, 3, 2), 10, True, True), (f(2, 6, 3, 1), 8, False, True), (f(2, 1029, 2, 1), None, False, True),
            (f(2, 40, 2, 2), 1032, True, False), (f(1, 520, 1, 2), 1050, True, True),
        )
    ],
    "recurrent.mkldnn_rnn_layer": [
        {
            "input": f(5, 4, 3), "weight0": f(8, 3), "weight1": f(8, 2), "weight2": f(8), "weight3": f(8, low=-1),
            "hx_": f(1, 4, 2), "cx_": f(1, 4, 2, low=-1), "reverse": reverse, "batch_sizes": [], "mode": 2,
            "hidden_size": 2, "num_layers": 1, "has_biases": biases, "bidirectional": False, "batch_first": False,
            "train": False,
        }
        for reverse, biases in ((False, True), (True, False))
    ],
    "pointwise._neg_view": [{"input": f(3)}],
    "shape.sym_size": [SIZES | {"dim": -1}],
    **each(["shape.sym_numel", "shape.sym_storage_offset", "shape.size", "shape.dtype"], [SIZES]),
    "image.adaptive_max_pool": [
        {"input": f(2, 3, 7), "output_size": 4},
        {"input": f(2, 3, 7, 6), "output_size": [3, 4], "return_indices": True},
        {"input": f(3, 7, 6, 5), "output_size": [7, 2, 3]},
    ],
    "shape.tuple_construct": [{"tensors": [f(3), f(2, 4)]}],
    "shape.sym_stride": [{"input": f(4, 3).t(), "dim": 0}],
    "shape.sym_is_contiguous": [SIZES, {"input": f(4, 3).t()}],
}  # fmt: skip
"""By `file.function`, or `file.operator`."""

CPU = torch.device("cpu")
MADE = {"dtype": torch.float64, "device": CPU, "requires_grad": False}
UNARY = [{"input": f(3, 5, low=0.1, high=0.9)}, {"input": f(2, 3, low=0.1, high=0.9, dtype=torch.float64)}]
WHOLE = [{"input": i(3, 4), "other": i(3, 4)}]
BINARY = [{"input": f(3, 4, low=0.2), "other": f(3, 4, low=0.3).flip(0)}]
PRIMS: dict[str, list[Sample]] = {
    **each(
        ["ceil", "floor", "trunc", "round", "abs", "neg", "sign", "signbit", "isfinite", "cbrt"],
        [{"input": f(3, 5)}, {"input": NAN}],
    ),
    "acosh": [{"input": f(3, 5, low=1.1, high=4)}],
    "bitwise_not": [{"input": i(3, 4)}, {"input": m(3)}],
    **each(["bitwise_and", "bitwise_or", "bitwise_xor"], [*WHOLE, {"input": m(3), "other": ~m(3)}]),
    **each(["shift_left", "shift_right_arithmetic"], [{"input": i(3, 4), "other": i(3, 4, low=0)}]),
    **each(["atan2", "fmax", "fmin", "hypot"], BINARY),
    "pow": [{"input": f(3, 4, low=0.2), "exponent": f(3, 4)}],
    **each(
        ["add", "sub", "mul", "eq", "ne", "ge", "gt", "le", "lt", "maximum", "minimum"], [*BINARY, *WHOLE]
    ),
    **each(["div", "fmod", "remainder"], [*BINARY, {"input": i(3, 4), "other": i(3, 4, low=1)}]),
    "where": [{"condition": m(3, 4), "x": f(3, 4), "y": f(3, 4, low=0)}],
    "broadcast_in_dim": [
        {"input": f(3, 1), "shape": [2, 3, 4], "broadcast_dimensions": [1, 2]},
        {"input": torch.tensor(2.0), "shape": [2, 3], "broadcast_dimensions": []},
    ],
    **each(["collapse", "collapse_view"], [SIZES | {"start": 1, "end": 2}, SIZES | {"start": 0, "end": 0}]),
    "split_dim": [{"input": f(2, 6), "dim": 1, "outer_length": 3}],
    "squeeze": [{"input": f(1, 3, 1), "dim": [0, 2]}],
    "transpose": [SIZES | {"permutation": [2, 0, 1]}],
    "reshape": [SIZES | {"shape": [4, 6]}],
    "rev": [SIZES | {"dims": [0, 2]}],
    "cat": [{"tensors": [f(2, 3), f(2, 1)], "dim": 1}],
    "as_strided": [{"input": f(3, 4), "size": [2, 3], "stride": [4, 1], "storage_offset": 1}],
    **each(["view_of", "clone"], [SIZES]),
    "copy_strided": [SIZES | {"stride": [1, 2, 6]}],
    "device_put": [SIZES | {"device": CPU}],
    **each(
        ["sum", "prod", "amax", "amin"], [{"inp": f(2, 3, 4), "dims": [0, 2]}, {"inp": i(2, 3), "dims": [1]}]
    ),
    "var": [{"inp": f(2, 3, 4), "dims": [0, 2], "correction": 1}, {"inp": f(2, 3), "dims": [1], "correction": 0}],
    "fill": [{"input": f(3), "value": 2.5}],
    "full": [{"size": [2, 3], "fill_value": 1.5} | MADE],
    "full_like": [{"input": f(3, 2), "fill_value": 2} | MADE],
    "iota": [{"length": 5, "start": 2, "step": 3, "dtype": torch.int64, "device": CPU, "requires_grad": False}],
    "empty_strided": [{"size": [2, 3], "strides": [3, 1]} | MADE],
    "empty_permuted": [{"size": [2, 3], "physical_layout": [1, 0]} | MADE],
    "scalar_tensor": [{"s": 2.5, "dtype": torch.float64, "device": CPU}],
    "convert_element_type": [{"input": f(3), "dtype": torch.int32}],
    **each(["maximum_value", "minimum_value"], [{"dtype": t} for t in (torch.int16, torch.float32, torch.bool)]),
}  # fmt: skip
"""By the prim's name; those that are not here take UNARY."""

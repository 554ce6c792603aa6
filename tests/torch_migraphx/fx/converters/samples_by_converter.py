"""Samples of the converters that have a name of their own: `file.function`."""

import math

import torch

from tests.torch_migraphx.fx.converters.samples import (
    ACT,
    ANY_UNARY,
    BN,
    BOOL_PAIRS,
    CONV,
    FEW_PAIRS,
    FLOAT_REDUCE,
    NAN,
    ONE_DIM,
    PAIRS,
    POOL,
    POSITIVE,
    QKV,
    REDUCE,
    SIZES,
    SQUARE,
    STATS,
    TRANSPOSED,
    UNARY,
    X4,
    Sample,
    each,
    f,
    i,
    m,
    over,
    recurrent,
)

CPU = torch.device("cpu")
BOUNDS = torch.tensor([-1.0, 0.5, 0.5, 0.75, 2.0])
GRID3D = {"input": f(2, 3, 5, 4, 3), "grid": f(2, 3, 2, 3, 3, low=-1.4, high=1.4), "align_corners": False}
SOME_NAN = f(2, 2, 7, 6).masked_fill(f(2, 2, 7, 6, low=0, high=1) < 0.4, math.nan)
BY_CONVERTER: dict[str, list[Sample]] = {
    "matmul.addmv": [{"input": f(3), "mat": f(3, 4), "vec": f(4), "beta": 0.5, "alpha": 2.0}],
    "matmul.addbmm": [{"input": f(3, 5), "batch1": f(2, 3, 4), "batch2": f(2, 4, 5), "beta": 0.5, "alpha": 2.0}],
    "pointwise.signbit": [{"input": NAN}, {"input": f(3, dtype=torch.float16)}, {"input": i(4)}],
    "pointwise.copysign": [{"input": f(6), "other": NAN}, {"input": i(4), "other": f(4)}, {"input": f(3), "other": -1}],
    "pointwise.ldexp": [{"input": f(4), "other": i(4)}],
    "reduction.cdist": [
        {"x1": f(2, 5, 3), "x2": f(2, 4, 3), "p": p, "compute_mode": None} for p in (0.0, 1.0, 2.0, 3.0, math.inf)
    ],
    "one_to_one.relu": ACT,
    "activation.hardtanh": [*ACT, {"input": f(4), "min_val": -0.5, "max_val": 0.7}],
    "activation.relu6": ACT,
    "activation.leaky_relu": [*ACT, {"input": f(4), "negative_slope": 0.3}],
    "activation.elu": [
        *ACT,
        {"input": f(4), "alpha": 0.4},
        {"input": f(4), "alpha": 0.4, "scale": 2, "input_scale": 0.5},
    ],
    "one_to_one.celu": [*ACT, {"input": f(4), "alpha": 0.4}],
    "one_to_one.selu": ACT,
    "one_to_one.gelu": [*ACT, {"input": f(4), "approximate": "tanh"}],
    "one_to_one.silu": ACT,
    "one_to_one.softplus": [*ACT, {"input": f(4, high=40), "beta": 2.0, "threshold": 10.0}],
    "one_to_one.mish": ACT,
    "one_to_one.hardsigmoid": ACT,
    "one_to_one.hardswish": ACT,
    "one_to_one.softsign": ACT,
    "one_to_one.softshrink": [*ACT, {"input": f(4), "lambd": 0.9}],
    "one_to_one.hardshrink": [*ACT, {"input": f(4), "lambd": 0.9}],
    "one_to_one.tanhshrink": ACT,
    "one_to_one.logsigmoid": ACT,
    "activation.log_sigmoid_forward": [{"input": f(3, 4)}],
    "activation.prelu": [
        {"input": f(2, 3, 4), "weight": f(3)},
        {"input": f(2, 3), "weight": f(1)},
        {"input": f(2, 3), "weight": f(2, 3)},
    ],
    "activation.glu": [{"input": f(3, 6)}, {"input": f(4, 3), "dim": 0}],
    "one_to_one.threshold": [{"input": f(4, 3), "threshold": 0.5, "value": -7.0}],
    **each(
        ["activation.softmax", "activation.log_softmax"],
        [
            {"input": f(3, 4), "dim": -1},
            {"input": f(3, 4, 2), "dim": 1},
            {"input": i(3, 4), "dim": 0, "dtype": torch.float32},
        ],
    ),
    **each(["activation._softmax", "activation._log_softmax"], [{"input": f(3, 4), "dim": 1, "half_to_float": False}]),
    "activation._safe_softmax": [{"input": torch.tensor([[0.0, 1.0], [-math.inf, -math.inf]]), "dim": -1}],
    "attention.attention": [
        QKV,
        QKV | {"attn_mask": m(5, 7)},
        QKV | {"attn_mask": f(2, 1, 5, 7)},
        SQUARE | {"is_causal": True},
        QKV | {"scale": 0.3},
        {"query": f(2, 4, 5, 8), "key": f(2, 2, 7, 8), "value": f(2, 2, 7, 8), "enable_gqa": True},
        {"query": f(5, 8), "key": f(7, 8), "value": f(7, 8)},
    ],
    "attention.attention_math": [QKV, SQUARE | {"is_causal": True}],
    "convolution.conv": CONV,
    "convolution.conv_transpose": TRANSPOSED,
    "convolution.convolution": [
        {
            "input": f(2, 4, 5, 6),
            "weight": f(4, 3, 3, 2),
            "bias": f(3),
            "stride": [2, 1],
            "padding": [1, 0],
            "dilation": [1, 1],
            "transposed": True,
            "output_padding": [1, 0],
            "groups": 1,
        },
        {
            "input": f(2, 4, 5, 6),
            "weight": f(4, 2, 3, 2),
            "bias": None,
            "stride": [2, 1],
            "padding": [1, 0],
            "dilation": [1, 2],
            "transposed": False,
            "output_padding": [0, 0],
            "groups": 2,
        },
    ],
    "creation.full": [
        {"size": [2, 3], "fill_value": 2.5},
        {"size": [], "fill_value": 3},
        {"size": [2], "fill_value": True},
    ],
    "creation.zeros": [{"size": [2, 3]}, {"size": [2], "dtype": torch.int64}, {"size": [2], "input": i(2)}],
    "creation.ones": [{"size": [2, 3]}, {"size": [2], "dtype": torch.int64}, {"size": [2], "input": i(2)}],
    "creation.new_full": [{"input": i(2), "size": [2, 3], "fill_value": 7}],
    "creation.full_like": [
        {"input": i(2, 3), "fill_value": 7},
        {"input": i(2), "fill_value": 1.5, "dtype": torch.float32},
    ],
    "creation.zeros_like": [{"input": f(2, 3)}, {"input": f(2), "dtype": torch.int64}],
    "creation.ones_like": [{"input": f(2, 3)}, {"input": f(2), "dtype": torch.int64}],
    "creation.scalar_tensor": [{"s": 2}, {"s": 2.5, "dtype": torch.float64}],
    "creation.fill": [{"input": i(2, 3), "value": 4}],
    "creation.copy": [{"input": i(2, 3), "src": f(2, 3)}, {"input": f(2, 3), "src": f(3, dtype=torch.float64)}],
    "creation.zero": [{"input": i(2, 3)}, {"input": f(4)}],
    "creation.arange": [
        {"end": 5},
        {"start": 2, "end": 9, "step": 3},
        {"start": 1.0, "end": 3},
        {"start": 2, "end": 9},
    ],
    "creation.iota": [
        {"length": 4, "start": 3, "step": 2, "dtype": torch.int64, "requires_grad": False, "device": CPU}
    ],
    "creation.linspace": [{"start": 0.0, "end": 1.0, "steps": 5}],
    "creation.eye": [{"n": 3}, {"n": 3, "m": 2}],
    "resize.grid_sample": [
        *over(
            [{"input": f(2, 3, 5, 4), "grid": f(2, 3, 6, 2, low=-1.4, high=1.4), "align_corners": False}],
            [
                {"mode": "bilinear", "padding_mode": "reflection"},
                {"mode": "nearest", "padding_mode": "border", "align_corners": True},
                {"mode": "bicubic", "padding_mode": "zeros"},
                {"mode": 0, "padding_mode": 0, "align_corners": True},
                {"mode": 1, "padding_mode": 2},
                {"mode": 2, "padding_mode": 1},
            ],
        ),
        GRID3D | {"mode": 0, "padding_mode": 1},
        GRID3D | {"mode": "nearest", "padding_mode": "zeros"},
    ],
    "image.max_pool_with_indices": [
        *POOL[2],
        *POOL[3],
        {"input": X4, "kernel_size": [3, 3], "stride": [1, 2], "padding": [1, 1], "dilation": [2, 1]},
        {"input": SOME_NAN, "kernel_size": 2},
        {"input": SOME_NAN, "kernel_size": 3, "stride": 2, "padding": 1},
    ],
    "image.adaptive_max_pool_with_indices": [
        {"input": SOME_NAN, "output_size": [3, 4]},
        {"input": f(2, 3, 7, 6), "output_size": [3, 4]},
        {"input": f(3, 7, 6, 5), "output_size": [7, 2, 3]},
    ],
    "image.pad": [
        {"input": X4, "pad": [1, 2]},
        {"input": X4, "pad": [1, 2, 0, 3], "value": 1.5},
        {"input": X4, "pad": [-1, 2, 0, -2]},
        {"input": X4, "pad": [1, 2, 2, 1], "mode": "reflect"},
        {"input": X4, "pad": [1, 2, 2, 1], "mode": "replicate"},
        {"input": X4, "pad": [1, 2, 2, 1], "mode": "circular"},
    ],
    "image.constant_pad_nd": [{"input": X4, "pad": [1, 2, 0, 3], "value": 1.5}, {"input": i(3), "pad": [1, 1]}],
    **each(
        ["image.reflection_pad", "image.replication_pad"],
        [
            {"input": f(2, 3, 5, 4, 6)[(..., *(0,) * (3 - n))], "padding": [1, 2, 1, 1, 2, 1][: 2 * n]}
            for n in (1, 2, 3)
        ],
    ),
    "indexing.slice_tensor": [
        SIZES | {"dim": 1, "start": 1, "stop": 3, "step": 1},
        SIZES | {"dim": -1, "start": -3, "stop": 100, "step": 2},
        SIZES | {"dim": 0, "start": 2, "stop": 1, "step": 1},
    ],
    "indexing.select": [SIZES | {"dim": 1, "index": -1}, SIZES | {"dim": -1, "index": 2}],
    "indexing.getitem": [
        {"input": f(4, 5, 6), "idx": x}
        for x in (
            1,
            (slice(None), 2),
            (Ellipsis, slice(1, 5, 2)),
            (None, 1, slice(None), None),
            i(2, 3, low=0, high=4),
            (slice(None), i(3, low=-5, high=5)),
            (i(2, low=0, high=4), i(2, low=0, high=5)),
            (i(2, 1, low=0, high=4), slice(1, 4), i(3, low=0, high=6)),
            (slice(None), i(2, low=0, high=4), i(2, low=0, high=5)),
            (0, [1, 3]),
        )
    ],
    "indexing.index": [
        {"input": f(4, 5, 6), "indices": x}
        for x in ([i(2, low=0, high=4)], [None, i(2, low=0, high=4)], [i(2, low=0, high=4), None, i(2, low=0, high=5)])
    ],
    "indexing.index_select": [
        SIZES | {"dim": 1, "index": i(4, low=0, high=3)},
        SIZES | {"dim": -1, "index": torch.tensor(2)},
    ],
    "indexing.embedding": [{"input": i(2, 3, low=0, high=5), "weight": f(5, 4)}],
    "indexing.aten_embedding": [{"input": i(2, 3, low=0, high=5), "weight": f(5, 4), "padding_idx": 1}],
    "indexing.gather": [
        SIZES | {"dim": 1, "index": i(2, 5, 4, low=0, high=3)},
        SIZES | {"dim": -1, "index": i(1, 2, 3, low=0, high=4)},
    ],
    "indexing.index_copy": [SIZES | {"dim": 1, "index": torch.tensor([2, 0]), "source": f(2, 2, 4)}],
    "indexing.scatter": [
        SIZES | {"dim": 1, "index": torch.tensor([[[0, 1, 2, 0]]]), "src": f(2, 3, 4)},
        SIZES | {"dim": 2, "index": torch.tensor([[[0, 3]]]), "src": 7.0},
    ],
    "indexing.scatter_add": [SIZES | {"dim": 1, "index": i(1, 3, 4, low=0, high=3), "src": f(2, 3, 4)}],
    "indexing.scatter_with": [
        SIZES | {"dim": 1, "index": i(2, 1, 4, low=0, high=3), "src": f(2, 3, 4), "reduce": "add"},
        SIZES | {"dim": -1, "index": i(2, 3, 2, low=0, high=4), "src": 2.5, "reduce": "multiply"},
        {"input": torch.tensor(2.0), "dim": 0, "index": torch.tensor(0), "src": torch.tensor(3.0), "reduce": "add"},
    ],
    "indexing.scatter_reduce": [
        {"input": x, "dim": 0, "index": i(5, 3, low=0, high=4), "src": src, "reduce": word, "include_self": own}
        for word in ("sum", "prod", "mean", "amax", "amin")
        for x, src, own in ((f(4, 3), f(5, 3), True), (i(4, 3), i(5, 3), False))
    ],
    "indexing.diagonal_scatter": [
        {"input": f(4, 5), "src": f(4)},
        {"input": f(4, 3, 5), "src": f(3, 2), "offset": -2, "dim1": 0, "dim2": 2},
        {"input": f(4, 3, 5), "src": f(3, 3), "offset": 1, "dim1": 2, "dim2": 0},
    ],
    "indexing.put": [
        SIZES | {"index": torch.tensor([[0, -1], [7, 3]]), "source": f(2, 2)},
        SIZES | {"index": torch.tensor([1, 1, -23]), "source": f(3), "accumulate": True},
    ],
    "indexing.masked_scatter": [
        SIZES | {"mask": m(2, 3, 4), "source": f(30)},
        {"input": i(3, 4), "mask": m(4), "source": i(12)},
    ],
    "indexing.one_hot": [{"input": i(2, 3, low=0, high=4), "num_classes": 5}],
    "indexing.select_scatter": [SIZES | {"src": f(2, 4), "dim": 1, "index": 1}],
    "indexing.slice_scatter": [
        SIZES | {"src": f(2, 2, 4), "dim": 1, "start": 1},
        SIZES | {"src": f(2, 3, 4)},
        {"input": f(2, 7), "src": f(2, 2), "dim": -1, "start": 1, "end": 6, "step": 3},
    ],
    "indexing.index_put": [
        {"input": f(4, 5), "indices": [torch.tensor([0, 2])], "values": f(2, 5)},
        {"input": f(4, 5), "indices": [torch.tensor([0, 2]), torch.tensor([1, 1])], "values": f(2), "accumulate": True},
        {"input": f(2, 4, 3), "indices": [None, torch.tensor([[0, -2]])], "values": f(1, 2, 3)},
        {"input": f(2, 4, 3), "indices": [torch.tensor([0, 1]), None, torch.tensor([2, 0])], "values": f(2, 4)},
        {"input": f(2, 4, 3), "indices": [m(2, 4)], "values": f(1, 3)},
        {"input": f(2, 4), "indices": [m(2)], "values": torch.tensor(2.0), "accumulate": True},
    ],
    "indexing.unfold": [
        {"input": X4, "kernel_size": 2},
        {"input": X4, "kernel_size": (3, 2), "dilation": 2, "padding": 1, "stride": 2},
    ],
    "indexing.im2col": [{"input": X4, "kernel_size": [3, 2], "dilation": [1, 2], "padding": [1, 0], "stride": [2, 1]}],
    "matmul.linear": [
        {"input": f(3, 4), "weight": f(5, 4), "bias": f(5)},
        {"input": f(2, 3, 4), "weight": f(5, 4)},
        {"input": f(4), "weight": f(5, 4), "bias": f(5)},
        {"input": f(2, 4), "weight": f(4)},
    ],
    "matmul.matmul": [
        {"input": f(3, 4), "other": f(4, 5)},
        {"input": f(4), "other": f(4)},
        {"input": f(2, 3, 4), "other": f(4)},
        {"input": f(4), "other": f(2, 4, 3)},
        {"input": f(2, 1, 3, 4), "other": f(5, 4, 2)},
        {"input": f(2, 3, 4), "other": f(4, 5)},
    ],
    "matmul.mm": [
        {"input": f(3, 4), "mat2": f(4, 5)},
        {"input": f(2, 3, 4), "mat2": f(2, 4, 5)},
        {"input": f(3, 4), "mat2": f(4)},
        {"input": f(4), "mat2": f(4)},
    ],
    "matmul.addmm": [
        {"input": f(5), "mat1": f(3, 4), "mat2": f(4, 5)},
        {"input": f(3, 5), "mat1": f(3, 4), "mat2": f(4, 5), "beta": 0.5, "alpha": 2},
        {"input": NAN[:5], "mat1": f(3, 4), "mat2": f(4, 5), "beta": 0},
    ],
    "matmul.baddbmm": [{"input": f(2, 3, 5), "batch1": f(2, 3, 4), "batch2": f(2, 4, 5), "beta": 0.5}],
    "matmul.bilinear": [{"input1": f(2, 3, 4), "input2": f(2, 3, 5), "weight": f(6, 4, 5), "bias": f(6)}],
    **each(
        ["matmul.einsum", "matmul.aten_einsum"],
        [
            {"equation": "bij, bjk -> bik", "operands": [f(2, 3, 4), f(2, 4, 5)]},
            {"equation": "ii->i", "operands": [f(3, 3)]},
            {"equation": "bhqd,bhkd->bhqk", "operands": [f(2, 2, 3, 4), f(2, 2, 5, 4)]},
        ],
    ),
    "normalization.batch_norm": [
        {"input": X4} | BN | STATS,
        {"input": f(3, 6)} | STATS,
        {"input": X4, "running_mean": None, "running_var": None, "training": True},
    ],
    "normalization.batch_norm_inference": [{"input": X4, "momentum": 0.1} | BN | STATS],
    "normalization.native_batch_norm": [{"input": X4, "momentum": 0.1, "training": False} | BN | STATS],
    "normalization.batch_norm_functional": [{"input": X4, "momentum": 0.1, "training": True} | BN | STATS],
    "normalization.batch_norm_no_stats": [{"input": X4, "momentum": 0.1, "training": True} | BN],
    **each(
        ["normalization.layer_norm", "normalization.aten_layer_norm"],
        [
            {"input": f(3, 4), "normalized_shape": [4]},
            {"input": f(2, 3, 4), "normalized_shape": [3, 4], "weight": f(3, 4), "bias": f(3, 4), "eps": 1e-3},
        ],
    ),
    "normalization.native_layer_norm": [
        {"input": f(2, 3, 4), "normalized_shape": [4], "weight": f(4), "bias": f(4), "eps": 1e-5}
    ],
    "normalization.rms_norm": [
        {"input": f(3, 4), "normalized_shape": [4], "weight": f(4)},
        {"input": f(3, 4), "normalized_shape": [4], "eps": 1e-3},
    ],
    **each(
        ["normalization.group_norm", "normalization.aten_group_norm"],
        [{"input": X4, "num_groups": 3, "weight": f(6), "bias": f(6)}, {"input": f(3, 4), "num_groups": 2}],
    ),
    "normalization.native_group_norm": [
        {"input": X4, "weight": f(6), "bias": f(6), "N": 2, "C": 6, "HxW": 20, "group": 3, "eps": 1e-5}
    ],
    "normalization.instance_norm": [
        {"input": X4, "weight": f(6), "bias": f(6)},
        {"input": X4, "use_input_stats": False} | STATS,
    ],
    "normalization.local_response_norm": [
        {"input": X4, "size": 3},
        {"input": X4, "size": 5, "alpha": 0.1, "beta": 0.5, "k": 2.0},
    ],
    "pointwise.round": [*ANY_UNARY, {"input": f(3, 4), "decimals": 2}, {"input": f(3, high=900), "decimals": -2}],
    **each(["pointwise.erfc", "one_to_one.exp2", "pointwise.deg2rad", "pointwise.rad2deg"], UNARY),
    "pointwise.frac": UNARY,
    "pointwise.square": [*UNARY, {"input": i(3)}, {"input": m(3)}],
    "one_to_one.log10": POSITIVE,
    **each(["pointwise.isnan", "pointwise.isinf", "pointwise.isfinite"], [{"input": NAN}, {"input": i(3)}]),
    "pointwise.logical_not": [{"input": m(4)}, {"input": NAN}, {"input": i(4)}],
    "pointwise.bitwise_not": [{"input": m(4)}, {"input": i(4)}],
    "pointwise.logit": [{"input": f(4, low=0.1, high=0.9)}, {"input": f(4, low=0, high=1), "eps": 0.2}],
    "pointwise.nan_to_num": [
        {"input": NAN},
        {"input": NAN, "nan": 3.0, "posinf": 1.0, "neginf": -1.0},
        {"input": i(3)},
    ],
    **each(
        ["pointwise.add", "pointwise.sub", "pointwise.rsub"],
        [
            *PAIRS,
            {"input": f(3), "other": f(3), "alpha": 2.5},
            {"input": i(3), "other": i(3), "alpha": 2},
            {"input": i(3), "other": 2, "alpha": 3},
        ],
    ),
    "one_to_one.mul": [*PAIRS, *BOOL_PAIRS],
    "pointwise.div": PAIRS,
    "pointwise.trunc_div": PAIRS,
    "one_to_one.floor_div": PAIRS,
    "pointwise.div_mode": over(PAIRS, [{"rounding_mode": "floor"}])
    + over(FEW_PAIRS, [{"rounding_mode": None}, {"rounding_mode": "trunc"}]),
    "one_to_one.remainder": PAIRS,
    "one_to_one.fmod": PAIRS,
    "pointwise.pow": [{"input": f(3, 4, low=0.1), "exponent": e} for e in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5, f(4))]
    + [
        {"input": 2.0, "exponent": f(4)},
        {"input": i(4), "exponent": 2},
        {"input": i(4), "exponent": i(4, low=0, high=4)},
        {"input": i(4), "exponent": 2.5},
    ],
    "one_to_one.maximum": [*PAIRS, {"input": NAN, "other": NAN.flip(0)}],
    "one_to_one.minimum": [*FEW_PAIRS, {"input": NAN, "other": NAN.flip(0)}],
    "pointwise.atan2": [
        {"input": f(3, 4), "other": f(4)},
        {"input": NAN, "other": NAN.flip(0)},
        {
            "input": torch.tensor([0.0, -0.0, 0.0, -0.0, 1.0, -1.0]),
            "other": torch.tensor([0.0, 0.0, -0.0, -0.0, 0.0, -0.0]),
        },
    ],
    "pointwise.logaddexp": [{"input": f(3, 4, low=-90), "other": f(4)}, {"input": NAN, "other": NAN}],
    "pointwise.xlogy": [
        {"input": f(3, 4), "other": f(4, low=0.1)},
        {"input": NAN, "other": NAN.flip(0)},
        {"input": 2.0, "other": f(3, low=0.1)},
        {"input": f(3), "other": 2.0},
    ],
    **each(["one_to_one.eq", "one_to_one.lt"], [*PAIRS, {"input": NAN, "other": NAN}]),
    **each([f"one_to_one.{w}" for w in ("ne", "gt", "le", "ge")], [*FEW_PAIRS, {"input": NAN, "other": NAN}]),
    "pointwise.where": [
        {"condition": m(3, 4), "x": f(4), "y": f(3, 1)},
        {"condition": m(3), "x": f(3), "y": 0.0},
        {"condition": m(3), "x": 1, "y": i(3)},
        {"condition": m(3), "x": 1.0, "y": 2.0},
    ],
    "pointwise.masked_fill": [
        {"input": f(3, 4), "mask": m(4), "value": -math.inf},
        {"input": i(3), "mask": m(3), "value": torch.tensor(2)},
    ],
    "pointwise.clamp": [
        {"input": f(3, 4), "min": -0.5, "max": 0.5},
        {"input": f(3, 4), "max": 0.5},
        {"input": f(3, 4), "min": f(4)},
        {"input": i(3, 4), "min": 0.5},
        {"input": NAN, "min": 0.0, "max": 1.0},
        {"input": i(4), "min": -1, "max": 2},
    ],
    "pointwise.clamp_min": [{"input": f(3, 4), "min": 0.5}, {"input": f(3, 4), "min": f(4)}],
    "pointwise.clamp_max": [{"input": f(3, 4), "max": 0.5}, {"input": f(3, 4), "max": f(4)}],
    "pointwise.lerp": [
        {"input": f(3, 4), "end": f(4), "weight": 0.3},
        {"input": f(3, 4), "end": f(4), "weight": f(3, 1)},
    ],
    **each(
        ["pointwise.addcmul", "pointwise.addcdiv"],
        [
            {"input": f(3, 4), "tensor1": f(4), "tensor2": f(3, 1, low=0.5)},
            {"input": f(3), "tensor1": f(3), "tensor2": f(3, low=0.5), "value": 0.3},
        ],
    ),
    "pointwise.as_fp8": [{"x": f(9, 9, low=-500, high=500)}, {"x": f(9, 9, low=-0.02, high=0.02)}, {"x": NAN}],
    "pointwise.view_dtype": [{"input": f(3, 4), "dtype": d} for d in (torch.int32, torch.float32)],
    "pointwise.to_dtype": [
        {"input": f(3, 4, low=-9, high=9), "dtype": d}
        for d in (torch.int32, torch.float64, torch.bool, torch.float16, torch.bfloat16, torch.float32)
    ],
    **each(
        ["reduction.sum", "reduction.any", "reduction.all", "reduction.prod"],
        [*REDUCE, {"input": m(2, 3, 4), "dim": 1}, {"input": i(3, 4, low=0, high=2, dtype=torch.uint8), "dim": 1}],
    ),
    "reduction.mean": [*FLOAT_REDUCE, {"input": i(3, 4), "dtype": torch.float32}],
    **each(["reduction.amax", "reduction.amin"], REDUCE),
    **each(
        ["reduction.max_full_reduce", "reduction.min_full_reduce"],
        [{"input": f(3, 4)}, {"input": i(3, 4)}, {"input": NAN}],
    ),
    **each(
        ["reduction.max_dim_reduce", "reduction.min_dim_reduce"],
        over([{"input": f(3, 4, 5)}], [d for d in ONE_DIM if d]),
    ),
    **each(["reduction.argmax", "reduction.argmin"], over([{"input": f(3, 4, 5)}], ONE_DIM)),
    "reduction.logsumexp": [
        {"input": f(3, 4), "dim": [1]},
        {"input": f(3, 4), "dim": [0, 1], "keepdim": True},
        {"input": NAN[1:], "dim": [0]},
    ],
    "reduction.count_nonzero": [{"input": i(3, 4)}, {"input": f(3, 4), "dim": [1]}],
    **each(
        ["reduction.var", "reduction.std", "reduction.var_mean"],
        [*over(FLOAT_REDUCE, [{}, {"correction": 0}]), {"input": f(3, 1), "dim": [1], "correction": 1}],
    ),
    "reduction.norm": [{"input": f(3, 4), "p": p, "dim": 1} for p in (2, 1, math.inf, 3, "fro", 0)]
    + [{"input": f(3, 4)}],
    "reduction.vector_norm": [{"input": f(3, 4), "ord": p, "dim": [1]} for p in (2, 1, math.inf, -math.inf, 3, 0)]
    + [{"input": f(3, 4)}],
    **each(["reduction.cumsum", "reduction.cumprod"], [{"input": f(3, 4), "dim": 1}, {"input": i(3, 4), "dim": -2}]),
    "reduction.topk": [{"input": f(3, 7), "k": 3}, {"input": f(6, 2), "k": 2, "dim": 0, "largest": False}],
    **each(
        ["reduction.sort", "reduction.argsort"],
        [{"input": f(3, 7)}, {"input": f(6, 2), "dim": 0, "descending": True}, {"input": i(3, 7), "stable": True}],
    ),
    "resize.interpolate": [
        {"input": X4, "size": (7, 9)},
        {"input": X4, "scale_factor": 2.0},
        {"input": X4, "size": (7, 9), "mode": "bilinear", "align_corners": True},
        {"input": X4, "scale_factor": (1.3, 2.1), "mode": "bilinear", "align_corners": False},
        {"input": X4, "size": (7, 9), "mode": "bicubic"},
        {"input": X4, "scale_factor": 1.7, "mode": "nearest-exact"},
        {"input": X4, "size": (2, 2), "mode": "area"},
        {"input": f(2, 3, 6), "size": 9, "mode": "linear"},
        {"input": X4, "scale_factor": 1.7, "recompute_scale_factor": True, "mode": "bilinear"},
    ],
    **each(["shape.reshape", "shape.reshape_copy"], [SIZES | {"shape": [6, 4]}, SIZES | {"shape": [-1, 2]}]),
    "shape.flatten": [
        SIZES,
        SIZES | {"start_dim": 1},
        SIZES | {"start_dim": 0, "end_dim": 1},
        {"input": torch.tensor(1.0)},
    ],
    "shape.unflatten": [{"input": f(2, 6), "dim": 1, "sizes": [2, -1]}],
    "shape.squeeze": [
        {"input": f(1, 3, 1)},
        {"input": f(1, 3, 1), "dim": 0},
        {"input": f(1, 3, 1), "dim": [0, 1, 2]},
        {"input": f(2, 3), "dim": 0},
    ],
    "shape.unsqueeze": [SIZES | {"dim": 0}, SIZES | {"dim": -1}, {"input": torch.tensor(1.0), "dim": 0}],
    "shape.permute": [SIZES | {"permutation": [2, 0, 1]}, SIZES | {"permutation": [0, -1, 1]}],
    "shape.transpose": [SIZES | {"dim0": 0, "dim1": -1}],
    "shape.t": [{"input": f(2, 3)}, {"input": f(3)}],
    "shape.same": [SIZES],
    "shape.expand": [{"input": f(3, 1), "sizes": [2, -1, 4]}, {"input": torch.tensor(1.0), "sizes": [2, 3]}],
    "shape.diagonal": [
        {"input": f(4, 5)},
        {"input": f(2, 4, 5), "offset": 1, "dim1": 1, "dim2": 2},
        {"input": f(4, 3, 5), "offset": -2, "dim1": 0, "dim2": 2},
    ],
    "shape.flip": [SIZES | {"dims": [0, -1]}],
    "shape.roll": [
        SIZES | {"shifts": [1, -2], "dims": [0, 2]},
        SIZES | {"shifts": [5]},
        SIZES | {"shifts": [0], "dims": [1]},
    ],
    **each(["shape.tril", "shape.triu"], [{"input": f(2, 4, 5)}, {"input": i(4, 4), "diagonal": -1}]),
    "shape.tile": [
        {"input": f(2, 3), "dims": [2, 1]},
        {"input": f(2, 3), "dims": [2, 1, 2]},
        {"input": f(3), "dims": [1]},
    ],
    "shape.repeat_interleave": [SIZES | {"repeats": 2}, SIZES | {"repeats": 3, "dim": 1}],
    "shape.cat": [
        {"tensors": [f(2, 3), f(2, 1)], "dim": 1},
        {"tensors": [f(2, 3), i(1, 3)], "dim": 0},
        {"tensors": [f(0), f(2, 3)], "dim": 1},
        {"tensors": [f(2, 3)], "dim": -1},
    ],
    "shape.stack": [{"tensors": [f(2, 3), f(2, 3)]}, {"tensors": [f(2), f(2)], "dim": -1}],
    "shape.split": [
        {"input": f(7, 2), "split_size": 3},
        {"input": f(7, 2), "split_size": [3, 4]},
        {"input": f(2, 4), "split_size": 2, "dim": -1},
    ],
    "shape.chunk": [{"input": f(7, 2), "chunks": 3}, {"input": f(2, 4), "chunks": 2, "dim": 1}],
    "shape.tensor_split": [
        {"input": f(7, 2), "indices_or_sections": 3},
        {"input": f(7, 2), "indices_or_sections": (1, 4)},
    ],
    "shape.as_strided": [
        {"input": f(3, 4), "size": [12], "stride": [1]},
        {"input": f(2, 3, 4).permute(2, 0, 1), "size": [4, 3, 2], "stride": [1, 4, 12]},
        {"input": f(4, 3).t(), "size": [3, 3], "stride": [3, 1], "storage_offset": 2},
        {"input": f(3, 1, 4), "size": [5, 2], "stride": [2, 1]},
    ],
    "shape.unfold": [
        {"input": f(2, 7, 3), "dimension": 1, "size": 3, "step": 2},
        {"input": f(5), "dimension": -1, "size": 5, "step": 1},
    ],
    "order.searchsorted": [
        {"sorted_sequence": BOUNDS, "input": f(3, 4)},
        {"sorted_sequence": BOUNDS, "input": 0.5, "right": True},
        {"sorted_sequence": BOUNDS, "input": torch.tensor([0.5, math.nan, math.inf]), "right": True, "out_int32": True},
        {"sorted_sequence": f(2, 7).sort(-1)[0], "input": f(2, 3), "side": "right"},
        {"sorted_sequence": f(2, 7), "input": f(2, 3), "sorter": f(2, 7).argsort(-1)},
        {"sorted_sequence": torch.tensor([1, 4, 4, 9]), "input": i(2, 5)},
    ],
    "order.kthvalue": [{"input": f(3, 5), "k": 2}, {"input": f(3, 5), "k": 3, "dim": 0, "keepdim": True}],
    **each(
        ["order.median_along", "order.nanmedian_along"],
        [
            {"input": f(3, 6), "dim": 1},
            {"input": f(4, 3), "dim": 0, "keepdim": True},
            {"input": NAN.reshape(2, 3), "dim": 1},
            {"input": torch.tensor(1.5), "dim": 0},
        ],
    ),
    "order.median": [{"input": f(3, 6)}, {"input": NAN}, {"input": i(7)}],
    "order.running": [
        {"input": f(3, 6), "dim": 1},
        {"input": torch.tensor([1.0, 3, 3, math.nan, 5]), "dim": 0},
        {"input": m(6), "dim": 0},
        {"input": i(4, 3), "dim": 0},
    ],
    "shape.unbind": [SIZES, SIZES | {"dim": -1}],
    "recurrent.lstm": recurrent(4, 2),
    "recurrent.gru": recurrent(3, 1),
    **each(["recurrent.rnn_tanh", "recurrent.rnn_relu"], recurrent(1, 1)),
    "shape.pixel_shuffle": [{"input": f(2, 8, 3, 4), "upscale_factor": 2}],
    "shape.pixel_unshuffle": [{"input": f(2, 2, 6, 4), "downscale_factor": 2}],
    "shape.channel_shuffle": [{"input": f(2, 6, 3, 4), "groups": 3}],
}

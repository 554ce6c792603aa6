"""Arguments to try each converter with, by the converter's own argument names."""

import math
from collections.abc import Iterable

import torch

Sample = dict


def f(*sizes: int, low: float = -2.0, high: float = 2.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Reproducible floats."""
    g = torch.Generator().manual_seed(sum((k + 1) * n for k, n in enumerate(sizes)))
    return (torch.rand(*sizes, generator=g, dtype=torch.float64) * (high - low) + low).to(dtype)


def i(*sizes: int, low: int = -5, high: int = 6, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Reproducible integers."""
    g = torch.Generator().manual_seed(sum((k + 3) * n for k, n in enumerate(sizes)))
    return torch.randint(low, high, sizes, generator=g, dtype=dtype)


def m(*sizes: int) -> torch.Tensor:
    """Reproducible bools."""
    return i(*sizes, low=0, high=2).bool()


NAN = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5])
PAIRS = [
    {"input": f(3, 4), "other": f(1, 4)},
    {"input": f(3, 4), "other": 2.5},
    {"input": i(3, 4), "other": f(4)},
    {"input": f(3, 4), "other": i(4, low=1)},
    {"input": i(3, 4), "other": i(3, 1, low=1)},
    {"input": i(3, 4), "other": 3},
    {"input": i(3, 4, dtype=torch.int32), "other": 1.5},
    {"input": f(3, 4, dtype=torch.float16), "other": f(4)},
    {"input": f(3, 4, dtype=torch.float16), "other": torch.tensor(1.5)},
    {"input": f(3), "other": torch.tensor(2.0, dtype=torch.float64)},
    {"input": torch.tensor(2), "other": torch.tensor(1.5)},
    {"input": 2.5, "other": f(3)},
]
FEW_PAIRS = [PAIRS[k] for k in (0, 1, 2, 5, 7, 11)]
"""For operators that differ in their word alone from one that has all pairs."""
BOOL_PAIRS = [{"input": m(3, 4), "other": m(4)}]
INT_PAIRS = [{"input": i(3, 4), "other": i(4)}, {"input": i(3, 4), "other": 5}, *BOOL_PAIRS]
UNARY = [{"input": f(3, 5)}, {"input": f(2, 3, dtype=torch.float64)}, {"input": torch.tensor(0.5)}]
ANY_UNARY = [*UNARY, {"input": i(3, 4, low=1)}, {"input": NAN}]
INSIDE = [{"input": f(3, 5, low=-0.9, high=0.9)}, {"input": m(3, 5)}]  # the domain of asin, atanh
POSITIVE = [{"input": f(3, 5, low=0.1)}, {"input": i(4, low=1)}, {"input": f(3, low=0.1, dtype=torch.float16)}]
ACT = [{"input": f(3, 5, low=-8, high=8)}, {"input": f(2, 3, dtype=torch.bfloat16)}, {"input": torch.tensor(-0.5)}]
X4 = f(2, 6, 5, 4)
BN = {"weight": f(6), "bias": f(6, low=-1), "eps": 1e-5}
STATS = {"running_mean": f(6, high=1), "running_var": f(6, low=0.5)}
DIMS = [{}, {"dim": 1}, {"dim": [0, 2]}, {"dim": -1, "keepdim": True}, {"dim": [1], "keepdim": True}]


def each(names: Iterable[str], samples: list[Sample]) -> dict[str, list[Sample]]:
    """The same samples under several names."""
    return dict.fromkeys(names, samples)


def over(values: list[Sample], more: list[Sample]) -> list[Sample]:
    return [a | b for a in values for b in more]


REDUCE = [*over([{"input": f(2, 3, 4)}, {"input": i(2, 3, 4)}], DIMS), {"input": torch.tensor(1.5)}]
FLOAT_REDUCE = over([{"input": f(2, 3, 4)}], DIMS)
ONE_DIM = [{}, {"dim": 1}, {"dim": -1, "keepdim": True}, {"dim": 0, "keepdim": False}]
POOL = {
    1: [
        {"input": f(2, 3, 9), "kernel_size": [3], "stride": [2], "padding": [1]},
        {"input": f(3, 9), "kernel_size": [2]},
    ],
    2: [
        {"input": X4, "kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 0]},
        {"input": X4, "kernel_size": [2, 2], "stride": [2, 2], "ceil_mode": True},
        {"input": X4[0], "kernel_size": [2, 2]},
    ],
    3: [{"input": f(1, 2, 5, 4, 6), "kernel_size": [2, 2, 2], "stride": [2, 1, 2]}],
}
CONV = [
    {"input": f(2, 4, 9), "weight": f(6, 2, 3), "bias": f(6), "stride": [2], "padding": [1], "groups": 2},
    {"input": f(2, 4, 9, 7), "weight": f(6, 4, 3, 2), "bias": None, "dilation": [2, 1]},
    {"input": f(4, 9, 7), "weight": f(6, 4, 3, 2), "bias": f(6)},
    {"input": f(1, 2, 5, 6, 4), "weight": f(3, 2, 2, 2, 2), "bias": f(3), "padding": [1, 0, 1]},
    {"input": f(2, 4, 9), "weight": f(6, 4, 4), "padding": "same"},
    {"input": f(2, 4, 9, 7), "weight": f(6, 4, 3, 2), "padding": "same", "dilation": [2, 2]},
    {"input": f(1, 2, 5, 6, 4), "weight": f(3, 2, 2, 2, 2), "padding": "valid"},
]
TRANSPOSED = [
    {
        "input": f(2, 4, 5),
        "weight": f(4, 3, 3),
        "bias": f(6),
        "stride": [2],
        "padding": [1],
        "output_padding": [1],
        "groups": 2,
    },
    {"input": f(2, 4, 5, 3), "weight": f(4, 3, 3, 2), "bias": f(3), "stride": [2, 3], "output_padding": [1, 2]},
    {"input": f(4, 5, 3), "weight": f(4, 3, 3, 2), "dilation": [2, 1], "padding": [1, 1]},
    {"input": f(1, 2, 3, 4, 3), "weight": f(2, 3, 2, 2, 2), "bias": f(3), "stride": [2, 1, 2]},
]
SIZES = {"input": f(2, 3, 4)}
QKV = {"query": f(2, 4, 5, 8), "key": f(2, 4, 7, 8), "value": f(2, 4, 7, 6)}
SQUARE = {"query": f(2, 4, 5, 8), "key": f(2, 4, 5, 8), "value": f(2, 4, 5, 8)}

BY_TARGET: dict[str, list[Sample]] = {  # converters that are made in a loop, by the last part of the target's name
    **each(["cos", "sin", "tan", "atan", "asinh", "erf", "exp", "expm1", "sigmoid", "sinh", "cosh", "tanh"], ANY_UNARY),
    **each(["acos", "asin", "atanh"], INSIDE),
    **each(["log", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"], POSITIVE),
    **each(["digamma", "lgamma"], [{"input": f(3, 5, low=-6, high=20)}, {"input": i(4, low=1)}, {"input": -NAN}]),
    "erfinv": [*INSIDE[:1], {"input": torch.tensor([1.0, -1.0, 0.0, -0.0, math.nan, 1.5, 0.99999])}],
    "acosh": [{"input": f(3, 5, low=1.1, high=4)}],
    **each(["ceil", "floor", "trunc"], ANY_UNARY),
    **each(["abs", "neg"], ANY_UNARY),
    **each(["sign", "sgn"], [*ANY_UNARY, {"input": m(3)}]),
    **each(["fmax", "fmin"], [*PAIRS, {"input": NAN, "other": NAN.flip(0)}]),
    **each(["bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"], INT_PAIRS),
    **each(["logical_and", "logical_or", "logical_xor"], [*BOOL_PAIRS, {"input": f(3, 4), "other": i(4)}]),
    **{f"max_pool{n}d": [*s, s[0] | {"return_indices": True}] for n, s in POOL.items()},
    "avg_pool1d": [*POOL[1], POOL[1][0] | {"count_include_pad": False}],
    **{
        f"avg_pool{n}d": [
            *POOL[n],
            POOL[n][0] | {"count_include_pad": False},
            POOL[n][-1] | {"input": POOL[n][-1]["input"].double(), "divisor_override": 3},
        ]
        for n in (2, 3)
    },
    **{
        f"{p}adaptive_{w}_pool{n}d": [{"input": f(2, 3, *(7, 6, 4)[:n]), "output_size": s} for s in sizes]
        for p in ("", "_")
        for w in ("avg", "max")
        for n, sizes in {1: [[1], [3], [7]], 2: [[1, 1], [3, 2], [7, 3]], 3: [[1, 1, 1], [2, 3, 2]]}.items()
    },
    **{
        f"lp_pool{n}d": [{"input": POOL[n][0]["input"], "norm_type": p, "kernel_size": 2} for p in (2, 3.0)]
        for n in (1, 2)
    },
    **{
        f"{p}{n}d": [{"input": f(2, 3, *(5, 4, 3)[:n]), "output_size": s} for s in ([(10, 8, 6)[:n], (7, 3, 5)[:n]])]
        + [{"input": f(2, 3, *(5, 4, 3)[:n]), "scale_factors": [1.7, 2.0, 1.5][:n], "output_size": None}]
        for p in ("upsample_nearest", "_upsample_nearest_exact")
        for n in (1, 2, 3)
    },
    **{
        f"upsample_{w}{n}d": [
            {"input": f(2, 3, *(5, 4, 3)[:n]), "output_size": (7, 3, 5)[:n], "align_corners": a} for a in (True, False)
        ]
        + [
            {
                "input": f(2, 3, *(5, 4, 3)[:n]),
                "output_size": None,
                "align_corners": False,
                "scale_factors": [1.7, 2.0, 1.5][:n],
            }
        ]
        for w, n in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2))
    },
    **{
        f"_upsample_{w}2d_aa": [
            {"input": f(2, 3, 9, 8), "output_size": (4, 3), "align_corners": True},
            {"input": f(2, 3, 9, 8), "output_size": (5, 11), "align_corners": False},
            {"input": f(1, 2, 9, 8), "output_size": None, "align_corners": False, "scale_factors": [0.4, 0.7]},
        ]
        for w in ("bilinear", "bicubic")
    },
}


def recurrent(gates: int, states: int) -> list[Sample]:
    """One layer without biases; two layers of two directions, batch first. 3 inputs, 2 hidden."""
    made = []
    for layers, bidirectional, biases, first in ((1, False, False, False), (2, True, True, True)):
        directions = 1 + bidirectional
        params = []
        for layer in range(layers):
            wide = 3 if layer == 0 else 2 * directions
            for _ in range(directions):
                params += [f(2 * gates, wide), f(2 * gates, 2), *[f(2 * gates), f(2 * gates, low=-1)][: 2 * biases]]
        hx = [f(layers * directions, 4, 2), f(layers * directions, 4, 2, low=-1)]
        made.append(
            {
                "input": f(4, 5, 3) if first else f(5, 4, 3),
                "hx": hx if states == 2 else hx[0],
                "params": params,
                "has_biases": biases,
                "num_layers": layers,
                "dropout": 0.0,
                "train": False,
                "bidirectional": bidirectional,
                "batch_first": first,
            }
        )
    return made

"""Samples of the special functions."""

import math

import torch

from tests.torch_migraphx.fx.converters.samples import Sample, each, f, i
from torch_migraphx.fx.converters.special import COMPOSITES

SOME = torch.cat([f(90, low=-12, high=12), f(20, low=0, high=0.1), torch.tensor([math.nan, 0.0, -0.0, 1.0, 8.0])])
AROUND: list[Sample] = [{"input": SOME}]
INSIDE = torch.cat([f(30, low=0.1, high=9), f(20, low=-2.9, high=-2.1)])
ENDS = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, math.inf, 20.0])
SPECIAL: dict[str, list[Sample]] = each((f"special.{name}" for name in COMPOSITES), AROUND) | {
    "special.erfcx": [{"input": SOME}, {"input": i(4)}],
    "special.polygamma": [{"n": n, "input": INSIDE} for n in (0, 1, 4)],
    **each(
        ["special.igamma", "special.igammac"],
        [
            {"input": f(40, low=0, high=30), "other": f(40, low=0, high=31)[:, None]},
            {"input": ENDS[:, None], "other": ENDS},
            {"input": f(30, low=0, high=4, dtype=torch.float16), "other": f(30, low=0, high=4, dtype=torch.float16)},
            {
                "input": f(9, low=0, high=4, dtype=torch.float64),
                "other": f(9, low=0, high=4, dtype=torch.float64),
            },
        ],
    ),
    "special.zeta": [
        {"input": f(40, low=1, high=9), "other": f(41, low=0, high=40)[:, None]},
        {"input": torch.tensor([*ENDS.tolist(), 3.0, 60.0])[:, None], "other": torch.tensor([*ENDS.tolist(), -4.5])},
        {"input": 2.5, "other": f(4, low=0.1)},
        {"input": f(4, low=1), "other": 3.0},
    ],
    **each(
        ["special.gcd", "special.lcm"],
        [
            {"input": i(40, low=-90, high=91), "other": i(41, low=-90, high=91)[:, None]},
            {"input": i(9, dtype=torch.int8), "other": i(9, dtype=torch.int32)},
            {"input": i(5, low=0, dtype=torch.uint8), "other": torch.tensor(6)},
        ],
    ),
    "special.logcumsumexp": [
        {"input": f(3, 7, low=-90, high=90), "dim": 1},
        {"input": torch.tensor([-math.inf, -math.inf, 1.0, math.inf, 2.0]), "dim": -1},
        {"input": torch.tensor(2.0), "dim": 0},
        {"input": f(2, 0), "dim": 1},
        {"input": f(1, 3), "dim": 0},
    ],
}

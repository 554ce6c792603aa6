"""Samples of the special functions."""

import math

import torch

from tests.torch_migraphx.fx.converters.samples import Sample, each, f, i
from torch_migraphx.fx.converters.special import COMPOSITES

SOME = torch.cat([f(90, low=-12, high=12), f(20, low=0, high=0.1), torch.tensor([math.nan, 0.0, -0.0, 1.0, 8.0])])
AROUND: list[Sample] = [{"input": SOME}]
INSIDE = torch.cat([f(30, low=0.1, high=9), f(20, low=-2.9, high=-2.1)])
SPECIAL: dict[str, list[Sample]] = each((f"special.{name}" for name in COMPOSITES), AROUND) | {
    "special.erfcx": [{"input": SOME}, {"input": i(4)}],
    "special.polygamma": [{"n": n, "input": INSIDE} for n in (0, 1, 4)],
    "special.logcumsumexp": [
        {"input": f(3, 7, low=-90, high=90), "dim": 1},
        {"input": torch.tensor([-math.inf, -math.inf, 1.0, math.inf, 2.0]), "dim": -1},
        {"input": torch.tensor(2.0), "dim": 0},
        {"input": f(2, 0), "dim": 1},
        {"input": f(1, 3), "dim": 0},
    ],
}

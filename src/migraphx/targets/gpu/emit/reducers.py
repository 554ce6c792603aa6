"""The reductions that kernels have: how they join, fold and begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Operation
from migraphx.ops.reduce import (
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)  # fmt: skip


@dataclass(frozen=True)
class Reducer:
    """How a reduction joins two values, folds a tile's columns into one, and what it starts from."""

    join: str
    fold: str
    start: Callable[[str], int | float]


def _lowest(type: str) -> int | float:
    return float("-inf") if type in dtypes.FLOATS else int(dtypes.limits(type)[0])


def _highest(type: str) -> int | float:
    if type in ("int64", "uint64"):  # limits are floats
        return 2**63 - 1 if type == "int64" else 2**64 - 1
    return float("inf") if type in dtypes.FLOATS else int(dtypes.limits(type)[1])


SUM = Reducer("{} + {}", "tl.sum({}, 1, keep_dims=True)", lambda _: 0)
PROD = Reducer("{} * {}", "tl.reduce({}, 1, multiply, keep_dims=True)", lambda _: 1)
MAX = Reducer("scalar_max({}, {})", "tl.reduce({}, 1, scalar_max, keep_dims=True)", _lowest)
MIN = Reducer("scalar_min({}, {})", "tl.reduce({}, 1, scalar_min, keep_dims=True)", _highest)
REDUCERS: dict[type[Operation], Reducer] = {
    ReduceSum: SUM,
    ReduceMean: SUM,
    ReduceMax: MAX,
    ReduceMin: MIN,
    ReduceProd: PROD,
    ReduceAny: MAX,
    ReduceAll: MIN,
}


def accumulated(ins: Instruction) -> str:
    """The type in which a reduction accumulates: narrow types as they are computed, bools as integers."""
    type = ins.inputs[0].shape.type
    if type == "bool":
        return "int32"
    if isinstance(ins.op, ReduceMean) and type in dtypes.INTEGERS:  # a mean fits where its sum does not
        return "int64"
    return dtypes.from_numpy(dtypes.accumulator(type))

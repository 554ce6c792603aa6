"""Any program on target gpu and on ref."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import migraphx
from migraphx.api.inputs import random_inputs
from migraphx.api.program import program, published
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.target import GpuTarget
from migraphx.targets.target import Target
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.tolerances import assert_close

DEVICE: Callable[[], Accelerator] = InterpretedDevice
"""Where programs run that name no target; the fixture `everywhere` says another."""


def built(build: Callable[..., Instruction | Sequence[Instruction]], *shapes: Shape) -> program:
    """The program whose outputs `build(b, *inputs)` makes on parameters x0, x1, ... of these shapes."""
    made = Program()
    parameters = [made.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    outputs = build(Builder(made.main), *parameters)
    made.main.add_return([outputs] if isinstance(outputs, Instruction) else list(outputs))
    return published(made)


def one(operator: str, **attributes: Any) -> Callable[..., Instruction]:
    """Builds one operator on its inputs."""
    return lambda b, *inputs: getattr(b, operator)(*inputs, **attributes)


def either(b: Builder, condition: Instruction, x: Instruction) -> Instruction:
    """abs(x) or -x, by control flow."""
    branches: list[Module] = []
    for name in ("abs", "neg"):
        module = Module(name)
        module.add_return([getattr(Builder(module), name)(module.add_parameter("y", x.shape))])
        branches.append(module)
    return b.get_tuple_elem(b.instruction("if", [condition, x], branches), index=0)


def check(
    made: program,
    inputs: Mapping[str, np.ndarray] | None = None,
    target: Target | None = None,
    scale: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> program:
    """Compile for gpu (`target`: None is that of DEVICE), compare every output with ref's; the compiled program.

    Inputs are random where they are not given. Memory that nobody has written holds NaN, or -1. `scale` widens the
    tolerance of tests/tolerances.py; `options` are those of `compile`.
    """
    arrays = dict(
        inputs or {n: np.asarray(a) for n, a in random_inputs(made, made.get_parameter_shapes(), seed).items()}
    )
    oracle, compiled = made.clone(), made.clone()
    oracle.compile(migraphx.get_target("ref"))
    compiled.compile(target or GpuTarget(DEVICE()), **options)
    for got, want in zip(compiled.run(arrays), oracle.run(arrays), strict=True):
        assert_close(np.asarray(got), np.asarray(want), scale=scale)
    return compiled

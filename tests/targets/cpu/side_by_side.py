"""Many small graphs in one program, on a target and on ref."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.cpu.executable import CpuExecutable
from migraphx.targets.cpu.table import steps_words
from tests.tolerances import assert_close

Build = Callable[..., Instruction | Sequence[Instruction]]


@dataclass(frozen=True)
class Case:
    """`build(b, *inputs)` makes a graph on inputs of these shapes; `scale` widens the tolerance."""

    name: str
    build: Build
    inputs: tuple[Shape, ...]
    scale: float = 1.0
    high: int = 3  # integer inputs are below this
    special: bool = False  # float inputs hold NaN, inf and -0 too
    sparse: bool = False  # a few elements of float inputs are NaN or infinite


def sample(shape: Shape, case: Case, rng: np.random.Generator) -> np.ndarray:
    """A random array of a shape's type and lens, lying as its strides say."""
    made = migraphx.generate_argument(migraphx.shape(shape.type, list(shape.lens), list(shape.strides)))
    array = np.array(made, copy=False)
    if shape.type in ("float", "double", "half", "bf16"):
        values = rng.standard_normal(shape.lens) * 2
        if case.special:
            values = np.where(
                rng.random(shape.lens) < 0.2, rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape.lens), values
            )
        if case.sparse:
            at = rng.integers(0, values.size, 4)
            values.reshape(-1)[at] = [np.nan, np.inf, -np.inf, np.nan]
    elif shape.type == "bool":
        values = rng.integers(0, 2, shape.lens)
    else:
        values = rng.integers(0 if shape.type.startswith("u") else -2, case.high, shape.lens)
    array[...] = values.astype(array.dtype)
    return array


def check(cases: Sequence[Case], seed: int = 0, target: str = "cpu") -> None:
    """Every case's outputs on the target equal those on ref; all wrong ones are named. On cpu also in parts."""
    rng = np.random.default_rng(seed)
    program = migraphx.program()
    main = program.graph.main
    arrays: dict[str, np.ndarray] = {}
    outputs: list[tuple[Case, Instruction]] = []
    for case in cases:
        parameters = []
        for k, shape in enumerate(case.inputs):
            name = f"{case.name}.{k}"
            arrays[name] = sample(shape, case, rng)
            parameters.append(main.add_parameter(name, shape))
        built = case.build(Builder(main), *parameters)
        outputs += [(case, o) for o in ([built] if isinstance(built, Instruction) else built)]
    main.add_return([o for _, o in outputs])
    oracle = program.clone()
    oracle.compile(migraphx.get_target("ref"))
    program.compile(migraphx.get_target(target))
    want, compiled = oracle.run(arrays), program.executable
    wrong = []
    for parts in (False, True):
        if parts:
            if not isinstance(compiled, CpuExecutable):
                break
            steps_words(compiled.table)[:, -1] = 10**9  # as if every step were long
        for (case, _), g, w in zip(outputs, program.run(arrays), want, strict=True):
            try:
                assert_close(np.array(g), np.array(w), scale=case.scale)
            except AssertionError as error:
                wrong.append(f"{case.name}{', in parts' * parts}: {error}")
    assert not wrong, "\n\n".join(wrong)

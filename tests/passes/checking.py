"""What the tests of passes share: build a graph, run passes on it, compare answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.targets.ref.evaluate import evaluate
from tests.tolerances import assert_close

Lens = tuple[int, ...]
Build = Callable[..., Instruction | Sequence[Instruction]]


def program_of(build: Build, **parameters: Lens | Shape) -> Program:
    """A program whose outputs are what `build(b, *parameters)` returns; lens alone mean float."""
    program = Program()
    shapes = {n: s if isinstance(s, Shape) else Shape("float", s) for n, s in parameters.items()}
    values = [program.main.add_parameter(n, s) for n, s in shapes.items()]
    outputs = build(Builder(program.main), *values)
    program.main.add_return([outputs] if isinstance(outputs, Instruction) else outputs)
    return program


def random_arguments(main: Module, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(p.shape.lens) * 2).astype(p.shape.numpy_dtype) for name, p in main.parameters.items()
    }


def checked(
    program: Program, passes: Sequence[Pass], arguments: Mapping[str, np.ndarray] | None = None, scale: float = 10
) -> Counter[str]:
    """Run the passes, compare answers and layouts before and after; how often each operator is left."""
    given = dict(arguments or random_arguments(program.main))
    want, shapes = evaluate(program.main, given), program.main.output_shapes
    run_passes(program, passes, check=True)
    for got, value in zip(evaluate(program.main, given), want, strict=True):
        assert_close(got, value, scale=scale)
    for got_shape, shape in zip(program.main.output_shapes, shapes, strict=True):
        assert got_shape.standard or not shape.standard
    return Counter(i.name for i in program.main if not i.name.startswith("@"))

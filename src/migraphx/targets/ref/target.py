"""Target `ref`: the program as it is, evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.ref.evaluate import evaluate


class RefExecutable:
    """Runs the modules instruction by instruction; outputs are row-major."""

    target = "ref"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        self.outputs = [s.as_standard() for s in program.main.output_shapes]

    def run(self, inputs: Sequence[Argument], outputs: Sequence[Argument] | None) -> Sequence[Argument]:
        arrays = {n: a.array for n, a in zip(self.parameters, inputs, strict=True)}
        values = evaluate(self.program.main, arrays)
        results = list(outputs) if outputs is not None else [Argument.empty(s) for s in self.outputs]
        for result, value in zip(results, values, strict=True):
            np.copyto(result.array, value)
        return results

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        places = [Argument(s, p) for s, p in zip(self.outputs, outputs, strict=True)]
        self.run([Argument(s, p) for s, p in zip(self.parameters.values(), inputs, strict=True)], places)

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {}, {}


class RefTarget:
    """Compiles to the program itself."""

    name = "ref"

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        return RefExecutable(program)

    def restore(self, data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool) -> Executable | None:
        """None: there is nothing to restore but the program."""
        return None

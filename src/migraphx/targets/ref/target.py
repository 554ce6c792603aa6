"""Target `ref`: the program as it is, evaluated by NumPy."""

from __future__ import annotations

import time
import timeit
from collections.abc import Sequence

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import instruction_text, names_of
from migraphx.passes.interface import Pass
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device, Peaks
from migraphx.runtime.executable import Executable, Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.host import lasting
from migraphx.targets.common.specialise import flat
from migraphx.targets.ref.evaluate import evaluate
from migraphx.targets.target import Target

SIDE, COPIED, TRIES = 1024, 64 << 20, 5  # of the matrices, and in bytes, by which peaks are measured


class RefExecutable(Executable):
    """Runs the modules instruction by instruction; outputs are row-major."""

    target = "ref"
    device: Device = HOST

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        self.outputs = [s.as_standard() for s in program.main.output_shapes]
        self.threads = 1

    @property
    def steps(self) -> list[Step]:
        names = names_of(self.program.main)
        working = filter(_works, self.program.main)
        return [Step(instruction_text(i, names), i.name, i.origin, _bytes(i), i.flops) for i in working]

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        HOST.check_stream(stream)
        arrays = {n: lasting(a) for n, a in zip(self.parameters, inputs, strict=True)}
        values = evaluate(self.program.main, arrays, deadline=deadline)
        if outputs is None:
            return [Argument.of(np.array(v, order="C")) for v in flat(values)]
        results = list(outputs)
        for result, value in zip(results, values, strict=True):
            np.copyto(result.array, value)
        return results

    def profile(self, inputs: Sequence[Argument], runs: int = 1) -> list[float]:
        """NumPy's time for each instruction."""
        arrays = {n: a.array for n, a in zip(self.parameters, inputs, strict=True)}
        spent = np.zeros(len(self.steps))
        for run in range(runs + 1):
            moments = [time.perf_counter()]
            evaluate(
                self.program.main,
                arrays,
                trace=lambda ins, _, seen=moments: seen.append(time.perf_counter()) if _works(ins) else None,
            )
            spent += np.diff(moments) if run else 0.0
        return [float(s) / runs for s in spent]


def _works(ins: Instruction) -> bool:
    return not ins.name.startswith("@")


def _bytes(ins: Instruction) -> int:
    """What an instruction reads and writes, where its sizes are known."""
    inputs = [i.shape for i in dict.fromkeys(ins.inputs)]
    known = not any(s.dynamic for s in (*inputs, ins.shape))
    return ins.op.bytes_accessed(inputs, ins.shape) if known else 0


class RefTarget(Target):
    """Compiles to the program itself."""

    name = "ref"
    device: Device = HOST
    passes: Sequence[Pass] = ()

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        return RefExecutable(program)

    def peaks(self, threads: int) -> Peaks:
        """NumPy's own: of a product of matrices, on the threads of its library, and of a copy."""
        x, copied = np.ones((SIDE, SIDE), np.float32), np.ones(COPIED, np.uint8)
        place = np.empty_like(copied)
        product = min(timeit.repeat(lambda: x @ x, number=1, repeat=TRIES))
        copy = min(timeit.repeat(lambda: np.copyto(place, copied), number=1, repeat=TRIES))
        return Peaks(2.0 * SIDE**3 / product, 2.0 * COPIED / copy)

"""A third target, on the parts that all targets share alone: its kernels are Python functions on NumPy arrays.

It shows that shared lowering knows nothing of C++: views, concatenation in place, loops, branches and memory plans
are the same as on `cpu`, and every value is read and written where those say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Value
from migraphx.ir.program import Program
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import optimize
from migraphx.runtime.argument import Argument, Memory
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device, Peaks
from migraphx.runtime.executable import Executable, Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import AGAIN, IF, JUMP, LOOP, Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.dynamic import DynamicExecutable
from migraphx.targets.common.lower import NEUTRAL
from migraphx.targets.common.lowering import LoweringContext, lower
from migraphx.targets.common.lowerings import Lowerings
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.specialise import is_dynamic
from migraphx.targets.common.steps import lifetimes, literals, steps_of
from migraphx.targets.common.views import View
from migraphx.targets.target import Target
from tests.targets.separate import SeparateDevice

NAME = "interpreted"
PASSES: list[Pass] = [*optimize]
POISON = 0xA5  # what memory holds before it is written


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel: called with the arrays that it reads, then those that it writes."""

    run: Callable[..., None]


# ---- lowering ----


def run_module(module: Module, args: Sequence[Value]) -> list[Value]:
    """The module's outputs, computed instruction by instruction."""
    values = dict(zip(module.parameters.values(), args, strict=True))
    for ins in module:
        if not ins.name.startswith("@"):
            values[ins] = ins.op.compute_with([values[i] for i in ins.inputs], ins.modules, run_module)
        elif ins.name == "@literal":
            values[ins] = ins.op.compute()
    return [values[o] for o in module.outputs]


class Emitter:
    """The calls that shared lowering asks for."""

    def copy(self, read: View, write: View, origin: str = "") -> Call:
        return Call(Function(lambda x, y: np.copyto(y, x)), (read,), (write,), (), "copy", origin)

    def pointwise(self, module: Module, reads: Sequence[View], write: View, origin: str = "") -> Call:
        def run(*arrays: np.ndarray) -> None:
            *args, out = arrays
            (result,) = run_module(module, args)
            out[...] = result if args else np.reshape(result, ())

        return Call(Function(run), tuple(reads), (write,), (), "pointwise", origin)

    def gather(
        self, data: View, index: View, write: View, status: View, axis: int, check: int, origin: str = ""
    ) -> Call:
        def run(data: np.ndarray, index: np.ndarray, out: np.ndarray, status: np.ndarray) -> None:
            at, length = int(index.reshape(-1)[0]), data.shape[axis]
            if -length <= at < length:
                np.copyto(out, np.take(data, [at], axis).reshape(out.shape))
            else:
                status[:2] = check + 1, at

        return Call(Function(run), (data, index), (write, status), (), "gather", origin)


INTERPRETED = Lowerings(NAME, NEUTRAL)


@INTERPRETED.of("fused_reduce", "dot", "gather", "topk", "convert_layout", "argmax")
def whole(ctx: LoweringContext, ins: Instruction) -> None:
    """An operator by its NumPy meaning, in one call."""
    tuple_ = ins.shape.type == "tuple"
    writes = tuple(map(ctx.temporary, ins.shape.sub_shapes)) if tuple_ else (ctx.result(ins),)

    def run(*arrays: np.ndarray) -> None:
        args = list(arrays[: len(ins.inputs)])
        made = ins.op.compute_with(args, ins.modules, run_module)
        for out, value in zip(arrays[len(args) :], made if tuple_ else (made,), strict=True):
            out[...] = value

    ctx.call(Call(Function(run), tuple(ctx.reads(ins)), writes, (), ins.name, ins.origin))
    if tuple_:
        ctx.tuples[ins] = writes


# ---- running ----


class InterpretedExecutable(Executable):
    """Runs the calls one by one on bytes of its own."""

    target = NAME
    threads = 1

    def __init__(self, program: Program, lowered: LoweringContext, arena: int, device: Device) -> None:
        self.device = device
        self.parameters = {n: i.shape for n, i in program.main.parameters.items()}
        self.outputs = [s.as_standard() for s in program.main.output_shapes]
        self._steps = steps_of(lowered)
        self.calls, self.checks, self.arena_bytes = lowered.calls, lowered.checks, arena
        self.weights = [_bytes(Argument.of(w).to(device)) for w in lowered.weights]

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        results = outputs if outputs is not None else [Argument.empty(s, self.device, stream) for s in self.outputs]
        status = np.zeros(8, np.int64)
        memory = {
            "arena": [np.full(self.arena_bytes, POISON, np.uint8)],
            "status": [status.view(np.uint8)],
            "input": list(map(_bytes, inputs)),
            "output": list(map(_bytes, results)),
            "weight": self.weights,
        }
        self._interpret(memory, deadline)
        if status[0]:
            raise IndexError(f"{self.checks[status[0] - 1]}: found {status[1]}")
        return results

    def _interpret(self, memory: dict[str, list[np.ndarray]], deadline: Deadline | None) -> None:
        trips: dict[int, int] = {}
        at = 0
        while at < len(self.calls):
            if deadline is not None:
                deadline.check()
            call = self.calls[at]
            if call.flow == LOOP:
                trips[call.numbers[1]] = 0
            if call.flow == AGAIN:
                trips[call.numbers[1]] += 1
            arrays = [_array(v, memory, trips) for v in call.views]
            if call.kernel is not None:
                with np.errstate(all="ignore"):
                    call.kernel.run(*arrays)
                at += 1
            else:
                at = self._follow(call, at, arrays, trips)

    def _follow(self, call: Call, at: int, arrays: Sequence[np.ndarray], trips: dict[int, int]) -> int:
        """The number of the step after one of control flow."""
        kind, slot, target, *limits = call.numbers
        if kind == IF:
            return at + 1 if arrays[0].all() else target
        if kind == JUMP:
            return target
        if kind in (LOOP, AGAIN):
            most, counted, tested = limits
            goes_on = trips[slot] < most
            goes_on &= not counted or trips[slot] < int(arrays[0].reshape(-1)[0])
            goes_on &= not tested or bool(arrays[-1].all())
            return (at + 1 if goes_on else target) if kind == LOOP else (target if goes_on else at + 1)
        arrays[0][...] = trips[slot]
        return at + 1

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        return [0.0] * len(self._steps)


def _bytes(argument: Argument) -> np.ndarray:
    """The memory of an argument, from its first element on."""
    size = argument.shape.bytes
    if isinstance(argument.device, SeparateDevice):
        return argument.device.bytes(argument.pointer, size)
    return np.asarray(Memory(argument.pointer, size, argument)) if size else np.empty(0, np.uint8)


def _array(view: View, memory: dict[str, list[np.ndarray]], trips: dict[int, int]) -> np.ndarray:
    """A view as an array; ValueError where it leaves its buffer."""
    buffer, dtype = view.buffer, dtypes.to_numpy(view.type)
    index = 0 if buffer.kind in ("arena", "status") else buffer.index
    offset = view.byte_offset + (buffer.position if buffer.kind == "arena" else 0)
    offset += sum(((trips[m.slot] + m.phase) & m.mask) * m.step for m in view.moves)
    if not view.elements:
        return np.empty(view.lens, dtype)
    strides = tuple(s * dtype.itemsize for s in view.strides)
    return np.ndarray(view.lens, dtype, memory[buffer.kind][index].data, offset, strides)


class InterpretedTarget(Target):
    """The target's face."""

    name = NAME
    passes: Sequence[Pass] = PASSES

    def __init__(self, device: Device = HOST) -> None:
        self.device = device

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        if is_dynamic(program):
            return DynamicExecutable.of(self, program, options, 1)
        run_passes(program, PASSES)
        lowered = lower(program.main, INTERPRETED, Emitter(), constants=Constants(lasting=lambda: literals(program)))
        return InterpretedExecutable(program, lowered, plan_memory(lifetimes(lowered.calls)), self.device)

    def peaks(self, threads: int) -> Peaks:
        return Peaks(1e9, 1e9)

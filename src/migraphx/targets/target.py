"""Target: what turns a program into something that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.operation import Unsupported
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.passes.interface import Pass
from migraphx.runtime.device import Device, Peaks
from migraphx.runtime.executable import Executable
from migraphx.runtime.memory_image import MemoryImage, Ranges, Requests
from migraphx.runtime.options import CompileOptions
from migraphx.runtime.repeat import Decode, DecodeOptions


class CompilerError(ChildProcessError):
    """What a target compiles with is missing or failed; says what to do."""


def from_(ins: Instruction) -> str:
    """Where an instruction came from, in parentheses; "" where that is not known."""
    return f" ({ins.origin})" if ins.origin else ""


class UnsupportedOperator(Unsupported):
    """A target cannot compile the instructions of `refusals`: names each with its shape and origin."""

    def __init__(self, target: str, refusals: Sequence[Refusal[Instruction]]) -> None:
        named = (f"{r.instruction.name} -> {r.instruction.shape}{from_(r.instruction)}: {r.why}" for r in refusals)
        super().__init__(f"the {target} target refuses " + "; ".join(dict.fromkeys(named)))
        self.refusals = tuple(refusals)


class UnsupportedProcessor(Unsupported):
    """A program is compiled for instructions that the processor here lacks: names both."""


class Target(Protocol):
    """`ref`, `cpu` or `gpu`.

    A class that inherits it refuses nothing, restores nothing and needs nothing of the machine unless it says so.
    """

    name: str
    device: Device  # where programs run that it compiles
    passes: Sequence[Pass]  # what `compile` runs first, in order
    tunes: bool = False  # whether it has kernels to choose among, as `exhaustive_tune` asks
    levels: bool = False  # whether it can make code for the instruction sets that `isa` names

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        """Why the target cannot compile an instruction of a program that no pass has seen; None where it can.

        What depends on the whole program (how many loops it has) shows when it is compiled: UnsupportedOperator.
        """
        return None

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        """Run the passes and choose the kernels as `compile` does, and say what they refused. Changes the program."""
        return []

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        """Compile a program, which may be changed: the caller passes a copy where it wants to keep it.

        `options.check_target` is the caller's.
        """
        ...

    def compile_ahead(self, program: Program, options: CompileOptions) -> None:
        """Compile what programs of the same operators and types have in common, into the cache. Changes the program."""

    def peaks(self, threads: int) -> Peaks:
        """What the device can do at best, measured now; `threads` of the host, where programs run there."""
        ...

    def concurrency(self) -> int:
        """How many runs the device makes side by side without one waiting for another."""
        return 1

    def share(self, runs: int) -> None:
        """Keep the runs of the calling thread to their share of the device, beside as many others; the host's cores."""

    def memory_image(
        self, stages: Sequence[Ranges], requests: Requests | None = None, lasting: bool = False
    ) -> MemoryImage | None:
        """What ranges of this process's memory hold now, which is then compared at once; None where it cannot.

        Those of a stage are read only where all of the stages before hold what they held: these may hold what says
        that they are there. No other thread of Python's runs while `same` is asked, unless they are `lasting`.
        """
        return None

    def decode(self, logits: np.ndarray, inputs: Sequence[np.ndarray], options: DecodeOptions) -> Decode | None:
        """What chooses tokens by logits {sequences, vocabulary} (float32), which a program writes; None: nothing.

        `inputs` (int64) are what the program reads, in memory that is written: token numbers and their positions, one
        for each sequence, and the place in the cache that a step writes to. `Executable.run_repeatedly` takes it.
        ValueError for other types, sizes or layouts, and for options that say nothing.
        """
        return None

    def diagnose(self) -> Mapping[str, Callable[[], str]]:
        """What the target needs of this machine: checks by name, each says what it found or raises what is wrong."""
        return {}

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        """The executable whose `sections` these are, or None where it must be compiled again.

        Code among the tensors is used only where `trust_code` is set. `program` reads the graph, for lengths that
        the sections do not hold.
        """
        return None

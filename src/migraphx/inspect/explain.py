"""What a target made of a program: which instructions became which kernel, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migraphx.inspect.running import Inputs, at_lens
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.text import instruction_text, names_of, operation_text
from migraphx.passes.manager import run_passes
from migraphx.targets.common.specialise import is_dynamic
from migraphx.targets.registry import get_target


@dataclass(frozen=True)
class Part:
    """One operator inside a kernel, and the ONNX node or Python line that it came from."""

    text: str
    origin: str


@dataclass(frozen=True)
class Kernel:
    """One instruction of the optimised program; `parts` are the operators that were fused into it, or itself alone."""

    text: str
    name: str
    view: bool  # no work: other strides over the same memory
    parts: tuple[Part, ...]

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.origin for p in self.parts if p.origin))


@dataclass(frozen=True)
class Explanation:
    """`before` counts the instructions as they were read, leaves apart."""

    target: str
    before: int
    kernels: tuple[Kernel, ...]

    def __str__(self) -> str:
        working = [k for k in self.kernels if not k.view]
        views = len(self.kernels) - len(working)
        lines = [f"{self.before} instructions became {len(working)} kernels and {views} views"]
        for k in working:
            lines.append(k.text)
            lines += [f"    {p.text}" + (f"  <- {p.origin}" if p.origin else "") for p in k.parts]
        return "\n".join(lines)


def explain(program: Program, target_name: str, inputs: Inputs | None = None) -> Explanation:
    """Run the target's passes on a copy, and read what is left; `inputs`: of the lengths of a dynamic program."""
    if inputs is None and is_dynamic(program):
        named = ", ".join(program.main.parameters)
        raise ValueError(f"the program has dynamic shapes: give inputs ({named}) of the lengths to explain")
    program = program if inputs is None else at_lens(program, inputs).program
    before = sum(1 for i in program.main if not i.name.startswith("@"))
    optimised = program.clone()
    run_passes(optimised, get_target(target_name).passes)
    main = optimised.main
    names = names_of(main)
    kernels = [_kernel(i, names) for i in main if not i.name.startswith("@")]
    return Explanation(target_name, before, tuple(kernels))


def _kernel(ins: Instruction, names: dict[Instruction, str]) -> Kernel:
    inner = [Part(operation_text(i.op), i.origin) for m in ins.modules for i in _operators(m)]
    parts = inner or [Part(operation_text(ins.op), ins.origin)]
    return Kernel(instruction_text(ins, names), ins.name, ins.op.view, tuple(parts))


def _operators(module: Module) -> Iterator[Instruction]:
    """What a body computes, in order; bodies of bodies in their place."""
    for ins in module:
        if ins.modules:
            for m in ins.modules:
                yield from _operators(m)
        elif not ins.name.startswith("@"):
            yield ins

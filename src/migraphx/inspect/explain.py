"""What a target made of a program: which instructions became which kernel, where they came from, what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migraphx.inspect.running import Inputs, at_lens
from migraphx.ir.module import Instruction, Module
from migraphx.ir.origin import parts_of
from migraphx.ir.program import Program
from migraphx.ir.refusal import Mismatch, Refusal
from migraphx.ir.text import instruction_text, names_of, operation_text
from migraphx.passes.manager import run_passes
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.specialise import compiled_parts, is_dynamic
from migraphx.targets.registry import get_target


@dataclass(frozen=True)
class Part:
    """One operator inside a kernel, and the ONNX node or Python line that it came from."""

    text: str
    origin: str

    @property
    def origins(self) -> tuple[str, ...]:
        """All of them, where several operators became this one."""
        return parts_of(self.origin)


@dataclass(frozen=True)
class Kernel:
    """One instruction of the optimised program; `parts` are the operators that were fused into it, or itself alone."""

    text: str
    name: str
    view: bool  # no work: other strides over the same memory
    parts: tuple[Part, ...]

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(origin for p in self.parts for origin in p.origins))


@dataclass(frozen=True)
class Refused:
    """What a rule, a pass, a lowering or the target did not take for one reason; `parts` are the instructions."""

    rule: str
    why: str
    parts: tuple[Part, ...]

    def lines(self, most: int = 3) -> list[str]:
        """The reason, and the first few instructions."""
        times = "once" if len(self.parts) == 1 else f"{len(self.parts)} times"
        shown = [f"    {p.text}" + (f"  <- {p.origin}" if p.origin else "") for p in self.parts[:most]]
        more = [f"    and {len(self.parts) - most} more"] if len(self.parts) > most else []
        return [f"{self.rule}: {self.why} ({times})", *shown, *more]


@dataclass(frozen=True)
class Explanation:
    """`before` counts the instructions as they were read, leaves apart; `refused` is filled where it was asked for.

    `instructions` are those that were read, leaves too, as the listing of the program has them.
    """

    target: str
    before: int
    kernels: tuple[Kernel, ...]
    refused: tuple[Refused, ...] = ()
    instructions: tuple[Part, ...] = ()

    def __str__(self) -> str:
        working = [k for k in self.kernels if not k.view]
        views = len(self.kernels) - len(working)
        lines = [f"{self.before} instructions became {len(working)} kernels and {views} views"]
        for k in working:
            lines.append(k.text)
            lines += [f"    {p.text}" + (f"  <- {p.origin}" if p.origin else "") for p in k.parts]
        return "\n".join([*lines, *(line for r in self.refused for line in r.lines())])


def explain(
    program: Program,
    target_name: str,
    inputs: Inputs | None = None,
    why: bool = False,
    options: CompileOptions = CompileOptions(),  # noqa: B008  # frozen
) -> Explanation:
    """Run the target's passes on a copy, and read what is left; `inputs`: of the lengths of a dynamic program.

    With `why`, kernels are chosen too, as the options say, and what passes and lowerings refused is among the answer.
    """
    if inputs is None and is_dynamic(program):
        named = ", ".join(program.main.parameters)
        raise ValueError(f"the program has dynamic shapes: give inputs ({named}) of the lengths to explain")
    program = program if inputs is None else at_lens(program, inputs).program
    before = sum(1 for i in program.main if not i.name.startswith("@"))
    read = names_of(program.main)
    instructions = tuple(Part(instruction_text(i, read), i.origin) for i in program.main)
    optimised, target = program.clone(), get_target(target_name)
    refusals: Sequence[Refusal[Instruction]] = ()
    in_parts = any(i.op.on_host for i in optimised.main)
    if why and in_parts:
        refusals = [r for part in compiled_parts(program) for r in target.refusals(part, options)]
    elif why:
        refusals = target.refusals(optimised, options)
    if in_parts or not why:
        run_passes(optimised, target.passes)
    main = optimised.main
    names = names_of(main)
    kernels = [_kernel(i, names) for i in main if not i.name.startswith("@")]
    return Explanation(target_name, before, tuple(kernels), tuple(_grouped(refusals)), instructions)


def _grouped(refusals: Sequence[Refusal[Instruction]]) -> Iterator[Refused]:
    """By rule and reason, the last to refuse first: those choose kernels. What rules are not about is left out."""
    found: dict[tuple[str, str], dict[Instruction, Part]] = {}
    for ins, rule, why in (r for r in refusals if not isinstance(r.why, Mismatch)):
        part = Part(f"{operation_text(ins.op)} -> {ins.shape}", ins.origin)
        found.setdefault((rule, why), {})[ins] = part
    for (rule, why), parts in reversed(found.items()):
        yield Refused(rule, str(why), tuple(parts.values()))


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

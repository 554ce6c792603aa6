"""The first pass, or the first instruction, that makes a target's answer differ."""

from __future__ import annotations

from dataclasses import dataclass

from migraphx.inspect.compare import compare
from migraphx.inspect.running import DEFAULTS, Inputs, Settings, on_ref, with_lens_of
from migraphx.inspect.verify import VerifyReport, verify_instructions, verify_program
from migraphx.ir.program import Program
from migraphx.passes.manager import run_passes
from migraphx.targets.registry import get_target


@dataclass(frozen=True)
class Bisection:
    """Where the difference comes from.

    `kind` is `none` (there is none), `pass` (number `index` of the target's list, whose result `ref` computes
    differently), `instruction` (number `index` among those of the optimised program, wrong on its own), or
    `program`: passes and instructions are each right, running them together is not (memory, threads).
    """

    kind: str
    name: str
    index: int
    origin: str
    report: VerifyReport

    def __str__(self) -> str:
        where = {"none": "no difference", "program": "only the whole program differs"}.get(self.kind)
        origin = f", from {self.origin}" if self.origin else ""
        return f"{where or f'{self.kind} {self.index}: {self.name}{origin}'}\n{self.report}"


def bisect(program: Program, target_name: str, inputs: Inputs, settings: Settings = DEFAULTS) -> Bisection:
    """First over the target's passes, each result evaluated on `ref`, then over the optimised instructions."""
    program = with_lens_of(program, inputs)
    whole = verify_program(program, target_name, inputs, settings)
    if whole.passed:
        return Bisection("none", "", -1, "", whole)
    passes = get_target(target_name).passes
    wanted = on_ref(program, inputs, settings.double)

    def after(count: int) -> VerifyReport:
        optimised = program.clone()
        run_passes(optimised, passes[:count])
        pairs = zip(whole.outputs, on_ref(optimised, inputs, settings.double), wanted, strict=True)
        return VerifyReport("ref", tuple(compare(o.name, value, want, settings.tolerance) for o, value, want in pairs))

    report = after(len(passes))
    if not report.passed:
        low, high = 0, len(passes)  # after `low` passes the answer is right, after `high` it is wrong
        while high - low > 1:
            middle = (low + high) // 2
            verdict = after(middle)
            if verdict.passed:
                low = middle
            else:
                high, report = middle, verdict
        return Bisection("pass", getattr(passes[low], "__name__", str(passes[low])), low, "", report)
    optimised = program.clone()
    run_passes(optimised, passes)
    checks = verify_instructions(optimised, target_name, inputs, settings)
    for n, check in enumerate(checks):
        if not check.passed:
            found = VerifyReport(target_name, check.outputs)
            return Bisection("instruction", check.text, n, check.origin, found)
    return Bisection("program", "", -1, "", whole)

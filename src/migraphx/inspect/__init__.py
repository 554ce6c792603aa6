"""What a target did: compare with `ref`, find the pass or instruction at fault, measure, trace, explain."""

from migraphx.inspect.bisect import Bisection, bisect
from migraphx.inspect.compare import Check, Tolerance, tolerance_of
from migraphx.inspect.explain import Explanation, explain
from migraphx.inspect.reduce import Reduction, reduce_program
from migraphx.inspect.report import Report, chrome_trace, measure_runs, performance_report
from migraphx.inspect.running import Settings
from migraphx.inspect.trace import run_trace
from migraphx.inspect.verify import InstructionCheck, VerifyReport, verify_instructions, verify_program

__all__ = [
    "Bisection",
    "Check",
    "Explanation",
    "InstructionCheck",
    "Reduction",
    "Report",
    "Settings",
    "Tolerance",
    "VerifyReport",
    "bisect",
    "chrome_trace",
    "explain",
    "measure_runs",
    "performance_report",
    "reduce_program",
    "run_trace",
    "tolerance_of",
    "verify_instructions",
    "verify_program",
]

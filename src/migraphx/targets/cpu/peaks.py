"""What this machine can do: multiply-adds and copied bytes a second, on the threads that programs run on."""

from __future__ import annotations

from migraphx.runtime.cores import available
from migraphx.runtime.device import Peaks
from migraphx.targets.common.call import Call
from migraphx.targets.common.plan_memory import Lifetime, plan_memory
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.cpu.codegen import generate, numbered, table_of
from migraphx.targets.cpu.emit.kernel import Kernel, function
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.executable import CpuExecutable, table_bytes
from migraphx.targets.cpu.table import Layout
from migraphx.targets.cpu.toolchain import build, features

CHAINS = 12  # independent sums: enough to hide the latency of a multiply-add, few enough for 16 registers
ROUNDS = 400_000
COPIED = 192 << 20  # bytes: far more than caches hold
TRIES = 5

MULTIPLY_ADD = Kernel(
    "// multiply-adds in registers\n"
    + function(
        [
            "volatile float half = 0.5f;",  # else the compiler leaves out the sum that starts at its limit
            f"vec<float> sum[{CHAINS}], factor = splat<float>(half);",
            f"for (int c = 0; c < {CHAINS}; ++c) sum[c] = factor * float(c);",
            f"for (int64_t r = 0; r < {ROUNDS}; ++r)",
            "#pragma GCC unroll 16",
            f"    for (int c = 0; c < {CHAINS}; ++c) sum[c] = sum[c] * factor + factor;",
            "vec<float> total = sum[0];",
            f"for (int c = 1; c < {CHAINS}; ++c) total += sum[c];",
            "store((float*)p[0] + t.tid * LANES, total);",
        ]
    ),
    ("vec.hpp",),
)
COPY_NUMBERS = Numbers()
COPY = Kernel(
    "// a copy of a large buffer\n"
    + function(
        [
            f"const Range mine = t.share({COPY_NUMBERS.one(COPIED)}, 64);",
            "__builtin_memcpy(p[1] + mine.begin, p[0] + mine.begin, mine.size());",
        ]
    ),
    ("vec.hpp",),
)


def measure_peaks(threads: int = 0) -> Peaks:
    """Of float multiply-adds in vectors, and of a copy.

    The best of some tries. AMX tiles can do more operations than this.
    """
    lanes = features().lanes
    buffers = [Buffer("arena", COPIED), Buffer("arena", COPIED, 1), Buffer("arena", 4096 * 4 * lanes, 2)]
    source, target = (View(b, "uint8", (COPIED,), (1,)) for b in buffers[:2])
    sink = View(buffers[2], "float", (4096 * lanes,), (1,))
    calls = [Call(MULTIPLY_ADD, (), (sink,)), Call(COPY, (source,), (target,), COPY_NUMBERS.values)]
    arena = plan_memory([Lifetime(b, 0, 1) for b in buffers])
    kernels = numbered(calls)
    table = table_of(calls, kernels, Layout(0, 0, 0), table_bytes(arena, (), (), ()), (0, 0)).array()
    code, threads = build(generate(kernels), "peaks"), threads or available()
    machine = CpuExecutable(code, table, Outline({}, [], [], [], arena), (), threads)
    seconds = [machine.profile((), 1) for _ in range(TRIES)]
    work = 2.0 * ROUNDS * CHAINS * lanes * machine.threads
    return Peaks(work / min(s[0] for s in seconds), 2.0 * COPIED / min(s[1] for s in seconds))

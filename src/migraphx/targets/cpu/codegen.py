"""A lowered program as C++ translation units, which hold its kernels, and a table of steps, which holds all numbers.

Programs of equal kernels are one object, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

import numpy as np

from migraphx.targets.common.call import Call, Flow
from migraphx.targets.common.views import Buffer
from migraphx.targets.cpu.emit.kernel import Instances, Kernel
from migraphx.targets.cpu.table import FLOW, HEAD, MOVE, NO_KERNEL, STEP, Head, Layout, Move, Place, Step

MOST_KERNELS = 50  # of one source: sources compile side by side, and the headers cost as much as two kernels do
FEW_KERNELS, ENOUGH_PARTS = 5, 4  # a source of its own is worth it for so many, up to so many sources

MAIN = """\
#include "program.hpp"

extern "C" {
int64_t mgx_scratch(const int64_t* table) { return mgx::largest_scratch(mgx::kernels, table); }
int64_t mgx_run(const int64_t* table, char* const* buffers, char* scratch, int64_t stride, int threads,
                const mgx::OpenMP* omp, int64_t* nanoseconds, mgx::Stop* stop, mgx::Repeat* repeat) {
    stop->begin();
    do {
        mgx::Program program{mgx::kernels, table, buffers, scratch, stride, nanoseconds, omp, stop, threads};
        mgx::run_program(program);
        stop->holds = nullptr;  // what is compared is so once a call
    } while (repeat && !stop->set() && repeat->goes_on());
    return stop->reason;
}
}
"""

LIST = Template("""\
$declarations
const Kernel kernels[] = {
    $kernels
};
""")

PART = Template("""\
$includes

namespace mgx {
$kernels
}  // namespace mgx
""")

INSTANCES = Template("""\
#include "$header"

namespace mgx {
$instances
}  // namespace mgx
""")


def numbered(calls: Sequence[Call]) -> dict[Kernel, int]:
    """The kernels of the calls, each with its number."""
    kernels = dict.fromkeys(c.kernel for c in calls if c.kernel is not None)
    return {kernel: n for n, kernel in enumerate(kernels)}


def generate(kernels: dict[Kernel, int]) -> list[str]:
    """The sources: main, which is that of every program, then what the kernels share with others, then their parts."""
    return [*shared_sources(kernels), *_parts(kernels)]


def shared_sources(kernels: dict[Kernel, int]) -> list[str]:
    """The sources that are those of other programs, too."""
    shared = dict.fromkeys(instances for k in kernels for instances in k.instances)
    return [MAIN, *map(_instances, shared)]


def _list(names: dict[Kernel, str]) -> str:
    """The list of a program's kernels; of a program without any, one that is never called."""
    declarations, entries = [], []
    for kernel, name in names.items():
        declarations.append(f"void {name}(const Team&, char* const*, const int64_t*, char*);")
        if kernel.scratch:
            declarations.append(f"int64_t {name}_scratch(const int64_t*);")
        scratch = f"{name}_scratch" if kernel.scratch else "nullptr"
        entries.append(f"{{{name}, {scratch}{', true' if kernel.coarse else ''}}},")
    return LIST.substitute(declarations="\n".join(declarations), kernels="\n    ".join(entries) or "{nullptr, nullptr}")


@dataclass(frozen=True)
class Table:
    """The entries of program.hpp's table; those in `placed` count from where a buffer of the arena lies.

    `placed`: the number of the entry, and the buffer.
    """

    entries: list[int]
    placed: list[tuple[int, Buffer]]

    def array(self) -> np.ndarray:
        """As the kernels read it, the arena's buffers where they have been planned to lie."""
        entries = list(self.entries)
        for entry, buffer in self.placed:
            entries[entry] += buffer.position
        return np.array(entries, np.int64)


def table_of(
    calls: Sequence[Call], kernels: dict[Kernel, int], layout: Layout, sizes: Sequence[int], work: Sequence[int]
) -> Table:
    """The table of a program.

    `sizes`: bytes that every entry of the pointer table must at least hold; `work`: about how many nanoseconds each
    call takes one thread.
    """
    placed: list[tuple[int, Buffer]] = []
    start = HEAD + len(sizes)
    steps: list[int] = []
    rest: list[int] = []
    base = start + STEP * len(calls)
    for call, nanoseconds in zip(calls, work, strict=True):
        numbers = base + len(rest)
        rest += call.numbers if call.flow is None else (FLOW[Flow(call.flow).name], *call.numbers[1:])
        moves = base + len(rest)
        rest += [word for v in call.views for m in v.moves for word in Move(m.slot, m.phase, m.mask, m.step)]
        places = base + len(rest)
        for v in call.views:
            if v.buffer.kind == "arena":
                placed.append((base + len(rest) + Place._fields.index("offset"), v.buffer))
            rest += Place(layout.entry(v), v.byte_offset, moves, len(v.moves))
            moves += MOVE * len(v.moves)
        number = NO_KERNEL if call.kernel is None else kernels[call.kernel]
        steps += Step(number, numbers, places, len(call.views), nanoseconds)
    return Table([*Head(len(calls), len(sizes)), *sizes, *steps, *rest], placed)


def _parts(kernels: dict[Kernel, int]) -> list[str]:
    """The kernels in parts of about equal cost; heavy ones stay together while they are few.

    These are called by their places, so that a part is one object for all programs with equal products: the steps of a
    language model for a prompt and for a token. The list of all is in the last part, so that it costs no source of its
    own.
    """
    heavy, light = (_divided([k for k in kernels if k.heavy == kind]) for kind in (True, False))
    places = {kernel: f"h{n}_{k}" for n, part in enumerate(heavy) for k, kernel in enumerate(part)}
    names = {kernel: places.get(kernel, f"k{n}") for kernel, n in kernels.items()}
    *others, last = [*heavy, *light] or [[]]
    return [*(_part(part, names) for part in others), _part(last, names, _list(names))]


def _divided(kernels: Sequence[Kernel]) -> list[Sequence[Kernel]]:
    count = max(-(-len(kernels) // MOST_KERNELS), min(ENOUGH_PARTS, -(-len(kernels) // FEW_KERNELS)))
    return [kernels[k::count] for k in range(count)]


def _instances(shared: Instances) -> str:
    lines = [f"extern template {f};" for f in shared.calls] + [f"template {f};" for f in shared.functions]
    return INSTANCES.substitute(header=shared.header, instances="\n".join(lines))


def _part(kernels: Sequence[Kernel], names: dict[Kernel, str], *more: str) -> str:
    headers = dict.fromkeys(h for k in kernels for h in k.headers)
    elsewhere = dict.fromkeys(f for k in kernels for instances in k.instances for f in instances.functions)
    return PART.substitute(
        includes="\n".join(f'#include "{h}"' for h in ("team.hpp", *headers)),
        kernels="\n".join(
            [
                *(f"extern template {function};" for function in elsewhere),
                *(Template(k.text).substitute(name=names[k]) for k in kernels),
                *more,
            ]
        ),
    )

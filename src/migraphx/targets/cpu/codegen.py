"""A lowered program as C++ translation units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from migraphx.targets.common.views import View
from migraphx.targets.cpu.calls import Call, Kernel

MOST_VIEWS = 256  # as in program.hpp
MOST_KERNELS = 150  # of one source: these take several times what the headers do, and sources compile side by side

MAIN = Template("""\
#include "program.hpp"

namespace mgx {
$declarations
constexpr Step steps[] = {
    $steps
};
constexpr int64_t count = $count;
}  // namespace mgx

extern "C" {
extern const int64_t mgx_entries = $entries;
extern const int64_t mgx_bytes[] = {$sizes};  // what every entry of the pointer table must at least hold
extern const int64_t mgx_steps = mgx::count;
int64_t mgx_scratch() { return mgx::largest_scratch(mgx::steps, mgx::count); }
void mgx_run(char* const* b, char* scratch, int64_t stride, int threads, const mgx::OpenMP* omp, int64_t* nanoseconds) {
    mgx::Program program{mgx::steps, mgx::count, b, scratch, stride, nanoseconds, omp, {}};
    mgx::run_program(program, threads);
}
}
""")

PART = Template("""\
$includes

namespace mgx {
$kernels
}  // namespace mgx
""")


@dataclass(frozen=True)
class Layout:
    """Numbers of the entries of the pointer table: arena, status, inputs, outputs, weights, in this order."""

    inputs: int
    outputs: int
    weights: int

    def entry(self, view: View) -> int:
        if view.buffer.kind in ("arena", "status"):
            return ("arena", "status").index(view.buffer.kind)
        start = {"input": 2, "output": 2 + self.inputs, "weight": self.first_weight}
        return start[view.buffer.kind] + view.buffer.index

    @property
    def first_weight(self) -> int:
        return 2 + self.inputs + self.outputs

    def place(self, view: View, moves: str) -> str:
        """The text of a Place; `moves` names the array of its moves."""
        offset = view.byte_offset + (view.buffer.position if view.buffer.kind == "arena" else 0)
        moved = f", {moves}, {len(view.moves)}" if view.moves else ""
        return f"{{{self.entry(view)}, {offset}{moved}}}"

    @property
    def size(self) -> int:
        return self.first_weight + self.weights


def generate(calls: Sequence[Call], layout: Layout, sizes: Sequence[int]) -> list[str]:
    """The sources: main first, then the parts that hold the kernels. `sizes`: bytes of every table entry."""
    names: dict[Kernel, str] = {}
    for call in calls:
        if call.kernel is not None:
            names.setdefault(call.kernel, f"k{len(names)}")
    return [_main(calls, names, layout, sizes), *_parts(names)]


def _main(calls: Sequence[Call], names: dict[Kernel, str], layout: Layout, sizes: Sequence[int]) -> str:
    declarations = []
    for kernel, name in names.items():
        declarations.append(f"void {name}(const Team&, char* const*, const int64_t*, char*);")
        if kernel.scratch:
            declarations.append(f"int64_t {name}_scratch(const int64_t*);")
    steps = []
    for n, call in enumerate(calls):
        if len(call.views) > MOST_VIEWS:
            raise ValueError(f"{call.label}: {len(call.views)} operands in one kernel; at most {MOST_VIEWS}")
        name = "nullptr" if call.kernel is None else names[call.kernel]
        scratch = f"{name}_scratch" if call.kernel is not None and call.kernel.scratch else "nullptr"
        declarations.append(f"constexpr int64_t a{n}[] = {{{', '.join(map(str, call.numbers)) or '0'}}};")
        declarations += _moves(call, n)
        places = ", ".join(layout.place(v, f"m{n}_{k}") for k, v in enumerate(call.views))
        declarations.append(f"constexpr Place q{n}[] = {{{places or '{}'}}};")
        steps.append(f"{{{name}, {scratch}, a{n}, q{n}, {len(call.views)}}},  // {n}: {call.label}")
    return MAIN.substitute(
        declarations="\n".join(declarations),
        steps="\n    ".join(steps) or "{nullptr, nullptr, nullptr, nullptr, 0}",
        count=len(calls),
        entries=layout.size,
        sizes=", ".join(map(str, sizes)),
    )


def _moves(call: Call, n: int) -> list[str]:
    """The declarations of how the views of call `n` move with loops."""
    return [
        f"constexpr Move m{n}_{k}[] = {{{', '.join(f'{{{m.slot}, {m.phase}, {m.mask}, {m.step}}}' for m in v.moves)}}};"
        for k, v in enumerate(call.views)
        if v.moves
    ]


def _parts(names: dict[Kernel, str]) -> list[str]:
    """The kernels in parts of about equal cost; those that need a heavy header stay together while they are few."""
    heavy = [k for k in names if k.scratch]
    light = [k for k in names if not k.scratch]
    parts = []
    for kind in (heavy, light):
        count = -(-len(kind) // MOST_KERNELS)
        parts += [_part(kind[k::count], names) for k in range(count)]
    return parts


def _part(kernels: Sequence[Kernel], names: dict[Kernel, str]) -> str:
    headers = dict.fromkeys(h for k in kernels for h in k.headers)
    return PART.substitute(
        includes="\n".join(f'#include "{h}"' for h in ("team.hpp", *headers)),
        kernels="\n".join(Template(k.text).substitute(name=names[k]) for k in kernels),
    )

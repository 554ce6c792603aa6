"""A module with the generated C++ under sanitizers: `python -m tools.sanitize address pytest tests/targets/cpu -q`.

`address` is AddressSanitizer and UndefinedBehaviorSanitizer. Every buffer of the arena gets a place of its own with
poisoned bytes behind it, and so does every thread's scratch: a kernel that leaves its buffer is seen. `thread` is
ThreadSanitizer; plain threads stand for the OpenMP runtime, whose own waiting it could not follow. The rest is the
module to run, pytest or tools.fuzz, and its words. Objects go to a cache of their own. Needs g++; the exit code is 1
where something was found, and the places are printed last.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from migraphx.targets.common.plan_memory import Lifetime, aligned
from migraphx.targets.cpu import executable, target, threads

ZONE = 1024  # poisoned bytes behind each buffer; NumPy keeps smaller blocks, poisoned, for others
LIBRARIES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
CHECKS = {"address": "address,undefined,float-cast-overflow", "thread": "thread"}
OPTIONS = "detect_leaks=0:print_stacktrace=1:suppress_equal_pcs=1:ignore_noninstrumented_modules=1"
FINDING = re.compile(r"runtime error: .*|SUMMARY: \S+Sanitizer: .*")

POOL = """
#include <thread>
#include <vector>
static thread_local unsigned number = 0, size = 1;
extern "C" {
void GOMP_parallel(void (*fn)(void*), void* data, unsigned threads, unsigned) {
    auto run = [=](unsigned n) { number = n; size = threads; fn(data); };
    std::vector<std::thread> others;
    for (unsigned n = 1; n < threads; ++n) others.emplace_back(run, n);
    run(0);
    for (auto& t : others) t.join();
    size = 1;
}
int omp_get_thread_num() { return number; }
int omp_get_num_threads() { return size; }
int omp_get_max_threads() { return 4; }
void omp_set_num_threads(int) {}
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize", description=__doc__)
    parser.add_argument("kind", choices=CHECKS)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="a module and its arguments")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="openmgx-sanitize-") as folder:
        variables = environment(args.kind, folder, halt="tools.fuzz" in args.words)  # which keeps what ends a process
        done = subprocess.run([sys.executable, "-m", *args.words], env=variables, check=False)
        found = Counter(line for p in Path(folder).glob("report*") for line in FINDING.findall(p.read_text("utf-8")))
        for line, times in found.most_common():
            print(f"{times} times: {line}")
    return done.returncode or int(bool(found))


def environment(kind: str, folder: str, halt: bool) -> dict[str, str]:
    """That of a process whose generated code is compiled with the sanitizer's checks, reports into `folder`.

    `halt`: the first finding ends the process.
    """
    found = [subprocess.check_output(["g++", f"-print-file-name={n}"], text=True).strip() for n in LIBRARIES[kind]]
    options = f"{OPTIONS}:halt_on_error={int(halt)}:log_path={folder}/report"
    return os.environ | {
        "LD_PRELOAD": ":".join(found),
        "CXX": "env -u LD_PRELOAD g++",
        "OPENMGX_CXXFLAGS": f"-O1 -g1 -fsanitize={CHECKS[kind]} -fsanitize-recover=all -fno-sanitize=vptr",
        "OPENMGX_CACHE": str(Path(tempfile.gettempdir(), f"openmgx-{kind}-{os.getuid()}")),
        "PYTEST_PLUGINS": "tools.sanitize",
        "PYTHONMALLOC": "malloc",
        **{f"{name}_OPTIONS": options for name in ("ASAN", "UBSAN", "TSAN")},
    }


# ---- in the process of the tests ----


def active() -> bool:
    """Whether this process is one of a sanitizer."""
    return "san.so" in os.environ.get("LD_PRELOAD", "")


@functools.cache
def watch() -> None:
    """Keep the buffers of programs apart."""
    target.plan_memory = apart
    executable.CpuExecutable.__init__ = with_zones(executable.CpuExecutable.__init__)
    executable._State.__init__ = poisoned(executable._State.__init__)
    if "libtsan" in os.environ["LD_PRELOAD"]:
        executable.runtime = plain_threads


def pytest_configure() -> None:
    watch()


class Planned:
    """Where the zones of the program lie that is being compiled now."""

    zones: Sequence[tuple[int, int]] = ()


def apart(lifetimes: Sequence[Lifetime]) -> int:
    """As plan_memory, every buffer alone in its place for ever."""
    zones, at = [(0, ZONE)], ZONE
    for life in lifetimes:
        life.buffer.position = at
        behind = at + aligned(life.buffer.nbytes) + ZONE
        zones.append((at + life.buffer.nbytes, behind))
        at = behind
    Planned.zones = zones
    return at


def with_zones(init: Any) -> Any:
    @functools.wraps(init)
    def made(self: executable.CpuExecutable, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.zones, Planned.zones = Planned.zones, ()  # type: ignore[attr-defined]
        self.scratch_stride += ZONE

    return made


def poisoned(init: Any) -> Any:
    poison = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)

    @functools.wraps(init)
    def made(self: Any, program: Any) -> None:
        init(self, program)
        if poison is None:
            return
        arena, scratch = executable.address(self.arena), self.scratch_pointer
        for begin, end in program.zones:
            poison(ctypes.c_void_p(arena + begin), ctypes.c_size_t(end - begin))
        for n in range(program.threads):
            end = scratch + (n + 1) * program.scratch_stride
            poison(ctypes.c_void_p(end - ZONE), ctypes.c_size_t(ZONE))

    return made


@functools.cache
def plain_threads() -> threads.Runtime:
    folder = Path(tempfile.mkdtemp(prefix="openmgx-sanitize-"))
    (folder / "pool.cpp").write_text(POOL)
    command = ["env", "-u", "LD_PRELOAD", "g++", "-std=c++20", "-shared", "-fPIC", "-fsanitize=thread", "-g"]
    subprocess.run([*command, str(folder / "pool.cpp"), "-o", str(folder / "pool.so")], check=True)
    found = threads._open(str(folder / "pool.so"))
    assert found is not None
    return found


if __name__ == "__main__":
    sys.exit(main())

"""board.hpp and program.hpp: every share of every kernel is done once, in order, whichever threads come and when."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from migraphx.targets.common.call import AGAIN, LOOP, Call
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.cpu.codegen import table_of
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.table import Layout
from tests.targets.cpu.kernels.harness import compile_snippet

SOURCE = r"""
#include "program.hpp"
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
using namespace mgx;

thread_local int self;
int coming;  // how many threads come; the caller is the first
bool uneven;
int changed;  // threads that may use other cores than before
int begun, early;  // threads that began their run, and that ended it before all others began

void in_turn(void (*fn)(void*), void* data) {
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    fn(data);
    if (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < coming) __atomic_add_fetch(&early, 1, __ATOMIC_SEQ_CST);
}

void watched(void (*fn)(void*), void* data) {
#if defined(__linux__)
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    in_turn(fn, data);
    sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after)) __atomic_add_fetch(&changed, 1, __ATOMIC_RELAXED);
#else
    in_turn(fn, data);
#endif
}

void parallel(void (*fn)(void*), void* data, unsigned threads, unsigned) {
    std::vector<std::thread> others;
    for (int tid = 1; tid < coming && tid < int(threads); ++tid)
        others.emplace_back([=] {
            self = tid;
            if (uneven) usleep(300 * tid);
            watched(fn, data);
        });
    self = 0;
    watched(fn, data);
    for (auto& t : others) t.join();
}
int thread_num() { return self; }
int num_threads() { return coming; }

// p[1] = p[0] backwards + a[1], of a[0] numbers: what one share writes, other shares of the next kernel read.
void reversed(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* x = reinterpret_cast<const int64_t*>(p[0]);
    int64_t* y = reinterpret_cast<int64_t*>(p[1]);
    const Range mine = t.share(a[0]);
    for (int64_t i = mine.begin; i < mine.end; ++i) y[i] += x[a[0] - 1 - i] + a[1];
    *scratch = 1;
    if (uneven && (mine.begin * 7 + a[1]) % 5 == 0) usleep(50);
}

extern "C" int run(const int64_t* table, char* const* buffers, char* scratch, int64_t stride, int threads, int come,
                   bool some_late, bool are_contended, bool are_crowded, int64_t* nanoseconds) {
    static const mgx::Kernel kernels[] = {{reversed, nullptr}};
    static const OpenMP omp{parallel, thread_num, num_threads};
    coming = come, uneven = some_late, changed = begun = early = 0;
    contended_until = are_contended ? INT64_MAX : 0;
    least_crowding = are_crowded ? 0 : INT64_MAX;  // every core is, or the first one is not
    const int looks = are_crowded ? CoreSearch::LOOKS : 0;
    for (CoreSearch& s : searches) s = {-2 * CoreSearch::BETWEEN, 0, CoreSearch::PAUSE, are_contended, looks};
    Stop stop{-1, nullptr, 0, {}, 0, 0};
    mgx::Program g{kernels, table, buffers, scratch, stride, nanoseconds, &omp, &stop, threads};
    stop.begin();
    run_program(g);
    return changed;
}
extern "C" int went_early() { return early; }

// Whether cores count as contended for a while after threads were seen at these times, each of which neither worked nor
// slept for so long in the 10 ms before, when it was preempted so many times.
extern "C" bool is_contended(int count, const int64_t* seen, const int64_t* idle, const int64_t* preempted) {
    static constexpr int64_t BEFORE = 10'000'000;
    contended_until = 0, last_lost = -(int64_t(1) << 40);
    for (int k = 0; k < count; ++k) {
        Watch watch;
        watch.look(seen[k] - BEFORE, {0, preempted[k] < 0 ? -1 : 5});
        watch.look(seen[k], {BEFORE - idle[k], preempted[k] < 0 ? -1 : 5 + preempted[k]});
    }
    const int64_t last = seen[count - 1];
    return contended(last + 1) && !contended(last + 1'000'000'000);
}

struct EightCores {  // of which a thread may use some
    static constexpr int MOST = 8;
    int usable, on, count = 0;
    int* visited;
    bool may_use(int core) const { return usable >> core & 1; }
    bool go(int core) {
        if (core == LATE_ON) usleep(1500);
        visited[count++] = on = core;
        return true;
    }
    static constexpr int LATE_ON = 4;
};
// The cores that a thread of core `own` goes to until it is on one of `good`, and their number; negative: in vain.
extern "C" int visit(int own, int* last, int tries, int usable, int used, int good, int* visited) {
    EightCores cores{usable, own, 0, visited};
    const auto taken = [&](int core) { return bool(used >> core & 1); };
    const auto judge = [&](int64_t took) {
        if (took > CoreSearch::LATE) return Went::LATE;
        return good >> cores.on & 1 ? Went::BETTER : Went::BACK;
    };
    const Went went = change_core(cores, own, *last, tries, taken, judge);
    return went == Went::BETTER ? cores.count : -cores.count;
}

// Where a thread of core `own` is when it has left it.
extern "C" int leaves_for(int own, int usable, int used) {
    int visited[9];
    EightCores cores{usable, own, 0, visited};
    leave_core(cores, own, [&](int core) { return bool(used >> core & 1); });
    return cores.on;
}

// What a thread makes of a core: 1 back, 2 better, 3 late.
extern "C" int judged(int64_t took, int64_t here, int64_t there) {
    least_crowding = INT64_MAX;
    is_crowded({100, 200});
    return int(CoreSearch::judge(took, {here, 200}, {there, 200}));
}

// Whether a thread that goes to each core that it may use is there, and may use the same ones afterwards.
void go_everywhere(void* there) {
    Cores cores;
    for (int core = 0; core < cores.MOST; ++core)
        if (cores.may_use(core) && !(cores.go(core) && current_core() == core)) *static_cast<bool*>(there) = false;
}
extern "C" bool visits_all() {
    bool there = true;
    changed = 0;
    watched(go_everywhere, &there);
    return there && changed == 0;
}

#if defined(__linux__)
extern "C" bool may_use(const char* nodes, int core) { return Cores(nodes).may_use(core); }
#endif

extern "C" bool crowded(int64_t independent, int64_t dependent, int64_t* least) {
    least_crowding = *least;
    const bool result = is_crowded({independent, dependent});
    *least = least_crowding;
    return result;
}
extern "C" int searched() {
    int count = 0;
    for (const CoreSearch& s : searches) count += s.next > 0;
    return count;
}

// How long a thread waits between searches that end so, one after the other, in milliseconds: 's' where there is no
// other core, 'n' on none that is better, 'b' on one, 'c' on one where it is contended soon, 'l' late.
extern "C" void pauses(const char* ends, int64_t* milliseconds) {
    CoreSearch s;
    int64_t now = 1, began = 1;
    for (; *ends; ++ends, began = now) {
        while (!s.due(now, true)) now += 1'000'000;
        *milliseconds++ = (now - began) / 1'000'000;
        began = now;
        const Went in_vain = *ends == 's' ? Went::STAYED : *ends == 'n' ? Went::BACK : Went::LATE;
        s.ended(*ends == 'b' || *ends == 'c' ? Went::BETTER : in_vain, now);
        if (*ends == 'c') s.lost(now);
    }
}
extern "C" int64_t looks_again() {  // milliseconds after there was no other core
    CoreSearch s;
    s.ended(Went::STAYED, 0);
    return s.looked / 1'000'000;
}
extern "C" int64_t measured() { return Pace::measure().crowding(); }
"""
SIZE, STRIDE = 24, 128
LITTLE = constant("LITTLE", "program.hpp")  # work that one thread does
KERNEL = Kernel("")


def added(source: Buffer, to: Buffer, number: int) -> Call:
    """to += source backwards + number."""
    read, write = (View(b, "int64", (SIZE,), (1,)) for b in (source, to))
    return Call(KERNEL, (read,), (write,), (SIZE, number))


def answer(x: np.ndarray, calls: Sequence[Call], work: int, threads: int, come: int, how: str) -> np.ndarray:
    """What the calls make of the input `x` and an output of zeros."""
    layout = Layout(1, 1, 0)
    y = np.zeros(SIZE, np.int64)
    works = [work * (c.kernel is not None) for c in calls]
    table = table_of(calls, {KERNEL: 0}, layout, [0] * layout.size, works).array()
    buffers = (ctypes.c_void_p * layout.size)(None, None, x.ctypes.data, y.ctypes.data)
    scratch = np.zeros(STRIDE * threads + 64, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % 64
    spent = np.zeros(len(calls), np.int64)
    pointer = ctypes.c_void_p
    changed = compile_snippet(SOURCE).run(
        pointer(table.ctypes.data), buffers, pointer(start), ctypes.c_int64(STRIDE), threads, come,
        how == "late", how == "contended", how == "crowded", pointer(spent.ctypes.data),
    )  # fmt: skip
    assert changed == 0
    assert compile_snippet(SOURCE).went_early() == 0  # else the runtime spins, and the last ones wait for a core
    if how in ("crowded", "contended"):  # the latter soon after a thread has come to its core
        assert (compile_snippet(SOURCE).searched() > 0) == (threads > 1 and work > LITTLE)
    assert (spent >= 0).all()
    return y


@pytest.mark.parametrize("how", ["even", "late", "contended", "crowded"])
@pytest.mark.parametrize(("threads", "come"), [(1, 1), (2, 2), (4, 4), (4, 1), (5, 3), (16, 16)])
@pytest.mark.parametrize("work", [0, 50_000, 100_000_000])
def test_every_share_once(work: int, threads: int, come: int, how: str) -> None:
    """Little work runs on one thread, more in one part a share, much in several."""
    x, y = Buffer("input", 8 * SIZE), Buffer("output", 8 * SIZE)
    calls = [call for n in range(10) for call in (added(x, y, n), added(y, x, n))]
    given = np.random.default_rng(0).integers(-9, 9, SIZE)
    want = [given.copy(), np.zeros(SIZE, np.int64)]
    for n in range(10):
        want[1] += want[0][::-1] + n
        want[0] += want[1][::-1] + n
    got = answer(x_ := given.copy(), calls, work, threads, come, how)
    assert np.array_equal(got, want[1]) and np.array_equal(x_, want[0])


@pytest.mark.parametrize(("threads", "come"), [(2, 2), (3, 1), (4, 4)])
def test_a_loop(threads: int, come: int) -> None:
    """One thread follows the flow; the others see its trips."""
    x, y = Buffer("input", 8 * SIZE), Buffer("output", 8 * SIZE)
    trips = 500
    loop, again = (Call(None, (), (), (kind, 0, target, trips, 0, 0)) for kind, target in ((LOOP, 3), (AGAIN, 1)))
    got = answer(np.ones(SIZE, np.int64), [loop, added(x, y, 2), again], 50_000, threads, come, "even")
    assert np.array_equal(got, np.full(SIZE, 3 * trips))


UNKNOWN = -1  # how often a thread was preempted, where the system does not tell


@pytest.mark.parametrize(
    ("seen", "idle", "preempted", "want"),
    [
        ([20], [4], [1], False), ([20, 50], [4, 4], [1, 2], True), ([20, 50], [4, 4], [UNKNOWN] * 2, True),
        ([20, 50], [4, 0.5], [1, 1], False), ([20, 50], [0.5, 4], [1, 1], False),
        ([20, 50], [4, 4], [1, 0], False), ([20, 50], [4, 4], [0, 1], False),
        ([20, 200], [4, 4], [1, 1], False), ([20, 200, 250], [4, 4, 4], [1, 1, 1], True),
        ([20, 20.5], [4, 4], [1, 1], False), ([20, 20.5, 21.5], [4, 4, 4], [1, 1, 1], True),
    ],
)  # fmt: skip
def test_which_losses_of_cores_count(seen: list[float], idle: list[float], preempted: list[int], want: bool) -> None:
    """Times in milliseconds. A loss counts soon after another one, of which two threads may have told at once."""
    contended = compile_snippet(SOURCE).is_contended
    contended.restype = ctypes.c_bool
    numbers = ctypes.c_int64 * len(seen)
    times, idle_times = (numbers(*(int(x * 1e6) for x in which)) for which in (seen, idle))
    assert contended(len(seen), times, idle_times, numbers(*preempted)) == want


@pytest.mark.parametrize(
    ("own", "last", "tries", "good", "went", "found"),
    [
        (0, -1, 3, {2}, [1, 2], True), (0, 2, 3, {2}, [3, 5, 1, 0], False), (0, 2, 9, {2}, [3, 5, 1, 2], True),
        (3, 3, 1, {1}, [5, 3], False), (5, 5, 9, set(), [1, 2, 3, 5], False), (1, 5, 2, {2, 3}, [2], True),
        (4, 1, 9, {5}, [2, 3, 5], True),
    ],
)  # fmt: skip
def test_where_a_thread_goes(own: int, last: int, tries: int, good: set[int], went: list[int], found: bool) -> None:
    """Of 8 cores to those that it may use and nobody does, each once and in turn; back where none suits."""
    tried = went if found else went[:-1]
    assert visit(own, last, tries, bits({0, 1, 2, 3, 5, 6}), bits({0, 6}), bits(good)) == (went, found, tried[-1])
    assert visit(own, last, tries, bits({own}), 0, bits({own})) == ([], False, last)  # no other core


def test_a_thread_that_is_late_goes_back() -> None:
    """Core 4 takes its time."""
    everything = bits(set(range(8)))
    assert visit(0, 2, 9, everything, 0, bits({4, 5})) == ([3, 4, 0], False, 4)


def test_a_thread_leaves_a_core_of_its_own_run_even_where_it_is_late() -> None:
    leaves_for = compile_snippet(SOURCE).leaves_for
    assert leaves_for(1, bits({0, 1, 4, 5}), bits({0, 1})) == 4
    assert leaves_for(1, bits({0, 1, 2}), bits({0})) == 2
    assert leaves_for(1, bits({0, 1}), bits({0, 1})) == 1


def test_which_cores_are_better() -> None:
    """Those that begin a fifth more in a cycle, by the clock, and are not crowded; the least that was seen is 100."""
    judged = compile_snippet(SOURCE).judged
    number, milli = ctypes.c_int64, 1_000_000
    back, better, late = 1, 2, 3

    def judge(here: int, there: int, took: int = 0) -> int:
        return judged(number(took), number(here), number(there))

    assert judge(200, 100) == judge(200, 130) == judge(130, 100) == better
    assert judge(200, 140) == judge(120, 100) == judge(200, 250) == back
    assert judge(200, 100, milli) == better and judge(200, 100, milli + 1) == late


def bits(cores: set[int]) -> int:
    return sum(1 << c for c in cores)


def visit(own: int, last: int, tries: int, *cores: int) -> tuple[list[int], bool, int]:
    """Where it went, whether it is on a good core, and the one tried last; cores: usable, used, good."""
    visited, tried = (ctypes.c_int * 9)(), ctypes.c_int(last)
    count = compile_snippet(SOURCE).visit(own, ctypes.byref(tried), tries, *cores, visited)
    return list(visited[: abs(count)]), count > 0, tried.value


def test_a_thread_may_use_the_same_cores_afterwards() -> None:
    """Those of its process, or fewer where it is bound to some."""
    visits_all = compile_snippet(SOURCE).visits_all
    visits_all.restype = ctypes.c_bool
    assert visits_all()
    if sys.platform == "linux":
        allowed = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(allowed)})
            assert visits_all() and os.sched_getaffinity(0) == {min(allowed)}
        finally:
            os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads stay where the system puts them")
def test_which_cores_are_of_a_node(tmp_path: Path) -> None:
    may_use, allowed = compile_snippet(SOURCE).may_use, os.sched_getaffinity(0)
    may_use.restype = ctypes.c_bool

    def usable() -> set[int]:
        return {core for core in range(max(allowed) + 2) if may_use(os.fsencode(tmp_path), core)}

    assert usable() == allowed  # a system that tells of no nodes
    folders = [tmp_path / f"node{node}" for node in range(64)]  # this thread is on one of them
    for folder in folders:
        folder.mkdir()
    assert not usable()
    for folder in folders:
        (folder / f"cpu{min(allowed)}").mkdir()
    assert usable() == {min(allowed)}


CPUSETS = Path("/sys/fs/cgroup/cpuset")
MEMBER = """
import ctypes, os, sys
group, library, few, many = sys.argv[1:]
def write(name, text):
    with open(f"{group}/{name}", "w") as file: file.write(text)
write("cpuset.cpus", many)
write("tasks", str(os.getpid()))
write("cpuset.cpus", few)
ctypes.CDLL(library).visits_all()
write("cpuset.cpus", many)
print(*sorted(os.sched_getaffinity(0)))
"""


@pytest.fixture
def cpuset() -> Iterator[Path]:
    """A group of processes whose cores change, as a container's may."""
    group = CPUSETS / f"openmgx-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no groups of cores may be made here: {error.strerror}")
    try:
        (group / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
        yield group
    finally:
        group.rmdir()


def test_a_thread_follows_its_container_afterwards(cpuset: Path) -> None:
    """Cores that a container is given while its threads run are theirs, too."""
    allowed = sorted(os.sched_getaffinity(0))
    many = ",".join(map(str, allowed))
    command = [sys.executable, "-c", MEMBER, cpuset, compile_snippet(SOURCE)._name, str(allowed[0]), many]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == list(map(str, allowed))


def test_how_often_a_thread_searches() -> None:
    """After two looks; the more rarely the more searches are in vain, hardly ever where others run on the cores."""

    def pauses(ends: str) -> list[int]:
        got = (ctypes.c_int64 * len(ends))()
        compile_snippet(SOURCE).pauses(ends.encode(), got)
        return list(got)

    assert pauses("bbb") == [1, 4, 4]
    assert pauses("nnnnnnnn") == [1, 8, 16, 32, 64, 128, 128, 128]
    assert pauses("nnbnb") == [1, 8, 16, 16, 32]
    assert pauses("llllln") == [1, 32, 256, 2000, 2000, 2000]
    assert pauses("sss") == [1, 2000, 2000] and compile_snippet(SOURCE).looks_again() == 2000
    assert pauses("cccccnn") == [1, 32, 256, 2000, 2000, 2000, 128]
    assert pauses("nnnnbbb") == [1, 8, 16, 32, 64, 21, 4]  # what was a good one for 20 ms


def test_what_counts_as_crowded() -> None:
    """A third more than the least that was seen lately."""
    lib = compile_snippet(SOURCE)
    lib.crowded.restype, lib.measured.restype = ctypes.c_bool, ctypes.c_int64
    least = ctypes.c_int64(2**63 - 1)

    def crowded(independent: int, dependent: int) -> bool:
        return lib.crowded(ctypes.c_int64(independent), ctypes.c_int64(dependent), ctypes.byref(least))

    def least_is(ratio: float) -> bool:
        return abs(least.value / (ratio * 2**20) - 1) < 0.001

    assert not crowded(130, 200) and least_is(0.65)
    assert not crowded(120, 200) and least_is(0.6)
    assert not crowded(159, 200) and crowded(162, 200) and crowded(81, 100) and least_is(0.6)
    for _ in range(1 << 16):
        crowded(162, 200)
    assert least_is(0.81)  # fades: what was seen once need not hold
    assert lib.measured() > 0

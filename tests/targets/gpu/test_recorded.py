"""What an executable asks of its device: in which order, how often, and what never again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import AGAIN, IF, LOOP, Call
from migraphx.targets.common.views import View
from migraphx.targets.gpu.accelerator import Function
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.kernel import Kernel, Launch
from migraphx.targets.gpu.library import Append, declare
from migraphx.targets.gpu.saved import plan_data, read_plan
from migraphx.targets.gpu.slots import MOST, Slots
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.common.test_dynamic import dimension, network
from tests.targets.gpu.recorder import DEFAULT, Recorder
from tests.targets.gpu.test_executable import axpy, executable, vector

N = 24
A, B, C, D = 0x10000, 0x20000, 0x30000, 0x40000  # where callers have memory


def chain(
    device: Recorder, offload_copy: bool = False, checks: tuple[str, ...] = (), slots: Slots | None = None, n: int = N
) -> GpuExecutable:
    """t = x + w; u = t + t; out = u + x: the first and last step touch the caller's memory."""
    x, w, out = (vector(kind, 0, n) for kind in ("input", "weight", "output"))
    t, u = (vector("arena", k, n) for k in range(2))
    calls = [axpy(x, w, t), axpy(t, t, u), axpy(u, x, out)]
    weights = [np.zeros(n, np.float32)]
    return executable(device, calls, [x], [out], 0, weights, checks, offload_copy, slots)


def kinds(log: list[tuple]) -> list[str]:
    return [entry[0] for entry in log]


def test_what_a_run_copies_and_that_it_makes_nothing_later() -> None:
    device = Recorder()
    made = chain(device, offload_copy=True)
    assert kinds(device.taken()) == ["allocate", "write", "load"]
    x = Argument.of(np.zeros(N, np.float32))
    made.run([x], None)
    first = device.taken()
    assert kinds(first) == ["allocate"] * 3 + ["pinned", "write", "graph", "launch", "read"]  # arena, x, out
    for _ in range(3):
        made.run([x], None)
        assert kinds(device.taken()) == ["write", "launch", "read"]
    (stream,) = {entry[-1] for entry in first if entry[0] in ("write", "read")}
    assert stream == DEFAULT


def test_sizes_are_arguments_so_that_another_length_needs_no_other_kernels() -> None:
    loaded: list[set[Kernel]] = []

    class Loads(Recorder):
        def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> Sequence[Function]:
            loaded.append(set(kernels))
            return super().load(kernels, codes)

    program = network(dimension(1, 8), dimension(1, 64)).graph
    made: Any = GpuTarget(Loads()).compile(program, CompileOptions())
    for batch, length in ((5, 11), (7, 7), (5, 9)):  # of one tile, of one class, and of no factors that kernels know
        made.region.specialisation({"x": (batch, length, 6)}, {})
    first, *others = loaded
    assert first and len(others) == 3 and all(other == first for other in others)
    assert made.region.forms.improving is None


def test_only_nodes_that_touch_what_moved_are_updated() -> None:
    device = Recorder()
    made = chain(device)
    made.run_at([A], [B], 1)
    assert kinds(device.taken())[-2:] == ["graph", "launch"]
    made.run_at([A], [B], 1)
    (launch,) = device.taken()
    made.run_at([C], [B], 1)
    log = device.taken()
    assert [(e[0], e[1]) for e in log[:-1]] == [("update", 0), ("update", 2)]
    before, after = launch[2], log[-1][2]
    assert after[1] == before[1] and (before[0][0], after[0][0]) == (A, C) and after[0][1:] == before[0][1:]
    made.run_at([C], [D], 1)
    log = device.taken()
    assert [(e[0], e[1]) for e in log[:-1]] == [("update", 2)] and log[-1][2][2][2] == D


def test_arenas_are_aligned_and_their_lives_apart() -> None:
    device = Recorder()
    made = chain(device)
    made.run_at([A], [B], 1)
    (_, w, t, *_), (_, _, u, *_), _ = device.taken()[-1][2]
    assert all(place % 256 == 0 for place in (w, t, u)) and t != u
    assert made._program.arena_bytes == 2 * 256


def test_odd_addresses_are_copied() -> None:
    """An input before the run, an output behind it; both on the stream."""
    device = Recorder()
    made = chain(device)
    made.run_at([A + 4], [B + 8], 1)
    log = [e for e in device.taken() if e[0] in ("copy", "launch")]
    assert kinds(log) == ["copy", "launch", "copy"]
    (_, place, source, nbytes, stream), (_, _, values), (_, to, result, _, _) = log
    assert (source, to, nbytes, stream) == (A + 4, B + 8, 4 * N, 1)
    assert values[0][0] == values[2][1] == place and values[2][2] == result
    assert place % 16 == result % 16 == 0
    made.run_at([A], [B], 1)
    log = device.taken()
    assert "copy" not in kinds(log) and (log[-1][2][0][0], log[-1][2][2][2]) == (A, B)


def test_streams_that_are_busy_have_states_of_their_own() -> None:
    device = Recorder()
    made = chain(device)
    device.pending = set(range(1, 100))
    for stream in range(1, MOST + 1):
        made.run_at([A], [B], stream)
        assert "graph" in kinds(device.taken())
    made.run_at([A], [B], 3)  # behind its own last run
    assert kinds(device.taken()) == ["launch"]
    made.run_at([A], [B], 99)  # behind somebody else's
    (wait, launch) = device.taken()
    assert wait[:2] == ("wait", 99) and launch[:2] == ("launch", 99)
    device.pending = set()
    made.run_at([A], [B], 50)
    assert kinds(device.taken()) == ["wait", "launch"]


def test_a_recording_stream_gets_the_kernels_themselves() -> None:
    device = Recorder()
    made = chain(device)
    device.recording = {5}
    made.run_at([A], [B], 5)
    log = device.taken()
    assert kinds(log)[-3:] == ["work"] * 3 and not {"graph", "launch"} & set(kinds(log))
    t = log[-3][2][2]
    made.run_at([A], [B], 1)  # another arena: a graph of the caller's may run at any time
    assert device.taken()[-1][2][0][2] != t
    with pytest.raises(RuntimeError, match="give memory for the outputs"):
        made.run([Argument(Shape("float", (N,)), A, None, device)], None, 5)


def test_what_no_graph_can_record() -> None:
    device = Recorder()
    device.recording = {5}
    with pytest.raises(RuntimeError, match="compile with offload_copy=False"):
        chain(device, offload_copy=True).run([Argument.of(np.zeros(N, np.float32))], None, 5)
    x, which, out = vector("input", 0, N), vector("input", 1, 1, "bool"), vector("output", 0, N)
    calls = [Call(None, (which,), (), (IF, 0, 2), "if"), axpy(x, x, out)]
    made = executable(device, calls, [x, which], [out], offload_copy=False)
    with pytest.raises(RuntimeError, match="control flow that the host follows"):
        made.run_at([A, B], [C], 5)


@pytest.mark.usefixtures("own_objects")
def test_out_of_memory_leaks_nothing() -> None:
    """Wherever it strikes, what was taken is given back, and the next run has all it needs."""
    device = Recorder()
    made = chain(device, offload_copy=True)
    x = Argument.of(np.zeros(N, np.float32))
    before = device.memory.bytes
    made.run([x], None)
    whole = device.memory.bytes
    made.release()
    gc.collect()
    assert device.memory.bytes == before
    for most in range(before, whole, 64):
        device.most = most
        with pytest.raises(MemoryError):
            made.run([x], None)
        gc.collect()
        assert device.memory.bytes == before
    device.most = whole
    made.run([x], None)
    assert device.memory.bytes == whole


def test_a_deadline_ends_the_wait_and_keeps_the_state() -> None:
    device = Recorder()
    made = chain(device, offload_copy=True)
    x = Argument.of(np.zeros(N, np.float32))
    made.run([x], None)
    device.taken()
    device.pending = {DEFAULT}
    with pytest.raises(TimeoutError):
        made.run([x], None, None, Deadline(0.01))
    assert kinds(device.taken()) == ["write", "launch"]
    device.pending = set()
    made.run([x], None)
    assert kinds(device.taken()) == ["write", "launch", "read"]


def test_what_kernels_found_is_raised_by_who_waits_or_runs_again_and_once() -> None:
    """In torch nobody waits by a call of ours."""
    device = Recorder()
    made = chain(device, checks=("first", "second"))
    other = chain(device, checks=("third",))
    made.run_at([A], [B], 1)
    other.run_at([A], [B], 1)
    (state,) = made._states.values()
    for who in (lambda: device.synchronise(1), lambda: made.run_at([A], [B], 1)):
        state.word.numbers[:2] = 2, -17
        other.run_at([A], [B], 1)
        with pytest.raises(IndexError, match=r"^second: found -17$"):
            who()
        device.synchronise(1)
        made.run_at([A], [B], 1)


def test_programs_that_are_made_at_once_are_all_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    device, others = Recorder(), list[GpuExecutable]()
    weak = weakref.WeakMethod

    def meanwhile(method: Any) -> Any:
        monkeypatch.setattr(weakref, "WeakMethod", weak)
        others.append(chain(device, checks=("first",)))
        return weak(method)

    monkeypatch.setattr(weakref, "WeakMethod", meanwhile)
    made = [chain(device, checks=("second",)), *others]
    for one in made:
        one.run_at([A], [B], 1)
        (state,) = one._states.values()
        state.word.numbers[:2] = 1, 5
    for text in ("first", "second"):
        with pytest.raises(IndexError, match=rf"^{text}: found 5$"):
            device.synchronise()


def test_what_kernels_found_is_told_when_their_memory_is_gone() -> None:
    """Such as that of a program whose arena another length has let go, before its run was over."""
    device = Recorder()
    slots = Slots(device)
    small, large = (chain(device, slots=slots, n=n, checks=("first",)) for n in (N, 20 * N))
    small.run_at([A], [B], 1)
    (state,) = small._states.values()
    word = state.word
    device.pending = {1}
    large.run_at([A], [B], 1)
    assert not small._states
    del state
    device.synchronise(2)
    (new,) = large._states.values()
    assert new.word.address != word.address  # which the first run may still write
    word.numbers[:2] = 1, 99
    with pytest.raises(IndexError, match=r"^first: found 99$"):
        device.synchronise(1)
    device.synchronise(1)
    small.run_at([A], [B], 1)
    small.release()
    assert not small._left.drop_told()  # nothing was found


def test_what_kernels_found_is_told_when_their_program_is_gone() -> None:
    """Such as one of a length that others have driven out."""
    device = Recorder()
    made = chain(device, checks=("first",))
    made.run_at([A], [B], 1)
    word = next(iter(made._states.values())).word
    device.pending = {1}
    del made
    gc.collect()
    other = chain(device, checks=("second",))
    other.run_at([A], [B], 2)
    word.numbers[:2] = 1, 7
    with pytest.raises(IndexError, match=r"^first: found 7$"):
        device.synchronise(1)
    assert device.findings._kept
    device.synchronise(1)
    assert not device.findings._kept


def test_a_graph_of_the_caller_s_keeps_the_weights_that_it_reads() -> None:
    """Also where the program shares those of another from then on."""
    device = Recorder()
    made, other = chain(device), chain(device)
    device.recording = {5}
    made.run_at([A], [B], 5)
    weight = device.taken()[-3][2][1]
    made.share_weights([other])
    gc.collect()
    device.memory.check(weight, 4 * N)
    made.run_at([A], [B], 1)
    assert device.taken()[-1][2][0][1] == other._weights[0].address != weight


def test_kernels_with_memory_of_their_own() -> None:
    """Each launch has a part of the arena for itself, behind what the plan placed."""
    device = Recorder()
    x, out = vector("input", 0, N), vector("output", 0, N)
    call = axpy(x, x, out)
    assert call.kernel is not None
    kernel = replace(call.kernel.kernel, name="scratching", stages=100)
    calls = [replace(call, kernel=Launch(kernel, (3, 2, 1))) for _ in range(2)]
    made = executable(device, calls, [x], [out], offload_copy=False)
    assert made._program.scratch == {0: 0, 1: 768} and made._program.arena_bytes == 2 * 768


@pytest.mark.usefixtures("own_objects")
def test_lengths_of_one_program_share_memory() -> None:
    """One arena, of the largest; who needs more than there is lets the others go."""
    device = Recorder()
    slots = Slots(device)
    small, large = (chain(device, slots=slots, n=n) for n in (N, 20 * N))
    before = device.memory.bytes
    small.run_at([A], [B], 1)
    one = device.memory.bytes - before
    large.run_at([A], [B], 1)
    assert not small._states and device.memory.bytes - before > one
    two = device.memory.bytes
    small.run_at([A], [B], 1)
    assert device.memory.bytes == two
    large.run_at([A], [B], 1)
    assert kinds(device.taken())[-1] == "launch" and device.memory.bytes == two
    small.release()
    large.run_at([A], [B], 1)
    assert kinds(device.taken()) == ["launch"]
    large.release()
    gc.collect()
    assert device.memory.bytes == before


@declare
@dataclass(frozen=True)
class Doubling:
    """A library that doubles: out = scale x."""

    scale: float
    shape: tuple[int, ...] = ()

    def prepare(self, device: Any) -> Append:
        device.log.append(("prepare", self.scale))

        def append(pointers: Sequence[int], stream: int) -> None:
            device.log.append(("library", stream, tuple(pointers)))

        return append


def delegating(device: Recorder) -> GpuExecutable:
    """t = x + x; u = library(t, x); out = u + x."""
    x, out = vector("input", 0, N), vector("output", 0, N)
    t, u = (vector("arena", k, N) for k in range(2))
    library = Call(Doubling(2.0, (N,)), (t, x), (u,), (), "doubling")
    return executable(device, [axpy(x, x, t), library, axpy(u, x, out)], [x], [out], offload_copy=False)


def test_what_libraries_touch_is_copied_when_it_moves() -> None:
    """Their nodes are never updated: an input of theirs is read in place until it moves, others follow the caller."""
    device = Recorder()
    made = delegating(device)
    assert ("prepare", 2.0) in device.taken()
    made.run_at([A], [B], 1)
    assert kinds(device.taken())[-2:] == ["graph", "launch"]
    made.run_at([A], [D], 1)
    assert kinds(device.taken()) == ["update", "launch"]
    for _ in range(2):
        made.run_at([C], [D], 1)
        log = device.taken()
        captured = ["graph"] if "graph" in kinds(log) else []
        assert [k for k in kinds(log) if k != "allocate"] == ["copy", *captured, "launch"]
        assert next(e for e in log if e[0] == "copy")[2] == C
    assert not captured
    made.run_at([A], [B], 1)
    log = device.taken()
    assert kinds(log) == ["update", "copy", "launch"] and log[0][1] == 2 and log[1][2] == A
    assert read_plan(plan_data(made.plan)) == made.plan
    device.recording = {5}
    made.run_at([C], [D], 5)
    assert kinds(device.taken())[-3:] == ["work", "library", "work"]


def test_a_library_in_a_loop_is_launched_by_itself() -> None:
    device = Recorder()
    x, count, out = vector("input", 0, 4 * N), vector("input", 1, 1, "int64"), vector("output", 0, N)
    t = vector("arena", 0, N)
    row = View(x.buffer, "float", (4, N), (N, 1)).row(0, 0, 0).first()
    calls = [
        Call(None, (count,), (), (LOOP, 0, 4, 4, 0, 0), "loop"),
        axpy(row, row, t),
        Call(Doubling(1.0), (row,), (out,), (), "doubling"),
        Call(None, (count,), (), (AGAIN, 0, 1, 4, 0, 0), "again"),
        axpy(t, t, out),
    ]
    made = executable(device, calls, [x, count], [out], slots=1, offload_copy=False)
    made.run_at([A, B], [C], 1)
    log = device.taken()
    places = [e[2][0] for e in log if e[0] == "library"]
    assert [p - places[0] for p in places] == [0, 4 * N, 8 * N, 12 * N]
    assert [e[0] for e in log if e[0] in ("launch", "library")] == ["launch", "library"] * 4 + ["launch"]

"""Every write to a weight is seen at the next call, whoever writes and however the system lets us find it."""

import copy
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.tiers import few
from torch_migraphx.dynamo import write_tracking, written_pages
from torch_migraphx.dynamo.write_tracking import ALARMS, PAGE, Tracker, Watch, is_plain
from torch_migraphx.dynamo.written_pages import WrittenPages

X = torch.randn(2, 128)
madvise = ctypes.CDLL(None).madvise
madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def quiet(watch: Watch) -> bool:
    """Whether its tensors are unwritten; each page that others write, too, is compared after a few looks."""
    looks = ALARMS * len(watch._edges) + 1
    return any(watch.clean() or (not watch.changed() and watch.clean()) for _ in range(looks))


def forbidden() -> int:
    raise PermissionError(errno.EPERM, "userfaultfd: Operation not permitted")


def kernel_tracks() -> bool:
    try:
        WrittenPages().close()
    except OSError:
        return False
    return True


@pytest.fixture(params=few(["pages", "comparison"], "pages" if kernel_tracks() else "comparison"))
def way(request, monkeypatch):
    """Both ways; the first where the kernel has it, and the quick tests take that."""
    if request.param == "pages" and not kernel_tracks():
        pytest.skip("this kernel, or this container, has no asynchronous write protection")
    if request.param == "comparison":
        monkeypatch.setattr(written_pages, "_userfaultfd", forbidden)
    made = Tracker()
    assert (made.pages is not None) == (request.param == "pages")
    monkeypatch.setattr(write_tracking, "tracker", lambda: made)
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()
    if made.pages is not None:  # memory has one userfaultfd
        made.pages.close()


class Net(nn.Module):
    """A large weight (128 KB), small ones, a buffer; one weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = nn.Linear(128, 256), nn.Linear(256, 8)
        self.tied = nn.Linear(256, 8, bias=False)
        self.tied.weight = self.small.weight
        self.register_buffer("scale", torch.rand(8) + 1)
        self.scale: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.large(x)
        return (self.small(y) + self.tied(y) * 2) * self.scale


def compiled(model: Any, **options: Any) -> Any:
    """By target cpu, which packs weights; ref reads them where they are."""
    return torch.compile(model, backend="migraphx", options=options)


def same(fast: Any, model: Any, x: torch.Tensor = X) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def by_numpy(m: Net) -> None:
    m.large.weight.detach().numpy()[3:9, 5] = 2


def one_element(m: Net) -> None:
    at = np.random.default_rng(0).integers(256 * 128)
    m.large.weight.detach().numpy().reshape(-1)[at] += 100


def by_a_view(m: Net) -> None:
    m.large.weight.detach().view(-1)[-1:].add_(100)


def through_a_pipe(m: Net) -> None:
    """The system call writes, not this process's code."""
    r, w = os.pipe()
    os.write(w, np.full(64, 3, np.float32).tobytes())
    os.readv(r, [m.large.weight.detach().numpy().reshape(-1).data.cast("B")[8192:8448]])
    os.close(r)
    os.close(w)


WRITES = {
    "clamp": lambda m: m.large.weight.data.clamp_(-0.01, 0.01),
    "columns": lambda m: m.large.weight.data[:, 8:16].mul_(0),
    "row": lambda m: m.large.weight.data[5].add_(10),
    "counted": lambda m: m.large.weight[3].fill_(5.0),
    "numpy": by_numpy,
    "element": one_element,
    "view": by_a_view,
    "pipe": through_a_pipe,
    "tied": lambda m: m.tied.weight.data[1, 200:203].zero_(),
    "bias": lambda m: m.small.bias.data[3].add_(5),
    "buffer": lambda m: m.scale[2:3].mul_(3),
    "address": lambda m: setattr(m.large.weight, "data", m.large.weight.data * 2),
    "object": lambda m: setattr(m.small, "bias", nn.Parameter(torch.ones(8))),
    "set": lambda m: m.small.bias.set_(torch.randn(8)),
    "shared": lambda m: m.large.weight.share_memory_(),
}


def test_every_write_is_seen(way):
    model = Net()
    fast = compiled(model)
    with torch.no_grad():
        for n, (name, write) in enumerate(WRITES.items()):
            if n % 3 == 0:  # within the patience
                torch._dynamo.reset()
            same(fast, model)
            before = model(X)
            write(model)
            assert name == "shared" or not torch.equal(before, model(X)), name
            same(fast, model)


def test_writes_are_seen_where_the_engine_compares_nothing(way, monkeypatch):
    """As AMD's, or without a C++ compiler."""
    monkeypatch.setattr(write_tracking, "_image", lambda *_: None)
    net = Net()
    watch = Watch([*net.parameters(), net.scale])
    for name in ("row", "element", "bias", "buffer"):
        assert quiet(watch), name
        with torch.no_grad():
            WRITES[name](net)
        assert watch.run_if_clean(lambda *_: 1, ()) is None
        assert len(watch.changed()) == 1, name
        watch = Watch([*net.parameters(), net.scale])
    assert quiet(watch)


def test_other_strides_and_sizes_in_the_same_memory():
    """Nothing is written, and no address is another."""
    torch._dynamo.reset()
    model = nn.Linear(128, 128)
    fast = compiled(model, target="ref")
    same(fast, model)
    model.weight.data = model.weight.data.t()
    same(fast, model)
    model.weight.data, model.bias.data = model.weight.data[:64], model.bias.data[:64]
    same(fast, model)


def test_modules_made_in_inference_mode(way):
    """Their tensors count no writes at all."""
    with torch.inference_mode():
        model = Net()
        fast = compiled(model)
        for row in (3, 4):
            torch.testing.assert_close(fast(X), model(X), rtol=1e-4, atol=1e-4)
            model.large.weight[row] = 5.0
            torch.testing.assert_close(fast(X), model(X), rtol=1e-4, atol=1e-4)


def test_what_is_written_with_what_was_there_compiles_nothing(way, caplog):
    model = Net()
    state = copy.deepcopy(model.state_dict())
    fast = compiled(model)
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            same(fast, model)
            model.load_state_dict(state)
    assert "compiling again" not in caplog.text and "are inputs" not in caplog.text


def test_patience_ends(way, caplog):
    model = Net()
    fast = compiled(model)
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            same(fast, model)
            model.large.weight.data[7, 7] += 1
    assert caplog.text.count("compiling again") == 1 and caplog.text.count("are inputs") == 1


def test_frozen_does_not_look(way, monkeypatch):
    monkeypatch.setattr(write_tracking.Watch, "__init__", lambda *_: pytest.fail("a frozen model is watched"))
    model = Net()
    before = copy.deepcopy(model)
    fast = compiled(model, frozen=True)
    same(fast, model)
    model.large.weight.data = torch.ones(256, 128)
    same(fast, before)


def test_frozen_modules_that_share_their_code():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(128, 128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return torch.relu(self.linear(x))

    torch._dynamo.reset()
    model = nn.Sequential(*[Layer() for _ in range(3)])
    fast = compiled(model, frozen=True)
    same(fast, model)
    same(fast, model)


@pytest.mark.parametrize("sizes", [(3,), (256, 1024)])
def test_no_call_slips_through_while_another_looks(way, monkeypatch, sizes):
    """Between the new copy and the answer the old form must not run."""
    weight, heard = torch.randn(sizes), []
    watch, digests = Watch([weight], way), write_tracking._digests
    monkeypatch.setattr(write_tracking, "_digests", lambda tensors: (heard.append(watch.clean()), digests(tensors))[1])
    weight.view(-1)[-2] += 1
    assert watch.changed() == {0} and heard == [False] and not watch.clean()
    assert watch.changed() == {0} and not watch.clean()  # another one asks


def in_child(work: Callable[[], Any]) -> int:
    """The exit code of a fork that does it."""
    pid = os.fork()
    if not pid:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_other_processes_write(way):
    """Into memory that is shared with them."""
    model = Net()
    model.large.weight.share_memory_()
    fast = compiled(model)
    same(fast, model)
    address = model.large.weight.data_ptr()
    assert in_child(lambda: ctypes.memset(address + 70000, 0x42, 4)) == 0
    assert model.large.weight.reshape(-1)[17500] == float.fromhex("0x1.848484p+5")
    same(fast, model)


def test_weights_in_a_mapped_file(way, tmp_path):
    """As safetensors gives them: a private mapping, several weights side by side, not at multiples of a page."""
    file = tmp_path / "weights"
    file.write_bytes(torch.randn(100 + 256 * 128 + 256).numpy().tobytes())
    memory = torch.from_numpy(np.memmap(file, np.float32, "c"))
    model = Net()
    model.large.weight = nn.Parameter(memory[100 : 100 + 256 * 128].view(256, 128))
    model.large.bias = nn.Parameter(memory[-256:])
    fast = compiled(model)
    same(fast, model)
    for at in (100, 9000, 100 + 256 * 128 - 1, 100 + 256 * 128):
        memory[at] += 10
        same(fast, model)
    memory[:100] = 0  # beside them
    same(fast, model)


@pytest.mark.slow
def test_threads_that_write_while_others_call(way):
    """A call that begins after a write has it, whatever other threads ask meanwhile."""
    weight, failures = torch.zeros(64, 1024), []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            Watch([weight], way).clean()

    def write(row: int) -> None:
        for n in range(20):
            watch = Watch([weight], way)
            weight.numpy()[row, n] = n + 1
            if watch.clean() or watch.changed() != {0}:
                failures.append((row, n))

    others = threading.Thread(target=ask)
    writers = [threading.Thread(target=write, args=(r,)) for r in range(3)]
    for t in (others, *writers):
        t.start()
    for t in writers:
        t.join()
    stop.set()
    others.join()
    assert not failures


def test_who_asks_does_not_disturb_who_finds(way, monkeypatch):
    """A thread asks about other pages between the kernel's answer to another one and the reading of it."""
    if way.pages is None:
        pytest.skip("nobody asks the kernel")
    weight, other = torch.zeros(4, 64, 1024)[1:3]
    watch, question = Watch([weight], way), Watch([other], way)
    ioctl = fcntl.ioctl

    def interrupted(*arguments: Any) -> Any:
        answer = ioctl(*arguments)
        with monkeypatch.context() as m:
            m.setattr(fcntl, "ioctl", ioctl)
            question.clean()
        return answer

    weight[3, 3] = other[5, 5] = 1
    monkeypatch.setattr(fcntl, "ioctl", interrupted)
    assert watch.changed() == {0}


def test_forks(way):
    """A child has its own writes, sees none of its parent's, and compiles nothing again for being a child."""
    own, other = torch.randn(128, 256), torch.randn(128, 256)
    watch, unwritten = Watch([own], way), Watch([other], way)

    def work() -> None:
        way.forked()  # what the process's own tracker has the system call
        assert quiet(unwritten)
        own[9, 9] += 1
        assert not watch.clean() and watch.changed() == {0}
        other[5, 5] += 1
        assert not unwritten.clean() and unwritten.changed() == {0}

    assert in_child(work) == 0
    assert quiet(watch) and quiet(unwritten)
    own[3, 3] += 1
    assert not watch.clean() and watch.changed() == {0}


def test_what_was_written_before_a_fork_is_seen_in_the_child(way):
    own = torch.randn(128, 256)
    watch = Watch([own], way)
    own[1, 1] += 1

    def work() -> None:
        way.forked()
        assert not watch.clean() and watch.changed() == {0}

    assert in_child(work) == 0


# ---- watches ----


def test_gaps_are_not_theirs(way):
    owner = torch.randn(300, 200)
    watch = Watch([owner[:, :50], owner.t()[100:110], torch.ones(3, 1).expand(3, 4)], way)
    owner[:, 60:90] = 0
    assert quiet(watch)
    owner[250, 105] += 1
    assert not watch.clean() and watch.changed() == {1}
    assert not watch.clean() and watch.stale


def test_overlapping_watches_tell_each_other(way):
    weight = torch.randn(64, 1024)
    whole, upper = Watch([weight], way), Watch([weight[:32]], way)
    weight[3] = 0
    assert upper.changed() == {0} and not whole.clean() and whole.changed() == {0}
    whole, upper = Watch([weight], way), Watch([weight[:32]], way)
    weight[40] = 1
    assert quiet(upper) and not quiet(whole)
    del whole
    assert quiet(Watch([weight], way)) and quiet(upper)
    weight[31, 1000] += 1
    assert not upper.clean()


def test_every_place_of_a_page_and_its_neighbours(way):
    memory = torch.zeros(16 * PAGE, dtype=torch.uint8)
    weight = memory[100 : 9 * PAGE + 33]
    for at in (0, 1, PAGE - 101, PAGE - 100, 5 * PAGE, len(weight) - 34, len(weight) - 1):
        watch = Watch([weight], way)
        assert quiet(watch)
        weight.numpy()[at] += 1
        assert not watch.clean() and watch.changed() == {0}
    watch = Watch([weight], way)
    for n in range(ALARMS + 2):  # the kernel is asked about these pages no more
        memory[:100] = memory[9 * PAGE + 33 :] = n
        assert n < ALARMS or watch.clean()
        assert quiet(watch)
    for at in (0, 4 * PAGE, len(weight) - 1):
        weight.numpy()[at] += 1
        assert not watch.clean() and watch.changed() == {0}
        watch = Watch([weight], way)


def test_small_weights_side_by_side(way):
    """One question is about all; what another watch has between them is its own."""
    memory = torch.zeros(40 * PAGE, dtype=torch.uint8)
    start = -memory.data_ptr() % PAGE
    parts = [memory[start + k * PAGE + 8 : start + k * PAGE + 8 + 1500] for k in range(0, 36, 3)]
    watch = Watch(parts, way)
    between = Watch([memory[start + 7 * PAGE : start + 8 * PAGE]], way)
    for n, of_mine in ((7 * PAGE + 5, False), (6 * PAGE + 9, True), (4 * PAGE + 5, False)):
        memory.numpy()[start + n] += 1
        assert watch.clean() is not of_mine and between.clean() is (n // PAGE != 7)
        assert watch.changed() == ({2} if of_mine else set())
        watch, between = Watch(parts, way), Watch([memory[start + 7 * PAGE : start + 8 * PAGE]], way)
    if way.pages is not None:
        assert not watch.compared and len(watch._look.queries) == 3  # before it, behind it, whether there is any
    del between
    for k, part in enumerate(parts):
        watch = Watch(parts, way)
        part.numpy()[k * 100] += 1
        assert not watch.clean() and watch.changed() == {k}


def test_a_copy_is_not_made_anew_where_another_watch_comes(way):
    """A small weight that was written, and not asked about yet, stays written."""
    memory = torch.zeros(30 * PAGE, dtype=torch.uint8)
    start = -memory.data_ptr() % PAGE
    few = memory[start + PAGE : start + PAGE + 100]
    watch = Watch([memory[start + 4 * PAGE : start + 6 * PAGE], few, memory[start + 9 * PAGE : start + 11 * PAGE]], way)
    few[3] += 1
    other = Watch([memory[start + 7 * PAGE : start + 8 * PAGE]], way)
    assert other.clean() and not watch.clean() and watch.changed() == {1}


def test_kinds_of_tensors(way):
    tensors = [
        torch.randn(3, 5, 2), torch.tensor(1.5), torch.arange(7), torch.randn(33, dtype=torch.bfloat16),
        torch.rand(9000) > 0.5, torch.randn(80, 80, dtype=torch.complex64), torch.randn(4, 1).expand(4, 9),
        torch.zeros(0, 3), torch.randn(64, 64)[::2, ::3],
    ]  # fmt: skip
    assert all(map(is_plain, tensors))
    for k, t in enumerate(tensors):
        watch = Watch(tensors, way)
        if t.numel():
            one = t.data[0, 0] if t.dim() > 1 else t.data[-1] if t.dim() else t.data
            one.copy_(~one if t.dtype == torch.bool else one + 1)
            assert not watch.clean() and watch.changed() == {k}
        else:
            assert quiet(watch)


def test_what_is_not_plain():
    class Mine(torch.Tensor):
        pass

    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(3)
    wrapped = []
    torch.func.vmap(lambda x: (wrapped.append(is_plain(x)), x)[1])(torch.ones(3, 2))
    strange = [fake, torch.ones(3).as_subclass(Mine), torch.eye(3).to_sparse(), torch.ones(3, device="meta"), 3]
    strange.append(torch._to_functional_tensor(torch.ones(3)))  # type: ignore[attr-defined]
    assert not any(map(is_plain, strange)) and wrapped == [False]
    gone = torch.ones(1000)
    gone.untyped_storage().resize_(8)
    assert not is_plain(gone) and is_plain(nn.Parameter(torch.ones(3))) and is_plain(nn.Buffer(torch.ones(3)))


def test_huge_pages(way):
    """What the kernel makes one huge page, before or behind our back, keeps its notes."""
    huge = 1 << 21
    memory = torch.zeros(4 * huge, dtype=torch.uint8)
    start = -(-memory.data_ptr() // huge) * huge
    madvise(start, 2 * huge, 14)  # MADV_HUGEPAGE
    memory.fill_(1)
    for collapse_first in (True, False):
        if collapse_first:
            madvise(start, 2 * huge, 25)  # MADV_COLLAPSE
        watch = Watch([memory], way)
        memory.numpy()[huge + 12345] += 1
        madvise(start, 2 * huge, 25)
        assert not watch.clean() and watch.changed() == {0}


def test_only_pages_of_this_process_alone_become_huge():
    """Not those that nobody has written, nor those that a fork shares: they would take memory."""
    huge = written_pages._huge_page()
    if not kernel_tracks() or not huge:
        pytest.skip("this kernel, or this container, has no asynchronous write protection, or no huge pages")
    memory = np.frombuffer(mmap.mmap(-1, 5 * huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    start = -memory.__array_interface__["data"][0] % huge
    at = memory.__array_interface__["data"][0] + start
    memory[start : start + 4 * huge : PAGE] = 1

    def found(begin: int, end: int = at + 4 * huge) -> list[tuple[int, int]]:
        pages = WrittenPages()
        spans = list(pages._collapsible(begin, end))
        pages.close()
        return spans

    assert found(at + 1) == [(at + huge, 3 * huge)]
    assert found(at, at + PAGE) == found(at + PAGE, at + 2 * huge - PAGE) == []
    madvise(at + 2 * huge, huge, mmap.MADV_DONTNEED)
    assert found(at) == [(at, 2 * huge), (at + 3 * huge, huge)]

    def work() -> None:
        assert not found(at)

    assert in_child(work) == 0


@pytest.mark.parametrize("seconds", [60, 0])
def test_large_weights_become_huge_pages(way, monkeypatch, seconds):
    """Where the system has them, as long as there is time; every write is seen all the same."""
    monkeypatch.setattr(write_tracking, "WORTH_HUGE_PAGES", 1 << 20)
    monkeypatch.setattr(write_tracking, "SECONDS_FOR_HUGE_PAGES", seconds)
    asked = []
    monkeypatch.setattr(WrittenPages, "_collapsible", lambda *given: asked.append(given) or [])
    weight = torch.ones(3 << 20)
    watch = Watch([weight], way)
    assert bool(weight.eq(1).all()) and quiet(watch)
    assert bool(asked) == (seconds > 0 and way.pages is not None)
    weight[1 << 20] = 2
    assert not watch.clean() and watch.changed() == {0} and watch.stale


def test_the_way_is_lost(way):
    """Somebody closes all files of the process, as daemons do."""
    if way.pages is None:
        pytest.skip("there is no file")
    weight = torch.randn(128, 256)
    watch = Watch([weight], way)
    os.close(way.pages._fd)
    os.close(way.pages._pagemap)
    weight[0, 100] += 1
    assert not watch.clean() and watch.changed() == {0}
    watch = Watch([weight], way)
    assert quiet(watch)
    weight[127, 100] += 1
    assert not watch.clean() and watch.changed() == {0}
    way.pages._fd = way.pages._pagemap = -1


def test_what_is_compared_is_said_once(way, caplog):
    model = nn.Sequential(nn.Linear(128, 256), nn.Linear(256, 128))
    fast = compiled(model)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            same(fast, model)
    said = [r.getMessage() for r in caplog.records if "compares" in r.getMessage()]
    assert len(said) == (way.pages is None)
    assert all("0.3 MB" in s and "frozen" in s and "not permitted" in s for s in said)

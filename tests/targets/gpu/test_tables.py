"""Tables of winners: what is written is read, what comes with the package can be used."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import Call
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu import tables, tune
from migraphx.targets.gpu.choices import APART, DNN, LIBRARIES, LIBRARY, Choice, Choices, Config, Problem
from migraphx.targets.gpu.costs.products import THIRDS, described_products, products
from migraphx.targets.gpu.facts import KNOWN
from migraphx.targets.gpu.kernel import Grid, Kernel, Launch
from migraphx.targets.gpu.libraries import find
from migraphx.targets.gpu.tables import TABLES, shipped, table_text
from migraphx.targets.gpu.target import GpuTarget
from migraphx.targets.gpu.tune import Timing, Tuner
from migraphx.targets.target import CompilerError
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.recorder import RecordedWork, Recorder
from tests.targets.gpu.side_by_side import built

OWN = {"product", "product" + THIRDS, "vector", "described"}
KERNELS = {
    "product": {"product", "vector", "described", LIBRARY, DNN, "int4", "int4 vector"},
    "gated": {"described", APART},
    "chained": {"chained", APART},
    "convolution": {"convolution", "described", "flat", "rows", "lined", DNN},
    "depthwise": {"depthwise", "strips"},
    "attention": {"attention", "whole heads"},
}


def test_a_table_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winners = {"product 1x2x3": Config("product", 16, 32, 64, 2, stages=2), "b": Config(LIBRARY, 0, 0, 0, group=3)}
    (tmp_path / "cuda_7.json").write_text(table_text({"device": "one", LIBRARY: 5}, winners))
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    assert shipped("cuda:7", {LIBRARY: 5}) == winners and shipped("cuda:8", {}) == {}
    assert shipped("cuda:7", {LIBRARY: 6})["b"] == shipped("cuda:7", {})["b"] == Config(LIBRARY, 0, 0, 0, group=0)
    tables._data.cache_clear()


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.json")), ids=lambda p: p.stem)
def test_what_comes_with_the_package(path: Path) -> None:
    chip = path.stem.replace("_", ":")
    assert chip in KNOWN
    for key, config in shipped(chip, {}).items():
        family = key.split()[0]
        assert config.kernel.removesuffix(THIRDS) in KERNELS[family], key
        assert min(config.split, config.warps, config.group, config.tail) >= 1 or config.kernel in LIBRARIES, key


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.json")), ids=lambda p: p.stem)
def test_winners_among_products_are_candidates(path: Path) -> None:
    """Else nobody would choose them, and nobody would know."""
    chip = path.stem.replace("_", ":")
    own = {k: c for k, c in tables.read(chip).items() if k.startswith("product ") and c.kernel in OWN}
    assert any(int(k.split("x")[1]) == 8 for k in own)
    for key, config in own.items():
        _, sizes, type, *_ = key.split()
        b, m, n, k = map(int, sizes.split("x"))
        about = (b, m, n, k), type, dtypes.to_numpy(type).itemsize, KNOWN[chip]
        found = [*products(*about), *products(*about, along_depth=False), *described_products(*about, written=2)]
        assert config in found, key


def test_what_was_chosen_is_told() -> None:
    """`explain --why` has it among what was refused: the other ways, what each would take, and what was taken."""
    made = built(lambda b, x: b.dot(x, b.literal(np.ones((64, 96), np.float16))), Shape("half", (80, 64)))
    refusals = GpuTarget(InterpretedDevice()).refusals(made.graph.clone(), CompileOptions())
    told = [str(r.why) for r in refusals if r.rule == "product"]
    assert len(told) >= 2
    assert all(re.fullmatch(r"\w+ \(tiles .*\), about [\d.]+ us, beside \w+ \(.*\), about [\d.]+ us", t) for t in told)
    measured = Choice(Problem("product", (1,), ("half",)), Config(LIBRARY, 0, 0, 0, group=2), None)
    want = "vector (tiles 1x2x3, 4 warps, 3 stages, 2 parts), about 5.0 us, beside cublasLt's algorithm 2, which was"
    assert measured.against(Config("vector", 1, 2, 3, 2), 5.0).startswith(want)


def test_what_is_known_is_used() -> None:
    """A winner of the table; the library's best guess where it proposes less than when the table was made."""
    problem, other = Problem("product", (1, 2, 3, 4), ("half",)), Problem("product", (1, 2, 3, 5), ("half",))
    own, best = Config("product", 16, 16, 16), Config(LIBRARY, 0, 0, 0, group=0)
    winner = Config("product", 32, 32, 32)
    table = {problem.key: winner, other.key: Config(LIBRARY, 0, 0, 0, group=5)}
    made = Choices(table=table)
    assert made.pick(problem, [own, winner], lambda c: 1.0 + (c == winner)) == winner
    assert made.pick(problem, [own], lambda c: 1.0) == own
    assert made.pick(other, [own, best], lambda c: 1.0 if c == own else 2.0) == best
    assert made.pick(other, [own], lambda c: 1.0) == own
    assert [c.estimate for c in made.made] == [None, 1.0, None, 1.0]


def test_a_winner_that_is_no_candidate_leaves_the_next() -> None:
    """A kernel for constant weights alone, where those of other epilogues are known to be fast."""
    problem, own, next_best = (
        Problem("convolution", (1, 2), ("half",), "x"),
        *(Config("flat", n, 16, 16) for n in (16, 32)),
    )
    made = Choices(table={problem.key: Config("lined", 64, 64, 32), problem.bare: next_best})
    assert made.pick(problem, [own, next_best], lambda c: c.m) == next_best


def test_what_is_known_of_half_is_used_for_bf16() -> None:
    """Where bf16 itself was not measured, which goes first: the table that comes with the package is of half."""
    half, bf16 = (Problem("product", (1, 2, 3, 4), (t, "int8", t), "dot add") for t in ("half", "bf16"))
    own, winner, other = (Config("product", n, 16, 16) for n in (16, 32, 64))
    picks = [Choices(table=table).pick(bf16, [own, winner, other], lambda c: c.m) for table in (
        {half.bare: winner}, {half.bare: other, half.key: winner}, {half.key: other, bf16.bare: winner}, {},
    )]  # fmt: skip
    assert picks == [winner, winner, winner, own]


def test_what_was_measured_fits() -> None:
    """A winner that was kept for an equal problem of another layout, which a library does not take, is not used."""
    problem, own = Problem("convolution", (1, 2, 3, 4), ("half",)), Config("convolution", 16, 16, 16)
    made = Choices(measure=lambda *given: Config(DNN, 0, 0, 0, group=2))
    assert made.pick(problem, [own], lambda c: 1.0, lambda c: []) == own
    other = Config(DNN, 0, 0, 0, group=0)
    assert made.pick(problem, [own, other], lambda c: 1.0, lambda c: []) == other


def test_a_library_wins_by_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must be loaded, so that it be a little faster does not pay."""
    own, other = Config("product", 16, 16, 16), Config(LIBRARY, 0, 0, 0)
    tuner = Tuner(InterpretedDevice())
    for theirs, winner in ((9.9, own), (9.0, other)):
        times = [Timing(own, 10.0), Timing(other, theirs)]
        monkeypatch.setattr(tuner, "_timed", lambda configs, programs, times=times: times)
        assert tuner.measure(Problem("product", (1,), ("half",)), [own, other], lambda config: []) == winner


def test_a_winner_belongs_to_what_it_was_measured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another driver, Triton or library knows none of them."""
    tuner, problem = Tuner(InterpretedDevice()), Problem("product", (1,), ("half",))
    keys = [tuner._key(problem)]
    for name, value in (("versions", lambda: {LIBRARY: 1, DNN: 2}), ("triton_version", lambda: "0")):
        with monkeypatch.context() as patch:
            patch.setattr(tune, name, value)
            keys.append(tuner._key(problem))
    monkeypatch.setattr(tuner.device, "identity", lambda: "another driver")
    keys.append(tuner._key(problem))
    assert len({*keys}) == 4


class _Fresh(Recorder):
    """A device that never gives an address out again, so that none is of other memory than it was."""

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        self.next = -(-getattr(self, "next", 1 << 32) // 512) * 512 + 512
        start, owner = self.next, type("Owner", (), {})()
        self.next += nbytes
        self.memory.add(start, nbytes, owner)
        return start, owner

    def work(self, function: Any, grid: Grid, values: Sequence[int], scratch: int = 0) -> RecordedWork:
        return RecordedWork(self, [*values, scratch])


def test_what_a_launch_takes_is_there_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its pieces at once, also those of more bytes than a pool had.

    On an H200 the left side of a product lay in memory that its weights of 525 MB had let go: an illegal address.
    """
    monkeypatch.setattr(tune, "COLD", 4096)
    monkeypatch.setattr(tune, "PATTERN", 64)
    kernel = Kernel("scratching", "", ("*fp16", "*fp16", "*fp32", "*fp16"), stages=100)  # which asks for 100 bytes
    for lens in itertools.permutations((64, 3000, 9000, 500)):  # elements: some fit and some do not
        device = _Fresh()
        tuner = Tuner(device)
        x, weights, parts, y = (
            View(Buffer("arena", 4 * n, k), type, (n,), (1,), 0)
            for k, (type, n) in enumerate(zip(("half", "half", "float", "half"), lens, strict=True))
        )
        call = Call(Launch(kernel, (70, 1, 1)), (x, weights), (parts, y), (), "", "")
        tuner.time([call])
        launched = [entry[2] for entry in device.log if entry[0] == "launch"]
        assert launched
        for values in itertools.chain.from_iterable(launched):
            taken = list(zip(values, [*(v.elements * v.itemsize for v in call.views), 100 * 70], strict=True))
            for start, nbytes in taken:
                device.memory.check(start, nbytes)
            ends = sorted((start, start + nbytes) for start, nbytes in taken)
            assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_what_a_launch_takes_is_apart_in_pools_that_others_have_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result would write over memory of the kernel's own, such as descriptors of what it reads."""
    monkeypatch.setattr(tune, "COLD", 4096)
    monkeypatch.setattr(tune, "PATTERN", 64)
    monkeypatch.setattr(tune, "LAUNCHES", 1)
    device = _Fresh()
    tuner = Tuner(device)
    for name, n in (("plain", 100), ("scratching", 900)):
        y = View(Buffer("arena", 2 * n), "half", (n,), (1,))
        launch = Launch(Kernel(name, "", ("*fp16",), stages=2048), (1, 1, 1))
        tuner.time([Call(launch, (), (y,), (), "", "")])
    ((result, own),) = [entry[2] for entry in device.log if entry[0] == "launch"][-1]
    assert result + 1800 <= own or own + 2048 <= result


def test_a_lost_context_ends_the_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that fails is left out; one that takes the device with it is an error, and no other is timed."""
    device, timed = Recorder(), list[Any]()

    def time(_: Tuner, calls: Sequence[Any]) -> float:
        timed.append(calls)
        raise RuntimeError("an illegal address")

    def lost(_: int | None = None) -> None:
        raise RuntimeError("the context is lost")

    monkeypatch.setattr(Tuner, "time", time)
    tuner, problem, configs = (
        Tuner(device),
        Problem("product", (1,), ("half",)),
        [Config("product", 16, 16, 16), Config("product", 32, 16, 16)],
    )
    with pytest.raises(CompilerError, match="an illegal address"):
        tuner.measure(problem, configs, lambda config: [])
    assert len(timed) == 2
    monkeypatch.setattr(device, "synchronise", lost)
    with pytest.raises(RuntimeError, match="the context is lost"):
        tuner.measure(problem, configs, lambda config: [])
    assert len(timed) == 3


def test_versions_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wheel as the library itself would say it; without a wheel or a library there is none."""
    find.version.cache_clear()
    monkeypatch.setattr(find, "load", lambda name: None)
    monkeypatch.setattr(find, "wheel", {"cublasLt": "13.1.0.3", "cudnn": None}.get)
    assert find.versions() == {"cublasLt": 130100, "cudnn": 0}
    find.version.cache_clear()


def test_libraries_of_wheels_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels may lie in the folder of the user, too, or in that of another environment."""
    about, lib = tmp_path / "nvidia_cudnn_cu13-9.7.1.dist-info", tmp_path / "nvidia" / "cudnn" / "lib"
    about.mkdir()
    lib.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cudnn-cu13\nVersion: 9.7.1\n")
    (lib / "libcudnn.so.9").touch()
    monkeypatch.syspath_prepend(tmp_path)
    loaded: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda place, mode: loaded.append(place))
    cached = (find._distribution, find.load, find.version)
    for function in cached:
        function.cache_clear()
    find.load("cudnn")
    found = find.version("cudnn")
    for function in cached:
        function.cache_clear()
    assert (loaded, found) == ([str(lib / "libcudnn.so.9")], 90701)

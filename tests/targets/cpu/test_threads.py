"""Threads of a run: how many, whose pool, and what becomes of it after a fork."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from migraphx.targets.cpu import threads
from tests.limits import HANG

PROGRAM = """
import multiprocessing, os, sys, threading, time
import numpy as np
{first}
import migraphx
m = migraphx
p = m.program()
main = p.get_main_module()
x = main.add_parameter("x", m.shape("float", [300, 200]))
w = main.add_literal(np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32))
main.add_return([main.add_instruction(m.op("dot"), [x, w])])
a = np.random.default_rng(1).standard_normal((300, 200)).astype(np.float32)
p.compile(m.get_target("cpu"), num_threads={threads})
want = np.array(p.run({{"x": a}})[0])

def tasks(wanted):
    # how many there are; those of threads that have ended stay a moment longer
    end = time.monotonic() + {hang}
    while (found := len(os.listdir("/proc/self/task"))) != wanted and time.monotonic() < end:
        time.sleep(0.01)
    return found

def again():
    for _ in range(3):
        assert np.array_equal(np.array(p.run({{"x": a}})[0]), want)

def forked(work):
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join({hang})
    assert child.exitcode == 0, child.exitcode
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def run(body: str, first: str = "", threads: int = 2, prefix: tuple[str, ...] = (), **environment: str) -> str:
    script = PROGRAM.format(first=first, threads=threads, hang=HANG) + body
    given = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | environment
    command = [*prefix, sys.executable, "-c", script]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=HANG, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


FORKS = """
forked(again)
forked(lambda: (again(), forked(again)))
again()
"""


def test_forked_children_run() -> None:
    """libgomp waits for ever for the pool that a fork leaves behind: where the first thread forks, and another."""
    run(
        FORKS
        + """
def many():
    started = [threading.Thread(target=again) for _ in range(4)]
    [t.start() for t in started]
    again()
    [t.join() for t in started]

t = threading.Thread(target=forked, args=(many,))
t.start()
t.join()
again()
"""
    )


@pytest.mark.slow
def test_torch_says_how_many_threads_and_forks_with_its_pool() -> None:
    first = "import torch; torch.set_num_threads(1); before = len(os.listdir('/proc/self/task'))"
    body = """
print(tasks(before) - before)
torch.set_num_threads(2)
again()
print(tasks(before + 1) - before)
torch.ones(999, 999) @ torch.ones(999, 999)
"""
    assert run(body + FORKS, first, threads=0, OMP_NUM_THREADS="2").split() == ["0", "1"]


@pytest.mark.slow
def test_more_threads_than_cores() -> None:
    run("again()", threads=3 * (os.cpu_count() or 1))


def test_no_runtime(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(threads, "_loaded", list)
    monkeypatch.setattr(threads, "SYSTEM", ("/nowhere/libgomp.so.1",))
    with caplog.at_level(logging.WARNING):
        found = threads.runtime.__wrapped__()
    assert found.parallel == 0 and found.max_threads() == 1 and "one thread" in caplog.text


@pytest.mark.slow
def test_a_program_without_a_runtime_runs() -> None:
    body = "assert threading.active_count() == 1 and tasks(before) == before"
    first = (
        "import migraphx.targets.cpu.threads as t; t.SYSTEM = ('/nowhere.so',); t._loaded = list;"
        "before = len(os.listdir('/proc/self/task'))"
    )
    run("again()\n" + body, first)


def test_a_folder_called_torch_is_not_torch():
    """Environments may lie in one: every library's path has it then."""
    other, own = "/opt/torch/scikit_learn.libs/libgomp-1.so", "/opt/torch/site-packages/torch/lib/libgomp.so.1"
    assert threads._torch_first([other, own, other]) == [own, other]


def test_torch_s_pool_is_taken_where_others_are_loaded_too():
    """Wheels of scikit-learn and torch have one, for which no Python of theirs is needed; builds may have none."""
    sklearn, torch = brings("sklearn.tree", "scikit_learn.libs"), brings("torch", "torch/lib")
    code = (
        f"import ctypes; {sklearn}; {torch}; import migraphx.targets.cpu.threads as t;"
        "paths = t._loaded(); assert len(paths) > 1, paths; assert '/torch/lib/' in t.runtime().path, paths"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def brings(module: str, folder: str) -> str:
    """What loads the OpenMP runtime that a package brings."""
    package = importlib.util.find_spec(module.partition(".")[0])
    assert package is not None and package.origin is not None
    pools = sorted(Path(package.origin).parents[1].glob(f"{folder}/libgomp*"))
    return f"ctypes.CDLL({str(pools[0])!r})" if pools else f"import {module}"

"""What holds for every test: threads that wait do not spin, NumPy has one, and kernels are compiled quickly.

Tests run side by side, so that a thread that spins takes a core from another test: a third of the processor's time went
that way. Answers do not depend on it. NumPy and OpenMP read these when they are loaded, tests' processes inherit them.

The tests of single targets compile kernels as users do: each family of kernels, each type that has lanes of its own.
Others ask what programs mean, or how compilers are called (marker `unoptimised`): their C++ is not optimised and its
functions are not inlined, which leaves out what products have for short epilogues (access.hpp). None but those that
read sources (marker `sources`) ask for several that begin with the same headers. The C++ compiler is most of what tests
cost.

`make test` must be cheap, so it leaves out what is marked `slow`: tests that repeat with more types, models, processors
or documents what a quicker one shows. `make test-all` runs them, too.

Where several processes run tests, each takes whole files: what the tests of a file import and make, one process does.

Random numbers are the same whatever ran before, so that a test which fails does so again; and what a test left
compiling beside runs ends before the next test, which may count compilations or read the log.

What exists when all tests are known stays until the end: the garbage collector, which would walk through torch's and
the tests' million objects again and again (a quarter of the processor's time), leaves it alone. It looks at new ones
more rarely, too: what torch.compile makes of a graph is mostly garbage that needs no collector.
"""

import gc
import importlib
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.quick_torch import hurry

TARGETS = Path(__file__).parent / "targets"
FLAGS = os.environ.get("OPENMGX_CXXFLAGS", "")
QUICK = "-O0"
CODEGEN = "migraphx.targets.cpu.codegen"
PARTS: dict[str, int] = {}

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of the tests' processes would compile our sources anew
gc.disable()


def seed() -> None:
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():  # `torch.manual_seed` formats a stack where it is not
            torch.cuda.manual_seed_all(0)


def pytest_collectstart() -> None:
    seed()  # modules draw what their tests share


def pytest_collection_finish() -> None:
    hurry()  # before pytest hangs its handlers for the loop of all tests
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    hurry()
    of_kernels = item.path.is_relative_to(TARGETS) and not item.path.is_relative_to(TARGETS / "common")
    as_users = of_kernels and not item.get_closest_marker("unoptimised")
    os.environ["OPENMGX_CXXFLAGS"] = FLAGS if as_users else f"{FLAGS} {QUICK}"
    if CODEGEN in sys.modules:  # users' sources compile side by side; tests run side by side, and headers cost
        codegen = vars(sys.modules[CODEGEN])
        parts = PARTS.setdefault(CODEGEN, codegen["ENOUGH_PARTS"])
        codegen["ENOUGH_PARTS"] = parts if item.get_closest_marker("sources") else 1
    seed()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What `--dist` says holds where it is given; files begin in the order of their names."""
    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return importlib.import_module("xdist.scheduler").LoadFileScheduling(config, log)


@pytest.fixture
def own_objects() -> None:
    """A collection of garbage looks at the test's own objects alone, as it does not at what all tests have imported."""
    gc.freeze()


def pytest_runtest_teardown() -> None:
    for thread in threading.enumerate():
        if thread.name == "migraphx-beside":
            thread.join()

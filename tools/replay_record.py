"""A plugin of pytest for tools.replay: records what the cpu target generates in each test, and calls no C++ compiler.

A test goes on with the program as `ref` runs it, so that what it compiles later is recorded too. Each process of
pytest writes `programs-PID.jsonl` into the folder `OPENMGX_REPLAY`, one program a line, and each distinct source once.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, local
from typing import Any, NoReturn

import numpy as np

from migraphx.ir.program import Program
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.cache import digest
from migraphx.targets.common.specialise import is_dynamic
from migraphx.targets.cpu import target
from migraphx.targets.cpu.codegen import table_text
from migraphx.targets.ref.target import RefTarget

FOLDER = "OPENMGX_REPLAY"
FILES = "programs-*.jsonl"
SOURCES = "sources"


class Generated(Exception):
    """Raised in the place of the C++ compiler: the program is known."""


class Recorder:
    """Programs of one process, named by the test that compiles them and their number in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.test = folder, "no test"
        self.counts: Counter[str] = Counter()
        self.lock, self.parts = Lock(), local()  # a test may compile in several threads
        (folder / SOURCES).mkdir(exist_ok=True)

    def watch(self) -> None:
        """Take the place of what follows code generation."""
        self.compile, self.lower, self.table_of = target.CpuTarget.compile, target.lower, target.table_of
        recorder = self

        def compile(self: target.CpuTarget, program: Program, options: CompileOptions) -> Executable:
            return recorder.compiled(self, program, options)

        target.CpuTarget.compile = compile
        target.lower, target.table_of, target.build = self.lowered, self.tabled, self.built  # type: ignore[assignment]

    def compiled(self, cpu: target.CpuTarget, program: Program, options: CompileOptions) -> Executable:
        if is_dynamic(program):
            return self.compile(cpu, program, options)  # which compiles its specialisations
        with self.lock:
            self.counts[self.test] += 1
            name = f"{self.test} #{self.counts[self.test]}"
        original, found = program.clone(), dict[str, Any]()
        try:
            self.compile(cpu, program, options)
        except Generated:
            found = vars(self.parts).copy()
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
            raise
        finally:
            self.write({"name": name, **found})
        return RefTarget().compile(original, options)

    def lowered(self, *args: Any, **named: Any) -> Any:
        made = self.lower(*args, **named)
        self.parts.weights = [digest(f"{w.dtype} {w.shape}", w.tobytes()) for w in made.weights]
        return made

    def tabled(self, calls: Any, kernels: Any, layout: Any, sizes: Any) -> np.ndarray:
        table = self.table_of(calls, kernels, layout, sizes)
        self.parts.table = table_text(table, layout)
        return table

    def built(self, sources: Sequence[str], name: str) -> NoReturn:
        self.parts.sources = [digest(s) for s in sources]
        for key, source in zip(self.parts.sources, sources, strict=True):
            path = self.folder / SOURCES / key
            if not path.exists():
                path.write_text(source)
        raise Generated

    def write(self, program: dict[str, Any]) -> None:
        with self.lock, open(self.folder / FILES.replace("*", str(os.getpid())), "a") as out:
            out.write(json.dumps(program) + "\n")


RECORDER = Recorder(Path(os.environ[FOLDER])) if FOLDER in os.environ else None


def pytest_configure() -> None:
    assert RECORDER is not None, f"{FOLDER} must name a folder"
    RECORDER.watch()


def pytest_runtest_logstart(nodeid: str) -> None:
    assert RECORDER is not None
    RECORDER.test = nodeid

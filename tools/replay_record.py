"""A plugin of pytest for tools.replay: records what the cpu target generates in each test, and calls no C++ compiler.

A test goes on with the program as `ref` runs it, so that what it compiles later is recorded too. Each process of
pytest writes `programs-PID.jsonl` into the folder `OPENMGX_REPLAY`, one program a line, and each distinct source once.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from threading import Lock
from typing import Any

from migraphx.ir.program import Program
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.cache import digest
from migraphx.targets.common.specialise import is_dynamic
from migraphx.targets.cpu.table import table_text
from migraphx.targets.cpu.target import CpuTarget, Translation, translate
from migraphx.targets.cpu.toolchain import features
from migraphx.targets.ref.target import RefTarget

FOLDER = "OPENMGX_REPLAY"
FILES = "programs-*.jsonl"
SOURCES = "sources"


class Recorder:
    """Programs of one process, named by the test that compiles them and their number in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.test = folder, "no test"
        self.counts: Counter[str] = Counter()
        self.lock = Lock()  # a test may compile in several threads
        (folder / SOURCES).mkdir(exist_ok=True)

    def watch(self) -> None:
        """Take the place of the target's `compile`."""
        whole, recorder = CpuTarget.compile, self

        def compile(self: CpuTarget, program: Program, options: CompileOptions) -> Executable:
            if is_dynamic(program):
                return whole(self, program, options)  # which compiles its specialisations
            original = program.clone()
            recorder.record(self, program, options)
            return RefTarget().compile(original, options)

        CpuTarget.compile = compile

    def record(self, cpu: CpuTarget, program: Program, options: CompileOptions) -> None:
        with self.lock:
            self.counts[self.test] += 1
            found: dict[str, Any] = {"name": f"{self.test} #{self.counts[self.test]}"}
        try:
            found |= self.parts(translate(program, options, features(options.isa), cpu.constants))
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            with self.lock, open(self.folder / FILES.replace("*", str(os.getpid())), "a") as out:
                out.write(json.dumps(found) + "\n")

    def parts(self, made: Translation) -> dict[str, Any]:
        keys = [digest(s) for s in made.sources]
        for key, source in zip(keys, made.sources, strict=True):
            path = self.folder / SOURCES / key
            if not path.exists():
                path.write_text(source)
        weights = [digest(f"{w.dtype} {w.shape}", w.tobytes()) for w in made.lowered.weights]
        return {"sources": keys, "table": table_text(made.table, made.layout), "weights": weights}


RECORDER = Recorder(Path(os.environ[FOLDER])) if FOLDER in os.environ else None


def pytest_configure() -> None:
    assert RECORDER is not None, f"{FOLDER} must name a folder"
    RECORDER.watch()


def pytest_runtest_logstart(nodeid: str) -> None:
    assert RECORDER is not None
    RECORDER.test = nodeid

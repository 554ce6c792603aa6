"""Kernels' code and the facts of their launch, by content: from the cache, else from compilers side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from migraphx.targets.common.cache import digest, lookup, obtain
from migraphx.targets.common.progress import progress
from migraphx.targets.common.scratch import temporary_folder
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.target import CompilerError

T = TypeVar("T")
FORMAT = "gpu 1"  # of the entries
SUFFIX = ".gpu"
COMPILER = Path(__file__).with_name("compile.py")
DISTRIBUTIONS = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm")
TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH")  # change what Triton makes
SAID = 4000  # characters of a compiler's messages that an error shows, the last
HELP = "pip install 'openmgx[gpu]' brings it"


@dataclass(frozen=True)
class Binary:
    """A kernel's code and what a launch of it must know; `threads` are those of one program's block."""

    code: bytes
    name: str
    shared: int  # bytes
    threads: int
    blocks: int  # of a cluster
    scratch: int  # bytes for each program
    hidden: int  # pointers behind the arguments
    pdl: bool  # waits for the kernel before it by itself
    triton: str

    def to_bytes(self) -> bytes:
        """The facts as one line of JSON, then the code."""
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "code"}
        return json.dumps(facts).encode() + b"\n" + self.code

    @classmethod
    def of(cls, data: bytes) -> Binary:
        facts, _, code = data.partition(b"\n")
        return cls(code=code, **json.loads(facts))


@cache
def triton_version() -> str:
    """Without importing it; CompilerError where it is not installed."""
    if find_spec("triton") is not None:
        for name in DISTRIBUTIONS:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
    raise CompilerError(f"kernels for the gpu are compiled by Triton, which is not installed: {HELP}")


def key_of(kernel: Kernel, chip: str) -> str:
    """What the code depends on: the kernel, the chip, Triton and the tools that it was told to use."""
    tools = [f"{name}={_identity(os.environ[name])}" for name in TOOLS if os.environ.get(name)]
    return digest(FORMAT, COMPILER.read_bytes(), chip, triton_version(), json.dumps(asdict(kernel)), *tools)


def _identity(path: str) -> str:
    """A file that may be replaced by another."""
    found = Path(path)
    return f"{path} {found.stat().st_mtime_ns} {found.stat().st_size}" if found.exists() else path


class Ahead:
    """Compiles kernels while the program that has them is still being lowered: the first one starts the compilers."""

    def __init__(self, chip: str) -> None:
        self._chip = chip
        self._compilers: Compilers | None = None
        self._begun: dict[Kernel, Future[Binary] | None] = {}  # None: the cache has it

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._compilers is not None:
            self._compilers.__exit__()

    def want(self, kernel: Kernel) -> None:
        """It will be asked for, probably."""
        if kernel in self._begun:
            return
        key, self._begun[kernel] = key_of(kernel, self._chip), None
        if lookup(key, SUFFIX) is None:
            if self._compilers is None:
                self._compilers = Compilers(_processes())
            self._begun[kernel] = self._compilers.submit(_obtained, kernel, key, self._chip, self._compilers)

    def wait(self, kernels: Iterable[Kernel]) -> None:
        """Until those of these kernels that were begun are in the cache; the others are given up."""
        needed = [f for f in map(self._begun.get, kernels) if f is not None]
        for future in {*filter(None, self._begun.values())} - {*needed}:
            future.cancel()
        for future in needed:
            if not future.cancelled():  # by an earlier call, which did not need it
                future.result()


def binaries(kernels: Sequence[Kernel], chip: str, ahead: Ahead | None = None) -> dict[Kernel, Binary]:
    """The code of each kernel for a chip; those that the cache does not hold are compiled side by side."""
    if ahead is not None:
        ahead.wait(kernels)
    keys = {kernel: key_of(kernel, chip) for kernel in kernels}
    found = {kernel: own[0] for kernel, key in keys.items() if (own := kept([key]))}
    missing = sorted(keys.keys() - found.keys(), key=lambda kernel: -len(kernel.source))
    if missing:
        with progress(f"compiling {len(missing)} kernels"), Compilers(min(len(missing), _processes())) as compilers:
            made = compilers.map(lambda kernel: _obtained(kernel, keys[kernel], chip, compilers), missing)
            found |= zip(missing, made, strict=True)
    return {kernel: found[kernel] for kernel in keys}


def kept(keys: Iterable[str]) -> list[Binary] | None:
    """The code under these keys, or None where the cache does not hold all of it."""
    paths = [lookup(key, SUFFIX) for key in keys]
    try:
        return [Binary.of(p.read_bytes()) for p in paths if p] if all(paths) else None
    except FileNotFoundError:  # others removed it meanwhile
        return None


def _processes() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _obtained(kernel: Kernel, key: str, chip: str, compilers: Compilers) -> Binary:
    made: list[Binary] = []

    def make(path: Path) -> None:
        if not made:
            made.append(compilers.compile(kernel, key, chip))
        path.write_bytes(made[0].to_bytes())

    path = obtain(key, SUFFIX, make)
    return made[0] if made else Binary.of(path.read_bytes())


class Compilers:
    """Processes that compile, one for each thread that asks; plain ones, so that no child shares a CUDA context."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count)
        self._own = threading.local()
        self._started: list[subprocess.Popen[str]] = []
        self._folder = temporary_folder()
        self._log = Path(self._folder.name) / "log"  # what Triton and its tools say, beside what they raise

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for process in self._started:
            process.terminate()
            process.communicate()
        self._folder.cleanup()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._pool.submit(function, *arguments)

    def map(self, function: Any, items: Iterable[Any]) -> list[Any]:
        """All results in order; the first error where there is one."""
        return list(self._pool.map(function, items))

    def compile(self, kernel: Kernel, key: str, chip: str) -> Binary:
        """CompilerError with the kernel's name."""
        code = Path(self._folder.name) / key
        job = {
            **asdict(kernel), "key": key, "chip": chip, "folder": self._folder.name, "code": str(code),
            "options": {"num_warps": kernel.warps, "num_stages": kernel.stages},
        }  # fmt: skip
        answer = self._ask(job)
        if "error" in answer:
            said = self._log.read_text(errors="replace")[-SAID:].strip() if self._log.exists() else ""
            raise CompilerError(f"kernel {kernel.name} does not compile for {chip}: {answer['error']}\n{said}".strip())
        binary = Binary(code=code.read_bytes(), **answer["facts"])
        code.unlink()
        return binary

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        process = getattr(self._own, "process", None)
        if process is None:
            process = self._own.process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._own.process = None
            return {"error": f"the compiler ended with {process.wait()}"}
        return json.loads(answer)

    def _start(self) -> subprocess.Popen[str]:
        triton_version()
        environment = {**os.environ, "TRITON_DISABLE_LINE_INFO": "1"}  # no paths in the code: equal texts, equal code
        environment.pop("TRITON_INTERPRET", None)
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", str(COMPILER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, env=environment,
            )  # fmt: skip
        self._started.append(process)
        return process

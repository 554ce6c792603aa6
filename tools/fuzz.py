"""Damage real files and read them: `python -m tools.fuzz onnx --seconds 600`.

What is read must be a program, or be refused with the error of its reader, in a few seconds and in bounded memory.
Anything else is a finding: it is written to `--out` with its traceback, one file for each place. Inputs depend on
`--seed` and on the number of the attempt alone. `tests/fuzz/corpus` keeps the findings of the past.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test import loader

import migraphx
from migraphx.ir.text import TextError, parse_program, program_text
from migraphx.mxr import container, msgpack
from migraphx.onnx.graph import OnnxError
from tools.fuzz_run import Refused, run_model
from tools.mutate import Rng, in_bytes, in_json, in_message, in_text, pick

SECONDS = 20  # of processor: more is a hang
MEMORY = 4 << 30  # beyond what the process has when it starts
SEEDS = 120
LARGEST_SEED = 60_000


class Hang(BaseException):
    """An attempt took more than SECONDS."""


# ---- what is read ----


def read_text(data: bytes) -> None:
    parse_program(data.decode("utf-8", "replace"))


READERS: dict[str, tuple[Callable[[bytes], Any], type[Exception]]] = {
    "onnx": (migraphx.parse_onnx_buffer, OnnxError),
    "mxr": (migraphx.load_buffer, container.FileError),
    "json": (lambda data: migraphx.load_buffer(b"{" + data[1:]), container.FileError),
    "msgpack": (lambda data: migraphx.load_buffer(b"\x85" + data[1:]), container.FileError),
    "text": (read_text, TextError),
    "run": (run_model, Refused),
}
"""Surface -> its reader, and the one error by which it may refuse. A first byte makes it that form."""


def attempt(surface: str, data: bytes) -> str | None:
    """Read once; the traceback of a finding."""
    read, refusal = READERS[surface]
    try:
        with limited(SECONDS):
            read(data)
    except refusal:
        return None
    except (Exception, Hang):
        return traceback.format_exc()
    return None


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hang(f"more than {seconds} s")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


# ---- what is damaged ----


def models() -> list[bytes]:
    """Models of the ONNX backend suite, every operator family among them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = loader.load_model_tests(kind="node")
    found = [c.model.SerializeToString() for c in cases if c.model is not None]
    small = [m for m in found if len(m) < LARGEST_SEED]
    return small[:: max(1, len(small) // SEEDS)]


def seeds(surface: str) -> list[bytes]:
    """Whole files of a surface."""
    if surface in ("onnx", "run"):
        return models()
    made = []
    for model in models():
        try:
            program = migraphx.parse_onnx_buffer(model)
        except OnnxError:
            continue
        if surface == "text":
            made.append(program_text(program.graph).encode())
        else:
            made.append(migraphx.save_buffer(program, surface))
    return [m for m in made if len(m) < LARGEST_SEED]


def damaged(surface: str, data: bytes, rng: Rng) -> bytes:
    """By bytes, or by what the file means."""
    if surface != "run" and rng.random() < 0.35:
        return in_bytes(data, rng)
    if surface in ("onnx", "run"):
        message = onnx.ModelProto.FromString(data)
        in_message(message, rng)
        return message.SerializePartialToString()
    if surface == "text":
        return in_text(data.decode(), rng).encode("utf-8", "replace")
    if surface == "json":
        return json.dumps(in_json(json.loads(data), rng)).encode()
    if surface == "msgpack":
        try:
            return msgpack.pack(in_json(msgpack.unpack(data), rng))
        except TypeError:
            return in_bytes(data, rng)
    return _damaged_mxr(data, rng)


def _damaged_mxr(data: bytes, rng: Rng) -> bytes:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if rng.random() < 0.7:
        program = json.loads(header["__metadata__"]["program"])
        header["__metadata__"]["program"] = json.dumps(in_json(program, rng))
    else:
        header = in_json(header, rng)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


# ---- the loop ----


def input_of(surface: str, files: list[bytes], seed: int, number: int) -> bytes:
    rng = np.random.default_rng([seed, number])
    return damaged(surface, pick(rng, files), rng)


def place_of(trace: str) -> str:
    """Error and innermost line of ours: what tells findings apart."""
    lines = [line.strip() for line in trace.splitlines()]
    ours = [line for line in lines if line.startswith("File") and "migraphx" in line]
    return f"{lines[-1].partition(':')[0]} {ours[-1] if ours else ''}"


def work(surface: str, seed: int, first: int, until: float, out: Path, done: Any) -> None:
    """Attempts from number `first` on, in a process of their own: a crash ends it alone."""
    files = seeds(surface)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    number = first
    while time.monotonic() < until:
        data = input_of(surface, files, seed, number)
        done.value = number
        trace = attempt(surface, data)
        if trace is not None:
            keep(surface, data, trace, out)
        number += 1


def keep(surface: str, data: bytes, trace: str, out: Path) -> None:
    """Write a finding, the first of its place."""
    name = f"{surface}-{hashlib.sha256(place_of(trace).encode()).hexdigest()[:10]}"
    if not (out / f"{name}.bin").exists():
        (out / f"{name}.bin").write_bytes(data)
        (out / f"{name}.txt").write_text(trace)
        print(f"{name}: {place_of(trace)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("surface", choices=READERS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first attempt")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", args.first)
    until, number = time.monotonic() + args.seconds, args.first
    while time.monotonic() < until:
        child = context.Process(target=work, args=(args.surface, args.seed, number, until, args.out, done))
        child.start()
        child.join()
        if child.exitcode != 0:
            data = input_of(args.surface, seeds(args.surface), args.seed, done.value)
            keep(args.surface, data, f"attempt {done.value}: the process ended with {child.exitcode}", args.out)
        number = done.value + 1
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = len(list(args.out.glob(f"{args.surface}-*.bin")))
    spent = cpu.ru_utime + cpu.ru_stime
    print(f"{args.surface}: {number - args.first} attempts, {spent:.0f} s of CPU, {found} findings")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())

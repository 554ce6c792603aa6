"""What the fuzzer does with a damaged model that is still one: compile it for both targets and run it."""

from __future__ import annotations

import faulthandler
import math
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import migraphx
from migraphx.ir.dtype import to_numpy
from migraphx.ir.operation import Unsupported
from migraphx.ir.program import Program, reachable
from migraphx.onnx.graph import OnnxError
from migraphx.targets.cpu.toolchain import CompilerError
from tools import sanitize
from tools.mutate import FLOATS, NUMBERS, Rng, pick

MOST_ELEMENTS = 1 << 22  # of a value; larger programs are not run
STUCK = 3600  # seconds by the clock, after which generated code that does not return ends the process
OURS = (str(Path(migraphx.__file__).parent), "<string>")


class Refused(Exception):
    """The model is no model, or asks for what a target refuses in words of its own."""


def run_model(data: bytes) -> None:
    """Refused, or it ran; anything else is a finding."""
    if sanitize.active():
        sanitize.watch()
    faulthandler.dump_traceback_later(STUCK, exit=True)
    try:
        program = worded(parsed, data)
        if small(program.graph):
            inputs = arguments(program, np.random.default_rng(zlib.crc32(data)))
            for target in ("ref", "cpu"):
                worded(run_on, target, data, inputs)
    finally:
        faulthandler.cancel_dump_traceback_later()


def parsed(data: bytes) -> migraphx.program:
    return migraphx.parse_onnx_buffer(data, default_dim_value=2)


def run_on(target: str, data: bytes, inputs: dict[str, np.ndarray]) -> None:
    program = parsed(data)
    program.compile(migraphx.get_target(target))
    with np.errstate(all="ignore"):
        program.run(inputs)


def worded(call: Callable[..., Any], *args: Any) -> Any:
    """The call's result; Refused for an error that says in our words what is wrong."""
    try:
        return call(*args)
    except (OnnxError, Unsupported, MemoryError) as error:
        raise Refused from error
    except CompilerError:
        raise
    except (ValueError, IndexError, NotImplementedError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename.startswith(OURS) and (last.line or "").startswith("raise "):
            raise Refused from error
        raise


def small(program: Program) -> bool:
    """Whether all values are of a size that a test can afford."""
    shapes = [ins.shape for module in reachable(program.main) for ins in module]
    return all(math.prod(n or 1 for n in s.lens) <= MOST_ELEMENTS for s in shapes if not s.dynamic)


def arguments(program: migraphx.program, rng: Rng) -> dict[str, np.ndarray]:
    """Random numbers, those of the edges among them: an index may be any integer."""
    return {name: argument(shape, rng) for name, shape in program.get_parameter_shapes().items()}


def argument(shape: migraphx.shape, rng: Rng) -> np.ndarray:
    dtype, lens = to_numpy(shape.type_string().removesuffix("_type")), shape.lens()
    if dtype == np.bool_:
        return rng.random(lens) < 0.5
    made = rng.standard_normal(lens) * pick(rng, (1, 1, 3, 1e4, 1e30))
    wild = rng.random(lens) < pick(rng, (0, 0, 0.1, 1))
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            edges = np.array([n % 2**64 for n in NUMBERS], np.uint64).astype(dtype)
            return np.where(wild, rng.choice(edges, lens), rng.integers(0, 4, lens).astype(dtype))
        return np.where(wild, rng.choice(np.array([*NUMBERS, *FLOATS], np.float64), lens), made).astype(dtype)

"""Kernels in Triton's interpreter, on NumPy memory: no GPU, no torch.

Beside what kernels compute, every access is held to the memory that was allocated, and every argument to what its
kernel claims of it (type, divisibility), which on a device would be a wrong answer or none.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton import knobs
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from migraphx.targets.common.cache import digest
from migraphx.targets.common.scratch import scratch
from migraphx.targets.gpu.kernel import Grid, Kernel
from tests.targets.gpu.kept import KEPT, quick
from tests.targets.gpu.memory import Memory
from tests.targets.gpu.quick_operators import shortened

MISSING = object()

_lock = RLock()  # the interpreter keeps its place in the grid in one global


@contextmanager
def interpreting(memory: Memory | None = None) -> Iterator[None]:
    """Functions that are declared or called here are interpreted; accesses outside of `memory` are errors."""
    changes = [*_library(), *_language(), *MENDED, *KEPT]
    if memory is not None:
        changes.append((interpreter, "_interpreter", _Checked(_triton_memory, memory)))
    with _lock, knobs.runtime.scope():
        knobs.runtime.interpret = True
        before = [(place, name, vars(place).get(name, MISSING)) for place, name, _ in changes]
        try:
            for place, name, ours in changes:
                setattr(place, name, ours)
            yield
        finally:
            for place, name, theirs in before:
                if theirs is not MISSING:
                    setattr(place, name, theirs)
                elif name in vars(place):
                    delattr(place, name)


@cache
def _library() -> list[tuple[Any, str, Any]]:
    """Triton's own functions (`tl.sum`, `tl.cdiv`, `x.sum`): where they stand, and what interprets them."""
    made: dict[int, Any] = {}

    def interpreted(fn: JITFunction) -> Any:
        return made.setdefault(id(fn), interpreter.InterpretedFunction(fn.fn))

    found: list[tuple[Any, str, Any]] = []
    for module in (tl, tl.standard, tl.random, tl.math, tl.core):
        for name, value in vars(module).items():
            if isinstance(value, JITFunction):
                found.append((module, name, interpreted(value)))
    for name, value in vars(tl.tensor).items():
        if isinstance(value, JITFunction):
            method = interpreted(value)
            found.append((tl.tensor, name, lambda *args, _fn=method, **kwargs: _fn(*args, **kwargs)))
    return found


@cache
def _language() -> list[tuple[Any, str, Any]]:
    """What Triton puts in the place of its builtins: it would look for all of them at each call of a function."""
    changed = _triton_patch(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    found = [(place, name, quick(vars(place)[name])) for place, name, _ in changed._changes]
    changed.restore()
    return [(place, name, shortened(name, call) if place is tl.tensor else call) for place, name, call in found]


# ---- where the interpreter itself is wrong, or slow ----

_triton_memory = interpreter._interpreter
_triton_patch = interpreter._patch_lang
_triton_dot = interpreter.InterpreterBuilder.create_dot
_triton_dtype = cache(interpreter._get_np_dtype)
_unchecked = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
"""Overflows are computed, which takes half of the time, and then asserted only where `debug` is set: nowhere."""


def _patch(fn: Any) -> Any:
    """`interpreting` has done it, and takes it back."""
    return SimpleNamespace(restore=lambda: None)


def _index(self: Any) -> int:
    """NumPy 2.4 makes no number of an array of shape (1,), on which Triton 3.6 rests."""
    return int(self.handle.data.item())


def _dtype(type: Any) -> np.dtype:
    """Triton makes a table of all types for each answer."""
    return np.dtype(np.uint64) if isinstance(type.scalar, tl.pointer_type) else _triton_dtype(type.scalar)


def _cast(builder: Any, source: Any, type: Any) -> Any:
    """As devices convert: to bf16 rounded to nearest even, where the interpreter loses the carry."""
    read, wanted = source.dtype.scalar, type.scalar
    array = source.data.view(ml_dtypes.bfloat16) if read == tl.bfloat16 else source.data
    if wanted == tl.bfloat16:
        return interpreter.TensorHandle(array.astype(ml_dtypes.bfloat16).view(np.uint16), wanted)
    return interpreter.TensorHandle(array.astype(interpreter._get_np_dtype(type)), wanted)


def _splat(builder: Any, type: Any, scalar: Any) -> Any:
    """The interpreter gives what a comparison found the type of what was compared, and then splats that."""
    shape = type.shape if hasattr(type, "shape") else type
    return interpreter.TensorHandle(np.full(shape, scalar.data.item(), scalar.data.dtype), scalar.dtype.scalar)


def _reduce(self: Any, input: Any) -> Any:
    """Any reduction, in halves: the interpreter's own goes element by element."""
    values, axis = self.unravel(input, self.axis)
    arrays = [np.moveaxis(v.handle.data, axis, 0) for v in values]
    while len(arrays[0]) > 1:
        half = len(arrays[0]) // 2
        pairs = [(a[k : k + half], v.dtype) for k in (0, half) for a, v in zip(arrays, values, strict=True)]
        found = self.combine_fn.fn(*(self.to_tensor(*p) for p in pairs))
        arrays = [f.handle.data for f in (found if isinstance(found, tuple) else (found,))]
    kept = [np.moveaxis(a, 0, axis) if self.keep_dims else a[0] for a in arrays]
    return [self.to_tensor(a, v.dtype) for a, v in zip(kept, values, strict=True)]


def _dot(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
    """Triton's own multiplies the bits of bf16 as integers."""
    return _triton_dot(builder, _float(a), _float(b), *rest)


def _float(a: Any) -> Any:
    if a.dtype.scalar != tl.bfloat16:
        return a
    return interpreter.TensorHandle((a.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


MENDED: list[tuple[Any, str, Any]] = [
    (interpreter, "_patch_lang", _patch),
    (interpreter, "_get_np_dtype", _dtype),
    (interpreter.interpreter_builder, "options", _unchecked),
    (tl.tensor, "__index__", _index),
    (interpreter.InterpreterBuilder, "cast_impl", _cast),
    (interpreter.InterpreterBuilder, "create_splat", _splat),
    (interpreter.InterpreterBuilder, "create_dot", _dot),
    (interpreter.ReduceOps, "generic_reduce", _reduce),
]


class _Checked:
    """The interpreter's loads and stores, held to allocated memory."""

    def __init__(self, real: Any, memory: Memory) -> None:
        self._real, self._memory = real, memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def load(self, pointers: np.ndarray, mask: np.ndarray, other: np.ndarray, dtype: np.dtype) -> np.ndarray:
        self._check("reads", pointers, mask, np.dtype(dtype).itemsize)
        return self._real.load(pointers, mask, other, dtype)

    def store(self, pointers: np.ndarray, values: np.ndarray, mask: np.ndarray) -> None:
        self._check("writes", pointers, mask, values.itemsize)
        self._real.store(pointers, values, mask)

    def atomic_rmw(self, op: Any, pointers: np.ndarray, values: np.ndarray, mask: np.ndarray, order: Any) -> Any:
        self._check("changes", pointers, mask, values.itemsize)
        return self._real.atomic_rmw(op, pointers, values, mask, order)

    def atomic_cas(self, pointers: np.ndarray, old: np.ndarray, new: np.ndarray, order: Any) -> Any:
        self._check("changes", pointers, np.ones_like(pointers, bool), new.itemsize)
        return self._real.atomic_cas(pointers, old, new, order)

    def _check(self, does: str, pointers: np.ndarray, mask: np.ndarray, itemsize: int) -> None:
        places = np.broadcast_to(pointers, np.shape(mask))[np.asarray(mask, bool)]
        if len(wrong := self._memory.outside(places, itemsize)):
            raise IndexError(
                f"a kernel {does} {itemsize} bytes at {wrong[0]:#x}, outside of all memory: {len(wrong)} lanes"
            )


@dataclass(frozen=True)
class Interpreted:
    """A kernel that is loaded into the interpreter."""

    kernel: Kernel
    function: Any
    scratch: int = 0
    code: None = None

    def run(self, grid: Grid, values: Sequence[int | float], memory: Memory | None = None) -> None:
        """All programs of the grid, one after the other; `values` as Kernel.arguments says, pointers as addresses."""
        kernel = self.kernel
        if len(values) != len(kernel.arguments):
            raise TypeError(f"{kernel.name} takes {len(kernel.arguments)} arguments, got {len(values)}")
        for n in kernel.divisible:
            if values[n] % 16:
                raise ValueError(f"{kernel.name}: argument {n} is {values[n]}, claimed to be a multiple of 16")
        arguments = [_tensor(kind, value) for kind, value in zip(kernel.arguments, values, strict=True)]
        with interpreting(memory), np.errstate(all="ignore"):
            self.function[grid](*arguments, **dict(kernel.constants))


def _tensor(kind: str, value: int | float) -> Any:
    """A scalar as a kernel sees it: of just this type, where the interpreter alone would go by the value."""
    type: Any = tl.str_to_ty(kind, None)
    dtype = np.dtype(np.uint64) if kind.startswith("*") else interpreter._get_np_dtype(type)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise OverflowError(f"{value} is no {kind}")
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype), type), type)


@cache
def load(kernel: Kernel) -> Interpreted:
    """TypeError where the text does not fit its description."""
    module = _module(kernel.source)
    function = getattr(module, kernel.name, None)
    if function is None:
        raise TypeError(f"the text of kernel {kernel.name} defines no such function")
    taken = list(inspect.signature(function.fn).parameters)
    constants = [name for name, _ in kernel.constants]
    if len(taken) != len(kernel.arguments) + len(constants) or not set(constants) <= set(taken):
        raise TypeError(f"kernel {kernel.name} takes {taken}; described: {kernel.arguments}, constants {constants}")
    return Interpreted(kernel, function)


ASKS = re.compile(r"if PREFETCHES:\n +tl\.inline_asm_elementwise\(.*?\n    +\)\n", re.DOTALL)
"""What a kernel asks for ahead, which must be there: it is loaded here."""


@cache
def _module(source: str) -> ModuleType:
    name, asked = f"kernel_{digest(source)}", source.count("if PREFETCHES:")
    source, found = ASKS.subn("tl.load(pointers)\n", source)
    assert asked == found, "what is asked for ahead is not checked"
    path = scratch() / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with interpreting():
        spec.loader.exec_module(module)
    return module

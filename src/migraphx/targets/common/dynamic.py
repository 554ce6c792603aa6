"""Running a program with dynamic shapes: compiled for the lengths that arrive, once for each."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from itertools import product
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import instruction_text, names_of
from migraphx.runtime.argument import Argument
from migraphx.runtime.executable import Executable, Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.specialise import is_leaf, specialise, split

log = logging.getLogger(__name__)
Made = TypeVar("Made")
Arrays = Mapping[str, np.ndarray]
SMALL = 256  # bytes: larger values are told apart by their digest


class Compiler(Protocol):
    """A target, as far as it compiles static programs."""

    name: str

    def compile(self, program: Program, options: CompileOptions) -> Executable: ...


class Kept(Generic[Made]):
    """The last `cap` things made, by key. Each is made once, however many threads ask for it."""

    def __init__(self, cap: int) -> None:
        self.cap = max(cap, 1)
        self._made: OrderedDict[Hashable, Future[Made]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._made)

    def values(self) -> list[Made]:
        with self._lock:
            return [f.result() for f in self._made.values() if f.done() and not f.exception()]

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            future = self._made.get(key)
            mine = future is None
            if future is None:
                future = self._made[key] = Future()
                while len(self._made) > self.cap:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._made.get(key) is future:
                        del self._made[key]
                future.set_exception(error)
        return future.result()


class DynamicExecutable:
    """Runs a program whose parameters, or whose values inside, have lengths known only at run time.

    `run` takes the specialisation for the lengths of its inputs (and for the values of those inputs on which shapes
    depend), or compiles it. Lengths that depend on data cut the program: what lies before is compiled, the instruction
    runs by its NumPy meaning, the rest is compiled for the length found.
    """

    def __init__(self, target: Compiler, program: Program, options: CompileOptions) -> None:
        self.target = target.name
        self.parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        self.outputs = [s.as_standard() for s in program.main.output_shapes]
        self.threads = options.num_threads or 1
        self._whole = _Part(target, program, options, {})
        self._last: list[_Stage] = []
        for lens in optimal_lens(self.parameters, options.max_specialisations):
            self._prepare(lens)

    def _prepare(self, lens: Mapping[str, tuple[int, ...]]) -> None:
        shapes = {n: Shape(s.type, lens[n]) for n, s in self.parameters.items()}
        try:
            self._whole.stage(shapes, {})
        except ValueError as error:  # optimal lengths of two dimensions that must be equal
            log.info("not compiled ahead for %s: %s", dict(lens), error)

    @property
    def steps(self) -> list[Step]:
        """Those of the last run."""
        return [step for stage in self._last for step in stage.steps]

    @property
    def specialisations(self) -> int:
        """For how many lengths of its inputs the program is compiled now."""
        return len(self._whole.stages)

    def run(self, inputs: Sequence[Argument], outputs: Sequence[Argument] | None) -> Sequence[Argument]:
        arrays = {n: a.array for n, a in zip(self.parameters, inputs, strict=True)}
        passed: list[_Stage] = []
        values = self._whole.run(arrays, passed)
        self._last = passed
        taken = {id(a) for a in arrays.values()}
        results = [Argument.of(np.array(v, order="C") if id(v) in taken else np.ascontiguousarray(v)) for v in values]
        if outputs is None:
            return results
        if len(outputs) != len(results):
            raise ValueError(f"the program gave {len(results)} outputs, memory was given for {len(outputs)}")
        for k, (place, made) in enumerate(zip(outputs, results, strict=True)):
            if (place.shape.type, place.shape.lens) != (made.shape.type, made.shape.lens):
                raise ValueError(f"output {k} has shape {made.shape}, the memory given {place.shape}")
            np.copyto(place.array, made.array)
        return outputs

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        raise ValueError("the program has dynamic shapes: addresses do not say which; use run")

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        """Seconds of each of `steps` for these inputs."""
        self.run(inputs, None)
        arrays = {n: a.array for n, a in zip(self.parameters, inputs, strict=True)}
        return self._whole.profile(arrays, runs)

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"dynamic": True}, {}


def optimal_lens(parameters: Mapping[str, Shape], most: int) -> list[dict[str, tuple[int, ...]]]:
    """Every combination of optimal lengths, at most so many; none where a dimension has none."""
    choices = [
        [d.optimals or ((d.min,) if d.is_fixed else ()) for d in s.dyn_dims] if s.dyn_dims else [(n,) for n in s.lens]
        for s in parameters.values()
    ]
    if not any(s.dyn_dims for s in parameters.values()) or not all(c for dims in choices for c in dims):
        return []
    combined = []
    for pick in product(*(product(*dims) for dims in choices)):
        combined.append(dict(zip(parameters, pick, strict=True)))
        if len(combined) == most:
            break
    return combined


class _Part:
    """A program whose parameters' lengths are not known; `known`: those whose values must be, and why."""

    def __init__(
        self, target: Compiler, program: Program, options: CompileOptions, known: Mapping[str, str]
    ) -> None:
        self.target, self.program, self.options, self.known = target, program, options, known
        self.stages: Kept[_Stage] = Kept(options.max_specialisations)

    def stage(self, shapes: Mapping[str, Shape], values: Arrays) -> _Stage:
        lens = tuple((s.type, s.lens) for s in shapes.values())
        key = (lens, *(fingerprint(values[n]) for n in self.known))
        return self.stages.get(key, lambda: _Stage(self, shapes, values))

    def run(self, arrays: Arrays, passed: list[_Stage]) -> list[np.ndarray]:
        return self.stage_for(arrays).run(arrays, passed)

    def stage_for(self, arrays: Arrays) -> _Stage:
        shapes = {n: Shape(i.shape.type, arrays[n].shape) for n, i in self.program.main.parameters.items()}
        return self.stage(shapes, {n: np.array(arrays[n]) for n in self.known})

    def profile(self, arrays: Arrays, runs: int) -> list[float]:
        return self.stage_for(arrays).profile(arrays, runs)


def fingerprint(value: np.ndarray) -> bytes:
    data = value.tobytes()
    return data if len(data) <= SMALL else hashlib.sha256(data).digest()


class _Stage:
    """A part for one set of lengths: what could be compiled, what NumPy does next, and the part that remains."""

    def __init__(self, part: _Part, shapes: Mapping[str, Shape], values: Arrays) -> None:
        start = time.perf_counter()
        made = specialise(part.program.main, shapes, values)
        cut = split(made)
        self.cut, self.executable = cut, None
        if cut.wanted:
            self.executable = part.target.compile(cut.static, part.options)
        self.rest = _Part(part.target, cut.rest, part.options, cut.known) if cut.rest else None
        names = names_of(made.program.main)
        self.host_steps = [Step(instruction_text(h, names), "host", h.origin, 0, 0) for h in cut.host]
        lens = ", ".join(f"{n} {s.lens}" for n, s in shapes.items())
        log.info("compiled for %s in %.2f s", lens, time.perf_counter() - start)
        for step in self.host_steps:
            log.info("runs on the host, by NumPy: %s", step.text)
        for name, why in cut.known.items():
            log.info("what follows is compiled for each value of %s, on which a shape depends: %s", name, why)

    @property
    def steps(self) -> list[Step]:
        return [*(self.executable.steps if self.executable else ()), *self.host_steps]

    def run(self, arrays: Arrays, passed: list[_Stage]) -> list[np.ndarray]:
        passed.append(self)
        values = self._values(arrays)
        late: Sequence[np.ndarray] = []
        if self.rest is not None:
            late = self.rest.run({n: values(i) for n, i in self.cut.feeds.items()}, passed)
        return self._gathered(values, late)

    def _gathered(self, values: Callable[[Instruction], Any], late: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs in order; those of the rest may be more than one each, of a sequence."""
        known = [o for o in self.cut.outputs if not self._is_late(o)]
        if not known:
            return list(late)
        if len(late) != len(self.cut.outputs) - len(known):
            raise ValueError("an output is a sequence whose length depends on data, beside others: give it alone")
        rest = iter(late)
        return [next(rest) if self._is_late(o) else values(o) for o in self.cut.outputs]

    def _is_late(self, ins: Instruction) -> bool:
        return not (is_leaf(ins) or ins in self.cut.wanted or ins in self.cut.host)

    def _values(self, arrays: Arrays) -> Callable[[Instruction], Any]:
        """What the compiled part and then the host make of the inputs; by instruction."""
        found: dict[Instruction, Any] = {}
        if self.executable is not None:
            found = dict(zip(self.cut.wanted, self._compiled(arrays), strict=True))

        def value(ins: Instruction) -> Any:
            if isinstance(ins.op, Parameter):
                return arrays[ins.op.parameter]
            return ins.op.value if isinstance(ins.op, Literal) else found[ins]

        for ins in self.cut.host:
            found[ins] = ins.op.compute_with([value(i) for i in ins.inputs], ins.modules, _no_modules)
        return value

    def _compiled(self, arrays: Arrays) -> list[np.ndarray]:
        assert self.executable is not None
        return [r.array for r in self.executable.run(self._arguments(arrays), None)]

    def _arguments(self, arrays: Arrays) -> list[Argument]:
        assert self.executable is not None
        return [Argument.of(np.ascontiguousarray(arrays[n])) for n in self.executable.parameters]

    def profile(self, arrays: Arrays, runs: int) -> list[float]:
        seconds = list(self.executable.profile(self._arguments(arrays), runs)) if self.executable else []
        start = time.perf_counter()
        values = self._values(arrays)
        spent = time.perf_counter() - start - sum(seconds)
        seconds += [max(spent, 0.0) / len(self.host_steps)] * len(self.host_steps) if self.host_steps else []
        if self.rest is not None:
            seconds += self.rest.profile({n: values(i) for n, i in self.cut.feeds.items()}, runs)
        return seconds


def _no_modules(module: Module, args: Sequence[Any]) -> list[Any]:
    raise ValueError(f"module {module.name!r} cannot run on the host: its sizes depend on data")

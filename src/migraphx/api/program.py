"""`migraphx.program`: build, compile, run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from migraphx.api.argument import argument, elsewhere, host_array, publish
from migraphx.api.bound import Bound, bound
from migraphx.api.shape import shape, wrap
from migraphx.ir.program import Program
from migraphx.ir.shape import UNKNOWN, Shape, native
from migraphx.ir.text import program_text
from migraphx.ir.verify import verify_program
from migraphx.mxr.container import replace_file
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device
from migraphx.runtime.executable import Executable
from migraphx.runtime.memory_image import MemoryImage
from migraphx.runtime.options import CompileOptions, MoreKeywords
from migraphx.targets.common.at_lens import AtLens
from migraphx.targets.target import Target

if TYPE_CHECKING:
    from migraphx.api.module import module

OUTPUT_PREFIX = "main:#output_"
STREAM_TYPES = ("", "ihipStream_t", "hipStream_t", "CUstream_st", "cudaStream_t")


class compile_modes(Enum):
    """How long a compilation may take for the speed of what it makes."""

    eager, balanced, max = 0, 50, 100


class program:
    """Modules of instructions; `compile` makes it runnable, `run` runs it."""

    def __init__(self) -> None:
        self._read: Callable[[], Program] = Program
        self._executable: Executable | None = None
        self._options = CompileOptions()
        self._bound: Bound | None = None

    @cached_property
    def graph(self) -> Program:
        """The engine's own program, for its passes, targets and tools.

        It is read when somebody asks for it: running a loaded program needs only its executable. What is compiled
        does not see later changes of it.
        """
        return self._read()

    @property
    def executable(self) -> Executable:
        """What a target made of the program; RuntimeError where it is not compiled."""
        if self._executable is None:
            raise RuntimeError("compile the program before running it: program.compile(migraphx.get_target('cpu'))")
        return self._executable

    # ---- building ----

    def get_main_module(self) -> module:
        """The module that runs first."""
        return late("api.module").module(self.graph.main, self.graph)

    def create_module(self, name: str) -> module:
        """A new module for `if`, `loop` ...; TypeError for a name that is none, ValueError for one that is taken."""
        building = late("api.module")
        return building.module(self.graph.create_module(building.name_of("create_module", name)), self.graph)

    def sort(self) -> None:
        """Put every instruction after its inputs."""
        for m in self.graph.modules.values():
            m.sort()

    def clone(self, compiled: bool = True) -> program:
        """A copy; literals share memory.

        Of a compiled program the copy is compiled too, and runs the same code. With `compiled=False` it is not, so
        that it can be changed and compiled again.
        """
        copy = program()
        copy._read = lambda: self.graph.clone()
        if compiled:
            copy._executable, copy._options = self._executable, self._options
        return copy

    # ---- asking ----

    def get_parameter_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return list(self.get_parameter_shapes())

    def get_parameter_shapes(self) -> dict[str, shape]:
        """By name; after `compile(offload_copy=False)` the output buffers `main:#output_k` are among them."""
        if self._executable is None:
            return {n: wrap(i.shape) for n, i in self.graph.main.parameters.items()}
        shapes = {n: wrap(s) for n, s in self._executable.parameters.items()}
        if not self._options.offload_copy:
            outputs = self._executable.outputs
            shapes |= zip(_output_names(len(outputs)), map(wrap, outputs), strict=True)
        return shapes

    def get_output_shapes(self) -> list[shape]:
        """The shapes of the outputs, in order."""
        outputs = self._executable.outputs if self._executable else self.graph.main.output_shapes
        return [wrap(s) for s in outputs]

    def get_in_place(self) -> dict[str, str]:
        """Output buffers that may be given the memory of an input, and that input: `{"main:#output_1": "past"}`.

        Such an output is the input with some elements replaced (scattered); in the same memory only these are written.
        Empty where nothing is known before lengths arrive. RuntimeError where the program is not compiled.
        """
        if any(s.dynamic for s in self.executable.parameters.values()):
            return {}
        names = list(self.executable.parameters)
        return {f"{OUTPUT_PREFIX}{k}": names[n] for k, n in self.executable.in_place([]).items()}

    def is_compiled(self) -> bool:
        """Whether `compile` was called, or the file it was loaded from held a compiled program."""
        return self._executable is not None

    # ---- compiling and running ----

    def compile(
        self,
        t: Target,
        offload_copy: bool = True,
        fast_math: bool = True,
        exhaustive_tune: bool = False,
        compile_mode: compile_modes = compile_modes.balanced,
        **more: Unpack[MoreKeywords],
    ) -> None:
        """Compile for a target. The program keeps its instructions as they are; printing shows them unchanged.

        The options are the fields of CompileOptions. With `compile_modes.max`, targets that tune do so as with
        `exhaustive_tune`; the other modes are alike. TypeError and ValueError name an option that is wrong, or that
        the target cannot obey. RuntimeError where the program is compiled already; UnsupportedOperator (a ValueError)
        lists what the target has no kernel for; CompilerError (an OSError) where the compiler is missing or fails.
        """
        if not hasattr(t, "compile"):
            raise TypeError(f"compile: the target must come from migraphx.get_target, got {t!r}")
        if self._executable is not None:
            raise RuntimeError("the program is already compiled; compile clone(compiled=False) for another target")
        if not isinstance(compile_mode, compile_modes):
            raise TypeError(f"compile: compile_mode must be of migraphx.compile_modes, got {compile_mode!r}")
        tune = exhaustive_tune or (compile_mode is compile_modes.max and t.tunes)
        options = CompileOptions.of(offload_copy=offload_copy, fast_math=fast_math, exhaustive_tune=tune, **more)
        options.check_target(t)
        verify_program(self.graph)
        for output in self.graph.main.outputs:
            if output.shape.type == "tuple" and output.shape != UNKNOWN:
                raise ValueError(f"the program returns a tuple, of {output.name}: return its get_tuple_elem instead")
        self._executable, self._options = t.compile(self.graph.clone(), options), options

    def release_instructions(self) -> None:
        """Give back the instructions of a compiled program, with their constants: it runs as before.

        What needs them (printing, saving, cloning, compiling again) is a RuntimeError from now on, as is this where
        the program is not compiled.
        """
        if self.executable:
            self.__dict__.pop("graph", None)
            self._read = _released

    def run(self, params: Mapping[str, Any], timeout: float | None = None) -> list[argument]:
        """Run once on named inputs (arguments, arrays, tensors on the target's device).

        An input of the right type and lens but other strides is copied to the strides expected, and one element is
        one element whether it has a dimension or none; any other difference, a missing and an unknown name are
        ValueErrors. RuntimeError where the program is not compiled; IndexError where an index inside is out of range.

        TimeoutError where the run takes longer than `timeout` seconds. A signal whose Python handler raises, such as
        Ctrl-C, ends a run of the main thread with what it raised. Either takes about a tenth of a second at most;
        output memory that was given is then undefined, and the program can be run again.
        """
        results = self._started(params, None, timeout)
        self.executable.device.synchronise()
        return results

    def _started(self, params: Mapping[str, Any], stream: int | None, timeout: float | None) -> list[argument]:
        executable = self.executable
        if not isinstance(params, Mapping):
            raise TypeError(f"run: params must map names to values, got a {type(params).__name__}")
        deadline = None if timeout is None else Deadline(timeout)
        last = self._bound
        same = None if last is None else last.found(params)
        if last is not None and same is not None:
            executable.run_at(last.inputs, last.outputs, stream, deadline)
            return same
        inputs = [_bind(n, s, params, executable.device, stream) for n, s in executable.parameters.items()]
        if any(s.dyn_dims for s in executable.parameters.values()):
            _check_symbols(executable.parameters, inputs)
        outputs = None
        if len(params) != len(inputs):  # more: outputs, or names that the program does not have
            outputs = _given_outputs(executable, params)
            _refuse_overlap(executable, inputs, outputs)
        if executable.device is not HOST:
            return [publish(a) for a in self._elsewhere(inputs, outputs, stream, deadline)]
        for a in inputs if outputs is None else (*inputs, *outputs):
            if a.device is not HOST:
                _refuse_others(executable, [*inputs, *(outputs or ())], HOST)
        if outputs is not None:
            names = _output_names(len(outputs))
            self._bound = bound(executable, params, inputs, dict(zip(names, outputs, strict=True)))
        return [publish(a) for a in executable.run(inputs, outputs, stream, deadline)]

    def _elsewhere(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None,
        deadline: Deadline | None,
    ) -> Sequence[Argument]:
        """Run on a device other than the host: with `offload_copy` values in main memory go there and back."""
        executable = self.executable
        device = executable.device
        allowed = (device, HOST) if self._options.offload_copy else (device,)
        _refuse_others(executable, [*inputs, *(outputs or ())], *allowed)
        given = None if outputs is None or any(a.device is HOST for a in outputs) else outputs
        made = executable.run([a.to(device, stream) for a in inputs], given, stream, deadline)
        if not self._options.offload_copy or given is not None:
            return made
        if outputs is None:
            return [a.to(HOST, stream) for a in made]
        for place, a in zip(outputs, made, strict=True):
            a.to(place.device, stream).copy_to(place, stream)
        return outputs

    def run_at(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run on memory at these addresses, in the order of the parameters and of the outputs.

        For callers that have checked shapes, types, strides and devices themselves, and who keep the memory alive.
        Nothing is checked here; RuntimeError where the program is not compiled. `stream`: as in `run_async`; `timeout`
        and signals: as in `run`.
        """
        self.executable.run_at(inputs, outputs, stream, None if timeout is None else Deadline(timeout))

    def run_unless_changed(
        self, image: MemoryImage, inputs: Sequence[int], outputs: Sequence[int], stream: int | None = None
    ) -> bool:
        """`run_at`, where the memory of `image` is as it was; else false, and what the outputs hold is undefined.

        `image` is what a target's `memory_image` made. It may be compared while the run goes on.
        """
        return self.executable.run_unless_changed(image, inputs, outputs, stream)

    def at(self, lens: Mapping[str, Sequence[int]]) -> AtLens | None:
        """`run_at` of a program with dynamic shapes, for parameters of these lens; it takes inputs and outputs.

        `current()` of it says whether `run` would take the same program: where a faster one for these lens was compiled
        meanwhile, ask `at` again. `outputs` are the shapes of the outputs.

        None where it is not one program for them, has no dynamic shapes, or the target is `ref`. RuntimeError where it
        is not compiled.
        """
        found = getattr(self.executable, "at", None)
        return None if found is None else found({name: tuple(own) for name, own in lens.items()})

    def run_async(
        self, params: Mapping[str, Any], stream: int | None = None, stream_type: str = "", timeout: float | None = None
    ) -> list[argument]:
        """As `run`, behind what a stream of the target's device has to do: it may return before the results are there.

        What comes later in the stream finds them; an error of the run is raised by what waits for it. `stream` is the
        handle of a stream, 0 or None the default one, as in `torch.cuda.current_stream().cuda_stream`. On the host the
        results are there when it returns, and a handle of any other stream is a ValueError. `stream_type` names the
        handle's C++ type, as upstream has it (`ihipStream_t`); ValueError for one of another library.
        """
        if stream_type not in STREAM_TYPES:
            raise ValueError(f"run_async: stream_type {stream_type!r} is none of {', '.join(STREAM_TYPES[1:])}")
        return self._started(params, stream, timeout)

    # ---- showing ----

    def print(self) -> None:
        """Print the modules."""
        print(self)

    def write_netron_output(self, filename: str | os.PathLike[str]) -> None:
        """Write the JSON of `migraphx.to_netron`, which Netron opens; OSError where the file cannot be written."""
        replace_file(filename, [late("writers.netron").to_netron(self.graph).encode()])

    def to_py(self) -> str:
        """Python code that builds this program through the public API."""
        return late("writers.python").to_python(self.graph)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, program) and program_text(self.graph) == program_text(other.graph)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return program_text(self.graph)


def published(graph: Program | Callable[[], Program]) -> program:
    """The public face of an engine program, or of one that is read when it is needed."""
    made = program()
    if isinstance(graph, Program):
        made.graph = graph
    else:
        made._read = graph
    return made


def late(name: str) -> Any:
    """A module that running a program does not need."""
    return import_module(f"migraphx.{name}")


def _same(a: Shape, b: Shape) -> bool:
    """Equal but for the strides of dimensions of length 1, which reach nothing."""
    if a.type != b.type or a.lens != b.lens:
        return False
    return a.strides == b.strides or (a.standard and b.standard)


def _claimed(given: Argument, device: Device) -> Argument:
    """The argument; of an address alone, which says nothing of its device, on this one where it knows the address."""
    alone = given.device is HOST and given.owner is None
    return Argument(given.shape, given.pointer, None, device) if alone and device.holds(given.pointer) else given


def _released() -> Program:
    raise RuntimeError("the program's instructions were released: it runs, and cannot be printed, saved or cloned")


def _refuse_others(executable: Executable, arguments: Sequence[Argument], *allowed: Device) -> None:
    """ValueError for inputs and outputs that the program does not take from where they are."""
    bad = [k for k, a in enumerate(arguments) if a.device not in allowed]
    if bad:
        names = [*executable.parameters, *_output_names(len(executable.outputs))]
        where = f"the program runs on {executable.device.name}"
        if executable.device is not HOST and HOST not in allowed:
            where += " and was compiled with offload_copy=False"
        found = ", ".join(f"{names[k]!r} is on {arguments[k].device.name}" for k in bad)
        raise ValueError(f"{where}; {found}: copy first")


def _bind(name: str, expected: Shape, params: Mapping[str, Any], device: Device, stream: int | None) -> Argument:
    """The input as the program reads it, on the device where it was given or, of an address alone, which knows it."""
    if name not in params:
        near = get_close_matches(name, map(str, params), 1)
        hint = f"did you mean it by {near[0]!r}?" if near else f"given: {', '.join(map(str, params)) or 'none'}"
        raise ValueError(f"input {name!r} ({expected}) is missing; {hint}")
    value = params[name]
    given = value if isinstance(value, Argument) else _viewed(name, value, stream)
    if device is not HOST:
        given = _claimed(given, device)
    if given.shape is expected or _same(given.shape, expected):
        return given
    if expected.dynamic and given.shape.standard:
        return _bind_dynamic(name, expected, given)
    if given.device is not HOST:  # what follows is NumPy's work
        return _bind(name, expected, {name: given.to(HOST, stream)}, HOST, None).to(given.device, stream)
    if (given.shape.type, expected.type) == ("uint8", "fp4x2"):  # NumPy has no such type
        given = Argument.of(given.array.view(expected.numpy_dtype))
    if expected.dynamic:
        return _bind_dynamic(name, expected, given)
    if {given.shape.lens, expected.lens} == {(), (1,)}:  # alike to upstream, which knows no rank 0
        given = Argument.of(given.array.reshape(expected.lens))
    if given.shape.type != expected.type or given.shape.lens != expected.lens:
        raise ValueError(f"input {name!r} must have shape {expected}, got {given.shape}")
    copy = Argument.empty(expected)
    np.copyto(copy.array, given.array)
    if expected.broadcasted and copy.array.tobytes() != given.array.tobytes():
        raise ValueError(f"input {name!r} has shape {expected}: its values must be equal where the stride is 0")
    return copy


def _bind_dynamic(name: str, expected: Shape, given: Argument) -> Argument:
    """The argument row-major; ValueError names the dimension that is out of its range."""
    if given.shape.type != expected.type or given.shape.ndim != expected.ndim:
        raise ValueError(f"input {name!r} must have shape {expected}, got {given.shape}")
    for d, (n, bounds) in enumerate(zip(given.shape.lens, expected.dyn_dims, strict=True)):
        if not bounds.min <= n <= bounds.max:
            raise ValueError(f"input {name!r}: dimension {d} must be in [{bounds.min}, {bounds.max}], is {n}")
    return given if given.shape.standard else Argument.of(np.ascontiguousarray(given.array))


def _check_symbols(parameters: Mapping[str, Shape], inputs: Sequence[Argument]) -> None:
    """ValueError where dimensions of one symbol have two lengths."""
    first: dict[str, tuple[str, int, int]] = {}
    for (name, expected), given in zip(parameters.items(), inputs, strict=True):
        for d, dim in enumerate(expected.dyn_dims):
            n = given.shape.lens[d]
            other, at, length = first.setdefault(dim.symbol, (name, d, n))
            if dim.symbol and length != n:
                both = f"input {other!r} has {length} in dimension {at}, input {name!r} has {n} in dimension {d}"
                raise ValueError(f"{both}: both are {dim.symbol!r} and must be equal")


def _viewed(name: str, value: Any, stream: int | None) -> Argument:
    try:
        return elsewhere(value, stream) or Argument.of(native(host_array(value)))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise type(error)(f"input {name!r}: {error}") from None


def _given_outputs(executable: Executable, params: Mapping[str, Any]) -> list[Argument]:
    """The memory that the caller gave for every output; ValueError for other names and for missing outputs."""
    names = _output_names(len(executable.outputs))
    for name in params:
        if name not in executable.parameters and name not in names:
            known = [*executable.parameters, *names]
            near = get_close_matches(str(name), known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
            raise ValueError(f"the program has no parameter {name!r}{hint}")
    return [_output(name, s, params, executable.device) for name, s in zip(names, executable.outputs, strict=True)]


@cache
def _output_names(count: int) -> dict[str, None]:
    """The names of a program's outputs, in order."""
    return dict.fromkeys(f"{OUTPUT_PREFIX}{k}" for k in range(count))


def _output(name: str, expected: Shape, params: Mapping[str, Any], device: Device) -> Argument:
    if name not in params:
        raise ValueError(f"output {name!r} ({expected}) is missing: give all outputs or none")
    value = params[name]
    if isinstance(value, (list, tuple, int, float)):
        raise TypeError(f"output {name!r} must be memory to write to, got a {type(value).__name__}")
    given = value if isinstance(value, Argument) else elsewhere(value) or Argument.of(host_array(value))
    if device is not HOST:
        given = _claimed(given, device)
    if not expected.dynamic and not _same(given.shape, expected):
        raise ValueError(f"output {name!r} must have shape {expected}, got {given.shape}")
    if not given.writeable:
        raise ValueError(f"output {name!r} is read-only memory")
    return given


def _refuse_overlap(executable: Executable, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
    """Kernels read inputs after the first outputs are written: their memory must be apart, save what is in place."""
    written = sorted((a.pointer, a.pointer + a.shape.bytes, k) for k, a in enumerate(outputs) if a.shape.elements)
    for (_, end, k), (start, _, other) in pairwise(written):
        if start < end:
            raise ValueError(f"outputs {k} and {other} share memory")
    for n, a in enumerate(inputs):
        end = a.pointer + a.shape.bytes
        for start, stop, k in written:
            if a.pointer < stop and start < end and a.shape.elements:
                if (start, stop) == (a.pointer, end) and executable.in_place(inputs).get(k) == n:
                    continue
                raise ValueError(f"output {k} shares memory with input {n}")

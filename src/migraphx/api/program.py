"""`migraphx.program`: build, compile, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from migraphx.api.argument import argument, as_array, publish
from migraphx.api.module import module
from migraphx.api.shape import shape, wrap
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import program_text
from migraphx.runtime.argument import Argument
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.target import Target

OUTPUT_PREFIX = "main:#output_"


class program:
    """Modules of instructions; `compile` makes it runnable, `run` runs it."""

    def __init__(self) -> None:
        self._graph: Callable[[], Program] = Program
        self._executable: Executable | None = None
        self._options = CompileOptions()

    @cached_property
    def _impl(self) -> Program:
        """The graph, read when somebody asks for it: running a loaded program needs only its executable."""
        return self._graph()

    # ---- building ----

    def get_main_module(self) -> module:
        return module(self._impl.main)

    def create_module(self, name: str) -> module:
        return module(self._impl.create_module(name))

    def sort(self) -> None:
        """Put every instruction after its inputs."""
        for m in self._impl.modules.values():
            m.sort()

    def clone(self) -> program:
        """An uncompiled copy; literals share memory."""
        copy = program()
        copy._graph = self._impl.clone
        return copy

    # ---- asking ----

    def get_parameter_names(self) -> list[str]:
        return list(self.get_parameter_shapes())

    def get_parameter_shapes(self) -> dict[str, shape]:
        """By name; after `compile(offload_copy=False)` the output buffers `main:#output_k` are among them."""
        if self._executable is None:
            return {n: wrap(i.shape) for n, i in self._impl.main.parameters.items()}
        shapes = {n: wrap(s) for n, s in self._executable.parameters.items()}
        if not self._options.offload_copy:
            shapes |= {f"{OUTPUT_PREFIX}{k}": wrap(s) for k, s in enumerate(self._executable.outputs)}
        return shapes

    def get_output_shapes(self) -> list[shape]:
        outputs = self._executable.outputs if self._executable else self._impl.main.output_shapes
        return [wrap(s) for s in outputs]

    def is_compiled(self) -> bool:
        return self._executable is not None

    # ---- compiling and running ----

    def compile(
        self,
        t: Target,
        offload_copy: bool = True,
        fast_math: bool = True,
        exhaustive_tune: bool = False,
        **more: Any,
    ) -> None:
        """Compile for a target. The program keeps its instructions as they are; printing shows them unchanged."""
        if self._executable is not None:
            raise RuntimeError("the program is already compiled; compile a clone for another target")
        self._options = CompileOptions.of(
            offload_copy=offload_copy, fast_math=fast_math, exhaustive_tune=exhaustive_tune, **more
        )
        self._executable = t.compile(self._impl.clone(), self._options)

    def run(self, params: Mapping[str, Any]) -> list[argument]:
        """Run once on named inputs (arguments, arrays, CPU tensors).

        An input of the right type and lens but other strides is copied to the strides expected; any other
        difference, a missing and an unknown name are errors.
        """
        executable = self._executable
        if executable is None:
            raise RuntimeError("compile the program before running it: program.compile(migraphx.get_target('cpu'))")
        inputs = [_bind(n, s, params) for n, s in executable.parameters.items()]
        outputs = self._given_outputs(executable, params)
        if len(params) != len(inputs) + (len(outputs) if outputs else 0):
            self._refuse_unknown(executable, params)
        return [publish(a) for a in executable.run(inputs, outputs)]

    def run_async(self, params: Mapping[str, Any], stream: Any = None, stream_type: str = "") -> list[argument]:
        """As `run`: on the CPU there is no stream to wait on, the results are ready when it returns."""
        return self.run(params)

    def _given_outputs(self, executable: Executable, params: Mapping[str, Any]) -> list[Argument] | None:
        if f"{OUTPUT_PREFIX}0" not in params:
            return None
        outputs = []
        for k, s in enumerate(executable.outputs):
            name = f"{OUTPUT_PREFIX}{k}"
            given = params.get(name)
            given = given if isinstance(given, Argument) else Argument.of(as_array(given))
            if not _same(given.shape, s):
                raise ValueError(f"output {name!r} must have shape {s}, got {given.shape}")
            outputs.append(given)
        return outputs

    def _refuse_unknown(self, executable: Executable, params: Mapping[str, Any]) -> None:
        known = [*executable.parameters, *(f"{OUTPUT_PREFIX}{k}" for k in range(len(executable.outputs)))]
        for name in params:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"
                raise ValueError(f"the program has no parameter {name!r}{hint}")

    # ---- showing ----

    def print(self) -> None:
        print(self)

    def to_py(self) -> str:
        """Python code that builds this program through the public API."""
        return _python(self._impl)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, program) and program_text(self._impl) == program_text(other._impl)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return program_text(self._impl)


def _same(a: Shape, b: Shape) -> bool:
    """Equal but for the strides of dimensions of length 1, which reach nothing."""
    if a.type != b.type or a.lens != b.lens:
        return False
    return a.strides == b.strides or (a.standard and b.standard)


def _bind(name: str, expected: Shape, params: Mapping[str, Any]) -> Argument:
    if name not in params:
        raise ValueError(f"input {name!r} ({expected}) is missing; given: {', '.join(params) or 'none'}")
    value = params[name]
    given = value if isinstance(value, Argument) else Argument.of(*_native(name, value))
    if given.shape is expected or _same(given.shape, expected):
        return given
    if given.shape.type != expected.type or given.shape.lens != expected.lens:
        raise ValueError(f"input {name!r} must have shape {expected}, got {given.shape}")
    copy = Argument.empty(expected)
    np.copyto(copy.array, given.array)
    return copy


def _native(name: str, value: Any) -> tuple[np.ndarray]:
    array = as_array(value)
    if array.dtype.byteorder == ">" or any(s < 0 or s % array.itemsize for s in array.strides):
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    try:
        Shape.of(array)
    except ValueError as error:
        raise ValueError(f"input {name!r}: {error}") from None
    return (array,)


def _python(impl: Program) -> str:
    lines = ["import migraphx", "import numpy as np", "", "p = migraphx.program()"]
    env: dict[Any, str] = {}
    for m in impl.modules.values():
        var = f"m_{m.name}" if m.name != "main" else "m"
        lines.append(f"{var} = " + ("p.get_main_module()" if m.name == "main" else f"p.create_module({m.name!r})"))
        env[m] = var
    for m in reversed(impl.modules.values()):
        for n, ins in enumerate(m):
            env[ins] = f"{env[m]}_{n}"
            lines.append(_python_line(ins, env[m], env))
    return "\n".join(lines) + "\n"


def _python_line(ins: Any, var: str, env: dict[Any, str]) -> str:
    s = ins.shape
    shape_text = f"migraphx.shape(type={s.type!r}, lens={list(s.lens)}, strides={list(s.strides)})"
    args = ", ".join(env[i] for i in ins.inputs)
    if ins.name == "@param":
        return f"{env[ins]} = {var}.add_parameter({ins.op.parameter!r}, {shape_text})"
    if ins.name == "@literal":
        if ins.literal.size <= 10:
            return f"{env[ins]} = {var}.add_literal(migraphx.create_argument({shape_text}, {ins.literal.tolist()}))"
        return f"{env[ins]} = {var}.add_literal(migraphx.generate_argument({shape_text}))"
    if ins.name == "@return":
        return f"{var}.add_return([{args}])"
    attributes = "".join(f", {k}={v!r}" for k, v in ins.op.attributes().items())
    modules = f", [{', '.join(env[m] for m in ins.modules)}]" if ins.modules else ""
    return f"{env[ins]} = {var}.add_instruction(migraphx.op({ins.name!r}{attributes}), [{args}]{modules})"

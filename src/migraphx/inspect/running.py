"""Running a program on a target and on `ref`, from arrays to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from migraphx.inspect.compare import DEFAULT, Tolerance
from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Operation, Parameter, operation
from migraphx.ir.program import Program
from migraphx.ir.ranges import ranges
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.specialise import SpecialisedProgram, is_dynamic, specialise
from migraphx.targets.registry import get_target

Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """How a target is compared with `ref`: what may differ, whether `ref` computes in double, how it is compiled."""

    tolerance: Tolerance = DEFAULT
    double: bool = False
    compile_options: CompileOptions = field(default_factory=CompileOptions)


DEFAULTS = Settings()


def on_target(program: Program, target: str, inputs: Inputs, options: CompileOptions) -> list[np.ndarray]:
    """Compile a copy of the program and run it once."""
    chosen = get_target(target)
    options.check_target(chosen)
    executable = chosen.compile(program.clone(), options)
    return [a.to(HOST).array for a in executable.run(arguments(executable, inputs), None)]


def on_ref(program: Program, inputs: Inputs, double: bool) -> list[np.ndarray]:
    """The program's meaning; `double` computes every float in double precision."""
    return on_target(in_double(program) if double else program, "ref", inputs, CompileOptions())


def at_lens(program: Program, inputs: Inputs) -> SpecialisedProgram:
    """A dynamic program as far as it is static for inputs of these lens; any other as it is."""
    if not is_dynamic(program):
        return SpecialisedProgram(program)
    given = program.main.parameters.items()
    shapes = {n: Shape(i.shape.type, array_for(n, i.shape, inputs).shape) for n, i in given}
    return specialise(program.main, shapes, {})


def with_lens_of(program: Program, inputs: Inputs) -> Program:
    """A dynamic program as it is for these inputs, any other as it is; ValueError where lens depend on values."""
    made = at_lens(program, inputs)
    if made.refusals:
        raise ValueError(f"cannot be taken apart: {'; '.join(made.refusals.values())}")
    return made.program


def arguments(executable: Executable, inputs: Inputs) -> list[Argument]:
    """The inputs in the parameters' layouts, on the executable's device.

    ValueError names one that is missing or of other lens.
    """
    made = []
    for name, shape in executable.parameters.items():
        array = array_for(name, shape, inputs)
        if shape.dyn_dims:
            made.append(Argument.of(np.ascontiguousarray(array)))
            continue
        made.append(Argument.empty(shape))
        np.copyto(made[-1].array, array)
    return [a.to(executable.device) for a in made]


def array_for(name: str, shape: Shape, inputs: Inputs) -> np.ndarray:
    """One input in a parameter's type; ValueError where it is missing or does not fit."""
    if name not in inputs:
        raise ValueError(f"input {name!r} ({shape}) is missing")
    array, dims = np.asarray(inputs[name]), ranges(shape)
    if array.ndim != len(dims) or any(not d.min <= n <= d.max for n, d in zip(array.shape, dims, strict=True)):
        wanted = [d.min if d.is_fixed else f"{d.min} to {d.max}" for d in dims]
        raise ValueError(f"input {name!r} must have lens [{', '.join(map(str, wanted))}], got {list(array.shape)}")
    return array.astype(shape.numpy_dtype, copy=False)


def in_double(program: Program) -> Program:
    """A copy whose float parameters, literals and conversions are double; shapes are inferred anew."""
    copy = Program()
    modules: dict[Module, Module] = {}
    _widen(program.main, copy.main, {}, modules)
    copy.modules |= {m.name: m for m in modules.values()}
    return copy


def _widen(source: Module, into: Module, env: dict[Instruction, Instruction], modules: dict[Module, Module]) -> None:
    modules[source] = into
    for ins in source:
        for m in ins.modules:
            if m not in modules:
                _widen(m, Module(m.name), env, modules)
        inputs = [env[i] for i in ins.inputs]
        if isinstance(ins.op, (Parameter, Literal)):
            wide = _wide(ins.shape)
            op = ins.op if isinstance(ins.op, Parameter) else Literal(ins.op.value.astype(wide.numpy_dtype))
            shape = wide if isinstance(ins.op, Parameter) else Shape.of(op.value)  # type: ignore[union-attr]
            env[ins] = into.append(Instruction(op, (), shape, origin=ins.origin))
        else:
            op = _wide_operation(ins.op)
            env[ins] = into.add_instruction(op, inputs, [modules[m] for m in ins.modules], origin=ins.origin)


def _wide(s: Shape) -> Shape:
    return s.with_type("double") if s.type in dtypes.FLOATS else s


def _wide_operation(op: Operation) -> Operation:
    """A conversion to a narrow float becomes one to double."""
    attributes = op.attributes()
    if op.name == "convert" and attributes["target_type"] in dtypes.FLOATS:
        return operation("convert", target_type="double")
    return op


def outputs_named(values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """By the names under which programs take output buffers."""
    return {f"main:#output_{k}": v for k, v in enumerate(values)}

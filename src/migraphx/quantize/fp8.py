"""Programs that take and give fp8, run with floats outside."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program


def autocast(program: Program) -> None:
    """Parameters of fp8 become float parameters that are converted to fp8; results of fp8 become floats."""
    main = program.main
    b = Builder(main, before=next(i for i in main if not isinstance(i.op, (Parameter, Literal))))
    for name, old in reversed(main.parameters.items()):  # as they are listed
        if old.shape.type.startswith("fp8"):
            between = _renamed(main, old, f"{name}:fp8")
            new = main.add_parameter(name, old.shape.with_type("float"))
            main.replace(between, b.convert(new, target_type=old.shape.type))
            main.remove(between)
    b = Builder(main, before=main.last)
    outputs = [b.cast(o, "float") if o.shape.type.startswith("fp8") else o for o in main.outputs]
    if outputs != list(main.outputs):
        main.replace_return(outputs)


def _renamed(module: Module, parameter: Instruction, name: str) -> Instruction:
    new = module.add_parameter(name, parameter.shape)
    module.replace(parameter, new)
    module.remove(parameter)
    return new

"""Print the shapes of a model's inputs and outputs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from migraphx.api.shape import shape
from migraphx.driver.model import read_model
from migraphx.driver.options import add_input
from migraphx.driver.result import Result


def add_arguments(parser: ArgumentParser) -> None:
    add_input(parser)


def run(args: Namespace) -> Result:
    made = read_model(args)
    inputs = made.get_parameter_shapes()
    outputs = {f"main:#output_{k}": s for k, s in enumerate(made.get_output_shapes())}
    lines = [f"{name}: {s}" for name, s in (inputs | outputs).items()]
    data = {"inputs": _described(inputs), "outputs": _described(outputs)}
    return Result("\n".join(lines), data)


def _described(shapes: Mapping[str, shape]) -> dict[str, Any]:
    """By name; a dynamic shape has no lens, a static one no dyn_dims."""
    return {
        name: {
            "shape": str(s),
            "type": s.type_string(),
            "lens": [] if s.dynamic() else s.lens(),
            "strides": [] if s.dynamic() else s.strides(),
            "dyn_dims": [{"min": d.min, "max": d.max, "optimals": sorted(d.optimals)} for d in s.dyn_dims()],
        }
        for name, s in shapes.items()
    }

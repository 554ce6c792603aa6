"""Compile a model, run it once, print what ran and its outputs."""

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Any

import numpy as np

from migraphx.api.argument import publish
from migraphx.driver.data import generate
from migraphx.driver.model import compiled, optimized, read_model
from migraphx.driver.options import add_format, add_model
from migraphx.driver.output import program_result
from migraphx.driver.result import Result
from migraphx.driver.running import data_at_fault, prepared
from migraphx.driver.terminal import note
from migraphx.runtime.device import HOST

SHOWN = 20  # elements of an output, all of them


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_format(parser)


def run(args: Namespace) -> Result:
    made = compiled(read_model(args), args, partial(generate, args=args))
    note("Allocating params ...")
    inputs = generate(made, args)
    params = prepared(made, inputs)
    with data_at_fault(args, inputs):
        outputs = [publish(o.to(HOST)) for o in made.run(params)]
    if args.json:
        return Result("", {"outputs": [_described(np.asarray(o), str(o.get_shape())) for o in outputs]})
    shown = program_result(args, made, optimized(made, inputs))
    if isinstance(shown.text, bytes) or args.format not in (None, "text"):
        return shown
    answers = [
        f"#output_{k}: {o.get_shape()}: {np.array2string(np.asarray(o), threshold=SHOWN)}"
        for k, o in enumerate(outputs)
    ]
    return Result("\n".join([shown.text.rstrip("\n"), "", *answers]))


def _described(value: np.ndarray, shape: str) -> dict[str, Any]:
    return {"shape": shape, "lens": list(value.shape), "values": value.tolist()}

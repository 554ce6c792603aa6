"""Compile a model, run it over and over, print how long a run takes."""

from argparse import ArgumentParser, Namespace
from functools import partial

from migraphx.driver.data import generate
from migraphx.driver.model import compiled, read_model
from migraphx.driver.options import add_iterations, add_model
from migraphx.driver.result import Result
from migraphx.driver.running import data_at_fault, prepared, timed
from migraphx.driver.statistics import described, summary_lines


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_iterations(parser)


def run(args: Namespace) -> Result:
    made = compiled(read_model(args), args, partial(generate, args=args))
    inputs = generate(made, args)
    with data_at_fault(args, inputs):
        seconds = timed(made, prepared(made, inputs), args.iterations)
    found = described(seconds)
    return Result("\n".join(summary_lines(found, args.batch)), {"batch": args.batch, **found, "runs": seconds})

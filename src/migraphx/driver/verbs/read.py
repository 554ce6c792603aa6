"""Read a model and print it."""

from argparse import ArgumentParser, Namespace

from migraphx.driver.model import read_model
from migraphx.driver.options import add_format, add_input
from migraphx.driver.output import default_form, program_result
from migraphx.driver.result import Result


def add_arguments(parser: ArgumentParser) -> None:
    add_input(parser)
    add_format(parser)


def run(args: Namespace) -> Result:
    made = read_model(args)
    return program_result(args, made, made.graph, default_form(args))

"""Compile a model and print what runs: its instructions after the target's passes."""

from argparse import ArgumentParser, Namespace
from functools import partial

from migraphx.driver.data import generate
from migraphx.driver.model import compiled, optimized, read_model
from migraphx.driver.options import add_format, add_model
from migraphx.driver.output import default_form, program_result
from migraphx.driver.result import Result


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_format(parser)


def run(args: Namespace) -> Result:
    made = compiled(read_model(args), args, partial(generate, args=args))
    return program_result(args, made, optimized(made, generate(made, args)), default_form(args))

"""List the ONNX operators that can be read."""

from argparse import ArgumentParser, Namespace

import migraphx
from migraphx.driver.result import Result


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--list", "-l", action="store_true", help="list them (which is also what is done without)")


def run(args: Namespace) -> Result:
    names = migraphx.get_onnx_operators()
    return Result("\n".join(names), names)

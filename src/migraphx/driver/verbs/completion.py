"""Print a completion script, for `source <(migraphx-driver completion bash)` or a file where the shell looks."""

from argparse import ArgumentParser, Namespace

from migraphx.driver.completion import SHELLS, commands_of
from migraphx.driver.result import Result


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell")


def run(args: Namespace) -> Result:
    script = SHELLS[args.shell](commands_of(args.parser))
    return Result(script, {"shell": args.shell, "script": script})

"""`migraphx-driver`: the parser, the log, the exit code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import metadata
from types import ModuleType
from typing import NoReturn

from migraphx.driver import upstream
from migraphx.driver.environment import loggers_asked_for, warn_of_unknown
from migraphx.driver.options import add_common
from migraphx.driver.output import check_writable
from migraphx.driver.result import MEANINGS, Exit, Result, RunError, UsageError, rendered
from migraphx.driver.terminal import coloured, spinner
from migraphx.driver.verbs import (
    cache,
    completion,
    doctor,
    explain,
    onnx,
    op,
    params,
    perf,
    perf_diff,
    read,
    run,
    time,
    verify,
)
from migraphx.driver.verbs import compile as compile_
from migraphx.ir.operation import Unsupported
from migraphx.mxr.container import replace_file
from migraphx.targets.common.progress import shown_by
from migraphx.targets.target import CompilerError

log = logging.getLogger("migraphx")
PROGRAM = "migraphx-driver"
VERBS: dict[str, ModuleType] = {
    "read": read,
    "params": params,
    "compile": compile_,
    "run": run,
    "time": time,
    "perf": perf,
    "perf diff": perf_diff,
    "verify": verify,
    "op": op,
    "onnx": onnx,
    "explain": explain,
    "doctor": doctor,
    "cache": cache,
    "completion": completion,
}
CODES: dict[tuple[type[Exception], ...], Exit] = {
    (UsageError,): Exit.USAGE,
    (Unsupported,): Exit.UNSUPPORTED,
    (CompilerError,): Exit.COMPILER,
    (OSError, ValueError, RunError, MemoryError): Exit.INPUT,
}
LEVELS = {"none": 100, "error": 40, "warn": 30, "info": 20, "debug": 10, "trace": 10}  # logging's numbers
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Parser(argparse.ArgumentParser):
    """Raises UsageError, which says what option was meant by one that is unknown."""

    def options(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise UsageError(message)

    def refuse(self, words: Sequence[str], others: Mapping[str, Parser]) -> NoReturn:
        """Say of a word what is meant by it: upstream's option, one of another verb, or one that looks like it."""
        word = words[0].split("=")[0]
        near = get_close_matches(word, self.options(), 1, 0.7) if word.startswith("-") else []
        elsewhere = [name for name, parser in others.items() if word.startswith("--") and word in parser.options()]
        if note := upstream.missing(word):
            hint = f"; {note}"
        elif elsewhere:
            hint = f"; it is an option of {', '.join(elsewhere)}"
        else:
            hint = f"; did you mean {near[0]}?" if near else ""
        self.error(f"unexpected {words[0]!r}{hint}")


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The whole parser, and those of the verbs."""
    codes = "\n".join(f"  {code.value:3}  {meaning}" for code, meaning in MEANINGS.items())
    parser = Parser(
        prog=PROGRAM,
        description="Read, compile, run, measure and verify models.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", "-v", action="version", version=f"OpenMGX {metadata.version('openmgx')}")
    found = parser.add_subparsers(dest="verb", metavar="<verb>", required=True)
    parsers = {}
    for name, verb in VERBS.items():
        text = " ".join((verb.__doc__ or "").split())
        one = parsers[name] = found.add_parser(name, help=text, description=text, allow_abbrev=False)
        verb.add_arguments(one)
        add_common(one)
        one.set_defaults(run=verb.run, parser=parser)
        words = [a.metavar or a.dest for a in one._actions if not a.option_strings]
        one.usage = " ".join([PROGRAM, name, *map(str, words), "[options]"])
    return parser, parsers


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's); returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = parse(words)
        with logging_to(args.log_file, args.log_level), shown_by(spinner):
            warn_of_unknown()
            return answer(args)
    except SystemExit:  # argparse has printed the help
        return Exit.DONE
    except (UsageError, OSError) as error:
        return fail(error, code_of(error), "--json" in words)


def parse(words: list[str]) -> argparse.Namespace:
    """The command line; UsageError says what is wrong with it."""
    parser, parsers = build_parser()
    if not words:
        parser.print_help(sys.stderr)
        raise UsageError("a verb is missing")
    if words[:2] == ["perf", "diff"]:
        words = ["perf diff", *words[2:]]
    if words[0] not in parsers and not words[0].startswith("-"):
        near = get_close_matches(words[0], parsers, 1)
        other = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(parsers)}"
        hint = upstream.VERBS.get(words[0], other)
        raise UsageError(f"unknown verb {words[0]!r}; {hint}")
    args, rest = parser.parse_known_args(words)
    if rest:
        parsers[args.verb].refuse(rest, parsers)
    args.words = words
    if args.json and getattr(args, "format", None):
        parsers[args.verb].error(f"--json and --{args.format} ask for two forms of one answer")
    return args


def answer(args: argparse.Namespace) -> int:
    """The verb's result, written where it belongs; errors become exit codes."""
    try:
        for path in (args.output, getattr(args, "trace", None)):
            check_writable(path)
        result: Result = args.run(args)
        write(result.rendered(args.json), args.output)
        return result.code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        return fail(error, code_of(error), args.json)


def code_of(error: Exception) -> Exit:
    """The exit code of an error: the first kind in CODES that it is of."""
    return next((code for kinds, code in CODES.items() if isinstance(error, kinds)), Exit.INTERNAL)


def fail(error: Exception, code: Exit, as_json: bool) -> int:
    """Say what went wrong on standard error; with `--json` as a document on standard output too."""
    log.debug("what went wrong:", exc_info=error)
    message = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    elif code is Exit.INTERNAL:
        message = f"{type(error).__name__}: {error}"
    print(f"{PROGRAM}: {coloured('error', 'bad', sys.stderr)}: {message}", file=sys.stderr)
    if as_json:
        document = {"error": {"kind": code.name.lower(), "code": int(code), "message": message}}
        print(rendered(document).decode(), end="")
    return code


def write(content: bytes, path: str | None) -> None:
    """To a file, or to standard output: there as text where that is no stream of bytes (a notebook, a test)."""
    if path:
        replace_file(path, [content])
        return
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        print(content.decode(), end="")
        return
    sys.stdout.flush()
    stream.write(content)
    stream.flush()


@contextmanager
def logging_to(file: str | None, level: str) -> Iterator[None]:
    """The engine's log on standard error or in a file while the verb runs; then everything is as before."""
    handler = logging.FileHandler(file) if file else logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    wanted = {"migraphx": LEVELS[level]} | dict.fromkeys(loggers_asked_for(), logging.DEBUG)
    before = {name: logging.getLogger(name).level for name in wanted}
    for name, number in wanted.items():
        logging.getLogger(name).setLevel(number)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
        for name, number in before.items():
            logging.getLogger(name).setLevel(number)

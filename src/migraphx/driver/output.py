"""A program in the form that was asked for."""

from __future__ import annotations

import errno
import os
from argparse import Namespace
from pathlib import Path

import migraphx
from migraphx.api.program import program
from migraphx.driver.result import Result
from migraphx.ir.program import Program
from migraphx.ir.text import program_text
from migraphx.writers import to_cpp, to_graphviz, to_json, to_netron, to_python

WRITERS = {"cpp": to_cpp, "python": to_python, "netron": to_netron, "json": to_json}


def program_result(args: Namespace, made: program, shown: Program, default: str = "text") -> Result:
    """`shown` in the form of `--graphviz`, `--cpp` ...; `--binary` is the program itself, compiled or not."""
    form = "json" if args.json else args.format or default
    if form == "binary":
        return Result(migraphx.save_buffer(made))
    if form == "text":
        return Result(program_text(shown, origins=args.debug_symbols))
    return Result(to_graphviz(shown, args.brief) if form == "graphviz" else WRITERS[form](shown))


def default_form(args: Namespace) -> str:
    """Upstream's rule: a file gets the binary form, standard output the text."""
    return "binary" if args.output else "text"


def check_writable(path: str | None) -> None:
    """OSError where a file cannot be written, said before the work that it is for."""
    if not path:
        return
    folder = Path(path).absolute().parent
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", path)
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(folder))
    written = [path] if Path(path).exists() else []
    if not written or Path(path).is_file():  # which is replaced by one that is written beside it
        written.append(os.path.dirname(os.path.realpath(path)))
    for place in written:
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, "must not be written to", place)

"""Saving and loading `.mxr` files."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from migraphx.api.functions import get_target
from migraphx.api.program import late, program, published
from migraphx.ir.program import Program
from migraphx.mxr import container
from migraphx.mxr.graph import dump
from migraphx.mxr.graph import load as load_graph
from migraphx.mxr.upstream_shapes import is_upstream
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.target import UnsupportedProcessor

log = logging.getLogger(__name__)
FORMAT = "openmgx 1"
FORMATS = ("mxr", "msgpack", "json")  # ours, and AMD's two


def save(p: program, filename: str | os.PathLike[str], format: str = "mxr", *, code: bool = False) -> None:
    """Write a program, compiled or not.

    A compiled program takes its packed weights along; `code` adds the compiled object, which `load` uses only
    where its caller says `trust_code=True`. `format` "msgpack" or "json" of an uncompiled program is AMD's. AMD's files
    cannot hold what a program was compiled to: as "msgpack", its default, a compiled program is written as "mxr",
    which `load` tells by content; as "json" it is a ValueError, as is an unknown format. OSError where it cannot be
    written; the old file stays then.
    """
    if _is_container(p, format):
        container.write(filename, *_parts(p, code))
    else:
        container.replace_file(filename, [save_buffer(p, format, code=code)])


def save_buffer(p: program, format: str = "mxr", *, code: bool = False) -> bytes:
    """What `save` would write; ValueError as there, and for `code` in one of AMD's formats."""
    if _is_container(p, format):
        return container.to_bytes(*_parts(p, code))
    if code:
        raise ValueError(f"format {format!r} holds no code: it is saved uncompiled")
    upstream = late("mxr.upstream")
    if format == "json":
        return upstream.to_json(p.graph).encode()
    return late("mxr.msgpack").pack(upstream.to_upstream(p.graph))


def load(filename: str | os.PathLike[str], format: str = "mxr", *, trust_code: bool = False) -> program:
    """Read a `.mxr` file; weights stay in the mapped file. AMD's uncompiled msgpack and JSON files are read too.

    A program that was saved compiled comes back compiled: by code from the local cache, by code of the file
    only with `trust_code`, else by compiling again, with a warning where `trust_code` was of no use. What the file is
    says its content, whatever `format`. FileError (a ValueError) where it is damaged or of another kind; OSError.
    """
    _check_format(format)
    with open(filename, "rb") as file:
        head = file.read(64)
        if is_upstream(head):
            return _from_upstream(head + file.read(), str(filename))
    return _assemble(*container.read(filename), trust_code, str(filename))


def load_buffer(data: bytes, format: str = "mxr", *, trust_code: bool = False) -> program:
    """As `load`, from memory, with the same errors."""
    _check_format(format)
    if is_upstream(data):
        return _from_upstream(data, "buffer")
    return _assemble(*container.from_bytes(data), trust_code, "buffer")


def _is_container(p: program, format: str) -> bool:
    """Whether `save` writes our own file; ValueError where the format cannot hold the program."""
    _check_format(format)
    if format == "json" and p.is_compiled():
        hint = "save clone(compiled=False), or as format 'mxr', which keeps it compiled"
        raise ValueError(f"format 'json' holds no compiled program: {hint}")
    return format == "mxr" or p.is_compiled()


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(f"format {format!r} is not known; it is one of {', '.join(FORMATS)}")


def _from_upstream(data: bytes, name: str) -> program:
    with _reading(name):
        graph = late("mxr.upstream_read").parse(data)
    return published(graph)


def _parts(p: program, code: bool) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    modules, tensors = dump(p.graph)
    metadata = {"format": FORMAT, "program": json.dumps(modules, separators=(",", ":"))}
    executable = p._executable
    if executable is not None:
        data, own = _sections(executable, p)
        places = {_place(a): name for name, a in tensors.items()}
        names: dict[str, str] = {}
        for name, array in own.items():
            if code or name.split(".")[-1] != "code":
                names[name] = places.setdefault(_place(array), f"compiled.{name}")
                tensors.setdefault(names[name], array)
        compiled = {"target": executable.target, "options": asdict(p._options), "data": data, "tensors": names}
        metadata["compiled"] = json.dumps(compiled, separators=(",", ":"))
    return tensors, metadata


def _sections(executable: Executable, p: program) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a file holds of it; the program is compiled again where the cache has lost its code meanwhile."""
    try:
        return executable.sections()
    except FileNotFoundError as error:
        log.info("%s is gone: compiling the program that is saved again", error.filename)
        return get_target(executable.target).compile(p.graph.clone(), p._options).sections()


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Errors of what a file holds name the file."""
    try:
        yield
    except (container.FileError, UnsupportedProcessor) as error:
        raise type(error)(f"{name}: {str(error).removeprefix(f'{name}: ')}") from None
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as error:
        raise container.FileError(f"{name}: malformed ({error!r})") from None
    except ValueError as error:
        raise container.FileError(f"{name}: {error}") from None


def _place(array: np.ndarray) -> tuple[Any, ...]:
    interface = array.__array_interface__
    return interface["data"][0], array.shape, array.strides, array.dtype.name


def _assemble(tensors: dict[str, np.ndarray], metadata: dict[str, str], trust_code: bool, name: str) -> program:
    if metadata.get("format") != FORMAT:
        raise container.FileError(f"{name}: not a {FORMAT!r} file (its format is {metadata.get('format')!r})")

    def graph() -> Program:
        with _reading(name):
            return load_graph(json.loads(metadata["program"]), tensors)

    made = published(graph)
    if "compiled" not in metadata:
        made.graph  # noqa: B018  # read now, so that a damaged file is refused here
        return made
    with _reading(name):
        compiled = json.loads(metadata["compiled"])
        made._options = CompileOptions.of(**compiled["options"])
        target = get_target(compiled["target"])
        made._options.check_target(target)
        own = {n: tensors[t] for n, t in compiled["tensors"].items()}
        coded = any(n.split(".")[-1] == "code" for n in own)
        trust = trust_code and coded
        made._executable = target.restore(compiled["data"], own, trust, lambda: made.graph.clone(), made._options)
    if made._executable is None and trust_code:
        why = "its code is for another processor" if coded else "it was saved without code=True and holds no code"
        log.warning("%s: %s, which trust_code would use; compiling it again", name, why)
    elif made._executable is None:
        log.info("%s: its code is not in the local cache; compiling it again", name)
    if made._executable is None:
        made._executable = target.compile(made.graph.clone(), made._options)
    return made

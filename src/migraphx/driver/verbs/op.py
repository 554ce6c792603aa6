"""List the operators, or describe one."""

from argparse import ArgumentParser, Namespace
from dataclasses import MISSING, fields
from inspect import getdoc
from typing import Any

from migraphx.driver.result import Result, UsageError
from migraphx.ir.operation import DECLARED_LATE, OPERATIONS, declaration, declare_all
from migraphx.ir.shape import Shape


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="<operator>", help="the operator to describe")
    parser.add_argument("--list", "-l", action="store_true", help="list all operators")


def run(args: Namespace) -> Result:
    declare_all()
    names = sorted({*OPERATIONS, *DECLARED_LATE})
    if args.list or not args.name:
        return Result("\n".join(names), names)
    try:
        cls = declaration(args.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    known = fields(cls)  # type: ignore[arg-type]
    meaning = getdoc(cls) or ""
    lines = [args.name, *(f"    {line}".rstrip() for line in meaning.splitlines())]
    lines.append(f"inputs: {'any number' if cls.arity is None else cls.arity}")
    defaults = {f.name: str(f.default) if isinstance(f.default, Shape) else f.default for f in known}
    attributes: list[dict[str, Any]] = [{"name": f.name, "type": str(f.type)} for f in known]
    for a in attributes:
        default = defaults[a["name"]]
        lines.append(f"{a['name']}: {a['type']}" + ("" if default is MISSING else f" = {default!r}"))
        a |= {} if default is MISSING else {"default": default}
    data = {"name": args.name, "inputs": cls.arity, "meaning": meaning, "attributes": attributes}
    return Result("\n".join(lines), data)

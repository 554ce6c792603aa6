"""List the ONNX operators that can be read, or describe one: domain, opsets, types, inputs, attributes."""

from argparse import ArgumentParser, Namespace
from typing import Any

import migraphx
from migraphx.driver.result import Result, UsageError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="<operator>", help="the operator to describe, or `domain.operator`")
    parser.add_argument("--list", "-l", action="store_true", help="list all, which is also done without a name")


def run(args: Namespace) -> Result:
    if args.list or not args.name:
        names = migraphx.get_onnx_operators()
        return Result("\n".join(names), names)
    try:
        found = migraphx.describe_onnx_operator(args.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Result("\n\n".join(map(_text, found)), found)


def _text(found: dict[str, Any]) -> str:
    lines = [found["name"], f"domain: {found['domain']}"]
    if found["versions"]:
        lines.append(f"opsets that changed it: {', '.join(map(str, found['versions']))}")
    since = found["converted_since"]
    if len(since) > 1:
        lines.append(f"converted: by opset, from {', '.join(map(str, since))} on")
    elif since:
        lines.append(f"converted: from opset {since[0]} on")
    else:
        lines.append("converted: as the standard's own function defines it")
    if found["deprecated"]:
        lines.append("deprecated: the latest opsets have it no more")
    for kind in ("inputs", "outputs"):
        for value in found.get(kind, []):
            types = ", ".join(t.removeprefix("tensor(").removesuffix(")") for t in value["types"])
            optional = " (optional)" if value["optional"] else ""
            lines.append(f"{kind[:-1]} {value['name']}{optional}" + (f": {types}" if types else ""))
    if found.get("attributes"):
        lines.append(f"attributes: {', '.join(found['attributes'])}")
    return "\n".join(lines)

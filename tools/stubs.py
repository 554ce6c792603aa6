"""Write the stubs of what is declared and not written out: `python -m tools.stubs`.

Every operator and composite of the engine is a method of the builder at run time, every acc operator a name of
`acc_ops`; builder.pyi and acc_ops/__init__.pyi say so to type checkers and editors.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from keyword import iskeyword
from pathlib import Path
from typing import Any

import migraphx.onnx.deferred  # noqa: F401  # declares the operators of models
from migraphx.ir import builder
from migraphx.ir.builder import COMPOSITES
from migraphx.ir.operation import OPERATIONS, Operation
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

SOURCE = Path(builder.__file__)
ACCEPTED = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "tuple[int, ...]": "int | Sequence[int]",
    "tuple[float, ...]": "float | Sequence[float]",
    "tuple[str, ...]": "str | Sequence[str]",
}
"""What `operation` makes an attribute of, by the annotation of its field."""
HEAD = """\
# Written by `python -m tools.stubs` from the declarations of the operators; a test holds it to them.
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from migraphx.ir.module import Instruction, Module

Value = Instruction
"""


ACC_HEAD = """\
# Written by `python -m tools.stubs` from the declarations of the acc operators; a test holds it to them.
from typing import Any

__all__: list[str]
"""


def main() -> None:
    for path, text in stubs().items():
        path.write_text(text)


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    texts = {SOURCE: [HEAD, *_own(), *_methods()], Path(str(acc_ops.__file__)): [ACC_HEAD, *_acc_operators()]}
    return {path.with_suffix(".pyi"): _formatted("\n".join(lines)) for path, lines in texts.items()}


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "stub.pyi", "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def _acc_operators() -> Iterator[str]:
    for name in acc_ops.__all__:
        parameters = []
        for p in inspect.signature(getattr(acc_ops, name)).parameters.values():
            kind = type(p.default).__name__ if isinstance(p.default, bool | str) else "Any"
            parameters.append(f"{p.name}: {kind}" + ("" if p.default is p.empty else f" = {_default(p.default)}"))
        yield f"def {name}(*, {', '.join(parameters)}) -> Any: ..."


def _own() -> Iterator[str]:
    """What builder.py itself declares, without bodies; the class comes last and stays open."""
    tree = ast.parse(SOURCE.read_text())
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(ast.AnnAssign(node.target, node.annotation, None, node.simple))
        elif isinstance(node, ast.FunctionDef):
            yield _signature(node)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (f"@{ast.unparse(d)}" for d in node.decorator_list)
            yield f"class {node.name}:"
            for item in node.body:
                if isinstance(item, ast.AnnAssign):
                    yield f"    {ast.unparse(item)}"
                elif isinstance(item, ast.FunctionDef) and item.name != "__getattr__":
                    yield f"    {_signature(item)}"


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}: ..."


def _methods() -> Iterator[str]:
    """One method for each operator and composite, by name."""
    declared = set(dir(builder.Builder))
    made = {n: _operator(n, op) for n, op in OPERATIONS.items() if n.isidentifier() and _ours(op)}
    made |= {n: _composite(n, fn) for n, fn in COMPOSITES.items() if _ours(fn)}
    for name in sorted(made.keys() - declared):
        if not iskeyword(name):
            yield f"    {made[name]}"


def _ours(declared: Any) -> bool:
    """Whether the engine declares it, and not a test that runs in the same process."""
    return declared.__module__.startswith("migraphx.")


def _operator(name: str, op: type[Operation]) -> str:
    inputs = ["*inputs: Value"] if op.arity is None else [*(f"x{k}: Value" for k in range(op.arity)), "/", "*"]
    attributes = []
    for f in fields(op):  # type: ignore[arg-type]
        type = ACCEPTED.get(str(f.type), "Any")
        attributes.append(f"{f.name}: {type}" + ("" if f.default is MISSING else f" = {_default(f.default)}"))
    takes_modules = op.infer_with is not Operation.infer_with
    modules = ["modules: Sequence[Module] = ()"] if takes_modules else []
    text = ", ".join(["self", *inputs, *attributes, *modules]).removesuffix(", *")
    return f"def {name}({text}) -> Value: ..."


def _default(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | str | tuple) or value is None else "..."


def _composite(name: str, fn: Callable[..., Any]) -> str:
    signature = inspect.signature(fn)
    parameters, starred = ["self"], False
    for p in [*signature.parameters.values()][1:]:
        if p.kind is p.KEYWORD_ONLY and not starred:
            parameters, starred = [*parameters, "*"], True
        starred |= p.kind is p.VAR_POSITIONAL
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parameters.append(f"{star}{p.name}: {p.annotation}{default}")
    return f"def {name}({', '.join(parameters)}) -> {signature.return_annotation}: ..."


if __name__ == "__main__":
    main()

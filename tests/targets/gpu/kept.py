"""What Triton's interpreter works out anew at each step, kept: it was half of the time of the kernels' tests.

Answers are those of the interpreter's own functions, which these ask once for each shape or text.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import CodeType
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from migraphx.targets.gpu.emit.source import parsing

_triton_block_type = tl.block_type.__init__
_triton_tensor = tl.tensor.__init__
_triton_broadcast = TritonSemantic.broadcast_impl_value
_triton_operands = TritonSemantic.binary_op_type_checking_impl
_triton_rewrite = interpreter.FunctionRewriter.rewrite_ast

COMPUTED = {"int1", "fp32", "fp64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
"""Names of the types that are computed in themselves."""

_shapes: dict[tuple[int, ...], tuple[Any, Any]] = {}
_tensors: dict[tuple[int, ...], dict[str, Any]] = {}
_constants: dict[tuple[Any, ...], np.ndarray | None] = {}
_codes: dict[str, CodeType] = {}


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple([s.value if isinstance(s, tl.constexpr) else s for s in shape])


def _sizes_of(type: Any) -> tuple[int, ...]:
    if not type.is_block():
        return ()
    known = vars(type).get("sizes")
    return _sizes(type.shape) if known is None else known


def _block_type(self: Any, element_ty: Any, shape: Any) -> None:
    """Its shape is checked once, and its name written when it is asked for."""
    sizes = _sizes(shape)
    if sizes not in _shapes:
        _triton_block_type(self, element_ty, shape)
        _shapes[sizes] = self.shape, self.numel
    self.element_ty, self.sizes = element_ty, sizes
    self.shape, self.numel = _shapes[sizes]


def _tensor(self: Any, handle: Any, type: Any) -> None:
    sizes = _sizes_of(type)
    known = _tensors.get(sizes)
    if known is None:
        _triton_tensor(self, handle, type)
        known = {name: value for name, value in vars(self).items() if name not in ("handle", "type", "dtype")}
        _tensors[sizes] = known
    own = vars(self)
    own.update(known)
    own["handle"], own["type"], own["dtype"] = handle, type, type.scalar


def _broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
    """Most operands have one shape already, or one is a scalar."""
    a, b = lhs.type, rhs.type
    if not a.is_block():
        return (_filled(lhs, b), rhs) if b.is_block() else (lhs, rhs)
    if not b.is_block():
        return lhs, _filled(rhs, a)
    same = a.shape is b.shape or _sizes_of(a) == _sizes_of(b)
    return (lhs, rhs) if same else _triton_broadcast(self, lhs, rhs)


def _filled(scalar: Any, like: Any) -> Any:
    """A block of the shape of `like` that holds a scalar everywhere."""
    handle, type = scalar.handle, tl.block_type(scalar.dtype, like.shape)
    full = np.full(like.shape, handle.data.item(), handle.data.dtype)
    return tl.tensor(interpreter.TensorHandle(full, handle.dtype.scalar), type)


def _operands(self: Any, lhs: Any, rhs: Any, *rules: Any, **named: Any) -> Any:
    """Most are of one type, or one is an integer that is given the type of the other."""
    if type(lhs) is tl.tensor and lhs.dtype.name in COMPUTED:
        if type(rhs) is tl.tensor and lhs.dtype.name == rhs.dtype.name:
            return self.broadcast_impl_value(lhs, rhs)
        if type(rhs) is int and (number := _constant(self, rhs, lhs.dtype, rules, named)) is not None:
            return self.broadcast_impl_value(lhs, number)
    return _triton_operands(self, lhs, rhs, *rules, **named)


def _constant(self: Any, number: int, dtype: Any, rules: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What becomes of a number beside numbers of that type; None where these become something else."""
    key = number, dtype.name, rules, *named.items()
    if key not in _constants:
        of_type, made = _triton_operands(self, self.scalar_constant(1, dtype), number, *rules, **named)
        _constants[key] = made.handle.data if of_type.dtype.name == made.dtype.name == dtype.name else None
    data = _constants[key]
    return None if data is None else tl.tensor(interpreter.TensorHandle(data, dtype), dtype)


def quick(patched: Any) -> Any:
    """What the interpreter puts in a builtin's place, without the search for an argument that it always gives."""
    builtin = (getattr(patched, "__kwdefaults__", None) or {}).get("member")
    if builtin is None:
        return patched
    function: Any = vars(builtin).get("__wrapped__", builtin)

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = interpreter.interpreter_semantic
        return function(*args, **kwargs)

    return call


def _rewrite(self: Any) -> Any:
    """Kernels' texts repeat the functions of gpu/kernels: each is rewritten and compiled once."""
    code = self.fn.__code__
    with parsing():
        text = _functions(code.co_filename).get(code.co_firstlineno)
        if text is None:
            return _triton_rewrite(self)
        if text not in _codes:
            tree = ast.fix_missing_locations(self.ast_transformer.visit(ast.parse(dedent(text))))
            _codes[text] = compile(ast.increment_lineno(tree, code.co_firstlineno), code.co_filename, "exec")
    given, names = self.fn.__globals__, dict(self.kwargs)
    if "FunctionRewriter" not in given:
        given.update({name: value for name, value in vars(interpreter).items() if name not in given})
    exec(_codes[text], given, names)
    return names[self.fn.__name__]


@cache
def _functions(path: str) -> dict[int, str]:
    """The functions of a file without their decorators, by the lines on which they begin with them."""
    source = Path(path).read_text()
    lines, found = source.splitlines(keepends=True), {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[first] = "".join(lines[node.lineno - 1 : node.end_lineno])
    return found


KEPT: list[tuple[Any, str, Any]] = [
    (tl.block_type, "__init__", _block_type),
    (tl.block_type, "name", property(lambda self: f"<{self.shape}, {self.element_ty}>", lambda self, name: None)),
    (tl.tensor, "__init__", _tensor),
    (TritonSemantic, "broadcast_impl_value", _broadcast),
    (TritonSemantic, "binary_op_type_checking_impl", _operands),
    (interpreter.FunctionRewriter, "rewrite_ast", _rewrite),
]

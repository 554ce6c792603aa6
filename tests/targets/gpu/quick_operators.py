"""Operators of Triton's tensors in its interpreter, as one call of NumPy where both operands have one type.

For anything else (types to be converted, halves, errors) they ask the interpreter's own: a third of the time of the
kernels' tests was its search for what there was to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from tests.targets.gpu.kept import COMPUTED

FLOATS = {"fp32", "fp64"}
INTEGERS = COMPUTED - FLOATS


def _quotient(a: Any, b: Any) -> Any:
    """Rounded towards zero, as create_idiv says."""
    return (a - np.fmod(a, b)) // b


COMPARISONS: dict[str, Any] = {
    "__lt__": np.less, "__le__": np.less_equal, "__gt__": np.greater, "__ge__": np.greater_equal,
    "__eq__": np.equal, "__ne__": np.not_equal,
}  # fmt: skip
DIVISIONS = {"__floordiv__", "__mod__", "__truediv__"}
OPERATORS: dict[str, tuple[Any, set[str]]] = {
    "__add__": (np.add, COMPUTED), "__radd__": (np.add, COMPUTED),
    "__sub__": (np.subtract, COMPUTED),
    "__mul__": (np.multiply, COMPUTED), "__rmul__": (np.multiply, COMPUTED),
    "__floordiv__": (_quotient, INTEGERS), "__mod__": (np.fmod, INTEGERS), "__truediv__": (np.divide, FLOATS),
    "__and__": (np.bitwise_and, INTEGERS), "__or__": (np.bitwise_or, INTEGERS),
    **{name: (function, COMPUTED) for name, function in COMPARISONS.items()},
}  # fmt: skip
"""What an operator is in NumPy, and of which types."""

_blocks: dict[tuple[str, tuple[int, ...]], Any] = {}
_numbers: dict[tuple[str, str, str], np.ndarray | None] = {}


def shortened(name: str, slow: Any) -> Any:
    """The method of tensors that `slow` interprets."""
    if name == "__getitem__":
        return _indexing(slow)
    if name not in OPERATORS:
        return slow
    function, kinds = OPERATORS[name]

    def operator(self: Any, other: Any) -> Any:
        number = other.value if type(other) is tl.constexpr else other
        theirs, of = None, self.dtype
        if of.name in kinds:
            if type(number) is tl.tensor:
                theirs = number.handle.data if number.dtype.name == of.name else None
            elif type(number) in (int, float):
                theirs = _number(number, of, name)
        elif name == "__add__" and of.is_ptr() and type(number) is tl.tensor and number.dtype.name in INTEGERS:
            width = max(1, of.element_ty.primitive_bitwidth // 8)
            return _tensor(self, number, self.handle.data + width * number.handle.data.astype(np.uint64), of)
        if theirs is None or theirs.dtype != self.handle.data.dtype:
            return slow(self, other)
        return _tensor(self, number, function(self.handle.data, theirs), tl.int1 if name in COMPARISONS else of)

    return operator


def _tensor(self: Any, other: Any, data: Any, scalar: Any) -> Any:
    """What an operator of `self` and `other` computed."""
    handle = object.__new__(interpreter.TensorHandle)
    vars(handle).update(data=data, dtype=self.handle.dtype.scalar, attr={})
    tensors: list[Any] = [self, other] if type(other) is tl.tensor else [self]
    of_blocks = any(x.type.is_block() for x in tensors)
    return tl.tensor(handle, _block(scalar, data.shape) if of_blocks else scalar)


def _block(scalar: Any, shape: tuple[int, ...]) -> Any:
    key = scalar.name, shape
    if key not in _blocks:
        _blocks[key] = tl.block_type(scalar, list(shape))
    return _blocks[key]


def _number(number: float, of: Any, name: str) -> np.ndarray | None:
    """What becomes of a number beside numbers of a type; None where these become something else."""
    key = repr(number), of.name, name
    if key not in _numbers:
        semantic = interpreter.interpreter_semantic
        given = semantic.to_tensor(number) if name in COMPARISONS else number
        beside = semantic.scalar_constant(1, of)
        both = semantic.binary_op_type_checking_impl(beside, given, div_or_mod=name in DIVISIONS)
        _numbers[key] = both[1].handle.data if {t.dtype.name for t in both} == {of.name} else None
    return _numbers[key]


def _indexing(slow: Any) -> Any:
    def indexed(self: Any, slices: Any) -> Any:
        """Axes of one element where an index is None."""
        at = tuple(slices.values if isinstance(slices, tl.tuple) else slices) if _several(slices) else (slices,)
        at = tuple(s.value if type(s) is tl.constexpr else s for s in at)
        if not self.type.is_block() or not all(s is None or s == slice(None) for s in at):
            return slow(self, slices)
        data = self.handle.data[at]
        return _tensor(self, None, data, self.dtype)

    return indexed


def _several(slices: Any) -> bool:
    return isinstance(slices, (tuple, list, tl.tuple))

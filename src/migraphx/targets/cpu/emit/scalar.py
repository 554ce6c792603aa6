"""The words of pointwise bodies as C++ text on the vectors of kernels/math.hpp."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.ir.size import Size
from migraphx.ops.scalar import VOCABULARY

STORAGE_TYPES = {
    "bool": "bool",
    "half": "mgx::half",
    "bf16": "mgx::bf16",
    "float": "float",
    "double": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{t: f"mgx::{t}" for t in dtypes.NUMPY_TYPES if t.startswith("fp") or t in dtypes.NARROW_INTEGERS},
    "fp4x2": "uint8_t",  # which is not computed with
}
"""MIGraphX's type name -> the C++ type of elements in memory."""

NARROW = {type: STORAGE_TYPES[type] for type in (*dtypes.NARROW_FLOATS, *dtypes.NARROW_INTEGERS)}
COMPUTE_TYPES = STORAGE_TYPES | {
    type: "float" if type in dtypes.FLOATS else STORAGE_TYPES[dtypes.NARROW_INTEGERS[type]] for type in NARROW
}
"""MIGraphX's type name -> the C++ type of the lanes that are computed with."""

OPERATORS = {"add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "neg": "(-{})"}
RENAMED = {
    "equal": "eq",
    "less": "lt",
    "greater": "gt",
    "bitwise_and": "bit_and",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "bitwise_not": "bit_not",
    "shift_left": "shl",
    "shift_right": "shr",
}
TEMPLATES = {
    word: OPERATORS.get(word) or f"mgx::{RENAMED.get(word, word)}({', '.join(['{}'] * arity)})"
    for word, (arity, _) in VOCABULARY.items()
    if word not in ("add", "const", "cast")
}
PLUS_ONE = re.compile(r"mgx::(erf|tanh)\((\w+)\)")
SIGMOID = re.compile(r"mgx::sigmoid\((\w+)\)")
ONE = re.compile(r"mgx::(?:splat<\w+>\(|fill\(\w+, )1(?:\.0)?\)")


def cpp_type(table: dict[str, str], type: str) -> str:
    """The C++ type of a MIGraphX type; ValueError for those that the CPU kernels do not have."""
    if type not in table:
        raise ValueError(f"the CPU kernels have no type {type!r}; they have {', '.join(table)}")
    return table[type]


def constant_text(value: Any) -> str:
    """A number as an exact C++ constant: of type double for floats, else an integer type."""
    if isinstance(value, (bool, Size)):
        return str(int(value))
    if isinstance(value, int):
        if value >= 2**63:
            return f"{value}ull"
        return str(value) if value > -(2**63) else "(-9223372036854775807 - 1)"
    value = float(value)
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)


class CppScalar:
    """Every word gives the text of a C++ expression on vectors, from the texts of its operands.

    `bind` sees each text and returns what stands for it further on; the text itself where it is absent. `text` is the
    way back.
    Codegen binds each one to a variable, so that a value used twice is computed once:

        s = CppScalar(lambda text: f.variable(text));  op.apply(s, "x0", "x1")
    """

    def __init__(self, bind: Callable[[str], str] | None = None, text: Callable[[str], str] = str) -> None:
        self.bind, self.text = bind or str, text

    def __getattr__(self, word: str) -> Callable[..., str]:
        template = TEMPLATES.get(word)
        if template is None:
            raise AttributeError(f"no scalar word {word!r}")
        return lambda *operands: self.bind(template.format(*operands))

    def add(self, a: str, b: str) -> str:
        """a + b; 1 + erf(x) and 1 + tanh(x), as GELUs have them, are words of their own."""
        for one, other in ((a, b), (b, a)):
            word = PLUS_ONE.fullmatch(self.text(other))
            if word and ONE.fullmatch(self.text(one)):
                return self.bind(f"mgx::one_plus_{word[1]}({word[2]})")
        return self.bind(OPERATORS["add"].format(a, b))

    def mul(self, a: str, b: str) -> str:
        """a * b; a product with a sigmoid, as SiLU and gates are, is a word of its own."""
        for factor, other in ((a, b), (b, a)):
            if word := SIGMOID.fullmatch(self.text(other)):
                return self.bind(f"mgx::times_sigmoid({factor}, {word[1]})")
        return self.bind(OPERATORS["mul"].format(a, b))

    def const(self, like: str, value: Any) -> str:
        return self.bind(f"mgx::fill({like}, {constant_text(value)})")

    def cast(self, a: str, type: str) -> str:
        if type in NARROW:
            return self.bind(f"mgx::round_to<{NARROW[type]}>({a})")
        return self.bind(f"mgx::cast<{cpp_type(COMPUTE_TYPES, type)}>({a})")

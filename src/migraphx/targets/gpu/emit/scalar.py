"""The words of pointwise bodies as Triton text, and the types of Triton."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.ops.scalar import VOCABULARY

INTEGERS = {f"{sign}int{bits}": f"{sign[:1] or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
STORAGE_TYPES = {
    "half": "fp16",
    "bf16": "bf16",
    "float": "fp32",
    "double": "fp64",
    **INTEGERS,
    **{type: "u8" for type in dtypes.NUMPY_TYPES if type.startswith("fp") or type in ("bool", "uint4", "uint2")},
    **dict.fromkeys(("int4", "int2"), "i8"),
}
"""MIGraphX's type name -> Triton's spelling of elements in memory. What only some chips have is bytes."""

COMPUTE_TYPES = {
    **dict.fromkeys(dtypes.NARROW_FLOATS | {"float"}, "tl.float32"),
    "double": "tl.float64",
    "bool": "tl.int1",
    **{type: f"tl.{type}" for type in INTEGERS},
    **{type: f"tl.{wide}" for type, wide in dtypes.NARROW_INTEGERS.items()},
}
"""MIGraphX's type name -> the type of values that are computed with."""

NARROW = frozenset((*dtypes.NARROW_FLOATS, *dtypes.NARROW_INTEGERS, "bool"))
"""Types whose elements in memory are of another type than the values that are computed with."""

PLAIN = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "equal": "({} == {})",
    "less": "({} < {})",
    "greater": "({} > {})",
    "isnan": "({0} != {0})",
    "isinf": '(tl.abs({}) == float("inf"))',
    "logical_and": "(as_bool({}) & as_bool({}))",
    "logical_or": "(as_bool({}) | as_bool({}))",
    "logical_xor": "(as_bool({}) ^ as_bool({}))",
    "logical_not": "(as_bool({}) == 0)",
    "bitwise_and": "({} & {})",
    "bitwise_or": "({} | {})",
    "bitwise_xor": "({} ^ {})",
    "bitwise_not": "(-{} - 1)",
    "where": "tl.where({}, {}, {})",
}
TEMPLATES = {
    word: PLAIN.get(word) or f"scalar_{word}({', '.join(['{}'] * arity)})"
    for word, (arity, _) in VOCABULARY.items()
    if word not in ("const", "cast")
}
"""Each word that Triton has as it is meant, or the function of kernels/ that has its name."""

SIXTEEN = frozenset({"half", "bf16"})

APPROXIMATE = {
    "div": "fast_div({}, {})",
    "recip": "(1.0 / {})",
    "rsqrt": "tl.rsqrt({})",
    "sqrt": "tl.sqrt({})",
    "exp": "fast_exp({})",
    "sigmoid": "fast_sigmoid({})",
    "erf": "fast_erf({})",
}
"""Words in a few instructions, to 1e-5 (erf: to 4e-5 of 1): for bodies whose floats are all rounded to 16 bits."""


def triton_type(table: dict[str, str], type: str) -> str:
    """Triton's type of a MIGraphX type; ValueError for those that the GPU kernels do not have."""
    if type not in table:
        raise ValueError(f"the GPU kernels have no type {type!r}; they have {', '.join(table)}")
    return table[type]


def constant_text(value: Any, type: str) -> str:
    """A number as an exact scalar of one of Triton's types, such as tl.float32 or x.dtype."""
    if isinstance(value, (bool, int)):
        return f"tl.full([], {value}, {type})"
    value = float(value)
    if math.isnan(value):
        return f'tl.full([], float("nan"), {type})'
    if math.isinf(value):
        return f'tl.full([], float("{value}"), {type})'
    if value == 0 and math.copysign(1, value) < 0:
        return f"scalar_neg(tl.full([], 0.0, {type}))"
    return f"tl.full([], {value!r}, {type})"


class TritonScalar:
    """Every word gives the text of a Triton expression on blocks, from the texts of its operands.

    `bind` sees each text and returns what stands for it further on. `approximate`: words may be as in APPROXIMATE.
    `codes`: what is rounded, and floats that become int32, are numbers of few bits, so that one step does for both.
    """

    def __init__(
        self, bind: Callable[[str], str] | None = None, approximate: bool = False, codes: bool = False
    ) -> None:
        self.bind = bind or str
        self.approximate, self.codes = approximate, codes

    def nearbyint(self, a: str) -> str:
        return a if self.codes else self.bind(TEMPLATES["nearbyint"].format(a))

    def __getattr__(self, word: str) -> Callable[..., str]:
        template = TEMPLATES.get(word)
        if template is None:
            raise AttributeError(f"no scalar word {word!r}")
        if self.approximate:
            template = APPROXIMATE.get(word, template)
        return lambda *operands: self.bind(template.format(*operands))

    def const(self, like: str, value: Any) -> str:
        return self.bind(constant_text(value, f"{like}.dtype"))

    def cast(self, a: str, type: str) -> str:
        triton_type(COMPUTE_TYPES, type)
        if self.approximate and type in SIXTEEN:
            return self.bind(f"{a}.to(tl.float32)")  # as other words of these types, which round nothing on the way
        if self.codes and type == "int32":
            return self.bind(f"nearest({a})")
        return self.bind(f'convert({a}, "{type}")')

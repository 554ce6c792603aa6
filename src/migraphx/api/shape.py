"""`migraphx.shape`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from operator import index
from typing import Any

from migraphx.api.symbolic import expression
from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import DynamicDimension, Shape, permuted
from migraphx.ir.size import Size
from migraphx.mxr.upstream_shapes import TYPES, shape_data, shape_of

_NAMES = dict.fromkeys((*TYPES, "tuple", "fp4x2", *dtypes.NUMPY_TYPES))  # upstream's order, then ours
_OF_CPP = {
    **{f"{name}_t": name for name in _NAMES if "int" in name},
    **{f"fp8::{name}": name for name in _NAMES if name.startswith("fp8")},
}
"""Element types as C++ calls them, where that is another name: `int64_t`."""


class _IntConvertibleEnum(Enum):
    """Members are upstream's numbers too: `int(member)`."""

    def __int__(self) -> int:
        return self.value


type_t: Any = _IntConvertibleEnum("type_t", {f"{name}_type": number for number, name in enumerate(_NAMES)})


class dynamic_dimension:
    """A dimension known only at run time: `min` <= n <= `max`, with preferred sizes `optimals`.

    Or an expression of named dimensions, `dynamic_dimension("n * 3", {"n": dynamic_dimension(1, 8)})`. In a run the
    dimensions of one expression have one length; what one expression says about another is not checked.

    TypeError for what is no whole number; ValueError where the three do not fit together, or for no such expression.
    """

    def __init__(
        self, min: int | str = 0, max: int | Mapping[str, dynamic_dimension] = 0, optimals: Iterable[int] = ()
    ) -> None:
        if isinstance(min, str):
            if not isinstance(max, Mapping):
                raise TypeError(f"dynamic_dimension: {min!r} needs a mapping of its names, got {max!r}")
            self._impl = expression(min, {name: d._impl for name, d in max.items()})
            return
        if isinstance(max, Mapping):
            raise TypeError(f"dynamic_dimension: an expression must be a string, got {min!r}")
        least, most = _whole("dynamic_dimension: min and max", (min, max))
        chosen = _whole("dynamic_dimension: optimals", optimals)
        self._impl = DynamicDimension(least, most, tuple(sorted({*chosen})))

    @property
    def min(self) -> int:
        """The least length."""
        return self._impl.min

    @property
    def max(self) -> int:
        """The largest length."""
        return self._impl.max

    @property
    def optimals(self) -> set[int]:
        """The preferred lengths."""
        return set(self._impl.optimals)

    def is_fixed(self) -> bool:
        """Whether only one length is possible."""
        return self._impl.is_fixed

    def is_symbolic(self) -> bool:
        """Whether it has a name, or is an expression of names."""
        return bool(self._impl.symbol)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dynamic_dimension) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return f"dynamic_dimension({self.min}, {self.max}, {sorted(self.optimals)})"


class shape:
    """Element type, lens and strides (in elements) of a value.

    A dynamic shape has `dyn_dims` instead: asking it for what only lens can tell is a ValueError; `bytes` is the most
    that it takes. TypeError for lens, strides and dimensions of another kind; ValueError for an unknown type, negative
    lengths, and what cannot be given together.
    """

    type_t = type_t
    dynamic_dimension = dynamic_dimension
    __slots__ = ("_impl",)

    def __init__(
        self,
        type: str | Enum = "float",
        lens: Sequence[int] = (1,),
        strides: Sequence[int] | None = None,
        permutation: Sequence[int] | None = None,
        dyn_dims: Sequence[dynamic_dimension] | None = None,
    ) -> None:
        given = type.name if isinstance(type, Enum) else type
        if not isinstance(given, str):
            raise TypeError(f"shape: type must be a name or a shape.type_t, got {given!r}")
        name = _OF_CPP.get(given, given.removesuffix("_type"))
        if strides is not None and permutation is not None:
            raise ValueError("shape: give strides or a permutation, not both")
        if dyn_dims and (tuple(lens) != (1,) or strides is not None or permutation is not None):
            raise ValueError("shape: give dyn_dims or lens (with strides or a permutation), not both")
        if dyn_dims:
            self._impl = Shape(name, dyn_dims=_ranges(dyn_dims))
        elif permutation is not None:
            whole, order = _whole("shape: lens", lens), _whole("shape: permutation", permutation)
            if sorted(order) != list(range(len(whole))):
                raise ValueError(f"shape: {list(order)} is no permutation of {len(whole)} dimensions")
            self._impl = permuted(name, whole, order)
        else:
            steps: Any = None if strides is None else _whole("shape: strides", strides)
            self._impl = Shape(name, _whole("shape: lens", lens), steps)

    @staticmethod
    def from_json(text: str) -> shape:
        """The shape of upstream's JSON; ValueError where it is none."""
        try:
            return wrap(shape_of(json.loads(text)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"shape.from_json: {text!r} holds no shape: {error!r}") from None

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(shape_data(self._impl))

    def sub_shapes(self) -> list[shape]:
        """The shapes in a tuple; none for others."""
        return [wrap(s) for s in self._impl.sub_shapes]

    def type(self) -> Enum:
        """The element type, a member of `shape.type_t`."""
        return getattr(type_t, f"{self._impl.type}_type")

    def lens(self) -> list[int]:
        """The length of each dimension."""
        return list(self._static("lens").lens)

    def strides(self) -> list[int]:
        """The stride of each dimension, in elements."""
        return list(self._static("strides").strides)

    def ndim(self) -> int:
        """The number of dimensions."""
        return self._impl.ndim

    def elements(self) -> int:
        """The number of elements."""
        return self._static("elements").elements

    def bytes(self) -> int:
        """The bytes that the elements take; of a dynamic shape at most."""
        return sum(map(_most_bytes, self._impl.sub_shapes or (self._impl,)))

    def type_string(self) -> str:
        """The element type by name, such as "float_type"."""
        return f"{self._impl.type}_type"

    def type_size(self) -> int:
        """The bytes of one element."""
        return self._impl.numpy_dtype.itemsize

    def dyn_dims(self) -> list[dynamic_dimension]:
        """The dimensions of a dynamic shape; none for others."""
        return [_dimension(d) for d in self._impl.dyn_dims]

    def packed(self) -> bool:
        """Whether the elements fill their memory, in any order of dimensions."""
        return not self._impl.dynamic and self._impl.packed

    def transposed(self) -> bool:
        """Whether the strides are not in descending order."""
        return self._static("transposed").transposed

    def broadcasted(self) -> bool:
        """Whether the stride of a dimension longer than 1 is 0."""
        return self._static("broadcasted").broadcasted

    def standard(self) -> bool:
        """Whether it is row-major without gaps."""
        return not self._impl.dynamic and self._impl.standard

    def scalar(self) -> bool:
        """Whether every stride is 0, or there is one element."""
        return not self._impl.dynamic and self._impl.scalar

    def dynamic(self) -> bool:
        """Whether a length is known only at run time."""
        return self._impl.dynamic

    def _static(self, asked: str) -> Shape:
        if self._impl.dynamic:
            raise ValueError(f"{asked}() of a dynamic shape: {self}")
        return self._impl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, shape) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return str(self._impl)


def _whole(what: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(v if isinstance(v, Size) else index(v) for v in values)
    except TypeError:
        raise TypeError(f"{what} must be a sequence of integers, got {values!r}") from None


def _ranges(dims: Sequence[dynamic_dimension]) -> tuple[DynamicDimension, ...]:
    if not isinstance(dims, Sequence) or not all(isinstance(d, dynamic_dimension) for d in dims):
        raise TypeError(f"shape: dyn_dims must be a sequence of shape.dynamic_dimension, got {dims!r}")
    return tuple(d._impl for d in dims)


def _dimension(impl: DynamicDimension) -> dynamic_dimension:
    made = dynamic_dimension.__new__(dynamic_dimension)
    made._impl = impl
    return made


def _most_bytes(s: Shape) -> int:
    return math.prod(d.max for d in s.dyn_dims) * s.numpy_dtype.itemsize if s.dyn_dims else s.bytes


def wrap(impl: Shape) -> shape:
    """The public face of an engine shape."""
    made = shape.__new__(shape)
    made._impl = impl
    return made

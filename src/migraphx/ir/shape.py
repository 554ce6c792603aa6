"""Shape: element type, lens and strides, as in MIGraphX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.size import bounds_of, is_open, ones_matter, whole

ROW_MAJOR: Any = None  # the strides of a Shape that is given none


@dataclass(frozen=True)
class DynamicDimension:
    """A dimension known only at run time: min <= n <= max, with preferred sizes `optimals`.

    Parameters' dimensions of one `symbol` have one length (ONNX dim_param); it is neither printed nor compared.
    """

    min: int
    max: int
    optimals: tuple[int, ...] = ()
    symbol: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min <= self.max:
            raise ValueError(f"dynamic dimension needs 0 <= min <= max, got [{self.min}, {self.max}]")
        if any(not self.min <= n <= self.max for n in self.optimals):
            raise ValueError(f"optimals {self.optimals} are not all in [{self.min}, {self.max}]")

    @property
    def is_fixed(self) -> bool:
        return self.min == self.max

    def __str__(self) -> str:
        return f"[{self.min}, {self.max}, {{{', '.join(map(str, self.optimals))}}}]"


def standard_strides(lens: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(lens):
        strides.append(step)
        step *= n if n else 1
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Shape:
    """Type, lens and strides (in elements) of one value; or a tuple of shapes.

    A stride of 0 marks a broadcast dimension. `dyn_dims`, when given, replaces lens and strides.
    """

    type: str = "float"
    lens: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = ROW_MAJOR
    dyn_dims: tuple[DynamicDimension, ...] = ()
    sub_shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        if self.type not in dtypes.NUMPY_TYPES and self.type != "tuple":
            object.__setattr__(self, "type", dtypes.from_numpy(dtypes.to_numpy(self.type)))
        lens = () if self.dyn_dims or self.type == "tuple" else tuple(whole(n) for n in self.lens)
        if any(n < 0 for n in lens):
            raise ValueError(f"shape: negative length in {lens}")
        count = math.prod(lens) or math.prod(n or 1 for n in lens)  # beside one of 0 NumPy counts the other lengths too
        if count >= 2**63:
            raise ValueError(f"shape: more than 2**63 elements in {lens}")
        given = self.strides if self.strides is not ROW_MAJOR else standard_strides(lens)
        strides = () if self.dyn_dims or self.type == "tuple" else tuple(whole(s) for s in given)
        if len(strides) != len(lens):
            raise ValueError(f"shape: {len(lens)} lens but {len(strides)} strides")
        if any(s < 0 for s in strides):
            raise ValueError(f"shape: negative stride in {strides}")
        object.__setattr__(self, "lens", lens)
        object.__setattr__(self, "strides", strides)
        if bounds_of(count)[1] >= 2**31 or any(bounds_of(s)[1] >= 2**24 for s in strides):  # less never gets so far
            self._check_bytes()

    def _check_bytes(self) -> None:
        """ValueError where memory for the shape has more bytes than an address can count."""
        reach = sum((max(n, 1) - 1) * s for n, s in zip(self.lens, self.strides, strict=True))
        if (1 + reach) * self.numpy_dtype.itemsize >= 2**63:
            raise ValueError(f"shape: more than 2**63 bytes in {self}")

    @classmethod
    def of(cls, array: np.ndarray) -> Shape:
        """The shape of an array with its strides; ValueError where one is no whole number of elements."""
        return _of_array(array.dtype, array.shape, array.strides)

    @classmethod
    def of_dims(cls, type: str, dims: Sequence[int | DynamicDimension]) -> Shape:
        """Row-major where every dimension is a length or fixed, else dynamic."""
        ranges = [d if isinstance(d, DynamicDimension) else DynamicDimension(d, d) for d in dims]
        if all(d.is_fixed for d in ranges):
            return cls(type, tuple(d.min for d in ranges))
        return cls(type, dyn_dims=tuple(ranges))

    @classmethod
    def tuple_of(cls, shapes: Iterable[Shape]) -> Shape:
        return cls("tuple", sub_shapes=tuple(shapes))

    @cached_property
    def numpy_dtype(self) -> np.dtype:
        return dtypes.to_numpy(self.type)

    @property
    def ndim(self) -> int:
        return len(self.dyn_dims or self.lens)

    @property
    def dynamic(self) -> bool:
        return bool(self.dyn_dims) or any(s.dynamic for s in self.sub_shapes)

    @cached_property
    def elements(self) -> int:
        return math.prod(self.lens)

    @cached_property
    def element_space(self) -> int:
        """Elements from the first to the last one reached, both included."""
        if not self.elements:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.lens, self.strides, strict=True))

    @cached_property
    def bytes(self) -> int:
        if self.type == "tuple":
            return sum(s.bytes for s in self.sub_shapes)
        return self.element_space * self.numpy_dtype.itemsize

    @property
    def packed(self) -> bool:
        """Every element of the span is used exactly once, in any order of dimensions."""
        return self.type != "tuple" and self.elements == self.element_space and not self.broadcasted

    @property
    def broadcasted(self) -> bool:
        return any(s == 0 and n > 1 for n, s in zip(self.lens, self.strides, strict=True))

    @cached_property
    def row_major(self) -> bool:
        """Whether its strides are those of a new array of these lens."""
        return self.strides == standard_strides(self.lens)

    @cached_property
    def standard(self) -> bool:
        """Row-major and packed; strides of dimensions of length 1 do not matter."""
        dims = zip(self.lens, self.strides, standard_strides(self.lens), strict=True)
        return not self.elements or all(n == 1 or given == want for n, given, want in dims)

    @property
    def transposed(self) -> bool:
        steps = [s for n, s in zip(self.lens, self.strides, strict=True) if n > 1 and s]
        return steps != sorted(steps, reverse=True)

    @property
    def scalar(self) -> bool:
        return not any(self.strides) or self.lens in ((), (1,))

    @property
    def permutation(self) -> tuple[int, ...]:
        """Dimensions from the outermost in memory to the innermost; ties keep their order."""
        return tuple(sorted(range(self.ndim), key=lambda d: (-self.strides[d], -self.lens[d], d)))

    def with_type(self, type: str) -> Shape:
        return replace(self, type=type)

    def as_standard(self) -> Shape:
        return self if self.type == "tuple" or self.dyn_dims else Shape(self.type, self.lens)

    def to_data(self) -> dict[str, Any]:
        """As JSON holds it."""
        if self.sub_shapes:
            return {"sub_shapes": [s.to_data() for s in self.sub_shapes]}
        if self.dyn_dims:
            return {"type": self.type, "dyn_dims": [[d.min, d.max, list(d.optimals), d.symbol] for d in self.dyn_dims]}
        return {"type": self.type, "lens": list(self.lens), "strides": list(self.strides)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Shape:
        """What `to_data` gave; KeyError, TypeError or ValueError where it is damaged."""
        if "sub_shapes" in data:
            return cls.tuple_of(cls.from_data(s) for s in data["sub_shapes"])
        if "dyn_dims" in data:
            dims = (DynamicDimension(a, b, tuple(o), *map(str, symbol)) for a, b, o, *symbol in data["dyn_dims"])
            return cls(data["type"], dyn_dims=tuple(dims))
        return cls(data["type"], tuple(data["lens"]), tuple(data["strides"]))

    def __str__(self) -> str:
        if self.dyn_dims:
            return f"dynamic, {self.type}_type, {{{', '.join(map(str, self.dyn_dims))}}}"
        if self.type == "tuple":
            return f"tuple_type({'; '.join(map(str, self.sub_shapes))})"
        lens, strides = (", ".join(map(str, v)) for v in (self.lens, self.strides))
        return f"{self.type}_type, {{{lens}}}, {{{strides}}}"


UNBOUNDED = 2**63 - 1
UNKNOWN = Shape("tuple", dyn_dims=(DynamicDimension(0, UNBOUNDED),))
"""Of a value of which nothing is known before a run: not its type, not its rank, not even whether it is a sequence."""


def permuted(type: str, lens: Sequence[int], permutation: Sequence[int]) -> Shape:
    """The packed shape of `lens` whose memory order is `permutation` (outermost dimension first)."""
    steps = standard_strides([lens[d] for d in permutation])
    strides = [0] * len(lens)
    for d, s in zip(permutation, steps, strict=True):
        strides[d] = s
    return Shape(type, tuple(lens), tuple(strides))


def broadcast_lens(*lens: Sequence[int]) -> tuple[int, ...]:
    """The lens of values of these lens together, by NumPy's rules; ValueError where they do not fit."""
    if not any(is_open(own) for own in lens):
        return np.broadcast_shapes(*(tuple(own) for own in lens))
    rank = max(map(len, lens), default=0)
    made: list[int] = []
    with ones_matter(False):
        for column in zip(*((1,) * (rank - len(own)) + tuple(own) for own in lens), strict=True):
            length = next((n for n in column if n != 1), 1)
            if any(n not in (1, length) for n in column):
                raise ValueError(f"shapes {', '.join(map(str, lens))} cannot be broadcast together")
            made.append(length)
    return tuple(made)


def elementwise(type: str, inputs: Sequence[Shape]) -> Shape:
    """The shape of an elementwise result: the layout its packed inputs share, else row-major.

    An input that is broadcast or not packed has no say in the layout. Where none is packed, channels of an image that
    are cut from others stay innermost.
    """
    lens = inputs[0].lens
    packed = [s for s in inputs if s.packed] or _images([s for s in inputs if not s.broadcasted])
    same = all(a == b or n == 1 for s in packed for n, a, b in zip(lens, s.strides, packed[0].strides, strict=True))
    if packed and same:  # strides of dimensions of length 1 do not matter
        return Shape(type, lens, max(s.strides for s in packed))
    return Shape(type, lens)


def _images(shapes: Sequence[Shape]) -> list[Shape]:
    """Values with gaps, as packed images with channels last; none where one of them is no such image."""
    rank = shapes[0].ndim if shapes else 0
    order = (0, *range(2, rank), 1)
    last = rank >= 3 and all(s.permutation == order for s in shapes)
    return [permuted(s.type, s.lens, order) for s in shapes] if last else []


def native(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy where no shape can state its byte order or its strides."""
    if array.dtype.isnative and all(s >= 0 and s % array.itemsize == 0 for s in array.strides):
        return array
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


@lru_cache(4096)
def _of_array(dtype: np.dtype, lens: tuple[int, ...], strides: tuple[int, ...]) -> Shape:
    """Kept: a run asks it of each array that it is given, and programs see the same ones again and again."""
    size = dtype.itemsize
    if any(s % size or s < 0 for s in strides):
        raise ValueError(f"array strides {strides} are negative or no multiples of {size} bytes: copy it first")
    return Shape(dtypes.from_numpy(dtype), lens, tuple(s // size for s in strides))


def strided(flat: np.ndarray, shape: Shape) -> np.ndarray:
    """A one-dimensional array seen through the lens and strides of `shape`."""
    if shape.row_major or not shape.elements:
        return flat[: shape.elements].reshape(shape.lens)
    strides = [s * flat.itemsize for s in shape.strides]
    return np.ndarray(shape.lens, flat.dtype, flat, strides=strides)

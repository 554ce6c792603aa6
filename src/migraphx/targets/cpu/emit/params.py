"""The parameters of kernels: a declaration gives the text of a call and the numbers that it reads.

A kernel reads the numbers of its call as `a[0], a[1], ...`. `Numbers` gives them out in order, so that nobody counts,
and a `Params` is a struct of a header, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, dataclass_transform, get_args, get_origin, get_type_hints

from migraphx.ir.size import whole
from migraphx.targets.common.views import Loops
from migraphx.targets.cpu.emit.scalar import constant_text


class Numbers:
    """The numbers of one call, in order. Each method adds some and returns the C++ that reads them."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._tails: list[tuple[int, Sequence[int]]] = []  # where each one's place stands

    def __len__(self) -> int:
        return len(self._values)

    def one(self, value: int) -> str:
        self._values.append(whole(value))
        return f"a[{len(self) - 1}]"

    def all(self, values: Iterable[int]) -> str:
        """The text is a pointer to the first. How many they are changes the texts of those behind."""
        first = len(self)
        self._values += map(whole, values)
        return f"a + {first}"

    def tail(self, values: Iterable[int]) -> str:
        """The text is a pointer to the first. They come behind all others, whose texts stay as they are."""
        self._tails.append((len(self), [*map(whole, values)]))
        return f"a + {self.one(0)}"

    @property
    def values(self) -> tuple[int, ...]:
        values = [*self._values]
        for place, tail in self._tails:
            values[place] = len(values)
            values += tail
        return tuple(values)


@dataclass(frozen=True)
class Nest:
    """A loop nest as loops.hpp reads it from `array`: its lens, then the strides of each view."""

    loops: Loops
    array: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return (*self.loops.lens, *(s for strides in self.loops.strides for s in strides))

    def length(self, d: int) -> str:
        return f"{self.array}[{d}]"

    def stride(self, view: int, d: int) -> str:
        return f"{self.array}[{self.loops.rank * (1 + view) + d}]"


@dataclass(frozen=True)
class Kind:
    """The type of a field in the header, and how its value becomes text and numbers."""

    type: str
    write: Callable[[Any, Numbers], str]
    count: int = 1  # elements of an array


def _array(count: int) -> Kind:
    def write(value: Sequence[int], numbers: Numbers) -> str:
        if len(value) != count:
            raise ValueError(f"{count} numbers are needed, not {len(value)}: {value}")
        return f"{{{', '.join(map(numbers.one, value))}}}"

    return Kind("int64_t", write, count)


Three = Annotated[tuple[int, ...], _array(3)]
Four = Annotated[tuple[int, ...], _array(4)]
ConstBool = Annotated[bool, Kind("bool", lambda value, numbers: str(bool(value)).lower())]
ConstInt = Annotated[int, Kind("int64_t", lambda value, numbers: constant_text(value))]
ConstFloat = Annotated[float, Kind("float", lambda value, numbers: f"float({constant_text(value)})")]
ConstDouble = Annotated[float, Kind("double", lambda value, numbers: constant_text(value))]
"""Fields whose value stands in the source: kernels of two values are two kernels."""
Whole = Annotated[int, Kind("double", lambda value, numbers: f"double({numbers.one(value)})")]
"""A double that is a whole number, read from the table."""
Pointer = Annotated[Sequence[int], Kind("const int64_t*", lambda value, numbers: numbers.all(value))]
"""Numbers that the kernel counts by itself; the last field."""
INT = Kind("int64_t", lambda value, numbers: numbers.one(value))
BOOL = Kind("bool", lambda value, numbers: f"{numbers.one(value)} != 0")


@dataclass(frozen=True)
class Fill:
    """The C++ that fills a struct; `fill["k"]` is that of its field k."""

    text: str
    fields: Mapping[str, str]

    def __str__(self) -> str:
        return self.text

    def __getitem__(self, name: str) -> str:
        return self.fields[name]


@dataclass_transform(frozen_default=True)
class Params:
    """The parameters of a kernel; a subclass declares the fields of a struct of its header, in the header's order.

    `struct`: its name in C++, where that is not the class's. `function`: a kernel that takes its numbers as
    parameters, one by one. A trailing underscore of a field is not part of its name in C++. int and bool are read
    from the table; the types above say what else there is.
    """

    header: ClassVar[str]
    struct: ClassVar[str]
    function: ClassVar[str]

    def __init_subclass__(cls, header: str, struct: str = "", function: str = "") -> None:
        cls.header, cls.struct, cls.function = header, struct or cls.__name__, function

    def __init__(self, *args: Any, **named: Any) -> None:
        names = list(kinds(type(self)))  # one method for all: compiling one for each kernel would slow the import
        values = {**dict(zip(names, args, strict=False)), **named}
        if len(args) + len(named) != len(names) or set(values) != set(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}: got {args}, {named}")
        self.__dict__.update(values)

    def cpp(self, numbers: Numbers) -> Fill:
        """The text that fills the struct, or the arguments of the function, its numbers added to `numbers`."""
        texts = self.texts(numbers)
        whole = ", ".join(texts.values())
        return Fill(whole if self.function else f"{self.struct}{{{whole}}}", texts)

    def texts(self, numbers: Numbers) -> dict[str, str]:
        return {name: kind.write(getattr(self, name), numbers) for name, kind in kinds(type(self)).items()}


@cache
def kinds(params: type[Params]) -> dict[str, Kind]:
    """Each field's name and kind; TypeError for a type that is none."""
    hints = get_type_hints(params, include_extras=True)
    return {name: _kind(hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def _kind(hint: Any) -> Kind:
    if get_origin(hint) is Annotated:
        return get_args(hint)[1]
    if isinstance(hint, type) and issubclass(hint, Params):
        return Kind(hint.struct, lambda value, numbers: f"{{{', '.join(value.texts(numbers).values())}}}")
    if hint not in (int, bool):
        raise TypeError(f"no parameter of a kernel is of type {hint}")
    return BOOL if hint is bool else INT

"""Operation: one frozen dataclass an operator; its fields are its attributes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from difflib import get_close_matches
from importlib import import_module
from inspect import get_annotations
from typing import Any, ClassVar, NoReturn, Protocol, TypeGuard, dataclass_transform

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.ir.size import whole

OPERATIONS: dict[str, type[Operation]] = {}
"""Those declared so far; `declare_all` declares the others."""

DECLARING: list[str] = []
"""Packages that declare operators. A saved program runs without any: who asks for an unknown one imports them."""

DECLARED_LATE: dict[str, str] = {}
"""Operators that few programs have, and the modules that declare them: a program that brings one loads its module."""

Value = Any
"""What flows at run time: an ndarray, or a tuple of Values for a tuple shape."""


class InstructionLike(Protocol):
    """What operations ask of the instructions in a module argument."""

    shape: Shape

    @property
    def flops(self) -> int: ...


class ModuleArgument(Protocol):
    """What operations ask of their module arguments, the Modules of ir/module.py."""

    name: str

    def __iter__(self) -> Iterator[InstructionLike]: ...

    @property
    def parameters(self) -> Mapping[str, InstructionLike]: ...

    @property
    def outputs(self) -> Sequence[InstructionLike]: ...

    @property
    def output_shapes(self) -> list[Shape]: ...


class ExpansionContext(Protocol):
    """What operations are told where they are expanded, by the Expansion of ir/expansion.py."""

    origin: str

    @property
    def module(self) -> Any: ...

    def known(self, x: Any, what: str) -> np.ndarray: ...


RunModule = Callable[[Any, Sequence[Value]], list[Value]]
"""Evaluates a module argument on values for its parameters, in order of declaration."""


class Unsupported(ValueError):
    """Something that this build lacks (an operator, a target): names it."""


class OperatorError(ValueError):
    """An operator refuses its attributes or its inputs: names the operator."""


class ShapeError(OperatorError):
    """An operator refuses its inputs: names the operator and the shapes."""


# A dataclass without methods, which Operation has: compiling those of each operator would slow the import.
_attributes_of = dataclass(init=False, repr=False, eq=False)


@dataclass_transform(frozen_default=True)
@_attributes_of
class Operation:
    """Base of every operator.

    Subclass with `class Softmax(Operation, name="softmax")`: annotated fields are the attributes, the
    docstring's first line is the meaning, `infer` the shape rule and `compute` the answer on NumPy arrays.
    Operators that take modules override `infer_with` and `compute_with` instead.
    """

    name: ClassVar[str] = ""
    arity: ClassVar[int | None] = None  # None: any number of inputs
    _defaults: ClassVar[dict[str, Any]] = {}  # of the attributes, by name; MISSING where one must be given

    # Traits: what passes, targets and reports ask an operation, instead of keeping lists of names.
    pure: ClassVar[bool] = True  # equal inputs give equal outputs, and nothing else happens
    can_fail: ClassVar[bool] = False  # refuses some values of its inputs when it runs, such as indices out of range
    deferred: ClassVar[bool] = False  # stands for what it expands to: it must be expanded before a target compiles it
    on_host: ClassVar[bool] = False  # no target has a kernel: NumPy runs it, between the parts that are compiled
    takes_dynamic: ClassVar[bool] = False  # `infer` is given dynamic shapes as they are
    view: ClassVar[bool] = False  # the output is the input's own memory, seen through other strides
    data_movement: ClassVar[bool] = False  # every element of the output is an element of an input, whatever its value
    gathers: ClassVar[bool] = False  # reads no more elements of its first input than it gives
    commutative: ClassVar[bool] = False  # its two inputs may be exchanged
    idempotent: ClassVar[bool] = False  # of one input: f(f(x)) is f(x)
    contraction: ClassVar[bool] = False  # sums products of its inputs: a dot, a convolution, attention
    takes_epilogue: ClassVar[bool] = False  # its kernels compute a `pointwise` that follows before they store
    spatial: ClassVar[bool] = False  # slides over images {N, C, spatial...}; its kernels want channels innermost
    fused: ClassVar[bool] = False  # its module is the body of one kernel

    def __init_subclass__(cls, /, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if get_annotations(cls) or len(cls.__bases__) > 1:  # else it has the attributes of its base
            _attributes_of(cls)
            cls._defaults = {f.name: f.default for f in fields(cls)}  # type: ignore[arg-type]
        if name is None:
            return  # an abstract base
        known = OPERATIONS.get(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"operator {name!r} is declared twice")
        cls.name = name
        OPERATIONS[name] = cls

    def __init__(self, *args: Any, **given: Any) -> None:
        values = dict(zip(self._defaults, args, strict=False))
        if len(args) > len(self._defaults) or not given.keys() <= self._defaults.keys() - values.keys():
            raise TypeError(f"{self.name} takes {', '.join(self._defaults) or 'no attribute'}: got {args}, {given}")
        values |= given
        for key, default in self._defaults.items():
            value = self.__dict__[key] = values.get(key, default)
            if value is MISSING:
                raise TypeError(f"attribute {key!r} is missing")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the attributes."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to attribute {name!r} of {self.name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete attribute {name!r} of {self.name}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return [*self.attributes().values()] == [*other.attributes().values()]

    def __hash__(self) -> int:
        return hash((self.name, *self.attributes().values()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{k}={v!r}' for k, v in self.attributes().items())})"

    def infer(self, *inputs: Shape) -> Shape:
        raise TypeError(f"{self.name} needs module arguments")

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        if modules:
            self.refuse(inputs, "takes no module argument")
        if self.arity is not None and len(inputs) != self.arity:
            self.refuse(inputs, f"takes {self.arity} inputs, got {len(inputs)}")
        return self.infer(*inputs)

    def compute(self, *args: np.ndarray) -> Value:
        raise TypeError(f"{self.name} has no value of its own")

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        return self.compute(*args)

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Any:
        """What the instruction is in `context.module` once the lengths of its inputs are known.

        An instruction, a tuple of them, a list for a sequence; NotImplemented where it is itself. ValueNeeded where
        values must be known as well.
        """
        return NotImplemented

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        """Operations of one run on static shapes, a multiply and an add counted as two; moving data counts as none."""
        return 0

    def bytes_accessed(self, inputs: Sequence[Shape], output: Shape) -> int:
        """What one run on these inputs, each a value of its own, reads and writes; a view does neither."""
        if self.view:
            return 0
        read = [s.bytes for s in inputs]
        if self.gathers:
            read[0] = min(read[0], output.bytes)
        return sum(read) + output.bytes

    def attributes(self) -> dict[str, Any]:
        return {key: self.__dict__[key] for key in self._defaults}

    def refuse(self, inputs: Sequence[Shape], why: str) -> NoReturn:
        """Raise ShapeError for these inputs."""
        shapes = "; ".join(map(str, inputs))
        raise ShapeError(f"{self.name}: {why} (attributes {self.attributes()}, inputs {shapes or 'none'})")

    def require(self, condition: bool, inputs: Sequence[Shape], why: str) -> None:
        if not condition:
            self.refuse(inputs, why)

    def same_lens(self, inputs: Sequence[Shape]) -> None:
        self.require(all(s.lens == inputs[0].lens for s in inputs), inputs, "inputs differ in lens")

    def same_type(self, inputs: Sequence[Shape]) -> None:
        self.require(all(s.type == inputs[0].type for s in inputs), inputs, "inputs differ in type")


def operators(holds: Callable[[type[Operation]], bool]) -> tuple[str, ...]:
    """The names of all operators of which this holds, but for those of `declare_late`."""
    declare_all()
    return tuple(name for name, cls in OPERATIONS.items() if holds(cls))


def declare_late(name: str, module: str) -> None:
    """The operator `name` is declared by the module of this dotted name, which is imported when somebody needs it."""
    DECLARED_LATE[name] = module


def declare_all() -> None:
    """Import what declares operators, but for those of `declare_late`."""
    for package in DECLARING:
        import_module(package)


def declaration(name: str) -> type[Operation]:
    """The class of the operator `name`; ValueError for an unknown one names the nearest."""
    if name in DECLARED_LATE:
        import_module(DECLARED_LATE[name])
    elif name not in OPERATIONS:
        declare_all()
    cls = OPERATIONS.get(name)
    if cls is None:
        near = get_close_matches(name, OPERATIONS, 1)
        raise ValueError(f"unknown operator {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return cls


def operation(name: str, /, **attributes: Any) -> Operation:
    """The operator `name` with its attributes; an unknown name or attribute names the nearest known one."""
    cls = declaration(name)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in attributes:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known) or 'none'}"
            raise ValueError(f"{name}: unknown attribute {key!r}{hint}")
    values = {key: _coerced(name, key, value, str(known[key].type)) for key, value in attributes.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise OperatorError(f"{name}: {error}") from None


def _coerced(name: str, key: str, value: Any, annotation: str) -> Any:
    try:
        return coerce(value, annotation)
    except (TypeError, ValueError, OverflowError) as error:
        raise OperatorError(f"{name}: attribute {key!r}: {error}") from None


def _is_list(value: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, (list, tuple, np.ndarray))


def coerce(value: Any, annotation: str) -> Any:
    """`value` as a field of that annotation holds it: lists become tuples, NumPy scalars Python's own."""
    if annotation.startswith("tuple"):
        inner = annotation.removeprefix("tuple[").removesuffix("]").removesuffix(", ...")
        return tuple(coerce(v, inner) for v in (value if _is_list(value) else (value,)))
    plain = {"bool": bool, "int": whole, "float": float, "str": str}.get(annotation)
    if plain is None:
        return value
    if plain(value) != value and value == value:
        raise TypeError(f"{value!r} is no {annotation}")
    return plain(value)


class Parameter(Operation, name="@param"):
    """A named input of the module."""

    parameter: str


class Literal(Operation, name="@literal"):
    """A constant; holds a read-only array, which may be another library's memory."""

    value: np.ndarray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Small literals are equal by content, large ones when they are the same memory."""
        v = self.value
        content = v.tobytes() if v.nbytes <= 1024 else v.__array_interface__["data"][0]
        return (v.dtype.str, v.dtype.name, v.shape, v.strides, content)

    def compute(self, *args: np.ndarray) -> Value:
        return self.value


class OpenLiteral(Literal):
    """A constant of integers of which some are sizes. Who asks for its value pins them."""

    def __init__(self, sizes: np.ndarray, type: str) -> None:
        """`sizes`: an array of objects."""
        self.__dict__.update(value=None, sizes=sizes, type=type)

    @property
    def type(self) -> str:
        return self.__dict__["type"]

    @property
    def sizes(self) -> np.ndarray:
        return self.__dict__["sizes"]

    @property
    def value(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        sizes: np.ndarray = self.sizes
        plain = np.array([int(n) for n in sizes.reshape(-1)], Shape(self.type).numpy_dtype)
        return plain.reshape(sizes.shape)

    @property
    def key(self) -> tuple[Hashable, ...]:
        return ("open", self.type, self.sizes.shape, *self.sizes.reshape(-1))


class Return(Operation, name="@return"):
    """Ends a module; its inputs are the module's outputs."""

    def infer(self, *inputs: Shape) -> Shape:
        return Shape.tuple_of(inputs)

    def compute(self, *args: np.ndarray) -> Value:
        return tuple(args)

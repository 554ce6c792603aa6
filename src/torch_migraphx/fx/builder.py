"""The vocabulary of the converters: `b.relu(x)` over migraphx's public API, with torch's promotion rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

import torch
from torch import fx

import migraphx
from torch_migraphx.fx.dtypes import DTYPES, to_numpy, type_name
from torch_migraphx.fx.errors import LengthsByData, UnsupportedError

Value = migraphx.instruction_ref
Operand = Value | bool | int | float


def dtype_of(x: Operand) -> torch.dtype:
    """The torch dtype of a value; of a number, the one torch gives it."""
    if isinstance(x, Value):
        return DTYPES[x.shape().type_string().removesuffix("_type")]
    if isinstance(x, complex):
        raise UnsupportedError(f"{x} is complex, a type that the engine does not have")
    return torch.bool if isinstance(x, bool) else torch.get_default_dtype() if isinstance(x, float) else torch.int64


def lens(x: Operand) -> tuple[int, ...]:
    """The lens of a value; () for a number."""
    return tuple(x.shape().lens()) if isinstance(x, Value) else ()


def rank(x: Operand) -> int:
    return len(lens(x))


def common_dtype(*operands: Operand) -> torch.dtype:
    """torch's promotion: tensors with dimensions decide, then 0-d tensors, then numbers."""
    tiers: list[torch.dtype | None] = [None, None, None]
    for x in operands:
        tier = 2 if not isinstance(x, Value) else 0 if rank(x) else 1
        known, dtype = tiers[tier], dtype_of(x)
        tiers[tier] = dtype if known is None else torch.promote_types(known, dtype)
    result = tiers[0]
    for lower in tiers[1:]:
        if lower is not None and (result is None or _category(lower) > _category(result)):
            result = lower if result is None else torch.promote_types(result, lower)
    assert result is not None
    return result


def _category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1


def float_dtype(*operands: Operand) -> torch.dtype:
    """The promoted type of functions that answer in floating point: integers become the default type."""
    dtype = common_dtype(*operands)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


@cache
def _is_operator(name: str) -> bool:
    """Operators come before macros of their name, which broadcast and check what converters have done already."""
    try:
        migraphx.op(name)
    except ValueError:
        return False
    return True


class Builder:
    """Adds to one module; every operator and every macro is a method: `b.softmax(x, axis=1)`.

    A trailing underscore keeps Python's keywords apart: `b.not_(x)`.
    """

    def __init__(self, module: migraphx.module, program: migraphx.program | None = None) -> None:
        self.module = module
        self.program = program  # for what holds modules of its own
        self.words: list[str] = []  # every operator and macro asked for, in order
        self.node: fx.Node | None = None  # what is being converted
        self.numbers = count()  # of nested modules
        self.waits = False  # whether what comes behind lengths that depend on data is converted when they are known
        self.found: list[Value] = []  # what the conversion of a node has waited for
        self.read = 0  # how many of these

    def __getattr__(self, name: str) -> Callable[..., Any]:
        name = name.rstrip("_")
        self.words.append(name)
        if _is_operator(name):
            return lambda *inputs, **attributes: self.module.add_instruction(
                migraphx.op(name, **attributes), list(inputs)
            )
        return lambda *inputs, **attributes: self._expand(migraphx.macro(name, **attributes), inputs)

    def _expand(self, composite: migraphx.macro, inputs: Sequence[Any]) -> Any:
        """A macro's result, or a list where it has several."""
        made = self.module.add_macro(composite, list(inputs))
        return made[0] if len(made) == 1 else made

    def nested(self, stem: str) -> Builder:
        """One that adds to a new module of the program, which sees the values of this one."""
        if self.program is None:
            raise UnsupportedError("modules inside of a module that belongs to no program")
        inner = Builder(self.program.create_module(f"{stem}_{next(self.numbers)}"), self.program)
        inner.words, inner.node, inner.numbers = self.words, self.node, self.numbers
        return inner

    def by_data(self, name: str, *inputs: Value, count: int = 1, **attributes: Any) -> list[Value]:
        """The `count` results of an operator whose lengths depend on data.

        LengthsByData where they are not known yet: the converter is called again when they are.
        """
        if self.read < len(self.found):
            self.read += count
            return self.found[self.read - count : self.read]
        if not self.waits:
            raise LengthsByData
        made = self.module.add_instruction(migraphx.op(name, **attributes), list(inputs))
        several = range(len(made.shape().sub_shapes()))
        parts = [self.module.add_instruction(migraphx.op("get_tuple_elem", index=k), [made]) for k in several]
        raise LengthsByData([*self.found, *(parts or [made])])

    # ---- constants ----

    def literal(self, tensor: torch.Tensor) -> Value:
        """A constant that shares the tensor's memory."""
        return self.module.add_literal(to_numpy(tensor))

    def full(self, value: bool | int | float, dtype: torch.dtype, sizes: Sequence[int] = ()) -> Value:
        """A constant of one value, broadcast to `sizes`."""
        if isinstance(value, bool | int | float | torch.Tensor):
            one = self.literal(torch.tensor([value] if sizes else value, dtype=dtype))
        else:  # a length that differs from run to run
            one = self.cast(self.module.add_sizes([value] if sizes else value), dtype)
        return self.expand(one, sizes)

    def counted(self, n: int) -> Value:
        """0, 1, ... n - 1 as int64."""
        if isinstance(n, int):
            return self.literal(torch.arange(n))
        most = 1 << 16  # a length that differs from run to run: it is cut from one that is long enough
        while n > most:
            most *= 2
        return self.cut(self.literal(torch.arange(most)), 0, 0, n)

    def tensor(self, x: Operand, dtype: torch.dtype | None = None) -> Value:
        """`x` as a value of `dtype` (its own where None); a number becomes a 0-d constant."""
        if not isinstance(x, Value):
            return self.full(x, dtype or dtype_of(x))
        return x if dtype is None else self.cast(x, dtype)

    # ---- types and lens ----

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` as another type; nothing is added where it has it."""
        return x if dtype_of(x) == dtype else self.convert(x, target_type=type_name(dtype))

    def expand(self, x: Value, sizes: Sequence[int]) -> Value:
        """`x` broadcast to `sizes`; nothing is added where it has them."""
        return x if same_lens(lens(x), sizes) else self.multibroadcast(x, out_lens=list(sizes))

    def broadcast_all(self, *operands: Operand, dtype: torch.dtype) -> list[Value]:
        """All operands as `dtype` and of their common lens."""
        sizes = broadcast_sizes(*(lens(x) for x in operands))
        return [
            self.expand(self.cast(x, dtype), sizes) if isinstance(x, Value) else self.full(x, dtype, sizes)
            for x in operands
        ]

    def pointwise(self, name: str, *operands: Operand, dtype: torch.dtype | None = None, **attributes: Any) -> Value:
        """An elementwise operator on promoted (to `dtype` where given) and broadcast operands."""
        values = self.broadcast_all(*operands, dtype=dtype or common_dtype(*operands))
        return getattr(self, name)(*values, **attributes)

    def unary(self, name: str, input: Operand, **attributes: Any) -> Value:
        """An elementwise operator of one operand that answers in floating point."""
        return self.pointwise(name, input, dtype=float_dtype(input), **attributes)

    def view(self, x: Value, sizes: Sequence[int]) -> Value:
        """`x` reshaped; nothing is added where it has these lens."""
        return x if same_lens(lens(x), sizes) else self.reshape(x, dims=list(sizes))

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """`x` with its dimensions in another order; nothing is added where it is the present one."""
        order = [d % rank(x) for d in order]
        return x if order == list(range(rank(x))) else self.transpose(x, permutation=order)

    def cut(self, x: Value, dim: int, start: int, end: int) -> Value:
        """Elements start to end (excluded) along `dim`; nothing is added where that is all of them."""
        if (start, end) == (0, lens(x)[dim]):
            return x
        return self.slice(x, axes=[dim % rank(x)], starts=[start], ends=[end])


def same_lens(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether they are equal, ranks first: every comparison of a length that differs from run to run is noted."""
    return len(a) == len(b) and tuple(a) == tuple(b)


def broadcast_sizes(*sizes: Sequence[int]) -> tuple[int, ...]:
    """What torch.broadcast_shapes gives, also for lengths that differ from run to run."""
    if all(isinstance(n, int) for own in sizes for n in own):
        return tuple(torch.broadcast_shapes(*sizes))
    made: list[int] = []
    for k in range(1, max(map(len, sizes)) + 1):
        column = [own[-k] for own in sizes if len(own) >= k]
        length = next((n for n in column if n != 1), 1)
        if any(n not in (1, length) for n in column):
            raise UnsupportedError("sizes that do not broadcast")
        made.insert(0, length)
    return tuple(made)


def axes(dim: int | Sequence[int] | None, n: int) -> list[int]:
    """The dimensions that torch's `dim` names in a rank of `n`, from the front; all where None or empty."""
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(n))
    given = [dim] if isinstance(dim, int) else list(dim)
    return sorted({axis(d, n) for d in given})


def axis(dim: int, n: int) -> int:
    """One dimension counted from the front; IndexError where it is out of range."""
    if not -max(n, 1) <= dim < max(n, 1):
        raise IndexError(f"dimension {dim} is not in a rank of {n}")
    return dim % max(n, 1)


def per_dimension(value: int | Sequence[int], n: int) -> list[int]:
    """One value for each of `n` spatial dimensions."""
    values = [value] if isinstance(value, int) else list(value)
    return [int(v) for v in (values * n if len(values) == 1 else values)]

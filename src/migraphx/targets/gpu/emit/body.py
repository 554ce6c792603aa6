"""Generated kernels' common parts: loads and stores of views, how bodies read as Triton."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal
from migraphx.ir.size import divides
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.ops.scalar import JUMPS
from migraphx.passes.drop_clamps import is_nonnegative
from migraphx.targets.common.body import Scope, pointwise_body
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.scalar import (
    APPROXIMATE,
    COMPUTE_TYPES,
    NARROW,
    SIXTEEN,
    STORAGE_TYPES,
    TritonScalar,
    constant_text,
    triton_type,
)

VECTOR = 16  # bytes that a thread moves at once, where it may
LINE = 128  # bytes that the device's cache brings at once
LARGEST_E4M3 = 448.0


@dataclass(frozen=True)
class TritonReading:
    """Pointwise bodies as Triton on blocks.

    `approximate`: floats are rounded to 16 bits, so words may be. `codes`: as TritonScalar has it.
    """

    approximate: bool = False
    codes: bool = False

    def scalar(self, scope: Scope) -> TritonScalar:
        return TritonScalar(scope.bind, self.approximate, self.codes)

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def literal(self, ins: Instruction) -> str:
        """A one-element literal as a scalar of its compute type."""
        assert isinstance(ins.op, Literal)
        value = ins.op.value.reshape(-1)[0].astype(dtypes.accumulator(ins.shape.type))
        return constant_text(value.item(), triton_type(COMPUTE_TYPES, ins.shape.type))

    def shorter(self, ins: Instruction) -> tuple[str, Sequence[Instruction]] | None:
        """The exact GELU of 16 bits is one polynomial; 1 + tanh x, as the other has it, is twice a sigmoid of 2 x."""
        if not self.approximate or ins.shape.type not in SIXTEEN:
            return None
        x, turned = _gelu_of(ins), _but_for(ins, "add", 1.0)
        if turned is not None and turned.name == "tanh":
            return "(2.0 * fast_sigmoid(2.0 * {0}))", turned.inputs
        return ("({0} * fast_cdf({0}))", (x,)) if x else None


TRITON = TritonReading()


def reading_of(module: Module) -> TritonReading:
    """Approximate where what is computed so is rounded to 16 bits and no operator jumps.

    Floats between are no matter: scales of a product, and what is quantized to fp8. Nor are a norm's root and a
    softmax's exponentials of floats where all results have 16 bits: they lose their last bits.
    """
    words = {i: i.op.words for i in module if isinstance(i.op, Pointwise)}
    lost = set[str]()
    if all(i.shape.type in SIXTEEN for i in module.outputs):
        lost = {"rsqrt"} | ({"exp", "recip"} if any(isinstance(i.op, Reduction) for i in module) else set())
    inexact = [i for i, own in words.items() if own & APPROXIMATE.keys() - lost]
    floats = {s.type for i in inexact for s in (i.shape, *(x.shape for x in i.inputs)) if s.type in dtypes.FLOATS}
    smooth = not any(own & JUMPS for i, own in words.items() if not _rounds(i))
    return TritonReading(smooth and floats <= SIXTEEN, _makes_codes(module))


def _gelu_of(ins: Instruction) -> Instruction | None:
    """x, where this is x / 2 times 1 + erf(x / sqrt(2))."""
    for half, gate in (ins.inputs, ins.inputs[::-1]) if ins.name == "mul" else ():
        x, root = _but_for(half, "mul", 0.5), _but_for(gate, "add", 1.0)
        inner = _but_for(root.inputs[0], "mul", math.sqrt(0.5)) if root and root.name == "erf" else None
        if x and x is inner:
            return x
    return None


def _but_for(ins: Instruction, name: str, value: float) -> Instruction | None:
    """The other operand of an operator called so, where one is this number, or the nearest of 16 bits."""
    for x, c in (ins.inputs, ins.inputs[::-1]) if ins.name == name else ():
        if isinstance(c.op, Literal) and c.op.value.size == 1 and math.isclose(c.op.value.item(), value, rel_tol=4e-3):
            return x
    return None


MOST_CODE = 1 << 20  # a whole number that float holds with bits to spare


def _makes_codes(module: Module) -> bool:
    """Whether all that is rounded is clamped and becomes int32, and no other float does."""
    rounded = {i for i in module if i.name == "nearbyint" and i.shape.type != "double"}
    integers = [i for i in module if i.name == "convert" and i.shape.type in dtypes.INTEGERS]
    floats = [i for i in integers if i.inputs[0].shape.type in dtypes.FLOATS]
    as_codes = all(i.shape.type == "int32" for i in floats) and len(floats) == sum(
        i.shape.type == "int32" for i in integers
    )
    return bool(rounded) and as_codes and {_clamped(i) for i in floats} == rounded


def _clamped(convert: Instruction) -> Instruction | None:
    """What is converted, before it was clamped between two numbers of few bits and seen by nothing else; or None.

    What is never negative needs no clamp from below.
    """
    ins, bounds = _bounded(convert.inputs[0])
    both = len(bounds) == 2 or (len(bounds) == 1 and convert.inputs[0].name == "min" and is_nonnegative(ins))
    return ins if both and max(map(abs, bounds)) <= MOST_CODE and len(ins.users) == 1 else None


def _bounded(ins: Instruction) -> tuple[Instruction, list[float]]:
    """A value before it was clamped, and the bounds; nothing else sees it on the way."""
    bounds = list[float]()
    while ins.name in {"max", "min"} and len(ins.users) == 1:
        literals = [i.op.value.item() for i in ins.inputs if isinstance(i.op, Literal)]
        if len(literals) != 1:
            break
        ins = next(i for i in ins.inputs if not isinstance(i.op, Literal))
        bounds += literals
    return ins, bounds


def _rounds(ins: Instruction) -> bool:
    """Whether it converts to floats: a little before is a little behind."""
    return ins.name == "convert" and ins.shape.type in dtypes.FLOATS


def pointer_type(type: str) -> str:
    """The pointer to a view's elements, as a kernel's argument."""
    return f"*{triton_type(STORAGE_TYPES, type)}"


def compute_type(type: str) -> str:
    """The type of values that are computed with, as Triton text."""
    return triton_type(COMPUTE_TYPES, type)


def aligned(view: View) -> bool:
    """Whether the first element lies where a whole vector may."""
    steps = [view.byte_offset, *(m.step for m in view.moves)]
    return all(divides(VECTOR, n) for n in steps)


def load_text(pointer: str, type: str, at: str, mask: str = "", other: str = "", keep: str = "") -> str:
    """Elements of a view, in the type that is computed with; `at`: their offsets.

    `keep`: `last` where they will be read again soon, `first` where they will not: what caches give up.
    """
    rest = "".join(f", {m}" for m in (mask, other) if m) + (f', eviction_policy="evict_{keep}"' if keep else "")
    text = f"tl.load({pointer} + {at}{rest})"
    return f'widen({text}, "{type}")' if type in NARROW else text


def stored_body(module: Module, arguments: Mapping[str, str], scope: Scope, type: str) -> str:
    """Add the statements of a body; the text of its result as memory holds elements of `type`.

    A body that ends by rounding to a narrow float leaves that to the conversion that is due here, and so its clamp to
    the largest numbers of fp8e4m3fn.
    """
    result = module.outputs[0]
    if result.name != "convert" or result.shape.type != type or type not in dtypes.NARROW_FLOATS:
        return stored_text(pointwise_body(module, arguments, scope), type)
    value, bounds = _bounded(result.inputs[0])
    saturates = type == "fp8e4m3fn" and sorted(bounds) == [-LARGEST_E4M3, LARGEST_E4M3]
    text = f"{pointwise_body(module, arguments, scope, value if saturates else result.inputs[0])}.to(tl.float32)"
    return f"saturated_e4m3({text})" if saturates else stored_text(text, type)


def stored_text(value: str, type: str) -> str:
    """A computed value as memory holds it."""
    return f'narrow({value}, "{type}")' if type in NARROW else value


def store_text(pointer: str, type: str, at: str, value: str, mask: str = "") -> str:
    """Store computed values as elements of a view."""
    return store_line(pointer, at, stored_text(value, type), mask)


def store_line(pointer: str, at: str, stored: str, mask: str = "") -> str:
    """Store elements as memory holds them."""
    return f"tl.store({pointer} + {at}, {stored}{', ' + mask if mask else ''})"

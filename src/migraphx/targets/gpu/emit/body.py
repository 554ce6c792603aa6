"""Generated kernels' common parts: loads and stores of views, how bodies read as Triton."""

from __future__ import annotations

from dataclasses import dataclass

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.scalar import JUMPS
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.scalar import (
    COMPUTE_TYPES,
    NARROW,
    STORAGE_TYPES,
    TritonScalar,
    constant_text,
    triton_type,
)

VECTOR = 16  # bytes that a thread moves at once, where it may


@dataclass(frozen=True)
class TritonReading:
    """Pointwise bodies as Triton on blocks. `approximate`: floats are rounded to 16 bits, so words may be."""

    approximate: bool = False

    def scalar(self, bind) -> TritonScalar:
        return TritonScalar(bind, self.approximate)

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def literal(self, ins: Instruction) -> str:
        """A one-element literal as a scalar of its compute type."""
        assert isinstance(ins.op, Literal)
        value = ins.op.value.reshape(-1)[0].astype(dtypes.accumulator(ins.shape.type))
        return constant_text(value.item(), triton_type(COMPUTE_TYPES, ins.shape.type))


TRITON = TritonReading()

SIXTEEN = frozenset({"half", "bf16"})


def reading_of(module: Module) -> TritonReading:
    """Approximate where all floats of a body are rounded to 16 bits and no operator jumps."""
    inside = [i for i in module if not i.name.startswith("@")]
    floats = {s.type for i in inside for s in (i.shape, *(x.shape for x in i.inputs)) if s.type in dtypes.FLOATS}
    smooth = not any(isinstance(i.op, Pointwise) and i.op.words & JUMPS for i in inside)
    return TritonReading(approximate=smooth and floats <= SIXTEEN)


def pointer_type(type: str, written: bool = False) -> str:
    """The pointer to a view's elements, as a kernel's argument."""
    return f"*{triton_type(STORAGE_TYPES, type)}"


def compute_type(type: str) -> str:
    """The type of values that are computed with, as Triton text."""
    return triton_type(COMPUTE_TYPES, type)


def aligned(view: View) -> bool:
    """Whether the first element lies where a whole vector may."""
    steps = [view.byte_offset, *(m.step for m in view.moves)]
    return all(n % VECTOR == 0 for n in steps)


def load_text(pointer: str, type: str, at: str, mask: str = "", other: str = "") -> str:
    """Elements of a view, in the type that is computed with; `at`: their offsets."""
    rest = "".join(f", {m}" for m in (mask, other) if m)
    text = f"tl.load({pointer} + {at}{rest})"
    return f'widen({text}, "{type}")' if type in NARROW else text


def store_text(pointer: str, type: str, at: str, value: str, mask: str = "") -> str:
    """Store computed values as elements of a view."""
    value = f'narrow({value}, "{type}")' if type in NARROW else value
    return f"tl.store({pointer} + {at}, {value}{', ' + mask if mask else ''})"

"""Generated kernels' common parts: typed pointers, loads and stores of views, pointwise bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, Return
from migraphx.ops.pointwise import Pointwise
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES, STORAGE_TYPES, CppScalar, constant_text, cpp_type

SCALAR_VIEWS = frozenset({"multibroadcast", "broadcast", "identity", "contiguous", "squeeze", "unsqueeze", "reshape"})
"""Operators that leave a value's lanes as they are inside a fused body."""


@dataclass
class Scope:
    """Statements in order, and a supply of fresh names."""

    lines: list[str] = field(default_factory=list)
    count: int = 0
    known: dict[str, str] = field(default_factory=dict)  # text -> name, so that nothing is computed twice

    def bind(self, text: str) -> str:
        """The name of a variable that holds `text`."""
        if text not in self.known:
            self.known[text] = f"v{self.count}"
            self.lines.append(f"const auto v{self.count} = {text};")
            self.count += 1
        return self.known[text]

    def inner(self) -> Scope:
        """A scope within this one: it sees the names here, and adds none."""
        return Scope([], self.count + 1000, dict(self.known))


def literal_text(ins: Instruction) -> str:
    """A one-element literal as a vector of its compute type."""
    assert isinstance(ins.op, Literal)
    type = cpp_type(COMPUTE_TYPES, ins.shape.type)
    return f"mgx::splat<{type}>({constant_text(ins.op.value.reshape(-1)[0].item())})"


def apply(ins: Instruction, arguments: Sequence[str], bind: Callable[[str], str]) -> str:
    """One pointwise operator applied to named vectors; the name of its result."""
    if ins.name in SCALAR_VIEWS:
        return arguments[0]
    if not isinstance(ins.op, Pointwise):
        raise TypeError(f"{ins.name} is not pointwise")
    return ins.op.apply(CppScalar(bind), *arguments)


def pointwise_body(module: Module, arguments: Mapping[str, str], scope: Scope) -> str:
    """Add the statements of a `pointwise` body; returns the name of its result.

    `arguments` names the vector of each parameter.
    """
    names: dict[Instruction, str] = {}
    for ins in module:
        if isinstance(ins.op, Parameter):
            names[ins] = arguments[ins.op.parameter]
        elif isinstance(ins.op, Literal):
            names[ins] = scope.bind(literal_text(ins))
        elif not isinstance(ins.op, Return):
            names[ins] = apply(ins, [names[i] for i in ins.inputs], scope.bind)
    return names[module.outputs[0]]


def pointers(views: Sequence[View], outputs: int = 1) -> list[str]:
    """Declarations of p0, p1, ... : typed pointers to each view's first element; the last `outputs` are written."""
    first_output = len(views) - outputs
    return [
        f"{'' if k >= first_output else 'const '}{cpp_type(STORAGE_TYPES, v.type)}* const p{k} = "
        f"reinterpret_cast<{'' if k >= first_output else 'const '}{cpp_type(STORAGE_TYPES, v.type)}*>(p[{k}]);"
        for k, v in enumerate(views)
    ]


def load_text(k: int, stride: int, step: str, at: str, index: str) -> str:
    """LANES elements of view k from element `index` of the vector loop; `at` is where the loop starts."""
    if stride == 0:
        return f"fetch_same(p{k} + {at})"
    if stride == 1:
        return f"fetch(p{k} + {at} + {index}, n)"
    return f"fetch_strided(p{k} + {at} + {index} * {step}, {step}, n)"


def store_text(k: int, stride: int, step: str, at: str, index: str, value: str) -> str:
    """Store LANES elements of `value`, as `load_text` reads them."""
    if stride in (0, 1):
        return f"put(p{k} + {at} + {index}, {value}, n);"
    return f"put_strided(p{k} + {at} + {index} * {step}, {step}, {value}, n);"


def indented(lines: Sequence[str], depth: int) -> str:
    """The lines at `depth` levels, for placing into a template after the first one's own indentation."""
    return ("\n" + "    " * depth).join(line for text in lines for line in text.split("\n"))

"""Generated kernels' common parts: typed pointers, loads and stores of views, how bodies read as C++."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal
from migraphx.targets.common.body import Scope
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES, STORAGE_TYPES, CppScalar, constant_text, cpp_type


class CppReading:
    """Pointwise bodies as C++ on the vectors of kernels/math.hpp."""

    def scalar(self, scope: Scope) -> CppScalar:
        return CppScalar(scope.bind, scope.text)

    def assign(self, name: str, text: str) -> str:
        return f"const auto {name} = {text};"

    def literal(self, ins: Instruction) -> str:
        """A one-element literal as a vector of its compute type."""
        assert isinstance(ins.op, Literal)
        type = cpp_type(COMPUTE_TYPES, ins.shape.type)
        return f"mgx::splat<{type}>({constant_text(ins.op.value.reshape(-1)[0].item())})"

    def shorter(self, ins: Instruction) -> None:
        """The vocabulary finds what it has."""


CPP = CppReading()


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

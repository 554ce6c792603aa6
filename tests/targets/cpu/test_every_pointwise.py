"""Every elementwise operator and reduction, in every type that it takes, on cpu and on ref.

Types that are computed in the lanes of another are optimised little here: that other type is compiled as users compile
it, and so are the ways between the two, by test_narrow.py and, of half and bf16, by test_composites.py. An operator is
the same text in all of them, so that those below 16 bits share the operators: each has half of them, each half several.
"""

import pytest

from migraphx.ir.dtype import INTEGERS
from migraphx.ir.operation import OPERATIONS
from migraphx.ir.shape import Shape
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.targets.cpu.emit.scalar import NARROW, STORAGE_TYPES
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

ROUNDED = {"tan", "pow", "fmod", "mod"}  # NaN and inf beside finite values are test_scalar's matter

TYPES = [pytest.param(t, marks=pytest.mark.unoptimised) if t in NARROW else t for t in STORAGE_TYPES]

FEW_BITS = [t for t in STORAGE_TYPES if t in NARROW and t not in ("half", "bf16")]
FEW_BITS.sort(key=lambda t: t.startswith("u"))  # two of each kind follow each other

WITH_ITSELF = {"div", "fmod", "mod"}  # of which compilers know more, and g++ 12 wrongly: x / x was -1


@pytest.mark.parametrize("type", few(TYPES, "float", "bool"))
def test_every_pointwise_operator(type):
    x, condition = Shape(type, (3, 37)), Shape("bool", (3, 37))
    cases = []
    operators = {n: o for n, o in OPERATIONS.items() if issubclass(o, Pointwise) and n != "convert"}
    names = [*operators]
    for name in names[FEW_BITS.index(type) % 2 :: 2] if type in FEW_BITS else names:
        operator = operators[name]
        if type not in operator.accepts:
            continue
        inputs = (condition, x, x) if name == "where" else (x,) * (operator.arity or 0)
        write = lambda b, *i, n=name: b.instruction(n, i)  # noqa: E731
        cases.append(Case(name, write, inputs, special=name not in ROUNDED))
        if name in WITH_ITSELF and type in INTEGERS:
            cases.append(Case(f"{name} with itself", lambda b, v, n=name: b.instruction(n, (v, v)), (x,)))
    check(cases)


@pytest.mark.parametrize("type", few(TYPES, "float", "int64"))
def test_every_reduction(type):
    """Sums of integers leave the type, and so do the numbers of elements."""
    cases, lens = [], (3, 300 if type in INTEGERS else 37)
    for name, operator in OPERATIONS.items():
        if issubclass(operator, Reduction) and type in operator.accepts:
            for axes in ((0,), (1,), ()):
                write = lambda b, x, n=name, a=axes: b.instruction(n, [x], axes=a)  # noqa: E731
                cases.append(Case(f"{name}{axes}", write, (Shape(type, lens),), scale=10, high=100))
    check(cases)

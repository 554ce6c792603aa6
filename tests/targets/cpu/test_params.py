"""The declared parameters of kernels against their headers, and the numbers that headers and Python share."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from migraphx.targets.common.call import Flow
from migraphx.targets.cpu import codegen, headers
from migraphx.targets.cpu.emit import structs
from migraphx.targets.cpu.emit.params import Numbers, Params, kinds

DECLARED = [c for c in vars(structs).values() if isinstance(c, type) and issubclass(c, Params) and c is not Params]


class Field(NamedTuple):
    type: str
    name: str
    count: int = 1


def struct_fields(text: str) -> list[Field]:
    """The members of a struct's body, which may hold other structs and functions before them."""
    text = re.sub(r"struct \w+ {[^}]*};", "", text)
    found = []
    for type, names in re.findall(r"((?:const )?\w+\*?) ([\w\s,\[\]]+);", text):
        for name, _, count in re.findall(r"(\w+)(\[(\d+)\])?", names):
            found.append(Field(type, name, int(count or 1)))
    return found


def body(text: str, struct: str) -> str:
    """What stands between the braces of a struct."""
    _, _, rest = text.partition(f"struct {struct} {{")
    depth, end = 1, 0
    while depth:
        depth += {"{": 1, "}": -1}.get(rest[end], 0)
        end += 1
    return rest[: end - 1]


def in_header(params: type[Params]) -> list[Field]:
    text = headers.header(params.header)
    if params.function:
        found = re.search(rf"void {params.function}\(const Team& \w+, ([^)]*)\)", text)
        assert found, params
        given = [p.strip().rsplit(" ", 1) for p in found[1].split(",")]
        return [Field(type, name) for type, name in given[: len(kinds(params))]]
    return struct_fields(body(text, params.struct))


@pytest.mark.parametrize("params", DECLARED, ids=lambda p: p.__name__)
def test_fields_are_those_of_the_header(params: type[Params]) -> None:
    assert [Field(k.type, n.rstrip("_"), k.count) for n, k in kinds(params).items()] == in_header(params)


@pytest.mark.parametrize("part", [codegen.Step, codegen.Place, codegen.Move])
def test_parts_of_a_table_are_those_of_the_header(part: type[NamedTuple]) -> None:
    declared = struct_fields(body(headers.header("program.hpp"), part.__name__))
    assert list(part._fields) == [f.name for f in declared]


def test_nobody_numbers_by_hand() -> None:
    """Where a number of a call stands is known to emit/params.py alone."""
    by_hand = re.compile(r"""["'( ][ab](\[| \+ )[\d{]""")
    sources = [p for p in headers.KERNELS.parent.rglob("*.py") if p.name != "params.py"]
    found = [f"{p.name}: {line}" for p in sources for line in p.read_text().splitlines() if by_hand.search(line)]
    assert len(sources) > 20 and not found


def test_numbers_are_given_out_in_order() -> None:
    numbers = Numbers()
    fill = structs.TopK(outer=5, length=9, inner=1, k=4, largest=False).cpp(numbers)
    assert str(fill) == "TopK{a[0], a[1], a[2], a[3], a[4] != 0}" and fill["k"] == "a[3]"
    assert numbers.tail([70, 80]) == "a + a[5]"
    assert numbers.all([30, 40]) == "a + 6" and numbers.one(50) == "a[8]"
    assert numbers.values == (5, 9, 1, 4, 0, 9, 30, 40, 50, 70, 80)


def test_kinds_of_fields() -> None:
    numbers = Numbers()
    fill = structs.Pool(1, 2, 3, (0, 4, 5), *[(1, 1, 1)] * 7, divisor=0, count_pad=True, p=2).cpp(numbers)
    assert str(fill).endswith("{a[24], a[25], a[26]}, 0, a[27] != 0, double(a[28])}") and len(numbers) == 29
    assert fill["x_step"] == "{a[3], a[4], a[5]}" and numbers.values[3:6] == (0, 4, 5)
    with pytest.raises(ValueError, match="3 numbers are needed, not 2"):
        structs.Pool(1, 2, 3, (4, 5), *[(1, 1, 1)] * 7, divisor=0, count_pad=True, p=2).cpp(Numbers())


def test_constants_come_from_the_headers() -> None:
    assert headers.constant("MOST_LOOPS", "program.hpp") > 1 < headers.constant("PANEL_VECTORS", "engine.hpp")
    assert headers.real("Q1", "winograd.hpp") == 1.5
    assert set(headers.enumerators("Flow", "program.hpp")) == set(Flow.__members__)
    with pytest.raises(ValueError, match=r"program\.hpp has 0 constants NOTHING"):
        headers.constant("NOTHING", "program.hpp")
    with pytest.raises(ValueError, match=r"program\.hpp has no enum Nothing"):
        headers.enumerators("Nothing", "program.hpp")

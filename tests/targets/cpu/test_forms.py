"""Programs compiled for many lengths: what they are at each is what a compilation at that length gives."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.size import Sizes
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.form_table import FormTable
from migraphx.targets.cpu.target import Translation, translate, translate_form
from migraphx.targets.cpu.toolchain import Features
from tests.targets.cpu.golden_programs import PROGRAMS, Inputs
from tests.tiers import few_rows

AVX512 = Features(lanes=16, bf16_words=True, amx=False)
LONGER = (0, 1, 16, 57)
LARGEST = 1 << 20
WAYS = re.compile(r"(extern )?template void attention<.*\n|(?<=attention)<Group::(few|many)>")


class LengthenedInputs(Inputs):
    """Parameters, of which dimension `axis` has other lengths: `lengths` says which, by the golden program's own."""

    def __init__(self, axis: int, lengths: Mapping[int, int]) -> None:
        super().__init__()
        self.axis, self.lengths, self.asked = axis, lengths, dict[int, None]()

    def __call__(self, *lens: int, type: str = "float") -> Instruction:
        own = list(lens)
        if self.axis < len(lens):
            self.asked[lens[self.axis]] = None
            own[self.axis] = self.lengths.get(own[self.axis], own[self.axis])
        return super().__call__(*own, type=type)


def program_at(name: str, axis: int, lengths: Mapping[int, int]) -> tuple[Program, list[int]]:
    """A golden program at these lengths of a dimension, and what the golden ones are."""
    inputs = LengthenedInputs(axis, lengths)
    made = PROGRAMS[name](inputs, Builder(inputs.main))
    inputs.main.add_return([made] if isinstance(made, Instruction) else list(made))
    return inputs.program, list(inputs.asked)


def without_ways(sources: Sequence[str]) -> list[str]:
    """Sources without what says which of attention's ways they go, and without those that hold such ways alone."""
    left = [(s, WAYS.sub("", s)) for s in sources]
    return [rest for s, rest in left if rest == s or "Team& t" in rest]


def assert_same(form: FormTable, lengths: list[int], sources: list[str], want: Translation) -> None:
    """All but where buffers lie: sources, numbers, checks, steps with their texts, bytes and operations.

    A source for one length is without those of attention's ways that this length does not go.
    """
    found = form.at(lengths)
    assert found is not None
    table, outline = found
    assert without_ways(sources) == without_ways(want.sources)
    free = np.concatenate([form.places, [2]])  # and the arena's size
    assert np.delete(table, free).tolist() == np.delete(want.table, free).tolist()
    assert [*outline.steps] == [*want.outline.steps] and list(outline.checks) == list(want.outline.checks)
    assert (outline.parameters, outline.outputs) == (want.outline.parameters, want.outline.outputs)


@pytest.mark.parametrize(("axis", "least"), few_rows([(0, 30), (1, 30), (2, 30)], at=[0]))
def test_every_lowering(axis: int, least: int) -> None:
    held = 0
    for name in PROGRAMS:
        hints = program_at(name, axis, {})[1]
        sizes = Sizes()
        program, _ = program_at(name, axis, {n: sizes.symbol(f"n{n}", n, 0, LARGEST) for n in hints})
        form, sources, _ = translate_form(program, CompileOptions(), AVX512, sizes)
        for more in LONGER:
            lengths = [n + more if k == 0 or more % 2 else n for k, n in enumerate(hints)]
            if form.at(lengths) is not None:
                static, _ = program_at(name, axis, dict(zip(hints, lengths, strict=True)))
                assert_same(form, lengths, sources, translate(static, CompileOptions(), AVX512))
                held += more > 0
            assert more or form.at(lengths)
    assert held >= least, f"{held}: lengths that were open are no longer"


def test_rows_that_are_alike_note_no_wish() -> None:
    """Short rows are a reason to go another way only where another view has long ones."""
    wishes = []
    for lens in ((1, 0), (0, 64), (0, 1, 1)):
        sizes, inputs = Sizes(), Inputs()
        n = sizes.symbol("n", 64, 1, LARGEST)
        x = inputs(*(length or n for length in lens))
        inputs.main.add_return([Builder(inputs.main).exp(x)])
        translate_form(inputs.program, CompileOptions(), AVX512, sizes)
        wishes += sizes.wishes
    assert not wishes


def test_buffers_do_not_overlap() -> None:
    sizes = Sizes()
    program, _ = program_at("dot_epilogue", 0, {7: sizes.symbol("n", 7, 2, LARGEST)})
    form, _, _ = translate_form(program, CompileOptions(), AVX512, sizes)
    for n in (2, 7, 8, 9, 1000, 1025):
        taken = form.memory([n])
        assert taken.total >= (taken.positions + taken.sizes).max(initial=0)
        for k, one in enumerate(form.lifetimes):
            for m, other in enumerate(form.lifetimes[:k]):
                if one.first <= other.last and other.first <= one.last:
                    first, second = sorted((k, m), key=lambda i: taken.positions[i])
                    assert taken.positions[first] + taken.sizes[first] <= taken.positions[second]

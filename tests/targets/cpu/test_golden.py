"""The generated sources and tables of small programs, word for word.

`PYTHONPATH=src:. python -m tests.targets.cpu.test_golden` writes them anew.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.table import table_text
from migraphx.targets.cpu.target import Translation, translate
from migraphx.targets.cpu.toolchain import Features
from tests.targets.cpu.golden_programs import PROGRAMS, Inputs, program_of, weight

pytestmark = pytest.mark.sources

FOLDER = Path(__file__).parent / "golden"
AVX512 = Features(lanes=16, bf16_words=True, amx=False)  # whatever processor the tests run on
MAIN = "main"


def translated(program: Program, features: Features = AVX512) -> Translation:
    return translate(program, CompileOptions(), features)


def text_of(made: Translation) -> str:
    """The kernels and the table; the main source is that of all programs, and kept once."""
    return "\n".join([*made.sources[1:], *(f"// {line}" for line in table_text(made.table, made.layout))]) + "\n"


def texts() -> dict[str, str]:
    """What each golden file holds, by its name."""
    made = {name: translated(program_of(name)) for name in PROGRAMS}
    return {MAIN: made["dot_epilogue"].sources[0]} | {name: text_of(found) for name, found in made.items()}


@pytest.fixture(autouse=True)
def no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden texts are the same on every machine: nobody asks a compiler what this one can do."""

    def ask(*words: Any) -> NoReturn:
        raise AssertionError("a golden text depends on this machine's compiler")

    monkeypatch.setattr("migraphx.targets.cpu.toolchain.find_compiler", ask)
    monkeypatch.setattr("migraphx.targets.cpu.isa.instruction_set", ask)


@pytest.mark.parametrize("name", PROGRAMS)
def test_generated_sources(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = (FOLDER / f"{name}.cpp").read_text()
    for threads in ("1", "7"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert text_of(translated(program_of(name))) == want


def test_products_of_two_programs_are_one_source() -> None:
    """Whatever else these have: an object that one has compiled is in the cache for the other."""

    def sources(attends: bool) -> set[str]:
        program = Program()
        b = Builder(program.main)
        x = program.main.add_parameter("x", Shape("float", (1, 1, 3, 16)))
        y = b.attention(x, x, x) if attends else b.softmax(x, axis=3)
        z = b.add(b.dot(y, b.literal(weight(1, 1, 16, 16))), x)
        program.main.add_return([z])
        return set(translated(program).sources)

    found = sources(attends=True), sources(attends=False)
    assert found[0] != found[1] and any("// dot add" in s for s in found[0] & found[1])


def test_main_source() -> None:
    assert translated(program_of("dot_epilogue")).sources[0] == (FOLDER / f"{MAIN}.cpp").read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in FOLDER.iterdir()} == {MAIN, *PROGRAMS}


def test_every_lowering_is_in_a_golden_file() -> None:
    """But for the one that no optimised program holds."""
    used = set()
    for name in PROGRAMS:
        lowered = translated(program_of(name)).lowered
        used |= {CPU.find(i) for module in (lowered.module, *lowered.inner) for i in module}
    every = {name: CPU.find(SimpleNamespace(name=name, op=None)) for name in CPU.operators()}  # type: ignore[arg-type]
    assert [name for name, lowering in every.items() if lowering not in used] == ["identity"]


def test_many_kernels_are_several_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def many() -> Program:
        x = Inputs()
        b, y = Builder(x.main), x(7, 40)
        for k, word in enumerate((b.tanh, b.relu, b.exp, b.neg, b.abs)):
            y = b.softmax(word(y), axis=k % 2)
        x.main.add_return([y])
        return x.program

    def kernels(parts: list[str]) -> list[list[str]]:
        return [re.findall(r"^void k.* \{$", part, re.M) for part in parts]

    main, *few = translated(many()).sources
    monkeypatch.setattr("migraphx.targets.cpu.codegen.MOST_KERNELS", 2)
    same, *parts = translated(many()).sources
    assert same == main and len(parts) > len(few) and max(map(len, kernels(parts))) == 2
    assert sorted(chain(*kernels(parts))) == sorted(chain(*kernels(few)))


def test_programs_share_the_engine() -> None:
    other = Inputs()
    b = Builder(other.main)
    other.main.add_return([b.tanh(b.dot(other(7, 40), b.literal(weight(40, 9))))])
    one, two = translated(program_of("dot_epilogue")).sources, translated(other.program).sources
    engine = "\ntemplate void run_grid<float, float, float>"
    first, second = ([text for text in sources if engine in text] for sources in (one, two))
    assert one != two and first == second and len(first) == 1


def test_vectors_change_no_source() -> None:
    """Kernels are written for any width; what is packed is wider."""
    for name in ("dot_epilogue", "convolution_winograd", "dot_int4", "reduce_stages"):
        wide, narrow = (translated(program_of(name), Features(lanes, True, False)) for lanes in (16, 8))
        assert wide.sources == narrow.sources


@pytest.mark.parametrize(("pairs", "stride", "by_winograd"), [(True, 1, True), (True, 2, False), (False, 1, False)])
def test_bytes_go_by_winograd_where_they_are_multiplied_as_pairs(pairs: bool, stride: int, by_winograd: bool) -> None:
    """The kernel itself is tested in kernels/test_quant.py."""
    x = Inputs()
    b = Builder(x.main)
    kernel = b.literal(weight(32, 32, 3, 3, type="int8"))
    x.main.add_return(
        [b.quant_convolution(x(1, 32, 9, 9, type="int8"), kernel, padding=(1, 1), stride=(stride, stride))]
    )
    made = translated(x.program, Features(lanes=8, bf16_words=False, amx=False, pairs=pairs))
    assert any("winograd_words(t, " in text for text in made.sources) == by_winograd


def test_one_row_has_the_code_of_many() -> None:
    """A step of decoding and the prompt before it share their products; a bias stays what all rows read."""

    def sources(rows: int) -> list[str]:
        made = Program()
        b, x = Builder(made.main), made.main.add_parameter("x", Shape("float", (rows, 64)))
        y = made.main.add_parameter("y", Shape("float", (rows, 48)))
        bias = b.multibroadcast(b.literal(weight(48)), out_lens=(rows, 48))
        made.main.add_return([b.add(b.add(b.dot(x, b.literal(weight(64, 48))), bias), y)])
        return translated(made).sources

    assert sources(1) == sources(5)


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / f"{name}.cpp").write_text(text)

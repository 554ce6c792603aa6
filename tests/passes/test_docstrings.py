"""Every pass's docstring is its test: texts match, answers are equal, a second run changes nothing."""

import importlib
import inspect
import pkgutil
import re
from textwrap import dedent

import numpy as np
import pytest

import migraphx.ops
import migraphx.passes
from migraphx.ir.program import Program
from migraphx.ir.text import parse_program, program_text
from migraphx.ir.verify import verify_program
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.targets.ref.evaluate import evaluate
from tests.tolerances import assert_close

# files that hold none
NO_PASS = {
    "column_parts", "constants", "grouping", "integer_products", "interface", "manager", "pipeline",
    "products_of_views", "resizes", "rewrite", "shapes", "sums_of_convolutions", "trim_windows",
}  # fmt: skip


def passes() -> list[Pass]:
    """The function that each file of passes/ is named for."""
    found = []
    for info in pkgutil.iter_modules(migraphx.passes.__path__):
        if info.name not in NO_PASS:
            module = importlib.import_module(f"migraphx.passes.{info.name}")
            found.append(getattr(module, info.name))
    return found


def texts(one: Pass) -> list[tuple[str, str]]:
    """The pairs of texts, before and after, in a pass's docstring."""
    doc = inspect.getdoc(one) or ""
    pairs = re.findall(r"before:\n(.*?)\nafter:\n(.*?)(?=\n\S|\Z)", doc, re.S)
    return [(dedent(before), dedent(after)) for before, after in pairs]


def random_inputs(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: (rng.standard_normal(p.shape.lens) * 2).astype(p.shape.numpy_dtype)
        for name, p in program.main.parameters.items()
    }


@pytest.mark.parametrize("one", passes(), ids=lambda p: p.__name__)
def test_docstring(one: Pass):
    pairs = texts(one)
    assert pairs, "the docstring has no before: and after:"
    for before, after in pairs:
        program, expected = parse_program(before), parse_program(after)
        inputs = random_inputs(program)
        want = evaluate(program.main, inputs)
        run_passes(program, [one], check=True)
        assert program_text(program) == program_text(expected)
        verify_program(program)
        for got, value in zip(evaluate(program.main, inputs), want, strict=True):
            assert_close(got, value, scale=10)
        once = program_text(program)
        run_passes(program, [one], check=True)
        assert program_text(program) == once

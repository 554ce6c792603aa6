"""The pipeline on random graphs: the same answers, whatever meets whatever."""

import pytest

from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import optimize
from migraphx.targets.ref.evaluate import evaluate
from tests.tiers import few
from tools.fuzz_graphs import differences, made


@pytest.mark.parametrize("seed", few(range(60), *range(10)))
def test_random_graph(seed: int) -> None:
    program, (graph,) = made([(200, seed)])
    run_passes(program.graph, [*optimize, fuse_epilogue], check=True)
    wrong = differences([graph], evaluate(program.graph.main, graph.arguments))
    assert not wrong, "\n\n".join(wrong)

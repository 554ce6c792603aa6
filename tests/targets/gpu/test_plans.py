"""Memory plans of whole programs: what a step reads was written for it, and nobody wrote there since."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from migraphx.api.program import program, published
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import NUMBER, Call
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.steps import lifetimes
from migraphx.targets.common.views import View
from migraphx.targets.gpu.accelerator import ALIGNMENT
from migraphx.targets.gpu.target import PASSES, GpuTarget
from tests.targets.cpu import test_control
from tests.targets.gpu.recorder import Recorder
from tests.targets.gpu.side_by_side import built


def transformer(b: Builder, x: Instruction) -> Instruction:
    """Two layers: products, attention, softmax, norms, residuals."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        weights = [b.literal(rng.standard_normal((32, 32)).astype(np.float32)) for _ in range(4)]
        q, k, v = (b.transpose(b.reshape(b.dot(x, w), dims=(16, 4, 8)), permutation=(1, 0, 2)) for w in weights[:3])
        scores = b.softmax(b.dot(q, b.transpose(k, permutation=(0, 2, 1))), axis=2)
        mixed = b.reshape(b.transpose(b.dot(scores, v), permutation=(1, 0, 2)), dims=(16, 32))
        x = b.add(x, b.relu(b.dot(mixed, weights[3])))
    return b.concat(x, b.tanh(x), axis=1)


def pyramid(b: Builder, x: Instruction) -> list[Instruction]:
    """Convolutions, pooling and concatenation, with values that live long."""
    rng, kept = np.random.default_rng(0), [x]
    for channels in (4, 8, 8):
        width = kept[-1].shape.lens[1]
        weight = b.literal(rng.standard_normal((channels, width, 3, 3)).astype(np.float32))
        kept.append(b.relu(b.convolution(kept[-1], weight, padding=(1, 1, 1, 1))))
    return [b.concat(*kept, axis=1), b.reduce_mean(kept[1], axes=(2, 3))]


PROGRAMS = {
    "transformer": lambda: built(transformer, Shape("float", (16, 32))),
    "pyramid": lambda: built(pyramid, Shape("float", (2, 3, 8, 8))),
    "loops": lambda: published(test_control.all_loops().program.clone()),
}


def lowered(made: program) -> tuple[Sequence[Call], int]:
    graph = made.graph.clone()
    run_passes(graph, PASSES)
    calls = GpuTarget(Recorder())._lowered(graph, CompileOptions()).calls
    return calls, plan_memory(lifetimes(calls), ALIGNMENT)


def touched(view: View) -> np.ndarray:
    """The bytes of the arena that a view's elements take, wherever the trips of its loops move it."""
    starts = np.array([view.buffer.position + view.byte_offset])
    for n, step in zip(view.lens, view.strides, strict=True):
        starts = np.add.outer(starts, np.arange(n) * step * view.itemsize).reshape(-1)
    return np.add.outer(starts, np.arange(view.itemsize)).reshape(-1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_was_written_for_it(name: str) -> None:
    calls, size = lowered(PROGRAMS[name]())
    owner = np.full(size, -1)
    for n, call in enumerate(calls):
        reads, writes = ((), call.reads) if call.flow == NUMBER else (call.reads, call.writes)
        for view in (v for v in call.views if v.buffer.kind == "arena"):
            assert view.buffer.position % ALIGNMENT == 0 and touched(view).max() < size
        for view in (v for v in reads if v.buffer.kind == "arena" and not v.moves):
            own = owner[touched(view)] == view.buffer.index
            assert own.all(), f"step {n}, {call.label}, reads {(~own).sum()} bytes that are not its own"
        for view in (v for v in writes if v.buffer.kind == "arena"):
            start = view.buffer.position
            where = slice(start, start + view.buffer.nbytes) if view.moves else touched(view)
            owner[where] = view.buffer.index


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lives_at_once_is_apart(name: str) -> None:
    calls, _ = lowered(PROGRAMS[name]())
    lives = lifetimes(calls)
    assert lives
    for one, other in product(lives, lives):
        if one is not other and one.first <= other.last and other.first <= one.last:
            a, b = sorted((one.buffer, other.buffer), key=lambda buffer: buffer.position)
            assert a.position + a.nbytes <= b.position

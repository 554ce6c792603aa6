"""Views against NumPy's strided arrays, memory plans against their own promise."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.targets.common.plan_memory import ALIGNMENT, Lifetime, plan_memory
from migraphx.targets.common.views import Buffer, View, loops

RNG = np.random.default_rng(3)


def view_of(array: np.ndarray) -> View:
    strides = tuple(s // array.itemsize for s in array.strides)
    return View(Buffer("arena", array.nbytes), "float", array.shape, strides)


def array_of(view: View, memory: np.ndarray) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(memory[view.offset :], view.lens, [4 * s for s in view.strides])


@pytest.mark.parametrize("seed", range(30))
def test_views_follow_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lens = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 5)))
    memory = np.arange(np.prod(lens), dtype=np.float32)
    array, view = memory.reshape(lens), view_of(memory.reshape(lens))
    for _ in range(4):
        step = rng.integers(0, 3)
        if step == 0:
            order = rng.permutation(array.ndim)
            array, view = array.transpose(order), view.transposed([int(d) for d in order])
        elif step == 1:
            d = int(rng.integers(array.ndim))
            start = int(rng.integers(array.shape[d]))
            array = array[(slice(None),) * d + (slice(start, None),)]
            view = view.sliced(d, start, view.lens[d])
        else:
            flat = view.reshaped((array.size,))
            if flat is not None:
                array, view = array.reshape(-1), flat
        np.testing.assert_array_equal(array_of(view, memory), array)


def test_reshape_refuses_what_needs_a_copy() -> None:
    view = view_of(np.zeros((4, 6), np.float32)).transposed((1, 0))
    assert view.reshaped((24,)) is None
    assert view.reshaped((2, 3, 4)) is not None
    assert view.reshaped((6, 1, 2, 2)) is not None


def test_loops_merge_and_follow_the_lead() -> None:
    x = view_of(np.zeros((2, 3, 4, 5), np.float32))
    assert loops([x, x], 0).lens == (120,)
    last = view_of(np.zeros((2, 4, 5, 3), np.float32).transpose(0, 3, 1, 2))
    nest = loops([x, last], 1)
    assert nest.lens == (2, 20, 3)
    assert nest.strides == ((60, 1, 20), (60, 3, 1))
    assert loops([view_of(np.zeros((1, 1), np.float32))], 0).lens == (1,)


@pytest.mark.parametrize("seed", range(20))
def test_memory_plan_keeps_live_buffers_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lives = []
    for _ in range(60):
        first = int(rng.integers(0, 40))
        lives.append(Lifetime(Buffer("arena", int(rng.integers(1, 5000))), first, first + int(rng.integers(0, 8))))
    total = plan_memory(lives)
    for n, a in enumerate(lives):
        assert a.buffer.position % ALIGNMENT == 0
        assert a.buffer.position + a.buffer.nbytes <= total
        for b in lives[:n]:
            together = a.first <= b.last and b.first <= a.last
            apart = (
                a.buffer.position + a.buffer.nbytes <= b.buffer.position
                or b.buffer.position + b.buffer.nbytes <= a.buffer.position
            )
            assert apart or not together
    assert total <= sum(-(-t.buffer.nbytes // ALIGNMENT) * ALIGNMENT for t in lives) / 2

"""Images of memory against NumPy: every byte that changes is told, and nothing else."""

import os
import termios
from typing import Any

import numpy as np
import pytest

import migraphx


def ranges(array: np.ndarray, *pieces: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Of bytes of an array, from one to before another."""
    begin, end = np.array(pieces, np.int64).reshape(-1, 2).T + array.__array_interface__["data"][0]
    return begin, end


def image(*stages: tuple[np.ndarray, np.ndarray]) -> Any:
    made: Any = migraphx.get_target("cpu").memory_image(stages)
    assert made is not None
    return made


def test_every_byte_counts():
    rng = np.random.default_rng(0)
    memory = rng.integers(0, 256, 200_000, np.uint8)
    pieces = [(0, 1), (3, 11), (64, 64 + 120), (250, 259), (300, 4000), (3990, 4096), (5000, 5000), (8192, 180_001)]
    stages = ranges(memory, *pieces), ranges(memory, (190_000, 190_008), (189_992, 190_000))
    watched = image(*stages)
    inside = np.zeros(len(memory), bool)
    for begin, end in [*pieces, (189_992, 190_008)]:
        inside[begin:end] = True
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    for at in {*edges, *(edges - 1), *rng.integers(0, len(memory), 200)} - {-1, len(memory)}:
        assert watched.same()
        memory[at] ^= 1 << rng.integers(8)
        assert watched.same() != inside[at], at
        memory[at] = 0 if inside[at] else memory[at]
        watched = watched if watched.same() else image(*stages)


def test_a_stage_is_read_only_where_those_before_are_unchanged():
    """It may point to memory that is no more."""
    word = np.zeros(1, np.int64)
    watched = image(ranges(word.view(np.uint8), (0, 8)))
    assert watched.same()
    word[0] = 1
    assert not watched.same()
    every = image(ranges(word.view(np.uint8), (0, 8)), ranges(word.view(np.uint8), (0, 8)))
    assert every.same()
    every._pieces[1] = (8 << 48) | 8  # the zero page, which nobody may read
    word[0] = 2
    assert not every.same()


@pytest.mark.parametrize("stages", [[], [()], [(), ()]])
def test_nothing_is_always_the_same(stages):
    assert image(*[ranges(np.zeros(1), *s) for s in stages]).same()


def test_without_a_compiler_there_is_none(no_compiler):
    """Until there is one."""
    assert migraphx.get_target("cpu").memory_image([]) is None
    no_compiler()
    assert image().same()


def test_what_the_kernel_answers_counts():
    read, write = os.pipe()
    try:
        for file, unchanged in ((read, True), (-1, False)):
            asked = file, termios.FIONREAD, [bytes(96)] * 2
            image: Any = migraphx.get_target("cpu").memory_image([], asked)
            assert image.same() == unchanged
            assert image.asking((read, termios.FIONREAD, [bytes(96)])).same()
        with pytest.raises(ValueError, match="96 bytes"):
            migraphx.get_target("cpu").memory_image([], (read, termios.FIONREAD, [bytes(8)]))
    finally:
        os.close(read)
        os.close(write)


def test_which_ranges_differ():
    memory = np.zeros(300_000, np.uint8)
    watched = image(ranges(memory, (0, 8), (100, 140_000), (200_000, 200_001)))
    assert watched.differing() == []
    memory[[120, 139_999, 150_000, 200_000]] = 1
    base = memory.__array_interface__["data"][0]
    found = np.zeros(len(memory), bool)
    for begin, end in watched.differing():
        found[begin - base : end - base] = True
    assert found[[120, 139_999, 200_000]].all() and not found[[0, 70_000, 150_000]].any()


@pytest.mark.parametrize(
    ("target", "size", "threads"), [("ref", 8, 0), ("cpu", 8, 2), ("cpu", 1 << 20, 1), ("cpu", 1 << 20, 2)]
)
def test_a_run_ends_where_memory_has_changed(target, size, threads):
    """Of one thread, of several, and of so little work that one does it: the next run is as any other."""
    p = migraphx.program()
    main = p.get_main_module()
    x = main.add_parameter("x", migraphx.shape(type="float_type", lens=[size]))
    main.add_return([main.add_instruction(migraphx.op("sqrt"), [x])])
    p.compile(migraphx.get_target(target), num_threads=threads)
    memory = np.zeros(4)
    given = np.random.default_rng(0).random(size, np.float32)
    answer = np.zeros_like(given)
    places = [given.ctypes.data], [answer.ctypes.data]
    for _ in range(2):
        watched = image(ranges(memory.view(np.uint8), (8, 16)))
        assert p.run_unless_changed(watched, *places) is True
        np.testing.assert_allclose(answer, np.sqrt(given), rtol=1e-6)
        answer[:] = 0
        memory[1] += 1
        assert p.run_unless_changed(watched, *places) is False

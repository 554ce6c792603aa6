"""team.hpp and program.hpp: what a thread has, in whichever number of parts it comes."""

import ctypes
from itertools import product

import numpy as np
import pytest

from migraphx.targets.cpu.headers import constant
from tests.targets.cpu.kernels.harness import compile_snippet

SOURCE = r"""
#include "engine.hpp"
#include "program.hpp"
#include <initializer_list>
using namespace mgx;
extern "C" void share(int64_t total, int64_t grain, int threads, int count, int64_t* bounds) {
    for (int i = 0; i < threads * count; ++i) {
        const Range r = Team{i / count, threads}.part(i % count, count).share(total, grain);
        *bounds++ = r.begin, *bounds++ = r.end;
    }
}
extern "C" void cells(int64_t rows, int64_t panels, int64_t depth, int threads, int count, int64_t* bounds) {
    for (int i = 0; i < threads * count; ++i) {
        const Team team{i / count, threads}, part = team.part(i % count, count);
        const Grid g = divide(part, rows, panels, depth);
        for (const Range r : {g.rows, g.panels}) *bounds++ = r.begin, *bounds++ = r.end;
    }
}
extern "C" int64_t parts(int64_t work, int threads, bool coarse) {
    const mgx::Kernel kernel{nullptr, nullptr, coarse};
    mgx::Program g{};
    g.kernels = &kernel;
    return parts_of(g, {0, 0, 0, 0, work}, threads);
}
"""
MANY = constant("MANY_THREADS", "team.hpp")
LONGEST = constant("LONGEST", "program.hpp")


def _share(total: int, grain: int, threads: int, count: int) -> np.ndarray:
    bounds = np.zeros((threads * count, 2), np.int64)
    number = ctypes.c_int64
    compile_snippet(SOURCE).share(number(total), number(grain), threads, count, ctypes.c_void_p(bounds.ctypes.data))
    return bounds


@pytest.mark.parametrize("grain", [1, 8])
def test_parts_are_what_their_thread_has(grain: int) -> None:
    """One behind the other, from whole grains to whole grains, none much longer than another one of its thread."""
    for total, threads, count in product((0, 1, 7, 16, 100, 1000), (1, 2, 3, 7), (1, 2, 8)):
        parts, whole = _share(total, grain, threads, count), _share(total, grain, threads, 1)
        assert parts[0, 0] == 0 and parts[-1, 1] == total and (parts[1:, 0] == parts[:-1, 1]).all()
        assert (parts % grain == 0)[parts < total].all()
        begins, ends = parts.reshape(threads, count, 2).transpose(2, 0, 1)
        assert np.array_equal(begins[:, 0], whole[:, 0]) and np.array_equal(ends[:, -1], whole[:, 1])
        grains = -(-(ends - begins) // grain)
        assert (np.ptp(grains, axis=1) <= 1).all()


def _cells(rows: int, panels: int, threads: int, count: int) -> np.ndarray:
    """Which part of all computes each row of each panel; none computes what another one does."""
    bounds, owner = np.zeros((threads * count, 4), np.int64), np.full((rows, panels), -1)
    size = map(ctypes.c_int64, (rows, panels, 300))
    compile_snippet(SOURCE).cells(*size, threads, count, ctypes.c_void_p(bounds.ctypes.data))
    for i, (top, bottom, left, right) in enumerate(bounds):
        assert (owner[top:bottom, left:right] == -1).all()
        owner[top:bottom, left:right] = i
    return owner


def test_parts_of_a_product_are_what_their_thread_has() -> None:
    for rows, panels, threads, count in product((1, 49, 200), (1, 12, 64), (1, 2, 3, 8), (1, 2, 8)):
        owner = _cells(rows, panels, threads, count)
        assert (owner >= 0).all() and np.array_equal(owner // count, _cells(rows, panels, threads, 1))


def _parts(share: int, threads: int, coarse: bool = False) -> int:
    """Of a kernel that takes each thread so many nanoseconds."""
    parts = compile_snippet(SOURCE).parts
    parts.restype = ctypes.c_int64
    return parts(ctypes.c_int64(share * threads), threads, coarse)


def test_many_threads_have_shorter_parts() -> None:
    """They wait for the slowest one at each kernel."""
    for share, coarse in product((40_000, 200_000, 400_000), (False, True)):
        few, many = _parts(share, MANY - 1, coarse), _parts(share, MANY, coarse)
        assert few == _parts(share, 2, coarse) and many == _parts(share, 64, coarse)
        assert few <= many and (few < many or coarse)
        assert _parts(share, 1, coarse) == 1
    assert _parts(20_000, MANY) == _parts(90_000, MANY, coarse=True) == 1


@pytest.mark.parametrize("threads", [1, 2, MANY, 64])
@pytest.mark.parametrize("coarse", [False, True])
def test_no_part_is_too_long_to_end_a_run(threads: int, coarse: bool) -> None:
    for share in (LONGEST, 10 * LONGEST, 1000 * LONGEST):
        parts = _parts(share, threads, coarse)
        assert share / parts <= LONGEST and parts & (parts - 1) == 0

"""Shapes that a model computes serve every length with one compilation."""

import tracemalloc
from typing import Any

import numpy as np
import onnx.parser
import pytest

import migraphx
from tests.onnx.one_node import theirs
from tests.targets.common.test_dynamic import regions
from tests.tolerances import MODEL_ERROR, relative_error

RNG = np.random.default_rng(0)
HEAD = '<ir_version: 10, opset_import: ["" : 20]> net '
LENGTHS = """  n = Shape <start = 0, end = 1> (x)
  t = Shape <start = 1, end = 2> (x)
  ns = Squeeze (n)
  ts = Squeeze (t)
  rows = Range (none, ns, step)
  columns = Range (none, ts, step)
  r = Unsqueeze (rows, one)
"""
"""How many rows x has and how long they are, and the numbers of both."""
MASK = (
    """(float[N, T, 8] x, int64[N, T] m) => (float[N, T, 8] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64 none = {0}, int64 step = {1}, int64[1] two = {2},
 int64[2] heads = {2, 4}, int64[2] outer = {1, 2}, int64[1] first = {-1}, float low = {-10.0}, float nil = {0.0}>
{
"""
    + LENGTHS
    + """  c = Unsqueeze (columns, zero)
  both = Max (r, c)
  lens = Shape (both)
  re = Expand (r, lens)
  ce = Expand (c, lens)
  ru = Unsqueeze (re, first)
  cu = Unsqueeze (ce, first)
  at = Concat <axis = -1> (ru, cu)
  picked = GatherND (m, at)
  going = GreaterOrEqual (c, none)
  keep0 = Cast <to = 9> (picked)
  keep1 = And (keep0, going)
  keep = Unsqueeze (keep1, outer)
  bias = Where (keep, nil, low)
  dims = Concat <axis = 0> (n, t, heads)
  h0 = Reshape (x, dims)
  h = Transpose <perm = [0, 2, 1, 3]> (h0)
  k = Transpose <perm = [0, 1, 3, 2]> (h)
  s = MatMul (h, k)
  b = Add (s, bias)
  p = Softmax <axis = -1> (b)
  v = MatMul (p, h)
  vt = Transpose <perm = [0, 2, 1, 3]> (v)
  whole = Concat <axis = 0> (n, t, first)
  flat = Reshape (vt, whole)
  most = Mul (t, two)
  scale0 = Cast <to = 1> (most)
  y = Mul (flat, scale0)
}"""
)
FLAT = (
    """(float[N, T] x) => (float[M] y, float[K] z)
<int64[1] all = {-1}, int64[1] one = {1}, int64[1] zero = {0}, int64 none = {0}, int64 step = {1}, int64 two = {2}>
{
"""
    + LENGTHS
    + """  start = Mul (r, ts)
  c = Unsqueeze (columns, zero)
  at = Add (start, c)
  flat = Reshape (x, all)
  picked = Gather (flat, at)
  half = Div (ts, two)
  h = Unsqueeze (half, zero)
  part = Slice (picked, zero, h, one)
  y = Reshape (part, all)
  count = Size (part)
  lens = Unsqueeze (count, zero)
  ones = ConstantOfShape <value = float[1] {1.0}> (lens)
  z = Add (ones, y)
}"""
)

FOUND = """(float[N, T] x) => (float[M] y, float[N, T] z, int64[K] s) <float two = {2.0}, int64[1] one = {1}>
{
  r = Relu (x)
  places = NonZero (r)
  at = Transpose <perm = [1, 0]> (places)
  v = GatherND (x, at)
  y = Mul (v, two)
  sum = ReduceSum <keepdims = 1> (y)
  z = Add (r, sum)
  rows = Gather <axis = 1> (at, one)
  names, first, of, counts = Unique <axis = 0> (rows)
  s = ReduceSum <keepdims = 0> (names, one)
}"""


def program(text: str) -> tuple[bytes, migraphx.program]:
    data = onnx.parser.parse_model(HEAD + text).SerializeToString()
    dims = {d: migraphx.shape.dynamic_dimension(1, 64) for d in "NT"}
    made = migraphx.parse_onnx_buffer(data, dim_params=dims)
    made.compile(migraphx.get_target("cpu"))
    return data, made


MANY = [(3, 10), (2, 33), (7, 12), (6, 64), (3, 9), (5, 47)]
ONE = [(1, 10), (1, 33), (1, 12), (1, 9)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "lengths", "most"), [(MASK, MANY, 2), (MASK, ONE, 2), (MASK, [*ONE, *MANY], 3), (FLAT, MANY, 3)]
)
def test_one_form_for_most_lengths(text: str, lengths: list[tuple[int, int]], most: int) -> None:
    data, made = program(text)
    for n, t in lengths:
        x = RNG.standard_normal((n, t, 8) if text is MASK else (n, t)).astype(np.float32)
        feed: dict[str, Any] = {"x": x, "m": (RNG.random((n, t)) < 0.8).astype(np.int64)}
        feed = {name: feed[name] for name in made.get_parameter_names()}
        for got, want in zip(made.run(feed), theirs(data, feed), strict=True):
            assert np.array(got).shape == want.shape
            assert relative_error(np.array(got), want) < MODEL_ERROR
    executable: Any = made.executable
    assert 1 <= len(executable.region.forms) <= most
    assert executable.region.forms.waited == 1 or text is FLAT  # also for many behind one
    assert "sizes" in " ".join(s.kernel for s in executable.steps) or text is FLAT


def test_bounds_are_read_without_large_constants() -> None:
    """The index tuples of a mask of the largest lengths would take 256 MB, and seconds."""
    data = onnx.parser.parse_model(HEAD + MASK).SerializeToString()
    tracemalloc.start()
    migraphx.parse_onnx_buffer(data, dim_params={d: migraphx.shape.dynamic_dimension(1, 4096) for d in "NT"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26


def test_what_data_decides_is_no_new_program() -> None:
    """Two instructions after each other whose sizes depend on data, for images of any size."""
    data, made = program(FOUND)
    executable: Any = made.executable
    count = 0
    for n, t in [*MANY, (4, 8), (11, 31), (9, 40)]:
        x = RNG.standard_normal((n, t)).astype(np.float32)
        for got, want in zip(made.run({"x": x}), theirs(data, {"x": x}), strict=True):
            assert np.array(got).shape == want.shape
            assert relative_error(np.array(got), want) < MODEL_ERROR
        found = list(regions(executable.region))
        assert not count or count == len(found)  # no parts for some sizes alone
        count = len(found)
    assert count == 7 and max(len(r.forms) for r in found if r.forms is not None) <= 3


def test_reports_tell_the_lengths_of_the_run() -> None:
    _, made = program(FLAT)
    for n in (3, 11):
        made.run({"x": np.ones((2, n), np.float32)})
        executable: Any = made.executable
        texts = [s.text for s in executable.steps]
        assert any(f"{{2, {n // 2}}}" in t or f"{{{2 * (n // 2)}}}" in t for t in texts), texts
        assert all(isinstance(s.bytes, int) and isinstance(s.flops, int) for s in executable.steps)
        assert not any("\x02" in t for t in texts)

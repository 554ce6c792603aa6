"""What exporters write of shapes costs no compilation at another size: the program is one for all of them."""

import re
from typing import Any

import numpy as np
import onnx.parser
import pytest

import migraphx
from tests.onnx.one_node import theirs
from tests.tiers import few, few_rows
from tests.tolerances import MODEL_ERROR, relative_error

RNG = np.random.default_rng(0)
HEAD = '<ir_version: 10, opset_import: ["" : 20]> net '
WINDOWS = """(float[N, 16, 8] x) => (float[M, P, 8] y)
<int64[1] zero = {0}, int64 one = {1}, int64 none = {0}, int64 four = {4}, int64[1] last = {8}, int64[1] all = {-1}>
{
  lens = Shape (x)
  n = Gather (lens, none)
  t = Gather (lens, one)
  rows = Div (t, four)
  more = Mul (n, rows)
  a = Unsqueeze (more, zero)
  b = Unsqueeze (four, zero)
  dims = Concat <axis = 0> (a, b, last)
  y = Reshape (x, dims)
}"""
"""A length that the model computes of a fixed one stands beside an open one, as in windows and heads."""
KEYS = """(float[N, T, 8] x) => (float[N, T, 1, 8] y)
<int64[1] zero = {0}, int64 one = {1}, int64 none = {0}, int64 two = {2}, int64[1] eight = {8}>
{
  lens = Shape (x)
  n = Gather (lens, none)
  t = Gather (lens, one)
  w = Gather (lens, two)
  once = Div (w, w)
  a = Unsqueeze (n, zero)
  b = Unsqueeze (t, zero)
  c = Unsqueeze (once, zero)
  dims = Concat <axis = 0> (a, b, c, eight)
  r = Reshape (x, dims)
  y = Relu (r)
}"""
MASKED = """(int64[N, T] m, float[N, 2, T] x) => (float[N, 2, T] y)
<int64[1] zero = {0}, int64[1] inner = {1}, int64 none = {0}, int64 step = {1}, float low = {-10.0}, float nil = {0.0}>
{
  t = Shape <start = 1, end = 2> (m)
  count = Squeeze (t)
  places = Range (none, count, step)
  row = Unsqueeze (places, zero)
  early = LessOrEqual (row, m)
  keep = Unsqueeze (early, inner)
  bias = Where (keep, nil, low)
  s = Add (x, bias)
  y = Softmax <axis = -1> (s)
}"""
GATES = """(float[T, N, 3] x) => (float[T, 1, N, 4] y, float[1, N, 4] h)
{
  w = ConstantOfShape <value = float[1] {0.25}> (wide)
  r = ConstantOfShape <value = float[1] {-0.5}> (high)
  y, h = GRU <hidden_size = 4> (x, w, r)
}""".replace("{\n", "<int64[3] wide = {1, 12, 3}, int64[3] high = {1, 12, 4}>\n{\n", 1)
FRAMES = """(float[N, T, 1] x) => (float[N, F, 5, 2] y) <int64 step = {4}, float[8] window = {1,2,3,4,4,3,2,1}>
{
  y = STFT (x, step, window)
}"""
IMAGE = """(float[N, 2, T, U] x) => (float[N, 4, V, W] y) <float[4, 2, 3, 3] w = {WEIGHTS}>
{
  c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
  y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (c)
}""".replace("WEIGHTS", ", ".join(f"{n:.3f}" for n in RNG.standard_normal(72)))
LARGER = """(float[N, 2, 3, 3] x) => (float[N, 2, 6, 6] y) <float[4] scales = {1.0, 1.0, 2.0, 2.0}>
{
  y = Resize <mode = "nearest"> (x, , scales)
}"""
CODES = """(float[N, T, 4] x) => (float[N, T, 2] y)
<float step = {0.05}, int8 point = {3}, int8[4, 2] w = {1, -7, 25, 90, -128, 127, 3, 0}, float[2] steps = {0.1, 0.02},
 int8[2] points = {0, 0}>
{
  q = QuantizeLinear (x, step, point)
  d = DequantizeLinear (q, step, point)
  v = DequantizeLinear <axis = 1> (w, steps, points)
  y = MatMul (d, v)
}"""
TURNED = """(float[N, 8] x, float[T, 8] z) => (float[N, T] y, float[T, N] w)
{
  u = Transpose <perm = [1, 0]> (z)
  y = MatMul (x, u)
  w = Transpose <perm = [1, 0]> (y)
}"""
TRIANGLES = """(float[N, T, T] x, float[T, N] z) => (float[N, T, T] y, float[N, T, T] w, float[T, N] v, int64[T, N] u)
<int64 one = {1}>
{
  y = Trilu <upper = 1> (x, one)
  w = Trilu <upper = 0> (x)
  v = EyeLike <k = -1> (z)
  u = EyeLike <dtype = 7> (z)
}"""
SUMMED = """(float[N, T, 4] x, float[T, N, 4] z) => (float[N, T, T] y)
{
  y = Einsum <equation = "nid,jnd->nij"> (x, z)
}"""
DISTANCES = """(float[N, T] x) => (int64[D] y, int64[E] w)
<int64 down = {-1}, int64 three = {3}, int64 five = {5}, int64 none = {0}>
{
  n = Shape <start = 0, end = 1> (x)
  t = Shape <start = 1, end = 2> (x)
  ns = Squeeze (n)
  ts = Squeeze (t)
  last = Neg (ns)
  y = Range (ts, last, down)
  more = Add (ts, five)
  w = Range (five, more, three)
}"""
TOKEN = """(float[N, T, 2] x, float[1, 1, 2] t) => (float[N, P, 2] y)
{
  y = Concat <axis = 1> (t, x)
}"""
MANY = [(3, 20), (2, 33), (1, 12), (6, 64), (5, 9), (1, 47)]


def program(text: str) -> tuple[bytes, migraphx.program]:
    data = onnx.parser.parse_model(HEAD + text).SerializeToString()
    dims = {d: migraphx.shape.dynamic_dimension(1, 64) for d in "NTU" if re.search(rf"\b{d}\b", text.splitlines()[0])}
    made = migraphx.parse_onnx_buffer(data, dim_params=dims)
    made.compile(migraphx.get_target("cpu"))
    return data, made


def one_program(text: str, lens: dict[str, Any], lengths: list[tuple[int, int]], most: int = 1) -> None:
    """All lengths have onnxruntime's answers, and at most so many forms."""
    data, made = program(text)
    for n, t in lengths:
        of: dict[Any, int] = {"N": n, "T": t, "U": 30}
        shapes = {name: [of[d] if isinstance(d, str) else d for d in own] for name, own in lens.items()}
        feed: dict[str, Any] = {name: RNG.standard_normal(own).astype(np.float32) for name, own in shapes.items()}
        if "m" in feed:
            feed["m"] = (20 * feed["m"]).astype(np.int64)
        for got, want in zip(made.run(feed), theirs(data, feed), strict=True):
            assert np.array(got).shape == want.shape
            assert relative_error(np.array(got), want) < MODEL_ERROR
    executable: Any = made.executable
    assert 1 <= len(executable.region.forms) <= most


@pytest.mark.parametrize("lengths", few([MANY, MANY[::-1]], at=[0]))
@pytest.mark.parametrize(
    ("text", "lens"),
    few_rows(
        [
            (WINDOWS, {"x": ("N", 16, 8)}),
            (KEYS, {"x": ("N", "T", 8)}),
            (MASKED, {"x": ("N", 2, "T"), "m": ("N", "T")}),
            (GATES, {"x": ("T", "N", 3)}),
            (FRAMES, {"x": ("N", "T", 1)}),
            (IMAGE, {"x": ("N", 2, "T", "U")}),
            (LARGER, {"x": ("N", 2, 3, 3)}),
            (CODES, {"x": ("N", "T", 4)}),
            (TRIANGLES, {"x": ("N", "T", "T"), "z": ("T", "N")}),
            (SUMMED, {"x": ("N", "T", 4), "z": ("T", "N", 4)}),
            (DISTANCES, {"x": ("N", "T")}),
        ],
        at=[0, 2, 5, 8, 9],
    ),
    ids=[
        "windows",
        "keys",
        "masked",
        "gates",
        "frames",
        "image",
        "larger",
        "codes",
        "triangles",
        "summed",
        "distances",
    ],
)
def test_one_program_for_all_sizes(text: str, lens: dict[str, Any], lengths: list[tuple[int, int]]) -> None:
    one_program(text, lens, lengths, 3 if text is FRAMES else 1)  # a sum over one frame is another


@pytest.mark.parametrize("lengths", [MANY[1:], MANY[::-1]])  # of 3 first there is a program of their own
def test_one_program_for_answers_that_are_turned(lengths: list[tuple[int, int]]) -> None:
    one_program(TURNED, {"x": ("N", 8), "z": ("T", 8)}, lengths)


def test_a_batch_of_1_beside_a_constant_of_1() -> None:
    """A class's token is joined to a batch of 1 alone: of such a batch there is a program, too, for all lengths."""
    data, made = program(TOKEN)
    for t in (5, 9, 30):
        feed = {"x": RNG.standard_normal((1, t, 2)).astype(np.float32), "t": np.ones((1, 1, 2), np.float32)}
        (got,), (want,) = made.run(feed), theirs(data, feed)
        np.testing.assert_array_equal(np.array(got), want)
    executable: Any = made.executable
    assert len(executable.region.forms) == 1

"""If, Loop and Scan, nested and with values from around them, give onnxruntime's answers on every target."""

import numpy as np
import onnx
import onnx.parser
import pytest

import migraphx
from tests.onnx.one_node import ours, theirs
from tests.tolerances import assert_close

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
ROWS = RNG.normal(size=(3, 5, 4)).astype(np.float32)

NESTED = """
net (float[3,4] x, int64 n, bool go, float limit) => (float[3,4] y, float[3,4] z, int64 count) {
  e = Exp(x)
  one = Constant <value = int64 {1}> ()
  zero = Constant <value = int64 {0}> ()
  always = Constant <value = bool {1}> ()
  five = Constant <value = int64 {5}> ()
  y, z, count = Loop (n, go, x, x, zero) <body = outer (int64 i, bool c, float[3,4] a, float[3,4] b, int64 k)
      => (bool more, float[3,4] a2, float[3,4] b2, int64 k2) {
    f = Cast <to = 1> (i)
    scaled = Mul (e, f)
    a1 = Loop (five, always, b) <body = inner (int64 j, bool d, float[3,4] s)
        => (bool d2, float[3,4] s2) {
      d2 = Identity (d)
      t = Tanh (s)
      s2 = Sub (t, scaled)
    }>
    sum = ReduceSum <keepdims = 0> (a1)
    more = Greater (sum, limit)
    a2 = If (more) <
      then_branch = yes () => (float[3,4] v) { v = Add (a1, a) },
      else_branch = no () => (float[3,4] w) { w = Mul (a1, x) }>
    b2 = Identity (a)
    k2 = Add (k, one)
  }>
}
"""

GATHERED = """
net (float[3,4] x, bool p) => (float[3,4] last, float[6,3,4] all, float[6,4] sums, float[6] steps) {
  n = Constant <value = int64 {6}> ()
  always = Constant <value = bool {1}> ()
  axes = Constant <value = int64[1] {0}> ()
  last, all, sums, steps = Loop (n, always, x) <body = b (int64 i, bool c, float[3,4] s)
      => (bool c2, float[3,4] s2, float[3,4] s3, float[4] r, float f) {
    c2 = Identity (c)
    f = Cast <to = 1> (i)
    t = Add (s, f)
    s2 = If (p) <
      then_branch = yes () => (float[3,4] v) { v = Tanh (t) },
      else_branch = no () => (float[3,4] w) { w = Identity (x) }>
    s3 = Identity (s2)
    r = ReduceSum <keepdims = 0> (s2, axes)
  }>
}
"""

SCAN = """
net (float[3,4] x, float[3,5,4] rows, float[5] factors) => (float[3,4] last, float[3,5,4] sums, float[4,5] means) {
  axes = Constant <value = int64[1] {0}> ()
  last, sums, means = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
      scan_output_axes = [1, -1], scan_output_directions = [0, 1],
      body = b (float[3,4] s, float[3,4] row, float f) => (float[3,4] s2, float[3,4] o, float[4] m) {
    g = Mul (row, f)
    h = Add (s, g)
    s2 = Sub (h, x)
    o = Exp (s2)
    m = ReduceMean <keepdims = 0> (s2, axes)
  }> (x, rows, factors)
}
"""


def check(text: str, *every: dict[str, np.ndarray], scale: float = 4) -> None:
    data = onnx.parser.parse_model(HEAD + text).SerializeToString()
    for target in ("ref", "cpu"):
        program = migraphx.parse_onnx_buffer(data)
        program.compile(migraphx.get_target(target))
        for given in every:
            got = program.run({n: given[n] for n in program.get_parameter_names()})
            for value, want in zip(got, theirs(data, given), strict=True):
                assert_close(np.array(value), want, scale=scale)


def test_nested_loops_and_branches():
    """Trips by number and by condition: all, none, none by the condition, until the condition fails."""
    trips = [(4, True, -1e9), (0, True, -1e9), (4, False, -1e9), (9, True, -6.0), (9, True, 1e9)]
    given = [{"n": np.array(n), "go": np.array(go), "limit": np.array(limit, np.float32)} for n, go, limit in trips]
    check(NESTED, *({"x": X, **g} for g in given))


def test_gathered_values():
    check(GATHERED, *({"x": X, "p": np.array(p)} for p in (True, False)))


def test_scan():
    check(SCAN, {"x": X, "rows": ROWS, "factors": np.arange(5, dtype=np.float32)})


def test_a_state_that_grows_is_unrolled():
    text = """
    net (float[1] x) => (float[4] y) {
      n = Constant <value = int64 {3}> ()
      always = Constant <value = bool {1}> ()
      y = Loop (n, always, x) <body = b (int64 i, bool c, s) => (bool c2, s2) {
        c2 = Identity (c)
        t = Exp (x)
        s2 = Concat <axis = 0> (s, t)
      }>
    }
    """
    check(text, {"x": X[0, :1]})


def test_a_number_of_rows_that_depends_on_a_value():
    text = GATHERED.replace("n = Constant <value = int64 {6}> ()", "n = Cast <to = 7> (x0)")
    text = text.replace("bool p)", "bool p, float x0)").replace("[6", "[rows")
    check(text, *({"x": X, "p": np.array(True), "x0": np.array(n, np.float32)} for n in (3, 1, 0)))


def test_a_body_that_takes_too_many_inputs():
    text = GATHERED.replace("int64 i, bool c, float[3,4] s)", "int64 i, bool c, float[3,4] s, float q)")
    with pytest.raises(ValueError, match="takes 4 inputs"):
        ours(onnx.parser.parse_model(HEAD + text).SerializeToString(), {})


def test_more_trips_than_the_limit():
    with pytest.raises(ValueError, match="makes 6 trips, limit_max_iterations is 5"):
        migraphx.parse_onnx_buffer(onnx.parser.parse_model(HEAD + GATHERED).SerializeToString(), limit_max_iterations=5)


@pytest.mark.parametrize(
    ("trips", "options", "made"),
    [
        (None, {"max_loop_iterations": 7}, 7),
        (None, {"limit_max_iterations": 5}, 5),
        (None, {"max_loop_iterations": 7, "limit_max_iterations": 5}, 5),
        (2**63 - 1, {"max_loop_iterations": 7, "limit_max_iterations": 6}, 6),
        (9, {"max_loop_iterations": 7}, 9),
    ],
)
def test_bounds_of_a_loop_without_end(trips, options, made):
    text = f"""
net (float[3,4] x, bool go) => (float[3,4] y) {{
  most = Constant <value = int64 {{{trips or 0}}}> ()
  one = Constant <value = float {{1.0}}> ()
  y = Loop ({'""' if trips is None else "most"}, go, x) <body = b (int64 i, bool c, float[3,4] v)
      => (bool more, float[3,4] w) {{
    more = Identity (c)
    w = Add (v, one)
  }}>
}}
"""
    model = onnx.parser.parse_model(HEAD + text).SerializeToString()
    for target in ("ref", "cpu"):
        p = migraphx.parse_onnx_buffer(model, **options)
        p.compile(migraphx.get_target(target))
        assert_close(np.array(p.run({"x": X, "go": np.array(True)})[0]), X + np.float32(made))


LOOPED = "net (int64 n, bool c, float[2] x) => (float[2] r) { r = Loop (n, c, x) <body = "
BRANCHED = "net (bool c, float[2] x) => (float[2] r) { r = If (c) <then_branch = a () => "
SCANNED = (
    "net (float[3,2] x) => (float[3,2] r) { r = Scan <num_scan_inputs = 1, body = b (float[2] e) => (float[2] o) { "
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOOPED + "b (int64 i, bool d, float[2] v) => (bool e) { e = Identity (d) }> }", "gives 1 values"),
        (LOOPED + "b (int64 i, bool d, float[2] v) => (bool e, int64[2] w) { e = Not (d) w = Cast<to = 7> (v) }> }",
         "carries float, its body gives int64"),
        (BRANCHED + "(float[2] y) { y = Relu (x) }, else_branch = b () => (int64[2] z) { z = Cast<to = 7> (x) }> }",
         "give .'float'. and .'int64'."),
        (BRANCHED + "(float[2] y, float[2] w) { y = Relu (x) w = Abs (x) }, "
         "else_branch = b () => (float[2] z) { z = Neg (x) }> }", "give 2 and 1 values"),
        (SCANNED + "o = Neg (e) }, scan_input_directions = [2]> (x) }", "must be 0 or 1"),
        (SCANNED + "o = Neg (e) }, scan_output_directions = [-1]> (x) }", "must be 0 or 1"),
    ],
)  # fmt: skip
def test_graphs_that_never_fit_are_refused_when_they_are_read(text, words):
    """Whatever the condition and the number of trips are in a run."""
    with pytest.raises(ValueError, match=words):
        migraphx.parse_onnx_buffer(onnx.parser.parse_model(HEAD + text).SerializeToString())

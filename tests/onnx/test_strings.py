"""Operators on strings, which are constants of a model here, against the standard's reference evaluator."""

import re
import string
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import migraphx
from migraphx.onnx.graph import OnnxError

RNG = np.random.default_rng(5)
WORDS = np.array(["".join(RNG.choice(list("ab1 ."), RNG.integers(0, 6))) for _ in range(40)], object).reshape(8, 5)


def model(op: str, words: np.ndarray, outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    tensor = numpy_helper.from_array(words, "x")
    names = [f"y{k}" for k in range(outputs)]
    nodes = [helper.make_node(op, ["x"], names, **attributes)]
    graph = helper.make_graph(nodes, "strings", [], [onnx.ValueInfoProto(name=names[-1])], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def ours(made: onnx.ModelProto) -> list:
    p = migraphx.parse_onnx_buffer(made.SerializeToString())
    p.compile(migraphx.get_target("ref"))
    return np.array(p.run({})[0]).tolist()


def theirs(made: onnx.ModelProto) -> list:
    return next(np.asarray(y).tolist() for y in ReferenceEvaluator(made).run(None, {}))


@pytest.mark.parametrize("pattern", [r"[ab]+", r"a.*", r"(a|b|\d)*", r".?", "", r"\w{2,3}", r"[^\s]+\.", "(?i)A*b?"])
def test_regex(pattern: str) -> None:
    made = model("RegexFullMatch", WORDS, pattern=pattern)
    assert ours(made) == theirs(made)


def test_patterns_take_linear_time() -> None:
    """Python's own regular expressions need 2**40 steps for this one."""
    words = np.array(["a" * 40, "a" * 40 + "b"], object)
    assert ours(model("RegexFullMatch", words, pattern="(a+)+b")) == [False, True]


@pytest.mark.parametrize("pattern", ["(a", r"(a)\1", "a{100000}", "[z-a]", "(?=a)"])
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(OnnxError, match=rf"RegexFullMatch.*pattern {re.escape(repr(pattern))}: \w+"):
        ours(model("RegexFullMatch", WORDS, pattern=pattern))


def test_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(OnnxError, match="pip install google-re2"):
        ours(model("RegexFullMatch", WORDS, pattern="a"))


@pytest.mark.parametrize("most", [None, 1, 2])
@pytest.mark.parametrize("delimiter", ["", " ", ".", "ab"])
def test_split(delimiter: str, most: int | None) -> None:
    words = np.array(["".join(RNG.choice(list(string.ascii_lowercase[:3] + " ."), 9)) for _ in range(12)], object)
    made = model("StringSplit", words, 2, delimiter=delimiter, **({} if most is None else {"maxsplit": most}))
    assert ours(made) == theirs(made)  # how many parts each has

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
import migraphx.backend as backend
from migraphx.onnx.graph import OnnxError
from tests.onnx.one_node import theirs as runtime

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


# ---- strings as inputs, against onnxruntime ----


def with_input(nodes: list[onnx.NodeProto], words: np.ndarray, output: str, **constants: np.ndarray) -> onnx.ModelProto:
    """A model whose input x holds strings."""
    info = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, words.shape)
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "strings", [info], [onnx.ValueInfoProto(name=output)], tensors)
    opsets = [helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def agree(made: onnx.ModelProto, words: np.ndarray) -> np.ndarray:
    (want,) = runtime(made.SerializeToString(), {"x": words})
    (got,) = backend.RefBackend.run_model(made, [words])
    assert got.shape == want.shape and got.tolist() == want.tolist()
    return got


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "how",
    [{"separators": [" "]}, {"separators": ["[ .]+", "b"]}, {"separators": [""]}, {"tokenexp": "."},
     {"tokenexp": "[a-z]+"}, {"tokenexp": "a|a1|b a"}, {"tokenexp": "(a|b)+"}],
)  # fmt: skip
def test_tokens(how: dict[str, Any], mark: int) -> None:
    letter = how.get("tokenexp") == "." or how.get("separators") == [""]
    for fewest in (1,) if letter else (1, 2):
        node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", mark=mark, mincharnum=fewest,
                                pad_value="#", **how)  # fmt: skip
        for words in (WORDS, WORDS[0], np.array(["", "?"], object)):
            agree(with_input([node], words, "y"), words)


@pytest.mark.parametrize("given", [{}, {"separators": [" "], "tokenexp": "a"}, {"tokenexp": ".", "mincharnum": 2}])
def test_bad_tokens(given: dict[str, Any]) -> None:
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft",
                            **({"mark": 0, "mincharnum": 1, "pad_value": ""} | given))  # fmt: skip
    with pytest.raises(OnnxError, match=r"Tokenizer.*(needs one of|never have)"):
        backend.RefBackend.run_model(with_input([node], WORDS, "y"), [WORDS])


@pytest.mark.parametrize("stops", [[], ["the"], ["The", "dog"], ["the", "the dog", "", "dog"]])
@pytest.mark.parametrize(("change", "exact"), [("NONE", 1), ("LOWER", 0), ("UPPER", 1)])
def test_normalizer(change: str, exact: int, stops: list[str]) -> None:
    words = np.array(["the", "The dog", "", "dog", "the"], object)
    given: dict[str, Any] = {"stopwords": stops} if stops else {}
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action=change, is_case_sensitive=exact,
                            locale="C", **given)  # fmt: skip
    for x in (words, words[None]):
        agree(with_input([node], x, "y"), x)


def test_operators_that_move_elements_move_strings() -> None:
    ints = {"lens": np.array([4, 10]), "at": np.array([3, 0, 2]), "start": np.array([1]), "end": np.array([9])}
    make = helper.make_node
    nodes = [
        make("Transpose", ["x"], ["a"], perm=[1, 0]), make("Reshape", ["a", "lens"], ["b"]),
        make("Gather", ["b", "at"], ["c"], axis=0), make("Concat", ["c", "b"], ["d"], axis=0),
        make("Slice", ["d", "start", "end", "start"], ["e"]), make("Split", ["e"], ["f", "g"], axis=1),
        make("Flatten", ["g"], ["y"], axis=0),
    ]  # fmt: skip
    rows = WORDS.T.reshape(4, 10)
    want = np.concatenate([rows[[3, 0, 2]], rows])[:, 5:9].reshape(1, -1)
    (got,) = backend.RefBackend.run_model(with_input(nodes, WORDS, "y", **ints), [WORDS])
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("op", "inputs", "words"),
    [
        ("Concat", ["n", "x"], "inputs 0 and 1 are int64 and string"),
        ("Gather", ["n", "x"], "input 1 is a tensor of strings"),
        ("Expand", ["n", "x"], "input 1 is a tensor of strings"),
        ("Reshape", ["n", "x"], "is string, must be one of int64"),
    ],
)
def test_strings_are_no_numbers(op: str, inputs: list[str], words: str) -> None:
    attributes: dict[str, Any] = {"axis": 0} if op in ("Concat", "Gather") else {}
    node = helper.make_node(op, inputs, ["y"], **attributes)
    with pytest.raises(OnnxError, match=f"{op}.*{words}"):
        backend.RefBackend.run_model(with_input([node], WORDS[0], "y", n=np.arange(5)), [WORDS[0]])


def test_encoders_of_strings() -> None:
    words = np.array([["a", "x"], ["b", "y"], ["a", "y"]], object)
    known = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=list("abxy"), zeros=0)
    agree(with_input([known], words, "y"), words)
    first = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=list("yxb"))
    made = with_input([first], words, "y")
    made.opset_import[2].version = 1
    (got,) = backend.RefBackend.run_model(made, [words])
    assert got.tolist() == [[-1, 1], [2, 0], [-1, 0]]
    words[0, 0] = "q"
    with pytest.raises(OnnxError, match=r"OneHotEncoder.*index 4"):
        backend.RefBackend.run_model(with_input([known], words, "y"), [words])


def test_constants_in_attributes() -> None:
    tensor = numpy_helper.from_array(np.array(["b", "d"], object), "v")
    nodes = [
        helper.make_node("Constant", [], ["words"], value_strings=["a", "d"]),
        helper.make_node("Constant", [], ["word"], value_string="d"),
        helper.make_node("Constant", [], ["others"], value=tensor),
        helper.make_node("Equal", ["words", "word"], ["y"]),
        helper.make_node("Equal", ["words", "others"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "strings", [], [onnx.ValueInfoProto(name=n) for n in "yz"])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    assert [y.tolist() for y in backend.run_model(made, [])] == [[False, True]] * 2

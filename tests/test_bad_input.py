"""Every kind of bad input on every road into the engine: what is refused, in which words, and what cannot be there.

External data and the folder of a model, which only ONNX has, are in tests/onnx/test_bad_input.py, compiled parts of
files in tests/mxr/test_attacks.py, random damage in tests/fuzz.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import migraphx
from migraphx.ir.text import TextError, parse_program, program_text
from migraphx.mxr import container
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.wire import encoded
from migraphx.targets.ref.evaluate import evaluate
from tests.onnx.one_node import model

Node = dict[str, Any]
X: Node = {"out": "x", "op": "@param", "lens": [2, 3]}
RELU: Node = {"out": "y", "op": "relu", "in": ["x"], "lens": [2, 3]}
F = TensorProto.FLOAT


# ---- a graph on each road ----


def strides(lens: list[int]) -> list[int]:
    return [int(np.prod(lens[d + 1 :], dtype=object)) for d in range(len(lens))]


def shape(node: Node, suffix: str = "") -> dict[str, Any]:
    return {"type": f"float{suffix}", "lens": node["lens"], "strides": node.get("strides", strides(node["lens"]))}


def onnx_model(*nodes: tuple[str, list[str], str, dict[str, Any]], lens: Any = (2, 3), also: str = "") -> bytes:
    """Inputs are x and, where given, `also`."""
    made = [helper.make_node(op, names, [out], name=f"n{k}", **more) for k, (op, names, out, more) in enumerate(nodes)]
    message = onnx.ModelProto.FromString(model(made, {"x": (F, lens)}, [nodes[-1][2]]))
    message.graph.input.extend([helper.make_tensor_value_info(also, F, lens)] if also else [])
    return message.SerializeToString()


def with_literal(raw: bytes, dims: list[int]) -> bytes:
    message = onnx.ModelProto.FromString(onnx_model(("Add", ["x", "w"], "y", {})))
    message.graph.initializer.append(TensorProto(name="w", dims=dims, data_type=F, raw_data=raw))
    return message.SerializeToString()


def mxr(*nodes: Node, header: Callable[[str], str] = lambda text: text, **tensors: np.ndarray) -> bytes:
    places = {n["out"]: f"main:{k}" for k, n in enumerate(nodes)}
    lines = []
    for n in nodes:
        line = {"op": n["op"], "inputs": [places.get(i, i) for i in n.get("in", [])], "attributes": n.get("with", {})}
        if n["op"] == "@param":
            line |= {"parameter": n.get("name", n["out"]), "shape": shape(n)}
        if n["op"] == "@literal":
            line |= {"tensor": "w", "shape": shape(n)}
        lines.append(line)
    program = header(json.dumps([{"name": "main", "instructions": lines}]))
    return container.to_bytes(tensors, {"format": "openmgx 1", "program": program})


def with_header(data: bytes, change: Callable[[Any], object]) -> bytes:
    """A `.mxr` file whose header is another, and has no checksum."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def edited(data: bytes, **entry: Any) -> bytes:
    """A `.mxr` file whose tensor `w` is said to be another."""
    return with_header(data, lambda header: header["w"].update(entry))


def upstream(*nodes: Node) -> bytes:
    made = []
    for n in nodes:
        node = {"output": n["out"], "name": n["op"], "inputs": n.get("in", []), "operator": n.get("with", {})}
        node |= {"shape": shape(n, "_type")}
        if n["op"] == "@param":
            node["operator"] = {"parameter": n.get("name", n["out"])}
        if n["op"] == "@literal":
            node["literal"] = {"shape": shape(n, "_type"), "data": list(n["bytes"])}
        made.append(node)
    return json.dumps({"version": 7, "modules": [{"name": "main", "nodes": made}]}).encode()


def text(*nodes: Node) -> str:
    lines = []
    for n in nodes:
        given = ",".join(f"{k}={v}" for k, v in n.get("with", {}).items())
        op = f"@param:{n.get('name', n['out'])}" if n["op"] == "@param" else n["op"] + (f"[{given}]" if given else "")
        op += n.get("numbers", "") if n["op"] == "@literal" else f"({','.join(n['in'])})" if "in" in n else ""
        where = ", ".join(f"{{{', '.join(map(str, v))}}}" for v in (n["lens"], shape(n)["strides"]))
        lines.append(f"{n['out']} = {op} -> float_type, {where}")
    return "\n".join(lines) + "\n"


def everywhere(*nodes: Node, **tensors: Any) -> dict[str, Any]:
    """The same graph on the three roads that take our operators."""
    return {"mxr": mxr(*nodes, **tensors), "json": upstream(*nodes), "text": text(*nodes)}


def nested(depth: int) -> bytes:
    """An ONNX model: graphs in attributes of nodes of graphs ..."""
    data = b""
    for number in (6, 5, 1) * depth:  # AttributeProto.g, NodeProto.attribute, GraphProto.node
        data = encoded(number << 3 | 2) + encoded(len(data)) + data
    return onnx_model(("Relu", ["x"], "y", {})) + encoded(7 << 3 | 2) + encoded(len(data)) + data


READ: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "onnx": (migraphx.parse_onnx_buffer, OnnxError),
    "mxr": (migraphx.load_buffer, container.FileError),
    "json": (migraphx.load_buffer, container.FileError),
    "text": (parse_program, TextError),
}

# ---- the table ----

WAITS = {"out": "a", "op": "add", "in": ["x", "b"], "lens": [2, 3]}
BACK = {"out": "b", "op": "relu", "in": ["a"], "lens": [2, 3]}
W = {"out": "w", "op": "@literal", "lens": [2, 3], "bytes": bytes(20), "numbers": "{1, 2, 3, 4, 5}"}
HUGE = W | {"lens": [2**32, 2**32], "bytes": b"", "numbers": "{}"}  # 2**64 elements: 0, for who computes in 64 bits
SIX = np.zeros(6, np.float32)
BRACKETS = "[" * 100_000 + "]" * 100_000
WHOLE = {"onnx": onnx_model(("Relu", ["x"], "y", {})), **everywhere(X, RELU)}

TABLE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a cycle": (
        {"onnx": onnx_model(("Add", ["x", "b"], "a", {}), ("Relu", ["a"], "b", {})), **everywhere(X, WAITS, BACK)},
        {"onnx": "n0 .Add. -> n1 .Relu. -> n0", "mxr": "instruction 1 .add.: unknown name 'main:2'",
         "json": "node 1 .add.: unknown name 'b'", "text": "a = add.*unknown name 'b'"},
    ),
    "a dangling input": (
        {"onnx": onnx_model(("Relu", ["nowhere"], "y", {})), **everywhere(X, RELU | {"in": ["nowhere"]})},
        dict.fromkeys(READ, "(?i)relu.*'nowhere'"),
    ),
    "an attribute of the wrong type": (
        {"onnx": onnx_model(("Softmax", ["x"], "y", {"axis": "much"})),
         **everywhere(X, RELU | {"op": "softmax", "with": {"axis": "much"}})},
        {"onnx": "n0 .Softmax.: attribute 'axis' must be INT, is STRING"}
        | dict.fromkeys(("mxr", "json", "text"), "softmax: attribute 'axis': .*'much'"),
    ),
    "a whole number that is NaN": (
        {"onnx": "protobuf has no such integer",
         **everywhere(X, RELU | {"op": "softmax", "with": {"axis": float("nan")}})},
        dict.fromkeys(("mxr", "json", "text"), "softmax: attribute 'axis': .*NaN"),
    ),
    "absurd dimensions": (
        {"onnx": onnx_model(("Relu", ["x"], "y", {}), lens=(2**62, 2**62)), **everywhere(X | {"lens": [2**62, 2**62]})},
        dict.fromkeys(READ, r"'?x'?.*more than 2\*\*63 elements|@param.*more than 2\*\*63 elements"),
    ),
    "negative dimensions": (
        {"onnx": "is a length that is not known: exporters write -1", **everywhere(X | {"lens": [-2, 3]})},
        {"mxr": "negative length", "json": "negative length", "text": "not a shape"},
    ),
    "elements whose count overflows": (
        {"onnx": with_literal(b"", [2**32, 2**32]), **everywhere(HUGE, w=SIX[:0])},
        {"onnx": "tensor 'w' has 0 bytes of data, its shape .4294967296"}
        | dict.fromkeys(("mxr", "json", "text"), r"@literal.*more than 2\*\*63 elements"),
    ),
    "a literal with too few bytes": (
        {"onnx": with_literal(bytes(20), [2, 3]), **everywhere(W, w=SIX[:5])},
        {"onnx": "tensor 'w' has 20 bytes of data, its shape .2, 3. needs 24", "mxr": "tensor 'w' does not fit",
         "json": "@literal.: 5 elements of data", "text": "array of size 5 into shape .2,3"},
    ),
    "a tensor beyond the end of the file": (
        {"onnx": "in tests/onnx/test_bad_input.py",
         "mxr": edited(mxr(W, w=SIX), shape=[600], data_offsets=[0, 2400]),
         "json": "holds its data itself", "text": "holds its data itself"},
        {"mxr": "tensor 'w' does not fit the file"},
    ),
    "a tensor of other bytes than its shape": (
        {"onnx": "the row of the literal", "mxr": edited(mxr(W, w=SIX), shape=[2**32, 2**32], data_offsets=[0, 0]),
         "json": "the row of the literal", "text": "the row of the literal"},
        {"mxr": "tensor 'w' does not fit the file"},
    ),
    "a name that is taken": (
        {"onnx": onnx_model(("Relu", ["x"], "y", {}), ("Neg", ["x"], "y", {})), "mxr": "instructions are numbered",
         "json": upstream(X, RELU, RELU), "text": text(X, RELU, RELU)},
        {"onnx": "n1 .Neg.: output 'y' is made twice", "json": "'y' is defined twice",
         "text": "'y' is defined twice"},
    ),
    "a parameter's name that is taken": (
        {"onnx": onnx_model(("Add", ["x", "z"], "y", {}), also="x"), **everywhere(X, X | {"out": "z", "name": "x"})},
        {"onnx": "input 'x' is there twice"}
        | dict.fromkeys(("mxr", "json", "text"), "already has a parameter 'x'"),
    ),
    "a module's name that is taken": (
        {"onnx": "names one graph", "mxr": mxr(X, header=lambda text: text[:-1] + ", " + text[1:]),
         "json": json.dumps({"version": 7, "modules": json.loads(upstream(X))["modules"] * 2}).encode(),
         "text": f'module: "main"\n{text(X)}' * 2},
        dict.fromkeys(("mxr", "json", "text"), "module 'main'.*(twice|taken)"),
    ),
    "lines of no module": (
        {"onnx": "has no lines", "mxr": "has no lines", "json": "has no lines",
         "text": text(X) + f'module: "main"\n{text(X)}'},
        {"text": "before the first module"},
    ),
    "an unknown operator": (
        {"onnx": onnx_model(("Relux", ["x"], "y", {})), **everywhere(X, RELU | {"op": "relux"})},
        {"onnx": "Relux: 1 nodes, the first n0"} | dict.fromkeys(("mxr", "json", "text"), "relux"),
    ),
    "a file that is cut off": (
        {road: data[:-9] for road, data in WHOLE.items()},
        {"onnx": "truncated", "mxr": "truncated", "json": "not JSON", "text": "not a shape"},
    ),
    "deep nesting": (
        {"onnx": nested(1000), "mxr": mxr(X, header=lambda _: BRACKETS),
         "json": b'{"version":7,"modules":' + BRACKETS.encode() + b"}",
         "text": text(X, RELU | {"op": "softmax", "with": {"axis": BRACKETS.translate({91: 123, 93: 125})}})},
        {"onnx": "MaxDepth|not an ONNX model", "mxr": "recursion", "json": "recursion", "text": "recursion"},
    ),
    "a string of huge length": (
        {"onnx": b"\x3a" + b"\xff" * 8 + b"\x7f", "mxr": (2**60).to_bytes(8, "little") + b"{}",
         "json": b"\x82\xdb\xff\xff\xff\xffabc", "text": "states no lengths"},  # AMD's other form, msgpack
        {"onnx": "truncated", "mxr": "a header of 1152921504606846976 bytes", "json": "truncated at byte 9"},
    ),
    "a name that is not UTF-8": (
        {"onnx": onnx_model(("Relu", ["x"], "yyy", {})).replace(b"yyy", b"y\xff\xfe"),
         "mxr": with_header(WHOLE["mxr"], id).replace(b"relu", b"re\xff\xfe"),
         "json": WHOLE["json"].replace(b"relu", b"re\xff\xfe"),
         "text": "is decoded by its reader"},
        {"onnx": "a name of graph 'small' is no text", "mxr": "header is not JSON.*utf-8", "json": "not JSON.*utf-8"},
    ),
    "nothing": (
        {"onnx": b"", "mxr": b"", "json": b"{}", "text": "is a program without instructions"},
        {"onnx": "no graph", "mxr": "0 bytes are too few", "json": "no version or no modules"},
    ),
    "zeros": (
        {"onnx": bytes(64), "mxr": bytes(64), "json": b'{"version":' + bytes(64), "text": "\0" * 64},
        dict(zip(READ, ("not an ONNX model", "a header of 0 bytes", "not JSON", "not of the form"), strict=True)),
    ),
}  # fmt: skip
"""Item -> what is read on each road, a sentence where the item cannot be; and what the error says."""


@pytest.mark.parametrize("road", READ)
@pytest.mark.parametrize("item", TABLE)
def test_refused(item: str, road: str) -> None:
    cells, words = TABLE[item]
    assert cells.keys() == READ.keys()
    read, error = READ[road]
    if road in words:
        with pytest.raises(error, match=words[road]) as found:
            read(cells[road])
        assert len(str(found.value)) < 1000
    else:
        assert isinstance(cells[road], str)


@pytest.mark.parametrize("road", READ)
def test_odd_but_allowed(road: str) -> None:
    """Zero bytes in names are names; an attribute that may be NaN gives NaN."""
    nan = RELU | {"op": "leaky_relu", "with": {"alpha": float("nan")}}
    onnx_form = onnx_model(("LeakyRelu", ["x"], "y", {"alpha": float("nan")})).replace(b"\x01x", b"\x01\0")
    made = {"onnx": onnx_form, **everywhere(X | {"name": "x\0"}, nan)}
    program = READ[road][0](made[road])
    program = program.graph if isinstance(program, migraphx.program) else program
    assert "alpha=nan" in program_text(program)
    (name,) = program.main.parameters
    values = np.array([[-1, -2, 3], [4, np.inf, -np.inf]], np.float32)
    (answer,) = evaluate(program.main, {name: values})
    np.testing.assert_array_equal(answer, np.where(values < 0, np.nan, values))

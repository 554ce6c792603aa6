"""MatMulInteger, ConvInteger, QLinearConv and QLinearMatMul with every kind of zero point, against exact integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import migraphx
from migraphx.passes.manager import run_passes
from migraphx.targets.cpu.target import PASSES
from tests.onnx.exact_integers import exact
from tests.tiers import few

RNG = np.random.default_rng(11)


def codes(type: str, *lens: int) -> np.ndarray:
    info = np.iinfo(type)
    return np.asarray(RNG.integers(info.min, info.max + 1, lens)).astype(type)


def model(nodes: Sequence[onnx.NodeProto], inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> bytes:
    """A model whose nodes y0, y1 ... are its outputs."""
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for n, a in inputs.items()]  # fmt: skip
    outputs = [helper.make_tensor_value_info(n.output[0], _type_of(n), None) for n in nodes]
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", values, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def _type_of(node: onnx.NodeProto) -> int:
    return TensorProto.INT32 if node.op_type.endswith("Integer") else TensorProto.UINT8


def check(model: bytes, inputs: dict[str, np.ndarray], steps: int = 0) -> migraphx.program:
    """Every output is exact, but for so many steps of a quantization; gives the program."""
    want = exact(model, inputs)
    program = migraphx.parse_onnx_buffer(model)
    for target in ("ref", "cpu"):
        compiled = program.clone()
        compiled.compile(migraphx.get_target(target))
        for got, value in zip(compiled.run(inputs), want, strict=True):
            codes = (np.asarray(a).astype(np.int64) for a in (got, value))
            np.testing.assert_allclose(*codes, rtol=0, atol=steps)
    return program


def products(program: migraphx.program) -> list[str]:
    """The names of all products that the cpu target is left with."""
    optimised = program.graph.clone()
    run_passes(optimised, PASSES)
    names = (i.name for ins in optimised.main for m in (optimised.main, *ins.modules) for i in m)
    return [n for n in names if n in ("dot", "convolution", "quant_dot", "quant_convolution")]


WEIGHT_ZEROS = [("int8", 0), ("uint8", 128), ("uint8", 100), ("int8", -5)]


@pytest.mark.parametrize("activation", few(["uint8", "int8"], "uint8"))
def test_matmul_integer(activation: str) -> None:
    inputs = {"x": codes(activation, 2, 5, 70), "zero": codes(activation)}
    constants: dict[str, np.ndarray] = {"fixed": np.array(9, activation)}
    nodes = []
    for k, (type, zero) in enumerate(WEIGHT_ZEROS):
        constants |= {f"w{k}": codes(type, 70, 37), f"z{k}": np.array(zero, type)}
        names = ["x", f"w{k}", ("zero", "fixed")[k % 2], f"z{k}"]
        nodes.append(helper.make_node("MatMulInteger", names, [f"y{k}"]))
    program = check(model(nodes, inputs, constants), inputs)
    assert set(products(program)) == {"quant_dot"}


def test_matmul_integer_of_two_inputs():
    inputs = {"x": codes("uint8", 3, 200), "y": codes("uint8", 200, 8), "u": codes("uint8", 3, 300),
              "v": codes("uint8", 300, 8)}  # fmt: skip
    constants = {"a": np.array(7, np.uint8), "b": np.array(250, np.uint8)}
    nodes = [helper.make_node("MatMulInteger", [*pair, "a", "b"], [f"y{k}"]) for k, pair in enumerate(("xy", "uv"))]
    check(model(nodes, inputs, constants), inputs)


@pytest.mark.slow
def test_conv_integer():
    inputs = {"x": codes("uint8", 2, 6, 9, 8), "zero": codes("uint8")}
    constants: dict[str, np.ndarray] = {"fixed": np.array(9, np.uint8)}
    nodes = []
    for k, (type, zero) in enumerate([("uint8", 128), ("uint8", 100), ("uint8", 0)]):
        constants |= {f"w{k}": codes(type, 10, 6, 3, 2), f"z{k}": np.array(zero, type)}
        for point, pads in (("fixed", [1, 0, 2, 1]), ("zero", [1, 0, 2, 1]), ("zero", [0, 0, 0, 0])):
            names = ["x", f"w{k}", point, f"z{k}"]
            nodes.append(helper.make_node("ConvInteger", names, [f"y{len(nodes)}"], pads=pads, strides=[1, 2]))
    program = check(model(nodes, inputs, constants), inputs)
    assert set(products(program)) == {"quant_convolution"}


def test_qlinear():
    inputs = {"x": codes("uint8", 2, 8, 9, 8), "m": codes("uint8", 4, 30)}
    scales = (RNG.random(12) / 50 + 0.01).astype(np.float32)
    constants = {
        "s": np.array(0.02, np.float32), "z": np.array(121, np.uint8), "t": np.array(1.1, np.float32), "ws": scales,
        "wz": np.zeros(12, np.int8), "w": codes("int8", 12, 8, 3, 3), "g": codes("int8", 12, 4, 3, 3),
        "bias": RNG.integers(-9000, 9000, 12).astype(np.int32), "v": codes("uint8", 30, 7), "u": np.array(90, np.uint8),
    }  # fmt: skip
    conv = ["x", "s", "z", "{}", "ws", "wz", "t", "z", "bias"]
    nodes = [
        helper.make_node("QLinearConv", [n.format(w) for n in conv], [f"y{k}"], pads=[1, 1, 1, 1], group=k + 1)
        for k, w in enumerate("wg")
    ]
    nodes.append(helper.make_node("QLinearMatMul", ["m", "s", "z", "v", "s", "u", "t", "z"], ["y2"]))
    program = check(model(nodes, inputs, constants), inputs, steps=1)
    assert set(products(program)) == {"quant_dot", "quant_convolution"}

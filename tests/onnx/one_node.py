"""Small ONNX models for tests, and running them here and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import migraphx

OPSET = 21


def model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray | tuple],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = OPSET,
    **more: Any,
) -> bytes:
    """A serialized model; an input is an example, or (type, dims)."""
    infos = []
    for name, given in inputs.items():
        if isinstance(given, tuple):
            infos.append(helper.make_tensor_value_info(name, *given))
        else:
            kind = helper.np_dtype_to_tensor_dtype(given.dtype)
            infos.append(helper.make_tensor_value_info(name, kind, given.shape))
    results = [onnx.ValueInfoProto(name=n) for n in outputs]
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "small", infos, results, tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more).SerializeToString()


def one_node(
    op: str, inputs: list[np.ndarray | None], outputs: int = 1, opset: int = OPSET, **attributes: Any
) -> bytes:
    """A model of one node; inputs are x0, x1, ..., outputs y0, y1, ..."""
    names = ["" if a is None else f"x{k}" for k, a in enumerate(inputs)]
    results = [f"y{k}" for k in range(outputs)]
    given = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    return model([helper.make_node(op, names, results, name="it", **attributes)], given, results, opset=opset)


def ours(data: bytes, inputs: dict[str, np.ndarray], target: str = "ref", **options: Any) -> list[np.ndarray]:
    program = migraphx.parse_onnx_buffer(data, **options)
    program.compile(migraphx.get_target(target))
    return [np.array(r) for r in program.run({n: inputs[n] for n in program.get_parameter_names()})]


def theirs(data: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """onnxruntime's answers, its graph optimizations off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(r) for r in session.run(None, inputs)]

"""ONNX's own reference evaluator as an oracle for one node."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

OPSET = 19


def onnx_answer(op_type: str, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray:
    """The first output of one node; an input that is None is absent."""
    names = ["" if a is None else f"x{n}" for n, a in enumerate(inputs)]
    given = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], **attributes)],
        "one_node",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    results = ReferenceEvaluator(model).run(None, given)
    return np.asarray(next(iter(results)))

"""Cases of ONNX Runtime's own operators, and one model that holds many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node: its inputs (None is left out), how many outputs, which inputs are initializers."""

    op: str
    inputs: Sequence[np.ndarray | None]
    outputs: Sequence[int] = (0,)  # which of its outputs are asked for
    constants: Sequence[int] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = MICROSOFT
    floats: bool = False  # whether to say that its outputs are (ONNX Runtime does not infer it for all)

    @property
    def given(self) -> dict[int, np.ndarray]:
        return {k: a for k, a in enumerate(self.inputs) if a is not None}


def model_of(cases: Sequence[Case], opset: int = 17) -> tuple[bytes, dict[str, np.ndarray]]:
    """One model with a node for each case, and its inputs."""
    nodes, infos, results, tensors, feeds = [], [], [], [], {}
    for n, case in enumerate(cases):
        names = [f"c{n}_x{k}" if k in case.given else "" for k in range(len(case.inputs))]
        outputs = [f"c{n}_y{k}" if k in case.outputs else "" for k in range(max(case.outputs) + 1)]
        nodes.append(helper.make_node(case.op, names, outputs, f"c{n}", domain=case.domain, **case.attributes))
        for name in filter(None, outputs):
            info = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
            results.append(info if case.floats else onnx.ValueInfoProto(name=name))
        for k, array in case.given.items():
            if k in case.constants:
                tensors.append(numpy_helper.from_array(array, names[k]))
            else:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                infos.append(helper.make_tensor_value_info(names[k], kind, array.shape))
                feeds[names[k]] = array
    graph = helper.make_graph(nodes, "contrib", infos, results, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds

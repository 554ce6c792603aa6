"""The models of the scaling benchmark are whole, and as long as asked for."""

import onnx
import pytest

import migraphx
from benchmarks.scaling import CASES


@pytest.mark.parametrize("case", CASES)
def test_models(case: str) -> None:
    data = CASES[case](120)
    model = onnx.ModelProto.FromString(data)
    assert 118 <= len(model.graph.node) < 200
    program = migraphx.parse_onnx_buffer(data)
    program.compile(migraphx.get_target("ref"))
    assert program.get_parameter_names() == ["x"]

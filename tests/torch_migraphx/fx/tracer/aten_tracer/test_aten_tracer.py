"""The ATen tracer: functional graphs with whole operators and weights as attributes."""

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call, same_answer
from torch_migraphx.fx.tracer.aten_tracer.aten_tracer import AtenTraceError, trace


def targets(gm: fx.GraphModule) -> list[str]:
    """The ATen overloads of a graph, in order; it may hold nothing else, apart from getitem of tuples."""
    names = []
    for node in gm.graph.nodes:
        assert node.op in ("placeholder", "get_attr", "call_function", "output"), node.format_node()
        if node.op == "call_function":
            assert "val" in node.meta and "tensor_meta" in node.meta, node.format_node()
            if isinstance(node.target, torch._ops.OpOverload):
                assert not node.target._schema.is_mutable
                names.append(str(node.target).removeprefix("aten."))
    return names


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Dropout(), nn.Linear(4, 5))

    def forward(self, scale, x, shift=None):
        x = F.relu(self.norm(self.conv(x)), inplace=True)
        x += scale
        return self.head(x.mean((2, 3))) if shift is None else self.head(x.mean((2, 3))) + shift


def test_inputs_weights_and_operators() -> None:
    model, inputs = Classifier().train(), [torch.randn(()), torch.randn(2, 3, 8, 8)]
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    gm = trace(model, inputs)
    assert model.training and all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    assert [n.target for n in gm.graph.nodes if n.op == "placeholder"] == ["scale", "x"]
    assert {n.target for n in gm.graph.nodes if n.op == "get_attr"} == {
        *("conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"),
        *("head.1.weight", "head.1.bias"),
    }
    assert gm.get_parameter("conv.weight") is model.conv.weight
    names = targets(gm)
    assert names[0] == "conv2d.default" and "linear.default" in names and "relu.default" in names
    assert not any("dropout" in n for n in names)
    same_answer(gm, model.eval(), inputs)
    same_answer(trace(model, [*inputs, torch.ones(5)]), model, [*inputs, torch.ones(5)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("layer_norm.default", lambda x: F.layer_norm(x, (8,))),
        ("scaled_dot_product_attention.default", lambda x: F.scaled_dot_product_attention(x, x, x)),
        ("gelu.default", lambda x: F.gelu(x)),
        ("softmax.int", lambda x: x.softmax(-1)),
        ("group_norm.default", lambda x: F.group_norm(x, 2)),
        ("embedding.default", lambda x: F.embedding(x.long(), torch.randn(8, 3).abs())),
        ("matmul.default", lambda x: x @ x.transpose(-1, -2)),
        ("max_pool2d.default", lambda x: F.max_pool2d(x, 2)),
    ],
)
def test_operators_stay_whole(name: str, function: Any) -> None:
    torch.manual_seed(0)
    x = torch.rand(2, 4, 6, 8)
    gm = trace(Call(function), [x])
    assert name in targets(gm)
    if name != "embedding.default":  # its weights are drawn anew at each call
        same_answer(gm, Call(function), [x])


def test_changes_in_place_become_functional() -> None:
    def forward(x):
        y = x * 2
        y[:, 1:3] = x[:, :2]
        y[0].add_(1)
        y.relu_()
        return y

    x = torch.randn(3, 5)
    gm = trace(Call(forward), [x])
    assert targets(gm)
    same_answer(gm, Call(forward), [x])


def test_a_changed_input_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.tensor([-1.0, 1.0])
    with caplog.at_level(logging.WARNING):
        gm = trace(nn.ReLU(inplace=True), [x])
    assert "changes its input" in caplog.text
    assert torch.equal(gm(x), x.relu()) and x[0] == -1


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.get_buffer("seen").add_(1)
        return x + 1


def test_a_changed_buffer_is_refused() -> None:
    model = Counter()
    with pytest.raises(AtenTraceError, match="changes seen in place"):
        trace(model, [torch.ones(2)])
    assert model.get_buffer("seen") == 0


def branch_on_data(x):
    if x.sum() > 0:  # the line to be named
        return x
    return -x


def test_control_flow_on_data_names_its_line() -> None:
    with pytest.raises(AtenTraceError, match="can't be exported") as error:
        trace(Call(branch_on_data), [torch.ones(3)])
    assert "the line to be named" in str(error.value)


def test_sample_inputs_must_be_a_list() -> None:
    with pytest.raises(TypeError, match="list of inputs"):
        trace(nn.ReLU(), torch.randn(3, 4))  # type: ignore[arg-type]


def test_outputs_keep_their_structure() -> None:
    function = Call(lambda x: {"a": (x + 1, None), "b": [x, 3]})
    gm = trace(function, [torch.ones(2)])
    out = gm(torch.ones(2))
    assert out["a"][1] is None and out["b"][1] == 3 and gm.meta["structure"].spec.type is dict
    same_answer(gm, function, [torch.randn(2)])


def test_a_tensor_given_twice_is_two_inputs() -> None:
    x, y = torch.randn(3), torch.randn(3)
    gm = trace(Difference(), [x, x])
    assert torch.equal(gm(x, y), x - 2 * y)


class Difference(nn.Module):
    def forward(self, a, b):
        return a - 2 * b

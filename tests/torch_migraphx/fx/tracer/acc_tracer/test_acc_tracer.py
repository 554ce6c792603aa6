"""The acc tracer: printed graphs, what it leaves alone, what it refuses and why."""

import copy
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call, acc_names, same_answer, traced_names
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.fx.tracer.acc_tracer.acc_tracer import AccTraceError
from torch_migraphx.fx.tracer.acc_tracer.acc_tracer import trace_leaves as trace
from torch_migraphx.fx.tracer.structure import Structure


class MyModule(nn.Module):
    """The model of the developers guide."""

    def __init__(self) -> None:
        super().__init__()
        self.param1 = nn.Parameter(torch.rand(3, 4))
        self.param2 = nn.Parameter(torch.rand(3, 5))
        self.linear = nn.Linear(4, 5)

    def forward(self, x):  # without annotations, as fx would print them
        x = x + self.param1
        x = self.linear(x)
        x = x.mul(self.param2)
        return F.relu(x)


class MyModule2(nn.Module):
    """The same in other spellings."""

    def __init__(self, w: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.param1 = nn.Parameter(torch.rand(3, 4))
        self.param2 = nn.Parameter(torch.rand(3, 5))
        self.w = nn.Parameter(w)
        self.b = nn.Parameter(b)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = torch.add(x, self.param1)
        x = F.linear(x, self.w, self.b)
        x = x * self.param2
        return self.relu(x)


OPS = "torch_migraphx.fx.tracer.acc_tracer.acc_ops"
GRAPH = f"""graph():
    %x : [num_users=1] = placeholder[target=x]
    %param1 : [num_users=1] = get_attr[target=param1]
    %add_1 : [num_users=1] = call_function[target={OPS}.add](args = (), kwargs = {{input: %x, \
other: %param1}})
    %linear_weight : [num_users=1] = get_attr[target=linear.weight]
    %linear_bias : [num_users=1] = get_attr[target=linear.bias]
    %linear_1 : [num_users=1] = call_function[target={OPS}.linear](args = (), kwargs = {{input: %add_1, \
weight: %linear_weight, bias: %linear_bias}})
    %param2 : [num_users=1] = get_attr[target=param2]
    %mul_1 : [num_users=1] = call_function[target={OPS}.mul](args = (), kwargs = {{input: %linear_1, \
other: %param2}})
    %relu_1 : [num_users=1] = call_function[target={OPS}.relu](args = (), kwargs = {{input: %mul_1, \
inplace: False}})
    return relu_1"""
RENAMES = {"%linear_weight": "%w", "%linear_bias": "%b", "linear.weight": "w", "linear.bias": "b"}


def test_graph_of_the_guide() -> None:
    model, x = MyModule().eval(), torch.randn(3, 4)
    gm = trace(model, [x])
    assert str(gm.graph) == GRAPH
    same_answer(gm, model, [x])


def test_graph_of_the_guides_second_model() -> None:
    model, x = MyModule2(torch.randn(5, 4), torch.randn(5)).eval(), torch.randn(3, 4)
    gm = trace(model, [x])
    want = GRAPH
    for old, new in RENAMES.items():
        want = want.replace(old, new)
    assert str(gm.graph) == want
    same_answer(gm, model, [x])


def test_copies_give_the_same_answer() -> None:
    model, x = MyModule().eval(), torch.randn(3, 4)
    gm = trace(model, [x])
    assert str(copy.deepcopy(gm).graph) == GRAPH
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        same_answer(other, model, [x])


def test_meta_of_nodes() -> None:
    gm = trace(MyModule(), [torch.randn(3, 4)])
    linear = next(n for n in gm.graph.nodes if n.target is acc_ops.linear)
    meta = linear.meta["tensor_meta"]
    assert (tuple(meta.shape), meta.dtype, tuple(meta.stride)) == ((3, 5), torch.float32, (5, 1))
    assert linear.meta["val"].shape == (3, 5)
    assert Path(__file__).name in linear.stack_trace and "x = self.linear(x)" in linear.stack_trace
    assert next(iter(linear.meta["nn_module_stack"])) == "linear"


def test_the_model_is_left_alone() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.ReLU(inplace=True)).train()
    before = {k: (id(v), v.clone()) for k, v in model.state_dict(keep_vars=True).items()}
    x = torch.randn(2, 3, 8, 8)
    gm = trace(model, [x])
    assert all(m.training for m in model.modules())
    after = model.state_dict(keep_vars=True)
    for name, (identity, value) in before.items():
        assert id(after[name]) == identity and torch.equal(after[name], value)
    assert gm.get_parameter("0.weight") is model[0].weight
    same_answer(gm, copy.deepcopy(model).eval(), [x])


def test_state_that_forward_keeps_stays_out_of_the_model() -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    model = Counts()
    trace(model, [torch.ones(2)])
    assert model.calls == 0


def test_shared_modules_stay_shared_and_lists_lead_to_copies() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
            self.b = self.a
            self.order = [self.a, self.b]

        def forward(self, x):
            for module in self.order:
                x = module(x)
            return x

    assert traced_names(Listed(), [torch.randn(2, 4)]) == ["linear", "linear"]


def test_control_flow_on_shapes_is_followed() -> None:
    def forward(x):
        b, n = x.shape
        if x.dim() == 2 and n % 2 == 0 and x.dtype == torch.float32 and len(x) == b:
            x = torch.cat([row * i for i, row in enumerate(x)]).view(b, -1)
        assert x.size(-1) == n
        return x.reshape(x.shape[0], n // 2, 2)

    assert "reshape" in traced_names(Call(forward), [torch.randn(3, 4)])


def branch_on_data(x):
    if x.sum() > 0:  # the line to be named
        return x
    return -x


def loop_on_data(x):
    return [x for _ in range(int(x.sum()))]  # the line to be named


@pytest.mark.parametrize("forward", [branch_on_data, loop_on_data])
def test_control_flow_on_data_names_its_line(forward: Any) -> None:
    with pytest.raises(AccTraceError, match="depends on the data") as error:
        trace(Call(forward), [torch.ones(3)])
    assert "the line to be named" in str(error.value)
    assert Path(__file__).name in str(error.value)


def test_errors_of_the_model_name_their_line() -> None:
    with pytest.raises(AccTraceError, match="same reduction dim") as error:
        trace(Call(lambda x: x @ x), [torch.randn(2, 3)])
    assert "x @ x" in str(error.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "needs the input 'x'"),
        ([1.0, 2.0], "forward takes 1 inputs; 2"),
        ([object()], "not a tensor or a number"),
    ],
)
def test_wrong_sample_inputs(inputs: list[Any], message: str) -> None:
    with pytest.raises(AccTraceError, match=message):
        trace(MyModule(), inputs)


def test_lists_and_dicts_of_inputs_are_taken_apart() -> None:
    class Nested(nn.Module):
        def forward(self, pair, by_name, *, scale=None):
            return {"max": (pair[0] + by_name["a"]).max(1), "rest": [pair[1] * scale]}

    x, y = torch.randn(2, 3), torch.randn(3)
    gm = trace(Nested(), [(x, y), {"a": y}], sample_kwargs={"scale": x})
    assert [n.target for n in gm.graph.nodes if n.op == "placeholder"] == ["pair_0", "pair_1", "by_name_a", "scale"]
    got = gm(x, y, y, x)
    assert torch.equal(got["max"][1], (x + y).max(1).indices) and torch.equal(got["rest"][0], y * x)
    assert gm.meta["structure"].spec == Structure.of(Nested()((x, y), {"a": y}, scale=x)).spec


def test_sample_inputs_must_be_a_list() -> None:
    with pytest.raises(TypeError, match="list of inputs"):
        trace(MyModule(), torch.randn(3, 4))  # type: ignore[arg-type]


def test_constants_among_the_inputs_and_defaults() -> None:
    class Scaled(nn.Module):
        def forward(self, x, scale=2, bias=None, *, power=3):
            return (x * scale if bias is None else x * scale + bias) ** power

    x = torch.randn(3)
    for inputs in ([x], [x, 5], [x, 5, torch.ones(3)]):
        gm = trace(Scaled(), inputs)
        assert [n.target for n in gm.graph.nodes if n.op == "placeholder"] == ["x", "scale", "bias"][: len(inputs)]
        same_answer(gm, Scaled(), inputs)


def test_outputs_keep_their_structure() -> None:
    gm = trace(Call(lambda x: {"a": (x + 1, None), "b": [x]}), [torch.ones(2)])
    out = gm(torch.ones(2))
    assert set(out) == {"a", "b"} and out["a"][1] is None and gm.meta["structure"].spec.type is dict


def test_other_threads_may_run_and_trace_models() -> None:
    traced, running, x = MyModule().eval(), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    graphs: list[str] = []
    threads = [threading.Thread(target=lambda: graphs.append(str(trace(traced, [x]).graph))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert isinstance(running(x), torch.Tensor)
    assert graphs == [GRAPH] * 4


def test_another_thread_may_run_the_model_that_is_traced() -> None:
    layer, x, answers = nn.Linear(4, 3), torch.randn(2, 4), []

    def meanwhile(y):
        thread = threading.Thread(target=lambda: answers.append(layer(x)))
        thread.start()
        thread.join()
        return layer(y)

    model = Call(meanwhile)
    model.layer = layer
    gm = trace(model, [x])
    assert acc_names(gm) == ["linear"]
    assert isinstance(answers[0], torch.Tensor) and answers[0].equal(layer(x))


# ---- leaves


class Leaf(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).real


def call_modules(gm: fx.GraphModule) -> list[str]:
    return [n.target for n in gm.graph.nodes if n.op == "call_module"]


@pytest.mark.parametrize("name", ["leaf_modules", "leaf_module_list"])
def test_leaf_modules_stay(name: str) -> None:
    options: Any = {name: {Leaf}}
    model, x = nn.Sequential(nn.Linear(4, 4), Leaf()), torch.randn(2, 4)
    gm = trace(model, [x], **options)
    assert call_modules(gm) == ["1"]
    assert gm.graph.find_nodes(op="call_module", target="1")[0].meta["tensor_meta"].shape == (2, 4)
    same_answer(gm, model, [x])


def test_tracer_base_cls_adds_leaves() -> None:
    class LinearsStay(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, nn.Linear)

    assert call_modules(trace(MyModule(), [torch.randn(3, 4)], tracer_base_cls=LinearsStay)) == ["linear"]


def double(module: nn.Module, args: Any, output: Any) -> Any:
    return output * 2


def test_modules_with_hooks_stay() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    model[0].register_forward_hook(double)
    gm = trace(model, [x])
    assert call_modules(gm) == ["0"]
    same_answer(gm, model, [x])


def test_what_has_no_acc_operator_stays_and_says_why() -> None:
    model, x = Call(lambda x: torch.fft.fft(x).real + x), torch.randn(4)
    gm = trace(model, [x])
    unmapped = [n.meta["acc_unmapped"] for n in gm.graph.nodes if "acc_unmapped" in n.meta]
    assert len(unmapped) == 2 and "fft" in unmapped[0] and "real of complex numbers" in unmapped[1]
    same_answer(gm, model, [x])


def test_data_dependent_shapes_stay_in_torch() -> None:
    model, x = Call(lambda x: torch.nonzero(x).sum() + x), torch.tensor([0.0, 1, 2])
    same_answer(trace(model, [x]), model, [x])


def test_normalization_can_be_limited() -> None:
    x = torch.randn(3, 4)
    plain = trace(MyModule(), [x], use_acc_normalization=False)
    assert [n.name for n in plain.graph.nodes if n.op == "call_method"] == ["mul"]
    some = trace(MyModule(), [x], acc_normalization_allowlist={("call_function", F.relu)})
    targets = [n.target for n in some.graph.nodes if n.op == "call_function"]
    assert acc_ops.relu in targets and F.linear in targets


@fx.wrap
def wrapped(x):
    return x * x.shape[0]


@fx.wrap
def wrapped_on_data(x):
    return x if x.sum() > 0 else -x


def test_wrapped_functions_are_followed_where_they_can_be() -> None:
    assert traced_names(Call(lambda x: wrapped(x) + 1), [torch.ones(3)]) == ["mul", "add"]
    gm = trace(Call(lambda x: wrapped_on_data(x) + 1), [torch.ones(3)])
    assert wrapped_on_data.__name__ in {getattr(n.target, "__name__", "") for n in gm.graph.nodes}
    for x in (torch.ones(3), -torch.ones(3)):
        same_answer(gm, Call(lambda x: wrapped_on_data(x) + 1), [x])


# ---- in place


def later_reader(x):
    y = x * 2
    z = y
    y += 1
    F.relu_(y)
    return y + z


def assigned_parts(x):
    y = x * 2
    y[:, 1:3] = x[:, :2]
    y[0] = 0.5
    zeros = x.new_zeros(2, 5)
    zeros[:, 1] = y[:, 0]
    return y + zeros


@pytest.mark.parametrize("forward", [later_reader, assigned_parts])
def test_changes_in_place_reach_later_readers(forward: Any) -> None:
    traced_names(Call(forward), [torch.randn(2, 5)])


ROWS = torch.tensor([0, 2])
IN_PLACE: dict[str, Any] = {
    "cumsum_": lambda x: x.cumsum_(1),
    "index_fill_": lambda x: x.index_fill_(0, ROWS, 2.0),
    "index_add_": lambda x: x.index_add_(0, ROWS, x[:2] * 2, alpha=3),
    "index_copy_": lambda x: x.index_copy_(0, ROWS, x[:2] * 2),
    "index_put_": lambda x: x.index_put_((ROWS,), x[0] * 2),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, torch.tensor([[0, 1, 1]]), x * 2, "sum"),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0.5, x * 2),
    "addbmm_": lambda x: x.addbmm_(x[None] * 2, x[None] * 3, beta=2),
    "hypot_": lambda x: x.hypot_(x * 2),
    "a function": lambda x: torch.clamp_min_(x, 0.5),
    "exp_": lambda x: torch.exp_(torch.fill_(x, 2)),
    "zero_": lambda x: torch.zero_(x),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_writes_in_place_runs_in_the_engine(name: str) -> None:
    def forward(x):
        y = x.clone()
        IN_PLACE[name](y)
        return y + 1

    x = torch.rand(3, 3)
    torch.testing.assert_close(lower_to_mgx(forward, [x], target="ref", fallback="error")(x), forward(x))


def test_draws_and_other_shapes_in_place_stay_in_torch() -> None:
    draws = trace(Call(lambda x: x.clone().bernoulli_()), [torch.rand(3, 3)])
    views = trace(Call(lambda x: x.clone().t_()), [torch.rand(3, 2)])
    assert [n.target for gm in (draws, views) for n in gm.graph.nodes if n.op == "call_method"] == ["bernoulli_", "t_"]


def test_in_place_activations_are_functional_in_the_graph() -> None:
    gm = trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), [torch.randn(2, 4)])
    (relu,) = [n for n in gm.graph.nodes if n.target is acc_ops.relu]
    assert relu.kwargs["inplace"] is False


def test_a_changed_input_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.tensor([-1.0, 1.0])
    with caplog.at_level(logging.WARNING):
        gm = trace(nn.ReLU(inplace=True), [x])
    assert "changes its input 'input' in place" in caplog.text
    assert torch.equal(gm(x), x.relu()) and x[0] == -1


def view_changed(x):
    y = x * 2
    y[0].add_(1)
    return y


def zeros_filled(x):
    y = torch.zeros(2, 5)
    y[0] = x[0]
    return y * 2


def constant_changed(x):
    c = torch.ones(5)
    y = x + c
    c.add_(1)
    return y


class BufferChanged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.get_buffer("seen").add_(1)
        return x + self.get_buffer("seen")


def autocast_region(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Call(view_changed), "memory that is read later"),
        (Call(zeros_filled), "__setitem__ changes a tensor"),
        (Call(constant_changed), "after it was read"),
        (BufferChanged(), "seen"),
        (Call(autocast_region), "autocast"),
        (Call(lambda x: x + torch.rand(5)), "random numbers"),
    ],
)
def test_what_a_graph_would_get_wrong_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(AccTraceError, match=message):
        trace(model, [torch.randn(2, 5)])


def test_attention_module() -> None:
    x, y = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[0, 4:] = True
    choices: tuple[dict[str, Any], ...] = ({}, {"kdim": 6, "vdim": 4}, {"bias": False})
    for options in choices:
        attention = nn.MultiheadAttention(8, 2, batch_first=True, **options).eval()
        k, v = torch.randn(2, 7, options.get("kdim", 8)), torch.randn(2, 7, options.get("vdim", 8))
        traced_names(attention, [x, k, v, padding])
        traced_names(attention, [x, k, v, None, False])
    gm = trace(SelfAttention(), [x])
    assert "scaled_dot_product_attention" in acc_names(gm)
    traced_names(nn.MultiheadAttention(8, 2), [y[0], y[0], y[0]])


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def test_transformer_layer_with_causal_mask() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    assert "scaled_dot_product_attention" in traced_names(layer, [torch.randn(2, 5, 8), mask])


@pytest.mark.parametrize(
    ("mod", "inputs", "said"),
    [(double, [torch.ones(2)], "a module, not a function"), (nn.ReLU(), torch.ones(2), "a list")],
)
def test_what_cannot_be_traced_is_named(mod: Any, inputs: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        trace(mod, inputs)

"""Graphs as Torch-MIGraphX's tracer gives them, node by node."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call, acc_names, same_answer
from torch_migraphx.fx import MGXInterpreter, MGXModule
from torch_migraphx.fx.tracer.acc_tracer import acc_normalizer, acc_ops, acc_tracer, acc_utils

X = torch.rand(2, 10) + 0.1
SLICES = "slice_tensor slice_tensor slice_tensor tuple_construct"
FORMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "addmm": ("matmul add", lambda x: torch.addmm(x, x[:, :2], x)),
    "addmm of factors": ("matmul mul mul add", lambda x: torch.addmm(x, x[:, :2], x, beta=1.5, alpha=2)),
    "hardswish": ("hardsigmoid mul", nn.Hardswish()),
    "log1p": ("add log", torch.log1p),
    "square": ("mul", lambda x: x.square()),
    "stack": ("unsqueeze unsqueeze cat", lambda x: torch.stack((x, x), -1)),
    "split by sizes": (SLICES, lambda x: x.split([2, 5, 3], 1)),
    "split": ("split", lambda x: torch.split(x, 4, 1)),
    "tensor_split": (SLICES, lambda x: torch.tensor_split(x, 3, dim=1)),
    "tensor_split at places": (SLICES, lambda x: x.tensor_split((2, -3), 1)),
    "tensor_split by a tensor": (SLICES, lambda x: torch.tensor_split(x, torch.tensor([4, 2]), 1)),
    "chunk": ("chunk", lambda x: x.chunk(3, 1)),
    "unbind": ("unbind", torch.unbind),
    "max": ("max_dim_reduce", lambda x: torch.max(x, 1)),
    "topk": ("topk", lambda x: x.topk(2)),
    "parts of a split": ("split getitem getitem add", lambda x: (lambda a, b: a + b)(*x.split(5, 1))),
    "max_pool with indices": ("max_pool1d", nn.MaxPool1d(3, return_indices=True)),
    "adaptive_max_pool with indices": ("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3, return_indices=True)),
    "as_strided": ("as_strided", lambda x: x.as_strided((2, 3), (1, 2), 1)),
    "embedding_bag": ("embedding_bag", lambda x: F.embedding_bag((x * 9).long(), x.mT)),
    "to": ("to_dtype", lambda x: x.half()),
}


def nodes(gm: fx.GraphModule) -> list[fx.Node]:
    return [n for n in gm.graph.nodes if n.op == "call_function"]


def on_ref(gm: fx.GraphModule, inputs: list[Any]) -> MGXModule:
    interpreter = MGXInterpreter(gm, inputs)
    return MGXModule(interpreter.run(), interpreter.get_input_names(), interpreter.get_output_names(), target="ref")


@pytest.mark.parametrize("name", FORMS)
def test_parts(name: str) -> None:
    """The last node is what the graph returns; torch, and the engine, run the graph as the model."""
    wanted, function = FORMS[name]
    model = function if isinstance(function, nn.Module) else Call(function)
    gm = acc_tracer.trace(model, [X])
    found = [n for n in acc_names(gm) if n != "getitem" or "getitem" in wanted]
    assert found[-len(wanted.split()) :] == wanted.split()
    assert gm.graph.output_node().args == (nodes(gm)[-1],)
    same_answer(gm, model, [X])
    same_answer(on_ref(gm, [X]), model, [X])


def test_arguments() -> None:
    matmul, add = nodes(acc_tracer.trace(Call(torch.addmm), [torch.rand(2, 2)] * 3))
    assert add.kwargs == {"input": matmul, "other": matmul.prev.prev.prev}
    first, second, third, whole = nodes(acc_tracer.trace(Call(FORMS["split by sizes"][1]), [X]))
    places = [{k: v for k, v in n.kwargs.items() if k != "input"} for n in (first, second, third)]
    assert places == [{"dim": 1, "start": i, "stop": j, "step": 1} for i, j in ((0, 2), (2, 7), (7, 10))]
    assert whole.kwargs == {"tensors": (first, second, third)}
    (cast,) = nodes(acc_tracer.trace(Call(FORMS["to"][1]), [X]))
    said: Any = cast.kwargs["acc_out_ty"]
    assert acc_utils.get_field_from_acc_out_ty(said, "dtype") is torch.half
    window = {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1, "ceil_mode": True, "return_indices": False}
    (pool,) = nodes(acc_tracer.trace(nn.MaxPool1d(3, 2, 1, ceil_mode=True), [X]))
    assert {k: v for k, v in pool.kwargs.items() if k != "input"} == window


class Nested(nn.Module):
    def forward(self, pair, by_name, *, scale=2, more=()):
        return pair[0] * scale + by_name["foo"][1] - F.relu(pair[0])


def test_a_container_is_one_placeholder() -> None:
    inputs: list[Any] = [(X, X), {"bar": X, "foo": [X, X + 1]}]
    gm = acc_tracer.trace(Nested(), inputs)
    assert [str(n.target) for n in gm.graph.nodes if n.op == "placeholder"] == ["pair", "by_name"]
    pair, by_name = gm.graph.find_nodes(op="placeholder")
    items = {n.kwargs["idx"]: n for n in nodes(gm) if n.target is acc_ops.getitem}
    assert items.keys() == {0, "foo", 1} and items[0].kwargs["input"] is pair
    assert items["foo"].kwargs["input"] is by_name and items[1].kwargs["input"] is items["foo"]
    assert items[1].meta["tensor_meta"].shape == X.shape
    same_answer(gm, Nested(), inputs)
    module = on_ref(gm, inputs)
    assert module.input_names == ("pair_0", "pair_1", "by_name_bar", "by_name_foo_0", "by_name_foo_1")
    torch.testing.assert_close(module(X, X, X, X, X + 1), Nested()(*inputs))
    plain = acc_tracer.trace(Nested(), inputs, use_acc_normalization=False)
    same_answer(plain, Nested(), inputs)
    with_more = acc_tracer.trace(Nested(), inputs, sample_kwargs={"more": [], "scale": 3})
    assert torch.equal(with_more(*inputs, [], 3), Nested()(*inputs, scale=3))


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


def test_named_tuples_are_containers() -> None:
    model, inputs = Call(lambda p: p.first + p.second["x"]), [Pair(X, {"x": X})]
    gm = acc_tracer.trace(model, inputs)
    assert [n.kwargs.get("idx") for n in nodes(gm)] == [0, 1, "x", None]
    same_answer(gm, model, inputs)


def test_names_of_attributes() -> None:
    gm = acc_tracer.trace(nn.Sequential(nn.Linear(10, 2)), [X])
    gm.scale_1 = X
    found = [acc_utils.get_unique_attr_name_in_module(gm, name) for name in ("scale_1", "training", "0.w/b", "new")]
    assert found == ["scale_2", "training_1", "_0_w_b", "new"]


def test_operators_of_graphs_that_others_made() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    size = graph.call_function(acc_ops.size, (), {"input": x})
    rows = graph.call_function(acc_ops.getitem, (), {"input": size, "idx": 0})
    count = graph.call_function(acc_ops.numel, (), {"input": x})
    kind = graph.call_function(acc_ops.dtype, (), {"input": x})
    scaled = graph.call_function(acc_ops.mul, (), {"input": x, "other": rows})
    added = graph.call_function(acc_ops.add, (), {"input": scaled, "other": count})
    graph.output(graph.call_function(acc_ops.to_dtype, (), {"input": added, "dtype": kind}))
    gm = fx.GraphModule({}, graph)
    torch.testing.assert_close(gm(X), X * 2 + 20)
    torch.testing.assert_close(on_ref(gm, [X])(X), X * 2 + 20)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test maps is forgotten afterwards."""
    for name in ("_acc_ops", "_mappings"):
        monkeypatch.setattr(acc_normalizer, name, dict(getattr(acc_normalizer, name)))


@pytest.mark.usefixtures("registry")
def test_mappers_as_upstream_has_them() -> None:
    @acc_normalizer.register_custom_acc_mapper_fn(
        op_and_target=("call_function", torch.special.i1),
        arg_replacement_tuples=[("input", "x")],
    )
    def i1(node: fx.Node, mod: nn.Module) -> fx.Node:
        assert isinstance(mod, nn.Module) and not node.args and node.meta["tensor_meta"].shape == X.shape
        with node.graph.inserting_before(node):
            new = node.graph.call_function(acc_ops.relu, kwargs={"input": node.kwargs["x"], "inplace": False})
        new.meta = node.meta.copy()
        return new

    @acc_normalizer.register_custom_acc_mapper_fn(
        op_and_target=("call_method", "sum_to_size"), arg_replacement_tuples=[("input", "input"), ("*", "size")]
    )
    def sum_to_size(node: fx.Node, mod: nn.Module) -> fx.Node:
        assert node.kwargs["size"] == (1, 10)
        with node.graph.inserting_before(node):
            kwargs = {"input": node.kwargs["input"], "dim": 0, "keepdim": True}
            return node.graph.call_function(acc_ops.sum, kwargs=kwargs)

    @acc_normalizer.register_acc_op_mapping(("call_function", torch.special.i0), [("input", "input", False)])
    @acc_normalizer.register_acc_op
    def my_i0(*, input: Any) -> Any:
        return torch.special.i0(input)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.special.i1(torch.special.i0(x)).sum_to_size(1, 10).sum_to_size((1, 10))

    gm = acc_tracer.trace(Call(model), [X])
    assert [getattr(n.target, "__name__", "") for n in nodes(gm)] == ["my_i0", "relu", "sum", "sum"]

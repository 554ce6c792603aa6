"""Passes on ATen graphs under Torch-MIGraphX's names: the same answer, without what each takes away."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata

from torch_migraphx.dynamo.lower_dynamo import lower_aten_to_mgx, lower_subgraph
from torch_migraphx.dynamo.passes.alias_analysis import AliasSource, find_alias_to_inputs, infer_output_aliases
from torch_migraphx.dynamo.passes.const_fold import const_fold
from torch_migraphx.dynamo.passes.fix_tensor_meta import fix_tensor_meta
from torch_migraphx.dynamo.passes.partition import get_partition_inputs, partition
from torch_migraphx.dynamo.passes.pass_manager import MGXPassManager, post_partition_pass, pre_partition_pass
from torch_migraphx.dynamo.passes.promote_types import promote_inputs
from torch_migraphx.dynamo.passes.remove_empty_slice import remove_empty_slices
from torch_migraphx.dynamo.passes.remove_lowered_constants import remove_lowered_constants
from torch_migraphx.dynamo.passes.remove_ops import remove_clone_ops, remove_const_ops, remove_view_ops
from torch_migraphx.dynamo.passes.rewrite_complex_ops import rewrite_complex_ops
from torch_migraphx.dynamo.passes.rewrite_output_aliases import (
    apply_alias_rewrite,
    capture_partition_io,
    plan_alias_rewrite,
)
from torch_migraphx.fx import MGXModule

aten = torch.ops.aten
X = torch.randn(3, 4)


def graph_of(function: Any, *args: Any, inputs: tuple[torch.Tensor, ...] = (), **kwargs: Any) -> fx.GraphModule:
    """One call, on inputs and then `args`."""
    graph = fx.Graph()
    given = [graph.placeholder(f"x{k}") for k in range(len(inputs))]
    graph.output(graph.call_function(function, (*given, *args), kwargs))
    gm = fx.GraphModule(nn.Module(), graph)
    ShapeProp(gm).propagate(*inputs)
    return gm


def targets(gm: fx.GraphModule) -> list[Any]:
    return [n.target for n in gm.graph.nodes if n.op.startswith("call_")]


@pytest.mark.parametrize(
    ("function", "inputs", "args", "kwargs"),
    [
        (aten.new_zeros.default, (X.half(),), ([2, 6],), {}),
        (aten.new_ones.default, (X,), ([2, 6],), {"dtype": torch.int32}),
        (aten.full_like.default, (X.double(),), (2.3,), {}),
        (aten.zeros_like.default, (X.bool(),), (), {}),
        (aten.full.default, (), ([2, 5], 3.2), {"dtype": torch.half}),
        (aten.arange.start, (), (1, 5), {}),
    ],
)
def test_constants_become_buffers(function: Any, inputs: Any, args: Any, kwargs: Any) -> None:
    gm = graph_of(function, *args, inputs=inputs, **kwargs)
    want = gm(*inputs)
    got = remove_const_ops(gm, device="cpu")(*inputs)
    assert torch.equal(got, want) and got.dtype == want.dtype
    assert not targets(gm)


def test_a_constant_of_unknown_size_stays() -> None:
    gm = graph_of(aten.zeros_like.default, inputs=(X,))
    for n in gm.graph.nodes:
        n.meta.clear()
    assert targets(remove_const_ops(gm)) == [aten.zeros_like.default]


def test_copies_and_views() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return aten.relu.default(aten.view.default(aten.clone.default(x), [4, 3]))

    gm = fx.symbolic_trace(model)
    assert targets(remove_clone_ops(gm)) == [aten.view.default, aten.relu.default]
    assert targets(remove_view_ops(gm)) == [aten.reshape.default, aten.relu.default]
    assert torch.equal(gm(X), model(X))


class Rotation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = torch.randn(2, 5, dtype=torch.cfloat)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.view_as_complex(x) * self.turn)


def test_complex_products_become_real_ones() -> None:
    model, x = Rotation(), torch.randn(3, 2, 5, 2)
    gm = rewrite_complex_ops(torch.export.export(model, (x,)).graph_module)
    assert aten.view_as_complex.default not in targets(gm)
    torch.testing.assert_close(gm(model.turn, x)[0], model(x))


@pytest.mark.slow
def test_tensor_meta_of_several_values() -> None:
    gm = torch.export.export(nn.LayerNorm(4, elementwise_affine=False), (X,)).run_decompositions().graph_module
    for n in gm.graph.nodes:
        n.meta.pop("tensor_meta", None)
    fix_tensor_meta(gm)
    (norm,) = [n for n in gm.graph.nodes if n.target is aten.native_layer_norm.default]
    metas = [*norm.meta["tensor_meta"], next(iter(norm.users)).meta["tensor_meta"]]
    assert all(isinstance(m, TensorMetadata) for m in metas) and metas[-1].shape == X.shape


def test_a_partition_leaves_writes_outside_and_the_output_last() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    product = graph.call_function(aten.mm.default, (x, graph.get_attr("weight")))
    graph.call_function(aten.copy_.default, (x, graph.call_function(aten.sin.default, (product,))))
    graph.output(())
    weight = torch.randn(4, 4)
    gm = fx.GraphModule({"weight": weight}, graph)
    partition(gm, verbose=False)
    assert [n.op for n in gm.graph.nodes][-1] == "output" and aten.copy_.default in targets(gm)
    given, want = X.clone(), torch.sin(X @ weight)
    (name,) = [n for n, _ in gm.named_children()]
    own = X.clone()
    assert {id(gm.weight), id(own)} == set(map(id, get_partition_inputs(gm, gm.get_submodule(name), [own])))
    gm(given)
    torch.testing.assert_close(given, want)
    with pytest.raises(RuntimeError, match="at most 0"):
        partition(graph_of(aten.sin.default, inputs=(X,)), max_partitions=0)


def test_only_unread_weights_are_removed() -> None:
    graph = fx.Graph()
    graph.output(graph.get_attr("read"))
    gm = fx.GraphModule({"read": nn.Parameter(X)}, graph)
    gm.register_buffer("unread", X)
    remove_lowered_constants(gm)
    assert hasattr(gm, "read") and not hasattr(gm, "unread")


# ---- views ----


def test_outputs_as_views() -> None:
    x, y = torch.randn(3, 4), torch.randn(8)
    views, told = infer_output_aliases((x,), (x.T, torch.sin(x), x[:, 1:], None))
    assert told and [(v.output_index, v.source) for v in views] == [(0, AliasSource.INPUT), (2, AliasSource.INPUT)]
    assert torch.equal(views[0].rebuild(x), x.T) and torch.equal(views[1].rebuild(x), x[:, 1:])
    (view,), told = infer_output_aliases((), (y.view(2, 4), y))
    assert told and view.source is AliasSource.OUTPUT and torch.equal(view.rebuild(y.view(2, 4)), y)
    assert infer_output_aliases((), (y[:4], y[4:])) == ([], False)
    assert infer_output_aliases((y,), (y.view(torch.int32),)) == ([], True)  # elements of another type
    assert find_alias_to_inputs((x,), torch.sin(x)) is None and find_alias_to_inputs((x,), x.view(-1)) is not None


def twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.sin(x)
    return y, y.view(-1), torch.cos(x)


def of_the_input(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.transpose(0, 1), x[:, 1:]


@pytest.mark.parametrize("function", [twice, of_the_input])
def test_views_are_rebuilt_around_a_call(function: Any) -> None:
    part, x = fx.symbolic_trace(function), X.clone()
    graph = fx.Graph()
    call = graph.call_module("part", (graph.placeholder("x"),))
    count = len(function(x))
    graph.output(tuple(graph.call_function(operator.getitem, (call, k)) for k in range(count)))
    root = nn.Module()
    root.add_module("part", part)
    whole = fx.GraphModule(root, graph)
    seen = capture_partition_io(whole, part, (x,))
    assert seen.aliases_representable and seen.inputs is not None and seen.inputs[0] is x
    rewrite = plan_alias_rewrite(part, seen.aliases)
    assert rewrite.kept_indices == ([0, 2] if function is twice else [])
    assert rewrite.prunes_every_output == (function is of_the_input)
    if function is twice:
        assert rewrite.supports_output_layouts([((3, 4), (4, 1)), ((3, 4), (4, 1))])
        assert not rewrite.supports_output_layouts([((3, 4), (1, 3)), ((3, 4), (4, 1))])
        assert not rewrite.supports_output_layouts([])
    apply_alias_rewrite(whole, call, rewrite)
    whole.part = rewrite.module
    got = whole(x)
    for g, w in zip(got, function(x), strict=True):
        assert torch.equal(g, w)
    got[1][0] = 7.0
    first = got[0] if function is twice else x
    assert (first == 7.0).any()


# ---- the whole of it ----


def test_an_aten_graph_is_lowered() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    exported = torch.export.export(model, (X,)).module()
    lowered = lower_aten_to_mgx(exported, [X], target="ref", fp16=False, verbose=False)
    with torch.no_grad():
        torch.testing.assert_close(lowered(X), model(X))
    assert any(isinstance(m, MGXModule) for m in lowered.modules())
    one = lower_subgraph(graph_of(aten.sin.default, inputs=(X,)), [X], target="ref")
    torch.testing.assert_close(one(X), torch.sin(X))


class Weighted(nn.Module):
    """What is computed of weights alone, of types that differ, and of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(4)), nn.Buffer(torch.arange(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled = x.double() * (self.weight.exp() + self.scale)
        return torch.cat([scaled[:, 4:], scaled, x.double()[:, :0]], 1) + torch.zeros_like(scaled[:1, :1])


def exported() -> fx.GraphModule:
    return torch.export.export(Weighted().eval(), (X,)).module()


def test_what_weights_alone_decide_is_folded() -> None:
    gm = exported()
    want = gm(X)
    assert aten.exp.default in targets(gm)
    assert aten.exp.default not in targets(const_fold(gm)) and torch.equal(gm(X), want)
    drawn = graph_of(aten.bernoulli.default, inputs=(X.sigmoid(),))
    assert targets(const_fold(drawn)) == [aten.bernoulli.default]


def test_operands_get_the_type_that_torch_computes_in() -> None:
    gm = exported()
    want, before = gm(X), targets(gm)
    promoted = promote_inputs(gm)
    (product,) = [n for n in promoted.graph.nodes if n.target is aten.mul.Tensor]
    assert {i.meta["val"].dtype for i in product.all_input_nodes} == {torch.float64}
    assert len(targets(promoted)) == len(before) + 2 and torch.equal(promoted(X), want)


def test_empty_slices_leave_concatenations() -> None:
    gm = remove_empty_slices(exported())
    (cat,) = [n for n in gm.graph.nodes if n.target is aten.cat.default]
    assert len(cat.args[0]) == 1 and gm(X).shape == (3, 4)
    wider = graph_of(lambda x: torch.cat([x, x]), inputs=(X,))
    assert len(targets(remove_empty_slices(wider))) == 1


def test_passes_in_a_row() -> None:
    gm = exported()
    want = gm(X)
    made = post_partition_pass(partition(pre_partition_pass(gm), verbose=False))
    assert torch.equal(made(X), want) and aten.exp.default not in targets(made)
    manager = MGXPassManager([remove_clone_ops])
    manager.add_pass(remove_view_ops)
    assert targets(manager(graph_of(aten.view.default, [12], inputs=(X,)))) == [aten.reshape.default]

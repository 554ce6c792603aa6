"""Graphs that write: what they write to, as functional graphs with a plan, and in files."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn

from torch_migraphx.dynamo.mutation import (
    Binding,
    BindingKind,
    apply_mutation_plan,
    export_functional,
    graph_has_side_effects,
    graph_may_mutate,
    input_writes,
    mutating_nodes,
)


class Counter(nn.Module):
    """Writes to a buffer and to an input, of which it returns a view."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.total = nn.Buffer(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.total.add_(x.sum())
        x.add_(1)
        return self.linear(x), x.view(-1)


def through_a_view(x: torch.Tensor) -> tuple[torch.Tensor]:
    x.transpose(0, 1)[1:].mul_(2)
    return (x,)


def own_memory(x: torch.Tensor) -> tuple[torch.Tensor]:
    made = torch.zeros_like(x)
    made.add_(x)
    return (made,)


def pure(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.sin(x) & (x > 0) if x is None else torch.sin(x),)


def built(build: Callable[[fx.Graph, fx.Node], Any]) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((build(graph, x),))
    return fx.GraphModule(nn.Module(), graph)


def set_item(graph: fx.Graph, target: fx.Node) -> fx.Node:
    graph.call_function(operator.setitem, (target, 0, 1.0))
    return target


@pytest.mark.parametrize(
    ("gm", "writes", "inputs"),
    [
        (fx.symbolic_trace(through_a_view), 1, frozenset({0})),
        (fx.symbolic_trace(own_memory), 1, frozenset()),
        (fx.symbolic_trace(pure), 0, frozenset()),
        (fx.symbolic_trace(Counter()), 2, None),
        (built(lambda graph, x: set_item(graph, x)), 1, frozenset({0})),
        (built(lambda graph, x: set_item(graph, graph.call_method("new_zeros", (x, (2, 2))))), 1, frozenset()),
        (built(lambda graph, x: graph.call_function(operator.iadd, (x, x))), 1, frozenset({0})),
        (built(lambda graph, x: graph.call_function(operator.and_, (x, x))), 0, frozenset()),
        (built(lambda graph, x: graph.call_method("add_", (torch.ones(2), 1))), 1, None),
        (built(lambda graph, x: graph.call_function(torch.ops.aten.relu_.default, (x,))), 1, frozenset({0})),
    ],
)
def test_what_is_written_to(gm: fx.GraphModule, writes: int, inputs: frozenset[int] | None) -> None:
    assert len(mutating_nodes(gm)) == writes and graph_may_mutate(gm) == (writes > 0)
    assert graph_has_side_effects(gm) == (writes > 0)
    assert input_writes(gm) == inputs


def test_an_assertion_is_an_effect_and_no_write() -> None:
    gm = built(lambda graph, x: (graph.call_function(torch._assert, (True, "")), x)[1])
    assert graph_has_side_effects(gm) and not graph_may_mutate(gm)


def test_writes_are_done_after_the_functional_graph() -> None:
    model = Counter().eval()
    gm, x = fx.symbolic_trace(model), torch.randn(3, 4)
    export = export_functional(gm, (x,))
    assert {m.target for m in export.plan.mutations} == {Binding.module_state("total"), Binding.user_input(0)}
    assert sum(b.kind is BindingKind.MODULE_STATE for b in export.plan.inputs) == 3
    run = apply_mutation_plan(export.graph_module, export.plan, state_module=gm)
    given, wanted = x.clone(), x.clone()
    with torch.no_grad():
        got, want = run(given), copy.deepcopy(model)(wanted)
    for g, w in zip((*got, given), (*want, wanted), strict=True):
        torch.testing.assert_close(g, w)
    torch.testing.assert_close(gm.total, x.sum())
    got[1][0] = 7.0
    assert given[0, 0] == 7.0
    with pytest.raises(RuntimeError, match="'total' is a tensor of a module, which is not given"):
        Binding.module_state("total").resolve(())


def test_what_writes_to_nothing_of_others_needs_no_plan() -> None:
    export = export_functional(fx.symbolic_trace(own_memory), (torch.ones(2, 2),))
    assert export.plan.is_identity and apply_mutation_plan(export.graph_module, export.plan) is export.graph_module


# ---- files ----


def in_engine(model: nn.Module, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(model, backend="migraphx", options={"target": "ref", **options})


@torch.no_grad()
def test_a_saved_graph_is_loaded_and_writes_as_eager_does(tmp_path: Path) -> None:
    file, model, x = tmp_path / "graph.pt", Counter().eval(), torch.randn(3, 4)
    wanted = x.clone()
    want = copy.deepcopy(model)(wanted)
    compiled = in_engine(model, save_compiled=file)

    def check(run: Callable[..., Any]) -> None:
        given = x.clone()
        for g, w in zip((*run(given), given), (*want, wanted), strict=True):
            torch.testing.assert_close(g, w)

    check(compiled)
    check(torch.load(file, weights_only=True))
    check(in_engine(model, load_compiled=str(file)))
    torch.testing.assert_close(model.total, x.sum())  # a file has a buffer of its own


class Scaled(nn.Module):
    def __init__(self, by: float, begin: int = 0) -> None:
        super().__init__()
        self.by, self.begin = by, begin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.begin :] * self.by


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved", "other"),
    [
        (Scaled(2.0), Scaled(3.0)),
        (Scaled(2.0), Scaled(2.0, 1)),
        (nn.Softmax(0), nn.Softmax(1)),
        (nn.Linear(4, 4), nn.Linear(4, 5)),
    ],
)
@torch.no_grad()
def test_a_file_of_another_model_is_refused(saved: nn.Module, other: nn.Module, tmp_path: Path) -> None:
    """Of the same operators, too: what differs may be a number, or a size."""
    file, x = str(tmp_path / "graph.pt"), torch.randn(3, 4)
    in_engine(saved, save_compiled=file)(x + 1)
    torch.testing.assert_close(in_engine(copy.deepcopy(saved), load_compiled=file)(x), saved(x))
    with pytest.raises(Exception, match="was saved for another graph"):
        in_engine(other, load_compiled=file)(x)


@pytest.mark.parametrize("damage", ["half of it", "a weight"])
@torch.no_grad()
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    file, model, x = tmp_path / "graph.pt", nn.Linear(40, 40), torch.randn(3, 40)
    in_engine(model, save_compiled=file)(x)
    data = bytearray(file.read_bytes())
    at = data.rindex(model.weight[17, :3].numpy().tobytes())
    data[at] ^= 4
    file.write_bytes(data if damage == "a weight" else data[: len(data) // 2])
    with pytest.raises(Exception, match=rf"{file} is damaged: .*(archive|tensor|Invalid)"):
        in_engine(model, load_compiled=str(file))(x)


@torch.no_grad()
def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, x = tmp_path / "graph.pt", torch.randn(3, 4)
    file.symlink_to(tmp_path / "first.pt")
    first = nn.Linear(4, 4)
    in_engine(first, save_compiled=file)(x)
    assert file.is_symlink() and file.stat().st_size > 0
    real = torch.save

    def interrupted(obj: Any, out: Any) -> None:
        real(obj, out)
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_engine(nn.Linear(4, 4), save_compiled=file)(x)
    torch.testing.assert_close(in_engine(first, load_compiled=str(file))(x), first(x))
    assert {path.name for path in tmp_path.iterdir()} == {"graph.pt", "first.pt"}


@torch.no_grad()
def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    file, x = tmp_path / "graph.pt", torch.randn(3, 4)
    in_engine(nn.Linear(4, 4), save_compiled=file)(x)
    with pytest.raises(Exception, match="was saved for another graph"):
        in_engine(nn.ReLU(), load_compiled=file)(x)
    torch.save(nn.ReLU(), file)
    with pytest.raises(Exception, match="holds no graph that is data alone"):
        in_engine(nn.ReLU(), load_compiled=file)(x)
    with pytest.raises(Exception, match="are for inference"), torch.enable_grad():
        in_engine(nn.Linear(4, 4), save_compiled=file)(x)
    model = in_engine(nn.ReLU(), save_compiled=file)
    model(x)
    with pytest.raises(Exception, match="a file holds one set of sizes"):
        model(torch.randn(5, 4))
    missing = tmp_path / "no_folder" / "graph.pt"
    with pytest.raises(Exception, match=f"No such file or directory: '{missing}'"):
        in_engine(nn.ReLU(), save_compiled=missing)(x)

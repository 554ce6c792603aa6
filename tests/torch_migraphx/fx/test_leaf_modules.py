"""Modules that stay whole: leaf modules, looked into where they have no converter, and compiled ones."""

from __future__ import annotations

import torch
from torch import fx, nn

from torch_migraphx.fx import MGXInterpreter, MGXModule, lower_to_mgx
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer

X = torch.randn(3, 4)


class Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return self.linear(x) * scale, {"more": x + torch.ones(4)}


class Model(nn.Module):
    def __init__(self, leaf: nn.Module) -> None:
        super().__init__()
        self.leaf, self.last = leaf, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, rest = self.leaf(x, scale=2.0)
        return self.last(y) + rest["more"]


def test_a_leaf_module_is_looked_into() -> None:
    model = Model(Leaf()).eval()
    lowered = lower_to_mgx(model, [X], leaf_modules=[Leaf], target="ref", fallback="error")
    traced = acc_tracer.trace(model, [X], leaf_module_list=[Leaf])
    assert [n.target for n in traced.graph.nodes if n.op == "call_module"] == ["leaf"]
    interpreter = MGXInterpreter(traced, [X])
    alone = MGXModule(interpreter.run(), interpreter.get_input_names(), target="ref")
    with torch.no_grad():
        torch.testing.assert_close(lowered(X), model(X))
        torch.testing.assert_close(alone(X), model(X))


def test_a_leaf_module_with_hooks_runs_in_torch() -> None:
    leaf, calls = Leaf(), []
    leaf.register_forward_hook(lambda *_: calls.append(1))
    model = Model(leaf).eval()
    lowered = lower_to_mgx(model, [X], leaf_modules=[Leaf], target="ref", min_acc_module_size=1)
    assert any("module leaf" in r.instruction for r in lowered.refusals)
    calls.clear()
    with torch.no_grad():
        torch.testing.assert_close(lowered(X), model(X))
    assert len(calls) == 2


class Outer(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.last = part, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.part(x)).relu()


def test_a_lowered_part_is_a_leaf_of_traces() -> None:
    part = lower_to_mgx(nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval(), [X], target="ref")
    outer = Outer(part).eval()
    torch.fx.symbolic_trace(outer)
    with torch.no_grad():
        want = outer(X)
        for traced in (fx.symbolic_trace(outer), acc_tracer.trace(outer, [X])):
            assert next(n.target for n in traced.graph.nodes if n.op == "call_module") == "part"
            torch.testing.assert_close(traced(X), want)
        again = lower_to_mgx(outer, [X], target="ref", min_acc_module_size=1)
        torch.testing.assert_close(again(X), want)
    assert [r.instruction.partition(",")[0] for r in again.refusals] == ["%part = module part"]

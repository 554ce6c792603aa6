"""What the target refuses runs in torch; a graph is converted once, and each of its pieces compiled once."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
import torch
from torch import fx, nn

import migraphx
from migraphx.targets.ref.target import RefTarget
from tests.tolerances import assert_close
from torch_migraphx.fx import MGXModule, lower_to_mgx
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.lower_graph import FallbackError

X = torch.randn(2, 4)


class Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        first = torch.tanh(self.a(x)) * self.scale
        second = torch.erf(self.b(first)) + first  # crosses a piece of torch's
        left, right = self.c(second).split([1, 3], 1)
        return self.c(second), left * y.mean(), right.reshape(-1), y, self.scale


class Seen:
    """What was converted and compiled."""

    def __init__(self) -> None:
        self.converted: Counter[str] = Counter()
        self.compiled: list[list[str]] = []


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, run_node, compile_ = Seen(), MGXInterpreter.run_node, RefTarget.compile

    def counted(self: MGXInterpreter, n: fx.Node) -> Any:
        found.converted[n.name] += n.op == "call_function"
        return run_node(self, n)

    def noted(self: RefTarget, program: Any, options: Any) -> Any:
        found.compiled.append([i.name for i in program.main if not i.name.startswith("@")])
        return compile_(self, program, options)

    monkeypatch.setattr(MGXInterpreter, "run_node", counted)
    monkeypatch.setattr(RefTarget, "compile", noted)
    return found


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let target ref refuse these operators."""

    def supports(self: RefTarget, ins: Any) -> Any:
        return migraphx.Refusal(ins, "target ref", "there is no kernel") if ins.name in names else None

    monkeypatch.setattr(RefTarget, "supports", supports)


def same(fast: Any, model: nn.Module, *inputs: torch.Tensor) -> None:
    with torch.no_grad():
        for got, want in zip(fast(*inputs), model(*inputs), strict=True):
            assert_close(got.numpy(), want.numpy(), scale=8)


@pytest.mark.parametrize(
    ("names", "in_engine", "in_torch"),
    [((), 1, 0), (("tanh",), 2, 1), (("tanh", "erf"), 3, 2), (("dot", "tanh", "erf"), 3, 3)],
    ids=str,
)
def test_converted_once_and_compiled_once(
    names: tuple[str, ...],
    in_engine: int,
    in_torch: int,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse(monkeypatch, *names)
    model, y = Three().eval(), torch.randn(2, 4)
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(model, [X, y], target="ref", min_acc_module_size=1)
    assert max(seen.converted.values()) == 1
    pieces = [m for m in fast.modules() if isinstance(m, MGXModule)]
    assert len(seen.compiled) == len(pieces) == in_engine
    assert not {*names} & {name for piece in seen.compiled for name in piece}
    told = [r.message for r in caplog.records]
    assert len(told) == in_torch and not any(r.exc_info for r in caplog.records)
    assert all(any(f"target ref refuses {name}: there is no kernel" in line for line in told) for name in names)
    assert {r.rule for r in fast.refusals} <= {"target ref"} and len(fast.refusals) >= len(names)
    assert all("test_refusals.py" in r.instruction for r in fast.refusals)
    same(fast, model, X, y)
    same(fast, model, X + 1, y - 1)


def test_refused_by_a_converter_and_by_the_target(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "erf")

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.special.airy_ai(x.relu() @ x.T).exp() + torch.erf(x @ x.T).sum(1)

    fast = lower_to_mgx(function, [X], target="ref", min_acc_module_size=1)
    assert max(seen.converted.values()) == 1
    assert sorted(r.rule for r in fast.refusals) == ["converter", "target ref"]
    with torch.no_grad():
        assert_close(fast(X).numpy(), function(X).numpy(), scale=8)
    with pytest.raises(FallbackError, match="2 of 10 nodes would run in torch") as raised:
        lower_to_mgx(function, [X], target="ref", fallback="error")
    assert [(r.rule, r.instruction.op) for r in raised.value.refusals] == [
        ("converter", "call_function"),
        ("target ref", "call_function"),
    ]


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def compile_(self: RefTarget, program: Any, options: Any) -> Any:
        raise error

    monkeypatch.setattr(RefTarget, "compile", compile_)


def test_what_only_compiling_shows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Such as more loops than a program may have."""
    failing(monkeypatch, migraphx.UnsupportedOperator("ref", []))
    model = nn.Linear(4, 4).eval()
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(model, [X], target="ref")
    assert torch.equal(fast(X), model(X)) and not any(r.exc_info for r in caplog.records)
    assert {r.rule for r in fast.refusals} == {"target ref"}
    with pytest.raises(FallbackError, match="the ref target refuses"):
        lower_to_mgx(model, [X], target="ref", fallback="error")


@pytest.mark.parametrize("cut", [False, True])
def test_a_fault_of_ours_is_no_refusal(
    cut: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is shown whole; the model runs."""
    failing(monkeypatch, ValueError("a fault"))
    refuse(monkeypatch, *(["tanh"] if cut else []))
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval()
    with caplog.at_level(logging.WARNING):
        fast = lower_to_mgx(model, [X], target="ref")
    assert torch.equal(fast(X), model(X))
    assert any(r.exc_info for r in caplog.records) and "a bug in the compilation" in caplog.text
    assert "runs in the engine" not in caplog.text
    if not cut:
        with pytest.raises(ValueError, match="a fault"):
            lower_to_mgx(model, [X], target="ref", fallback="error")


def test_what_is_no_fault_of_ours_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler, a full disk: nobody wants the model to run in torch then, unnoticed."""
    failing(monkeypatch, RuntimeError("no compiler"))
    with pytest.raises(RuntimeError, match="no compiler"):
        lower_to_mgx(nn.Linear(4, 4).eval(), [X], target="ref")


def test_a_reason_names_the_operation_as_users_write_it() -> None:
    lowered = lower_to_mgx(lambda x: torch.geqrf(x)[0].geqrf()[0], [X], target="ref")
    assert [r.why for r in lowered.refusals] == ["torch.geqrf has no converter", "Tensor.geqrf has no converter"]

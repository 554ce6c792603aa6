"""What a backend returns keeps the forms that it compiled last."""

import logging

import pytest
import torch

from torch_migraphx.dynamo.runner import Runner


def test_the_form_used_longest_ago_is_forgotten_with_its_weights(caplog):
    built: list[tuple[int, ...]] = []

    def build(args, constants):
        built.append(tuple(len(x) for x in args))
        return lambda x, w: x * w

    weights = [torch.full((1,), float(k)) for k in range(3)]
    runner = Runner(build, ["x", "w"], {1}, symbolic=True, max_specialisations=2)

    def run(length: int, k: int) -> None:
        assert torch.equal(runner(torch.ones(length), weights[k]), torch.full((length,), float(k)))

    for length, k in [(1, 0), (2, 1), (1, 0)]:
        run(length, k)
    assert built == [(1, 1), (2, 1)] and not caplog.records
    with caplog.at_level(logging.WARNING, "torch_migraphx"):
        run(3, 0)
    assert "more than 2 shapes or modules share a graph" in caplog.text
    run(1, 0)
    assert built == [(1, 1), (2, 1), (3, 1)]  # what went is (2, 1), with weights 1
    (kept,) = runner._weights.values()
    assert kept.tensors[0]() is weights[0]
    run(2, 1)
    assert built[3:] == [(2, 1)]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_later_calls_prepare_nothing_in_any_mode(mode, monkeypatch):
    prepared, prepare = [], Runner.prepare
    monkeypatch.setattr(Runner, "prepare", lambda self, args: prepared.append(args) or prepare(self, args))
    torch._dynamo.reset()
    model, x = torch.nn.Linear(8, 8), torch.randn(2, 8)
    fast = torch.compile(model, backend="migraphx", options={"target": "ref"})
    with mode():
        fast(x)
        fast(x)
        first = len(prepared)
        fast(x)
    assert 0 < first == len(prepared)

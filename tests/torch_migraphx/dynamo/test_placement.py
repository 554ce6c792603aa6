"""Every change of a tensor's memory, sizes, strides or type is told, and nothing but changes."""

import gc

import pytest
import torch
from torch import nn

from torch_migraphx.dynamo import placement as placements
from torch_migraphx.dynamo.placement import FEW, Placement, placement, unchanged
from torch_migraphx.dynamo.runner import Runner


def data(change):
    return lambda t: setattr(t, "data", change(t.data))


CHANGES = {
    "other memory": data(torch.Tensor.clone),
    "strides": data(torch.Tensor.t),
    "fewer rows": data(lambda t: t[:2]),
    "from the second row on": data(lambda t: t[1:]),
    "another type": data(lambda t: t.view(torch.int32)),
    "half": data(torch.Tensor.half),
    "negated when it is read": data(torch._neg_view),
    "dimensions": data(lambda t: t.view(2, 2, 4)),
    "set": lambda t: t.set_(torch.randn(4, 4)),
    "shared": lambda t: t.share_memory_(),
    "storage": lambda t: t.untyped_storage().resize_(1 << 20),
    "swapped": lambda t: torch.utils.swap_tensors(t, nn.Parameter(torch.randn(4, 4), requires_grad=False)),
}
"""Of a matrix of 4 x 4 floats."""


def tensors(n: int = FEW) -> list[torch.Tensor]:
    return [nn.Parameter(torch.randn(4, 4), requires_grad=False) for _ in range(n)]


@pytest.mark.parametrize("known", ["words", "one by one"])
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_told(name, known, monkeypatch):
    """By words; else what sizes, strides and types do not tell is told by the address, for which Runner asks."""
    if known == "one by one":
        monkeypatch.setattr(placements, "_layout", lambda: None)
    many = tensors()
    same = unchanged(many)
    before = [t.data_ptr() for t in many]
    assert same()
    many[7].add_(1)
    assert same() and float(many[8].sum()) == float(many[8].sum()) and same()
    CHANGES[name](many[7])
    assert not (same() and before == [t.data_ptr() for t in many])
    assert known == "one by one" or not same()


def test_tensors_whose_words_say_less_are_asked_one_by_one():
    strange = torch.randn(1, 1, 1, 1, 1, 3), torch.eye(3).to_sparse(), torch.ones(3, device="meta")
    for t in strange:
        assert placement([t]) is None
    deep = [*tensors(), strange[0]]
    same = unchanged(deep)
    assert same()
    deep[-1].data = deep[-1].data.transpose(0, 5)
    assert not same()


def test_words_are_found_here():
    """Where this fails a newer torch has other words: calls are right, and slower."""
    many = tensors(1)
    for mode in (torch.device("meta"), torch.inference_mode(), torch._subclasses.FakeTensorMode()):
        placements._layout.cache_clear()
        with mode:
            assert isinstance(placement(many), Placement)


def test_a_runner_knows_weights_that_take_others_places():
    """Objects die and others are made where they were; each is compiled with its own values."""
    built: list[float] = []

    def build(args, fixed):
        value = float(args[0].sum())
        built.append(value)
        return lambda *_: value

    runner = Runner(build, [f"w{k}" for k in range(FEW)], range(FEW), False, patience=100)
    for _ in range(20):
        many = tensors()
        for _ in range(4):
            assert runner(*many) == float(many[0].sum())
        many[0].data = torch.ones(4, 4)
        assert runner(*many) == 16
        del many
        gc.collect()
    assert len(built) == 40


def test_a_runner_prepares_only_where_something_changed(monkeypatch):
    prepared: list[int] = []
    prepare = Runner.prepare
    monkeypatch.setattr(Runner, "prepare", lambda self, args: (prepared.append(1), prepare(self, args))[1])
    runner = Runner(lambda args, fixed: lambda *_: float(args[0].sum()), ["w"] * FEW, range(FEW), False, patience=100)
    many = tensors()
    for n in range(3):
        many[0].fill_(n)
        for _ in range(9):  # some find pages that others write, too
            assert runner(*many) == 16 * n
        prepared.clear()
        for _ in range(3):
            assert runner(*many) == 16 * n
        assert len(prepared) < 3

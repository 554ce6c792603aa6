"""Every change of dictionaries, modules and tensors is told by their words, and nothing but changes."""

import sys

import pytest
import torch
from torch import nn

from torch_migraphx.dynamo import words
from torch_migraphx.dynamo.words import Words, words_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="words are read where the C library tells sizes")


class Kept:
    """A layer with a parameter and a buffer of 4 x 4 floats."""

    def __init__(self, device: str) -> None:
        self.layer = nn.Linear(4, 4, device=device)
        self.layer.register_buffer("buffer", torch.randn(4, 4, device=device))
        self.weight, self.buffer = self.layer.weight, self.layer.get_buffer("buffer")
        self.dicts = [self.layer.__dict__, self.layer._parameters, self.layer._buffers]

    def words(self) -> Words | None:
        return words_of(self.dicts, [self.layer], [self.weight, self.buffer])


def data(change):
    return lambda kept: setattr(kept.weight, "data", change(kept.weight.data))


class Other(nn.Linear):
    pass


class Marked(torch.Tensor):
    pass


CHANGES = {
    "other memory": data(torch.Tensor.clone),
    "strides": data(torch.Tensor.t),
    "fewer rows": data(lambda t: t[:2]),
    "from the second row on": data(lambda t: t[1:]),
    "another type": lambda kept: setattr(kept.buffer, "data", kept.buffer.view(torch.int32)),
    "half": data(torch.Tensor.half),
    "negated when it is read": data(torch.ops.aten._neg_view.default),
    "dimensions": data(lambda t: t.view(2, 2, 4)),
    "set": lambda kept: kept.buffer.set_(torch.randn(4, 4)),
    "shared": lambda kept: kept.weight.share_memory_(),
    "storage": lambda kept: kept.buffer.untyped_storage().resize_(1 << 20),
    "swapped": lambda kept: torch.utils.swap_tensors(kept.buffer, torch.randn(4, 4)),
    "gradients": lambda kept: kept.weight.requires_grad_(False),
    "a buffer's gradients": lambda kept: kept.buffer.requires_grad_(),
    "a tensor's class": lambda kept: setattr(kept.buffer, "__class__", Marked),
    "a module's class": lambda kept: setattr(kept.layer, "__class__", Other),
    "attribute": lambda kept: setattr(kept.layer, "training", False),
    "parameter": lambda kept: setattr(kept.layer, "weight", nn.Parameter(torch.randn(4, 4))),
    "dictionary": lambda kept: kept.layer._buffers.update(buffer=None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_told(name):
    is_told(CHANGES[name], "cpu")


@torch.no_grad()
def is_told(change, device):
    """Writing to weights and using them is no change; this is one."""
    kept = Kept(device)
    known = kept.words()
    assert known is not None and known.same()
    kept.weight.add_(1)
    kept.layer(torch.randn(2, 4, device=device))
    assert known.same()
    change(kept)
    assert not known.same()


def test_another_mode_is_told():
    with torch.no_grad():
        kept = Kept("cpu")
        known = kept.words()
        assert known is not None and known.same()
        with torch.inference_mode():
            assert not known.same()
        assert known.same()


def test_tensors_whose_words_say_less_have_none():
    for t in torch.randn(1, 1, 1, 1, 1, 3), torch.eye(3).to_sparse(), torch.ones(3, device="meta"):
        assert words_of([], [], [t]) is None


def test_words_are_found_in_any_mode():
    """Where this fails a newer torch has other words: calls are right, and slower."""
    for mode in (torch.device("meta"), torch.inference_mode(), torch._subclasses.FakeTensorMode()):
        words._layout.cache_clear()
        with mode:
            assert words._layout() is not None

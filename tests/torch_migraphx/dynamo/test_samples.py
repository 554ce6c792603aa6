"""Samples of weights show what torch does not count."""

import torch

from torch_migraphx.dynamo.samples import Samples


def test_writes_to_whole_tensors_show():
    owner = torch.randn(6, 8)
    tensors = [
        torch.randn(3, 5, 2), torch.tensor(1.5), owner.t()[1:5], torch.randn(4, 1).expand(4, 9),
        torch.arange(7), torch.randn(33, dtype=torch.bfloat16), torch.rand(9) > 0.5,
    ]  # fmt: skip
    samples = Samples(tensors)
    assert samples and not samples.changed()
    for k, t in enumerate(tensors):
        kept = t.clone()
        t.data.copy_(~t if t.dtype == torch.bool else t * 3 + 1) if k != 3 else t.data[:, 0].zero_()
        assert not samples and k in samples.changed()
        t.data.copy_(kept) if k != 3 else t.data[:, 0].copy_(kept[:, 0])
        assert samples
    owner[:, 0] = 0  # beside the third, not in it
    assert samples


def test_what_has_no_words_is_left_out():
    assert Samples([]) and Samples([torch.zeros(0, 3), torch.zeros(2, dtype=torch.bool), torch.eye(3).to_sparse()])

"""torch's own samples of its operators (OpInfo), compiled together, against eager."""

import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import TestCase

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.tolerances import assert_close

OPERATORS = """
addbmm addmv aminmax atan2 cdist copysign cummax diagonal_scatter diff fmod gather index_add index_copy index_fill
index_select kthvalue masked_scatter median nan_to_num nanmedian nn.functional.adaptive_max_pool2d
nn.functional.avg_pool2d nn.functional.local_response_norm nn.functional.max_pool2d pow put
remainder renorm searchsorted signbit slice_scatter take_along_dim topk unfold
"""
WHOLE = "bucketize floor_divide prod remainder scatter_add searchsorted sum unfold where"


@pytest.fixture(scope="module")
def database() -> Iterator[list[Any]]:
    """OpInfo imports expecttest for a base class of torch's own tests, which is not needed here.

    Nor is one of these looked for on the stack, at each sample: a third of the time.
    """
    stand_in: Any = ModuleType("expecttest")
    stand_in.TestCase = TestCase
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "expecttest", stand_in)
        from torch.testing._internal.common_methods_invocations import op_db

        patch.setattr("torch.testing._internal.opinfo.core.extract_test_fn", lambda: None)
        patch.setattr("torch.testing._internal.common_utils.extract_test_fn", lambda: None)
        yield op_db


def calls(infos: list[Any], dtype: torch.dtype) -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    found = []
    for info in infos:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        for sample in (samples[0], samples[-1]):
            found.append((info.name, info.op, (sample.input, sample.args, sample.kwargs)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("words", "dtype"), [(OPERATORS, torch.float32), (WHOLE, torch.int64)], ids=["float", "whole"])
def test_first_and_last_samples(words: str, dtype: torch.dtype, database: list[Any], caplog: Any) -> None:
    names = words.split()
    infos = [o for o in database if o.name in names and not o.variant_test_name]
    assert {o.name for o in infos} == set(names)
    cases = calls(infos, dtype)

    def every(arguments: list[Any]) -> list[Any]:
        return [op(x, *args, **kwargs) for (_, op, _), (x, args, kwargs) in zip(cases, arguments, strict=True)]

    given = [tree_map_only(Tensor, torch.clone, sample) for _, _, sample in cases]
    with torch.no_grad(), caplog.at_level(logging.INFO, "torch_migraphx"):
        torch._dynamo.reset()
        got = torch.compile(every, backend="migraphx", options={"target": "ref"}, dynamic=False)(given)
        want = every([sample for _, _, sample in cases])
    assert "in the engine" in caplog.text
    assert "in torch" not in caplog.text, caplog.text
    for (name, _, _), g, w in zip(cases, got, want, strict=True):
        for ours, theirs in zip(tree_leaves(g), tree_leaves(w), strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
            assert_close(ours.numpy(), theirs.numpy(), scale=60)

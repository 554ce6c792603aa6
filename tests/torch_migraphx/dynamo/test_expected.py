"""What is expected of a graph is what its program has in common with others."""

import threading
from collections.abc import Sequence

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from migraphx.targets.cpu import target
from tests.tolerances import assert_close
from torch_migraphx.dynamo import expected


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        y = self.inner(x)
        return scaled_dot_product_attention(y, x, x, mask)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], set[str]]:
    """Those that were compiled ahead, and those of programs; nothing is compiled ahead."""
    ahead, built, build = set[str](), set[str](), target.build

    def note(sources: Sequence[str], *args: str) -> object:
        built.update(sources)
        return build(sources, *args)

    monkeypatch.setattr(target, "build_objects", lambda sources, isa: ahead.update(sources))
    monkeypatch.setattr(target, "build", note)
    return ahead, built


@pytest.mark.parametrize("of_mask", [None, torch.bool])
def test_graphs_need_what_was_expected(sources, of_mask: torch.dtype | None) -> None:
    ahead, built = sources
    torch._dynamo.reset()
    expected.expect.cache_clear()
    model, x = Layer().eval(), torch.randn(1, 2, 20, 32)
    mask = None if of_mask is None else torch.rand(1, 2, 20, 20) > 0.3
    try:
        with torch.no_grad():
            got = torch.compile(model, backend="migraphx", dynamic=True)(x, mask)
        for thread in threading.enumerate():
            if thread.name == "migraphx-beside":
                thread.join()
    finally:
        torch._dynamo.reset()
        expected.expect.cache_clear()
    assert_close(got.numpy(), model(x, mask).detach().numpy())
    shared = {s for s in built if "\ntemplate void" in s and "team.hpp" not in s}
    assert len(shared) >= 3 and shared <= ahead  # the engine, attention of few queries and of many


def test_types_that_nothing_is_expected_of(sources) -> None:
    expected.expect(torch.int64)
    expected.expect(None)
    assert not any(t.name == "migraphx-beside" for t in threading.enumerate())
    assert sources == (set(), set())

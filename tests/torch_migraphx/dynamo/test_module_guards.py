"""What Dynamo's guards see of a module is seen when they are asked by the versions of its dictionaries."""

import copy
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.utils import counters

from tests.tiers import few
from torch_migraphx.dynamo import module_guards
from torch_migraphx.dynamo.module_guards import ModuleGuard, guard_modules_by_version

X = torch.randn(2, 8)


def backend(gm: Any, inputs: Any) -> Any:
    """Torch's own kernels, behind these guards."""
    guard_modules_by_version()
    return gm.forward


def reading(gm: Any, inputs: Any) -> Any:
    """The same for graphs that write none of their inputs."""
    guard_modules_by_version().writes_inputs = False
    return gm.forward


class Block(nn.Module):
    """Attributes of all kinds: numbers, tuples, lists, objects, a property, a class's own, one of the module."""

    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.steps = [1.0, 2.0]
        self.config = SimpleNamespace(shift=0.5)
        self.pair = (1.0, 2.0)
        self.register_buffer("offset", torch.rand(8))
        self._kept = 1.0

    @property
    def kept(self) -> float:
        return self._kept

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.drop(self.norm(self.linear(x))) * self.scale + self.config.shift * self.kept
        for step in self.steps:
            y = y + step * self.pair[0]
        return y + self.offset


class Other(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) * 3


def model(n: int = 3) -> Any:
    return nn.Sequential(*[Block() for _ in range(n)]).eval()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def same(fast: Any, eager: Any, x: torch.Tensor = X) -> None:
    state = torch.get_rng_state()
    wanted = eager(x)
    torch.set_rng_state(state)
    for _ in range(2):
        torch.set_rng_state(state)
        torch.testing.assert_close(fast(x), wanted)


WRITES = {
    "number": lambda b: setattr(b.norm, "eps", 0.5),
    "tuple": lambda b: setattr(b, "pair", (3.0, 2.0)),
    "list": lambda b: b.steps.append(4.0),
    "item": lambda b: b.steps.__setitem__(0, 7.0),
    "object": lambda b: setattr(b.config, "shift", 9.0),
    "behind a property": lambda b: setattr(b, "_kept", 5.0),
    "over the class's": lambda b: setattr(b, "scale", 2.0),
    "training": lambda b: b.drop.train(),
    "mode": lambda b: b.norm.train(),
    "parameter": lambda b: setattr(b.linear, "weight", nn.Parameter(torch.ones(8, 8))),
    "no parameter": lambda b: setattr(b.linear, "bias", None),
    "dictionary": lambda b: b.linear._parameters.__setitem__("bias", nn.Parameter(torch.ones(8))),
    "another layer": lambda b: setattr(b, "linear", nn.Linear(8, 8, bias=False)),
    "a dictionary's own": lambda b: b.__dict__.__setitem__("_buffers", {"offset": torch.zeros(8)}),
    "order in memory": lambda b: setattr(b.linear.weight, "data", b.linear.weight.data.t()),
    "buffer": lambda b: setattr(b, "offset", torch.ones(8)),
    "module": lambda b: setattr(b, "norm", nn.LayerNorm(8)),
    "type": lambda b: setattr(b.linear, "__class__", Other),
    "forward": lambda b: setattr(b.linear, "forward", lambda x: x * 2),
}


@pytest.mark.parametrize(
    "names", few([[*WRITES][k : k + 5] for k in range(0, len(WRITES), 5)], [*WRITES][:5], [*WRITES][5:10])
)
@pytest.mark.parametrize("behind", few([backend, reading], backend))
def test_every_change_is_seen(names, behind):
    """One after the other, fewer of them than Dynamo compiles a function anew."""
    m = model(2)
    fast = torch.compile(m, backend=behind)
    same(fast, m)
    for name in names:
        before = m(X)
        WRITES[name](m[1])
        assert not torch.equal(before, m(X)), name
        same(fast, m)


class Adds(nn.Module):
    """Buffers of a layer that is not torch's own, one of which the input may be; `writes`: to the input."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes = writes
        for k in range(24):
            self.register_buffer(f"b{k}", torch.rand(2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.writes:
            x.add_(1)
        for k in range(24):
            x = x * 0.5 + getattr(self, f"b{k}")
        return x


@pytest.mark.parametrize("writes", few([False, True], True))
@pytest.mark.parametrize("calls", few([("another", "buffer", "another"), ("buffer", "another", "buffer")], at=[0]))
def test_an_input_that_is_a_buffer(calls, writes):
    """Whether it is one when the graph is traced, or later, or is none any more."""
    m = Adds(writes)
    own = copy.deepcopy(m)
    fast = torch.compile(m, backend="migraphx", options={"target": "ref"})
    for kind in calls:
        given, wanted = (m.b3, own.b3) if kind == "buffer" else (X.clone(), X.clone())
        torch.testing.assert_close(fast(given), own(wanted))
        torch.testing.assert_close(m.state_dict(), own.state_dict())


@pytest.mark.slow
def test_buffers_of_others_layers_are_asked_by_version_too():
    """Where nothing is written: else Dynamo compares each with the inputs."""
    asked = {}
    for writes in (False, True):
        torch._dynamo.reset()
        fast = torch.compile(Adds(writes), backend="migraphx", options={"target": "ref"})
        fast(X.clone())
        (entry,) = _debug_get_cache_entry_list(Adds.forward.__code__)
        asked[writes] = str(entry.guard_manager)
    assert "NO_TENSOR_ALIASING" not in asked[False] and asked[False].count("TENSOR_MATCH") == 1
    assert "NO_TENSOR_ALIASING" in asked[True] and asked[True].count("TENSOR_MATCH") == 25


def test_a_change_of_a_class_is_seen():
    m = model(2)
    fast = torch.compile(m, backend=backend)
    same(fast, m)
    Block.scale = 4.0
    try:
        same(fast, m)
    finally:
        Block.scale = 1.0


def test_modules_share_a_graph():
    """Many layers of one class are compiled once, whatever order they are called in."""
    layers = model(20)
    for layer in layers:
        layer.compile(backend=backend)
    wanted = [Block.forward(layer, X) for layer in layers]
    for layer, y in [*zip(layers, wanted, strict=True)] * 2:
        torch.testing.assert_close(layer(X), y)
    assert counters["stats"]["unique_graphs"] == 1


def test_dynamo_is_asked_only_where_something_was_written(monkeypatch):
    asked: list[int] = []
    state = ModuleGuard._state
    monkeypatch.setattr(ModuleGuard, "_state", lambda self, m: (asked.append(id(m)), state(self, m))[1])
    m = model(2)
    fast = torch.compile(m, backend=backend)
    for _ in range(3):
        fast(X)
    asked.clear()
    fast(X)
    assert not asked
    m[0].extra = 3  # nobody reads it
    fast(X)
    fast(X)
    assert asked == [id(m)] and counters["stats"]["unique_graphs"] == 1


def test_modules_that_write_to_themselves():
    """They are not remembered for ever, and their answers are right."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.last = model(2), torch.zeros(())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.blocks(x) + self.last
            self.last = y.mean()
            return y

    m = Counts()
    last = m.last
    fast = torch.compile(m, backend=backend)
    for _ in range(module_guards.PATIENCE + 4):
        wanted = m.blocks(X) + last
        torch.testing.assert_close(fast(X), wanted)
        last = wanted.mean()
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.usefixtures("own_objects")
def test_modules_go_when_nobody_has_them():
    def run(m: Any) -> weakref.ref[Any]:
        torch.testing.assert_close(fast(m, X), m(X))
        return weakref.ref(m)

    fast = torch.compile(lambda m, x: m(x), backend=backend)
    gone = [run(model(2)) for _ in range(3)]
    gc.collect()
    assert not any(r() for r in gone) and counters["stats"]["unique_graphs"] == 1


def test_with_gradients_dynamo_asks_itself(monkeypatch):
    monkeypatch.setattr(ModuleGuard, "__init__", lambda *_: pytest.fail("a graph with gradients"))
    m = model(1)
    fast = torch.compile(m, backend="migraphx", options={"target": "ref"})
    with torch.enable_grad():
        torch.testing.assert_close(fast(X), m(X))


@pytest.mark.slow
def test_whether_weights_require_gradients_is_asked():
    """As often as Dynamo asks: torch 2.11 does not without gradients."""

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = model(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.blocks(x) + float(self.blocks[0].linear.weight.requires_grad)

    m = Reads()
    fast, theirs = torch.compile(m, backend=backend), torch.compile(m, backend="eager")
    same(fast, theirs)
    m.blocks[0].linear.weight.requires_grad_(False)
    same(fast, theirs)


@pytest.mark.slow
def test_changes_are_seen_where_words_are_not_known(monkeypatch):
    """As on another Python or torch: each object is asked."""
    monkeypatch.setattr(module_guards, "words_of", lambda *_: None)
    m = model(2)
    fast = torch.compile(m, backend=backend)
    for name in ("number", "parameter", "order in memory", "buffer", "type"):
        same(fast, m)
        WRITES[name](m[1])
    same(fast, m)

"""Weights that Dynamo's code fetches at once are those that the module has at the call."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.tiers import few
from tests.torch_migraphx.dynamo.test_module_guards import WRITES, X, model
from torch_migraphx.dynamo import weights_at_once
from torch_migraphx.dynamo.module_guards import PATIENCE
from torch_migraphx.dynamo.runner import Runner
from torch_migraphx.dynamo.weights_at_once import Fetch
from torch_migraphx.dynamo.words import words_of
from torch_migraphx.fx.inputs import Alike

WEIGHTS = (
    "parameter",
    "no parameter",
    "dictionary",
    "another layer",
    "a dictionary's own",
    "order in memory",
    "buffer",
)


@pytest.fixture(autouse=True)
def fetched(monkeypatch):
    """The modules whose weights were fetched at once, and whether the guard remembered them."""
    asked: list[tuple[Any, bool]] = []

    def call(self: Fetch, module: Any) -> Any:
        made = fetch(self, module)
        asked.append((module, made.known is not None))
        return made

    fetch = Fetch.__call__
    monkeypatch.setattr(Fetch, "__call__", call)
    torch._dynamo.reset()
    with torch.no_grad():
        yield asked
    torch._dynamo.reset()


def compiled(m: Any, **options: Any) -> Any:
    return torch.compile(m, backend="migraphx", options={"target": "ref"}, **options)


def same(fast: Any, m: Any, x: torch.Tensor = X) -> None:
    for _ in range(2):
        torch.testing.assert_close(fast(x), m(x))


def test_the_guard_remembers_weights(fetched):
    m = model(2)
    fast = compiled(m)
    for _ in range(4):
        same(fast, m)
    assert fetched[-1] == (m, True) and all(asked is m for asked, _ in fetched)


@pytest.mark.skipif(words_of([], [], []) is None, reason="words of objects cannot be read here")
def test_a_known_module_hands_over_no_weights(monkeypatch):
    ran: list[int] = []
    run = Runner.run
    monkeypatch.setattr(Runner, "run", lambda self, *args: ran.append(1) or run(self, *args))
    m = model(2)
    fast = compiled(m)
    for _ in range(5):
        same(fast, m)
    before = len(ran)
    for k in range(3):
        same(fast, m, torch.randn_like(X) + k)
    assert before > 0
    assert len(ran) < before + 6  # not each call, though memory beside the weights may have been written before one


def with_weights_as_inputs() -> tuple[Any, Any]:
    """A model, and what is compiled of it after its weights changed too often to be compiled in."""
    m = model(2)
    fast = compiled(m)
    for _ in range(7):
        same(fast, m)
        for t in filter(torch.is_floating_point, (*m.parameters(), *m.buffers())):
            t.mul_(1.25).add_(0.01)
    return m, fast


def test_weights_that_have_become_inputs_are_read(fetched):
    m, fast = with_weights_as_inputs()
    same(fast, m)
    assert fetched[-1] == (m, True)


@pytest.mark.skipif(words_of([], [], []) is None, reason="words of objects cannot be read here")
def test_weights_that_are_inputs_are_asked_for_nothing(monkeypatch):
    m, fast = with_weights_as_inputs()
    same(fast, m)
    looked: list[int] = []
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("the weights were handed over"))
    monkeypatch.setattr(Alike, "addresses", lambda self, given, alive: looked.append(len(given)))
    for k in range(3):
        same(fast, m, torch.randn_like(X) + k)
        m[0].linear.weight.mul_(2)
    assert looked == [1] * 6


@pytest.mark.slow
def test_gradients_flow_beside_weights_that_are_inputs():
    m, fast = with_weights_as_inputs()
    same(fast, m)
    with torch.enable_grad():
        x = X.clone().requires_grad_()
        fast(x).sum().backward()
        given, x.grad = x.grad, None
        m(x).sum().backward()
    torch.testing.assert_close(given, x.grad)


def with_weights_compiled_in() -> tuple[Any, Any]:
    m = model(2)
    return m, compiled(m)


@pytest.mark.parametrize("made", few([with_weights_compiled_in, with_weights_as_inputs], with_weights_as_inputs))
@pytest.mark.parametrize("names", few([WEIGHTS[:4], WEIGHTS[4:]], WEIGHTS[:4]))
def test_another_weight_is_seen(names, made, fetched):
    m, fast = made()
    same(fast, m)
    for name in names:
        before = m(X)
        WRITES[name](m[1])
        assert not torch.equal(before, m(X)), name
        same(fast, m)
    assert fetched


@pytest.mark.parametrize(
    "write",
    few(
        [
            lambda w: w.mul_(2),
            lambda w: w.data.mul_(2),
            lambda w: w.numpy(force=True).__imul__(2),
            lambda w: setattr(w, "data", w.data * 2),
            lambda w: w.set_(w * 2),
        ],
        at=[0, 1],
    ),
    ids=["in place", "data", "numpy", "other data", "set_"],
)
def test_other_elements_are_seen(write):
    m = model(2)
    fast = compiled(m)
    same(fast, m)
    for _ in range(2):
        write(m[0].linear.weight)
        same(fast, m)


def test_modules_that_share_a_graph_have_their_own(fetched):
    models = [model(2) for _ in range(3)]
    fast = compiled(lambda m, x: m(x))
    for _ in range(3):
        for m in models:
            torch.testing.assert_close(fast(m, X), m(X))
    assert [m for m, _ in fetched[-3:]] == models and all(known for _, known in fetched[-3:])


@pytest.mark.slow
def test_a_module_that_is_always_written_is_read_anew():
    m = model(2)
    fast = compiled(m)
    for k in range(PATIENCE + 3):
        m[1].linear.weight = nn.Parameter(torch.full((8, 8), float(k)))
        same(fast, m)


def test_calls_without_guards_read_what_is_there():
    m = model(2)
    fast = compiled(m)
    same(fast, m)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        same(fast, m)
        m[1].linear.weight = nn.Parameter(torch.ones(8, 8))
        same(fast, m)


def test_a_function_that_reads_a_global_module(monkeypatch, fetched):
    monkeypatch.setitem(globals(), "GLOBAL", model(2))
    fast = compiled(lambda x: GLOBAL(x) + GLOBAL[0].linear.bias.sum())  # type: ignore[name-defined]  # noqa: F821
    for _ in range(3):
        torch.testing.assert_close(fast(X), GLOBAL(X) + GLOBAL[0].linear.bias.sum())  # type: ignore[name-defined]  # noqa: F821
    assert fetched[-1] == (globals()["GLOBAL"], True)


def test_tensors_in_a_dictionary():
    weights = dict(model(2).named_parameters())
    for w in weights.values():
        torch._dynamo.mark_static_address(w)
    eager = lambda x, weights: sum((x * w.sum() for w in weights.values()), x)  # noqa: E731
    fast = compiled(eager)
    for _ in range(3):
        torch.testing.assert_close(fast(X, weights), eager(X, weights))
        weights[next(iter(weights))] = nn.Parameter(torch.ones(8, 8))


@pytest.mark.slow
def test_sizes_that_are_compiled_apart(fetched):
    """Dynamo calls the backend again, with the arguments of a call."""
    m, x = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)]), torch.randn(6, 8)
    torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n == 6, lambda n: n == 4])
    fast = compiled(m)
    for sample in (x, torch.randn(4, 8), torch.randn(5, 8), x):
        same(fast, m, sample)
    assert not fetched


def test_a_part_of_a_graph_takes_tensors(fetched):
    """As DDP's optimizer cuts graphs: what calls the parts is its own."""
    backend = torch._dynamo.lookup_backend("migraphx")

    def cut(gm: Any, inputs: Any) -> Any:
        part = backend(torch.fx.GraphModule(dict(gm.named_modules()), gm.graph), inputs)
        return lambda *args: part(*[x.clone() for x in args])

    m = model(2)
    same(torch.compile(m, backend=cut), m)
    assert not fetched


def test_another_torch_keeps_its_own_code(monkeypatch, fetched):
    monkeypatch.setattr(weights_at_once, "_writes_itself", lambda arg: False)
    m = model(2)
    fast = compiled(m)
    same(fast, m)
    WRITES["parameter"](m[1])
    same(fast, m)
    assert not fetched

"""torch.compile: what runs where. Outputs that share memory, random numbers, wrong targets, fallback="error"."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo import funcname_cache
from torch.utils._pytree import tree_leaves

import torch_migraphx
from tests.limits import HANG
from tests.tiers import few
from tests.tolerances import assert_close
from torch_migraphx.dynamo import backends, compilations

REF: dict[str, Any] = {"target": "ref"}
X = torch.arange(24.0).reshape(4, 6)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backends._say.cache_clear()
    compilations._say_kept.cache_clear()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def compiled(model, dynamic=None, **options):
    return torch.compile(model, backend="migraphx", options=REF | options, dynamic=dynamic)


def halves(x):
    return (x * 2).split(2)


def parts_and_all(x):
    y = (x + 1).t()
    return y[:4], y[2:], y.reshape(-1), y


def of_the_input(x):
    return x.chunk(3, 1), x[1:, ::2], (x * 2).unbind(0)


@pytest.mark.parametrize("dynamic", few([False, True], False))
@pytest.mark.parametrize("function", [halves, parts_and_all, of_the_input])
def test_outputs_share_memory_as_eagers_do(function, dynamic, caplog):
    """All run in the engine; a write to one shows in all, and in the input."""
    given, twin = X.clone(), X.clone()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        got, want = compiled(function, dynamic)(given), function(twin)
        assert type(got) is type(want) and not caplog.records
        ours, theirs = tree_leaves(got), tree_leaves(want)
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride()
            a[..., 0] += 1
            b[..., 0] += 1
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        assert torch.equal(given, twin)


def test_an_input_may_begin_anywhere_in_its_memory():
    """Dynamo does not compile again for it."""
    fast = compiled(of_the_input, False)
    with torch.no_grad():
        for rows in (slice(0, 4), slice(2, 6)):
            x = torch.arange(36.0).reshape(6, 6)[rows]
            assert all(map(torch.equal, tree_leaves(fast(x)), tree_leaves(of_the_input(x))))


class Same(torch.autograd.Function):
    """A view that AOTAutograd cannot make by itself."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g * 3


GIVEN = {
    "unbind": lambda x, w, c: (*x.unbind(0), x * 2),
    "split": lambda x, w, c: (*x.split([1, 3]), x * 2),
    "chunk of a parameter": lambda x, w, c: (*w.t().chunk(3), x @ w.t()),
    "of every kind": lambda x, w, c: (x[2:].split(1)[1].t(), *w.unbind(1), *c.split(2), x * w * c),
    "nothing else": lambda x, w, c: x.split(2),
    "beside the input": lambda x, w, c: (x, *x.split(2), x[1:], x * 2),
    "beside another view": lambda x, w, c: (x.t(), x.unbind(0)[2], x.sin()),
    "an autograd.Function": lambda x, w, c: (Same.apply(x), x * 2),
}
MADE = {
    "whole and views": lambda x, w, c: (y := x * 2, y.t(), y[1:]),
    "views": lambda x, w, c: ((y := x * 2).t(), y[1:], x.exp()),
    "without gradients": lambda x, w, c: (y := c * 2, y.t(), *y.split(2), x * 2),
    "some without": lambda x, w, c: (y := x * 2, y.detach(), y.detach()[1:]),
    "returned and saved": lambda x, w, c: (F.linear(x, w).relu(), x.exp()),
}


def seen(function, write):
    """Facts of outputs and inputs: where they lie, of whom they are views, gradients; what a write to each leaves."""
    torch.manual_seed(0)
    x, w, c = torch.randn(4, 6, requires_grad=True), nn.Parameter(torch.randn(4, 6)), torch.randn(4, 6)
    facts = []
    for k in range(len(function(x, w, c))):
        values = [x, w, c, *function(x, w, c)]
        places = [v.untyped_storage().data_ptr() for v in values]
        facts += [(places.index(p), v.storage_offset(), v.requires_grad) for p, v in zip(places, values, strict=True)]
        loss = torch.stack([v.square().sum() for v in values[3:] if v.requires_grad]).sum()
        facts += torch.autograd.grad(loss, (x, w), retain_graph=True, materialize_grads=True)
        facts.append(write(values[3 + k]))
        facts += [v.detach().clone() for v in values]
    return facts


def with_gradients(output):
    """Whether autograd lets a caller write to it."""
    try:
        output.mul_(2)
    except RuntimeError:
        return False
    return True


def hidden_from_autograd(output):
    output.detach().mul_(2)
    return output._is_view()


def same_facts(fast, function, write):
    for a, b in zip(seen(fast, write), seen(function, write), strict=True):
        if isinstance(a, torch.Tensor):
            assert_close(a.numpy(), b.numpy(), scale=16)
        else:
            assert a == b


@pytest.mark.parametrize("dynamic", few([False, True], False))
@pytest.mark.parametrize("function", few(GIVEN.values(), "of every kind", "whole"), ids=GIVEN)
def test_views_of_inputs_where_gradients_are_asked_for(function, dynamic, caplog):
    fast = compiled(function, dynamic)
    same_facts(fast, function, hidden_from_autograd)
    same_facts(fast, function, with_gradients)
    assert "a graph runs in torch" not in caplog.text


@pytest.mark.parametrize("dynamic", few([False, True], False))
@pytest.mark.parametrize("function", MADE.values(), ids=MADE)
def test_outputs_share_memory_where_gradients_are_asked_for(function, dynamic, caplog):
    same_facts(compiled(function, dynamic), function, with_gradients)
    assert "a graph runs in torch" not in caplog.text


@pytest.mark.parametrize("grad", [False, True])
def test_memory_that_no_value_holds_whole_is_torchs(grad, caplog):
    def two_types(x):
        y = x * 2
        return y[:3], y.view(torch.int32)

    x = X.clone().requires_grad_(grad)
    with torch.set_grad_enabled(grad), caplog.at_level(logging.WARNING):
        left, bits = compiled(two_types, False)(x)
        bits.zero_()
        assert not left.any() and "which none of its values holds whole" in caplog.text
        with pytest.raises(Exception, match="which none of its values holds whole"):
            compiled(two_types, False, fallback="error")(x)


@pytest.mark.parametrize("target", ["cppu", "gpuu"])
def test_an_unknown_target_is_an_error(target):
    with pytest.raises(Exception, match="unknown target"):
        compiled(nn.Linear(6, 3), target=target)(X)


def test_what_would_run_in_torch_as_one_error():
    def function(x):
        return torch.special.airy_ai(x @ x.T) + torch.geqrf(x @ x.T)[0].relu()

    with pytest.raises(Exception, match="would run in torch") as raised:
        compiled(function, fallback="error")(X)
    assert all(name in str(raised.value) for name in ("airy_ai", "geqrf", "test_fallback.py", "has no converter"))
    layer = nn.Linear(6, 3)
    with torch.no_grad():
        assert torch.allclose(compiled(layer, fallback="error")(X), layer(X), rtol=1e-4)
    with pytest.raises(Exception, match="gradients are computed by torch"):
        compiled(layer, fallback="error")(X).sum().backward()


LAST = torch.channels_last
DRAWS = {
    "no tensor among its inputs": lambda x: x + torch.rand(4, 6),
    "a decomposition draws others": lambda x: torch.bernoulli(x / 24),
    "a permutation": lambda x: x[torch.randperm(4)],
    "dropout": lambda x: F.dropout(x, 0.5, True),
    "dropout of a transposed tensor": lambda x: F.dropout(x.t(), 0.5, True) * 2,
    "dropout of channels in lanes": lambda x: F.dropout((x[:2].view(1, 3, 2, 2) + 1).to(memory_format=LAST), 0.5, True),
}


@pytest.mark.parametrize("dynamic", few([False, True], False))
@pytest.mark.parametrize("name", DRAWS)
def test_the_first_seeded_call_is_eagers(name, dynamic):
    function = DRAWS[name]
    fast = compiled(function, dynamic)
    with torch.no_grad():
        for seed in (1, 2):  # the first call compiles
            torch.manual_seed(seed)
            got, drawn = fast(X), torch.rand(3)
            torch.manual_seed(seed)
            assert torch.equal(got, function(X)) and torch.equal(drawn, torch.rand(3))


def test_the_log_names_scripted_modules(caplog):
    model = nn.Sequential(nn.Linear(6, 6), torch.jit.script(nn.Linear(6, 3))).eval()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        assert torch.allclose(compiled(model)(X), model(X), atol=1e-4)
    (line,) = [r.getMessage() for r in caplog.records if "in eager torch" in r.getMessage()]
    assert "Script" in line


@pytest.mark.parametrize("kind", few([nn.LSTM, nn.GRU, nn.RNN], nn.LSTM))
def test_recurrent_layers_run_in_the_engine(kind, caplog):
    """Dynamo's own configuration is as it was: another backend gets no graph of them."""
    model, graphs = kind(6, 5, 2, bidirectional=True).eval(), []
    torch._dynamo.reset()
    with torch.no_grad(), caplog.at_level(logging.INFO):
        fast = compiled(model, fallback="error")
        for got, want in zip(tree_leaves(fast(X[None])), tree_leaves(model(X[None])), strict=True):
            assert torch.allclose(got, want, atol=1e-4)
        assert "in eager torch" not in caplog.text and not torch._dynamo.config.allow_rnn
        torch.compile(model, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)(X[None])
    assert not graphs


@pytest.mark.slow
@pytest.mark.parametrize("first", ["forward", "backward"])
def test_another_thread_compiles_a_backward_meanwhile(first, caplog, monkeypatch):
    """Which Dynamo does beside a compilation: neither changes what the other does, or is left behind."""
    layer, model, begun, done = nn.Linear(6, 3), nn.LSTM(6, 5).eval(), threading.Event(), threading.Event()
    loss = compiled(layer)(X).sum()
    reported, backward = backends._reported, []

    def until_the_forward_is_compiled(*_):
        begun.set()
        assert done.wait(HANG)

    def backward_begins():
        backward.append(pool.submit(loss.backward))
        assert begun.wait(HANG)

    def within(*arguments):
        if not backward:
            backward_begins()
        return reported(*arguments)

    monkeypatch.setattr(backends, "_say", until_the_forward_is_compiled)
    monkeypatch.setattr(backends, "_reported", within)
    with ThreadPoolExecutor(1) as pool, torch.no_grad(), caplog.at_level(logging.INFO):
        if first == "backward":
            backward_begins()
        try:
            got = compiled(model, fallback="error")(X[None])[0]
        finally:
            done.set()
        assert not torch._dynamo.config.allow_rnn
        backward[0].result(HANG)
        monkeypatch.undo()
        assert "in eager torch" not in caplog.text and torch.allclose(got, model(X[None])[0], atol=1e-4)
        compiled(nn.GRU(6, 5).eval(), fallback="error")(X[None])
    assert "in eager torch" not in caplog.text


def test_gradients_of_an_lstm_run_in_the_engine(caplog):
    model = nn.LSTM(6, 5).train()
    with caplog.at_level(logging.INFO):
        torch.compile(model, backend="migraphx_aot", options={"target": "ref"})(X[None])[0].square().sum().backward()
    assert "in torch" not in caplog.text
    got = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(X[None])[0].square().sum().backward()
    for g, p in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad, rtol=1e-4, atol=1e-4)


def test_dropout_between_recurrent_layers_is_not_lost(caplog):
    model = nn.LSTM(6, 5, 2, dropout=0.5).train()
    fast = compiled(model)
    torch.manual_seed(1)
    got = fast(X[None])[0]
    torch.manual_seed(1)
    assert torch.equal(got, model(X[None])[0])
    assert "has dropout between its layers" in caplog.text


@pytest.mark.slow
def test_an_lstm_that_torch_writes_for_its_own_kernel_runs_in_the_engine(caplog):
    cell, layer = nn.LSTMCell(5, 5).eval(), nn.LSTM(6, 5, 2, bidirectional=True).eval()

    def function(x):
        y = layer(x)[0]
        return cell(y[0, :, :5])[0] + y[0, :, 5:]

    with torch.no_grad(), caplog.at_level(logging.INFO):
        assert torch.allclose(compiled(function, fallback="error")(X[None]), function(X[None]), atol=1e-4)
    assert "through AOTAutograd" in caplog.text


def test_dynamo_reads_files_for_its_logs_where_these_are_on():
    """It has them word by word for the names of functions."""

    def traced() -> set[str]:
        torch._dynamo.reset()
        funcname_cache.clearcache()
        with torch.no_grad():
            compiled(nn.Linear(6, 6).eval())(X)
        return set(funcname_cache.cache)

    assert not traced()
    logs: Any = vars(torch)["_logging"]
    logs.set_logs(trace_call=True)
    try:
        assert any("linear" in file for file in traced())
    finally:
        logs.set_logs()


@pytest.mark.slow
def test_products_that_aot_took_apart_are_one_attention():
    """A window that is written to part by part sends the graph through AOTAutograd, whose matmul is `bmm` of copies."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.reshape(2, 9, 3, 4, 8).permute(2, 0, 3, 1, 4)
        window = x.new_zeros(9)
        for part in range(3):
            window[3 * part : 3 * part + 3] = part
        far = (window[:, None] != window[None]) * -100.0
        return (((q * 0.25) @ k.transpose(-2, -1) + far).softmax(-1) @ v).transpose(1, 2).reshape(2, 9, 32)

    x = torch.randn(2, 9, 96)
    with torch.no_grad():
        (graph,) = torch_migraphx.explain(attention, [x], target="cpu").content.graphs
        assert_close(compiled(attention, target="cpu")(x), attention(x))
    names = [kernel.name for kernel in graph.kernels]
    assert names.count("attention") == 1 and not any("dot" in name or "softmax" in name for name in names)

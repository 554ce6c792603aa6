"""torch.compile: what runs where. Outputs that share memory, random numbers, wrong targets, fallback="error"."""

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

from torch_migraphx.dynamo import backends

REF: dict[str, Any] = {"target": "ref"}
X = torch.arange(24.0).reshape(4, 6)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backends._listen()  # as if torch had just looked the backend up
    backends._say.cache_clear()
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


@pytest.mark.parametrize("dynamic", [False, True])
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


def test_memory_that_no_value_holds_whole_is_torchs(caplog):
    def two_types(x):
        y = x * 2
        return y[:3], y.view(torch.int32)

    with torch.no_grad(), caplog.at_level(logging.WARNING):
        left, bits = compiled(two_types, False)(X)
        bits.zero_()
        assert not left.any() and "which none of its values holds whole" in caplog.text
        with pytest.raises(Exception, match="which none of its values holds whole"):
            compiled(two_types, False, fallback="error")(X)


@pytest.mark.parametrize("target", ["cppu", "gpuu"])
def test_an_unknown_target_is_an_error(target):
    with pytest.raises(Exception, match="unknown target"):
        compiled(nn.Linear(6, 3), target=target)(X)


def test_what_would_run_in_torch_as_one_error():
    def function(x):
        return torch.linalg.svdvals(x @ x.T) + torch.linalg.eigvalsh(x @ x.T).relu()

    with pytest.raises(Exception, match="would run in torch") as raised:
        compiled(function, fallback="error")(X)
    assert all(name in str(raised.value) for name in ("svd", "eigh", "test_fallback.py", "has no converter"))
    layer = nn.Linear(6, 3)
    with torch.no_grad():
        assert torch.allclose(compiled(layer, fallback="error")(X), layer(X), rtol=1e-4)
    with pytest.raises(Exception, match="gradients are computed by torch"):
        compiled(layer, fallback="error")(X).sum().backward()


DRAWS = {
    "no tensor among its inputs": lambda x: x + torch.rand(4, 6),
    "a decomposition draws others": lambda x: torch.bernoulli(x / 24),
    "a permutation": lambda x: x[torch.randperm(4)],
    "dropout": lambda x: F.dropout(x, 0.5, True),
}


@pytest.mark.parametrize("dynamic", [False, True])
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


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, 6), nn.LSTM(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.first(x).relu()
        return self.last(self.middle(x)[0])


@pytest.mark.parametrize("whole", [False, True])
def test_the_log_names_what_dynamo_keeps(whole, caplog):
    """Also where nothing is left for a backend."""
    model = nn.LSTM(6, 6).eval() if whole else Recurrent().eval()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        fast = compiled(lambda x: model(x)[0])
        assert torch.allclose(fast(X[None]), model(X[None])[0], atol=1e-4)
    (line,) = [r.getMessage() for r in caplog.records if "in eager torch" in r.getMessage()]
    assert line.startswith("OpenMGX: ") and "LSTM(6, 6)" in line and "allow_rnn" in line


def test_the_log_names_scripted_modules(caplog):
    model = nn.Sequential(nn.Linear(6, 6), torch.jit.script(nn.Linear(6, 3))).eval()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        assert torch.allclose(compiled(model)(X), model(X), atol=1e-4)
    (line,) = [r.getMessage() for r in caplog.records if "in eager torch" in r.getMessage()]
    assert "Script" in line


def test_recurrent_layers_run_in_the_engine_where_dynamo_gives_them(caplog):
    model = Recurrent().eval()
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad(), caplog.at_level(logging.INFO):
        fast = compiled(model, fallback="error")
        assert torch.allclose(fast(X[None]), model(X[None]), atol=1e-4)
    assert "run in the engine" in caplog.text and "in eager torch" not in caplog.text

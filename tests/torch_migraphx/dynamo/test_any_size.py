"""torch.compile(dynamic=True) makes one program for all sizes, where all of a graph runs in the engine."""

import logging
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.symbolic_convert import TensorifyState
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from migraphx.targets.common.at_lens import AtLens
from tests.tiers import few, few_rows
from tests.tolerances import assert_close
from torch_migraphx.dynamo import backends
from torch_migraphx.dynamo.write_tracking import Watch
from torch_migraphx.fx import any_size

SIZES = [(3, 10), (2, 17), (5, 33), (3, 9), (4, 40)]


class Encoder(nn.Module):
    """Tokens to vectors: positions counted at run time, attention with a mask, sizes in views and as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places(torch.arange(length)))
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        seen = mask[:, None, None, :].bool().expand(batch, 1, length, length)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(batch, length, 16)
        return F.gelu(self.out(y) + x)[:, : length // 2] * length + torch.arange(length // 2)[None, :, None]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[any_size.AnySize]:
    """The functions for any size that were made."""
    found: list[any_size.AnySize] = []
    keep = any_size.AnySize.__init__

    def init(self: any_size.AnySize, *args: Any, **named: Any) -> None:
        keep(self, *args, **named)
        found.append(self)

    monkeypatch.setattr(any_size.AnySize, "__init__", init)
    return found


def forms(one: any_size.AnySize) -> int:
    executable: Any = one.program.executable
    return len(executable.region.forms)


def test_an_encoder_is_one_program(made: list[any_size.AnySize]) -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    fast = torch.compile(model, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for batch, length in SIZES:
            ids, mask = torch.randint(0, 50, (batch, length)), torch.ones(batch, length, dtype=torch.int64)
            mask[:, length - 2 :] = 0
            assert_close(fast(ids, mask).numpy(), model(ids, mask).numpy(), scale=64)
    assert len(made) == 1 and forms(made[0]) <= 2


@pytest.mark.parametrize(
    "laid_out", few([lambda x: x.to(memory_format=torch.channels_last), lambda x: x[..., ::2]], at=[0])
)
def test_inputs_in_another_order_take_the_short_way(
    laid_out: Any, made: list[any_size.AnySize], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By addresses, as row-major ones do, once there is a program."""
    fast, sizes = torch.compile(lambda x: x * 2 + x.shape[0], backend="migraphx", dynamic=True), (2, 3, 5)
    with torch.no_grad():
        fast(laid_out(torch.randn(4, 3, 6, 8)))
        (one,) = made
        monkeypatch.setattr(one.program, "run_async", lambda *given: pytest.fail("arguments were made of tensors"))
        for n in sizes:
            x = laid_out(torch.randn(n, 3, 6, 8))
            assert torch.equal(fast(x), x * 2 + n)


@pytest.mark.parametrize(
    "function",
    few(
        [
            lambda x: (x * 2).permute(3, 1, 0, 2),
            lambda x: (x.transpose(1, 2) * 2).contiguous().mT.relu(),
            lambda x: [x.sum(1).mT.relu(), x * x.shape[0]],
            lambda x: (F.avg_pool2d(x.to(memory_format=torch.channels_last), 2), x.shape[2]),
            lambda x: (F.relu(x).flatten(2).transpose(1, 2), x[:, 1] + 1),
        ],
        at=[0, 1],
    ),
)
def test_outputs_in_another_order(function: Any, made: list[any_size.AnySize]) -> None:
    """They have eager's strides, of one program for all sizes."""
    fast = torch.compile(function, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n in (4, 2, 7):
            x = torch.randn(n, 3, 2 * n, 6)
            got, want = fast(x), function(x)
            for g, w in zip(*((v if isinstance(v, tuple | list) else [v]) for v in (got, want)), strict=True):
                if isinstance(w, int):
                    assert g == w
                else:
                    assert g.stride() == w.stride()
                    assert_close(g.numpy(), w.numpy(), scale=16)
    assert len(made) == 1


def test_weights_that_change(made: list[any_size.AnySize]) -> None:
    model = nn.Linear(6, 4).eval()
    fast = torch.compile(model, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 8):
            x = torch.randn(n, 6)
            assert_close(fast(x).numpy(), model(x).numpy())
            model.weight += n
    assert len(made) == 3


@pytest.mark.parametrize(
    ("function", "once"),
    few_rows(
        [
            (lambda x: (x, x + 1), True),
            (lambda x: [y := x * 2, y.t()], True),
            (lambda x: [y := x * 2, y[1:]], True),
            (lambda x: (x.repeat(2, 1).sort(0)[0], x.shape[0]), True),
            (lambda x: torch.special.airy_ai(x) + x.shape[1], False),
            (lambda x: [part * 2 for part in x.split(x.shape[0] - 1)], True),
        ],
        at=[0, 1, 5],
    ),
)
def test_what_is_one_program(function: Any, once: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Outputs that are inputs, or share memory, leave one program; what torch computes is compiled for each size."""
    fast = torch.compile(function, backend="migraphx", dynamic=True)
    with torch.no_grad(), caplog.at_level("INFO"):
        for n in (3, 4):
            x = torch.randn(n, 5)
            got, want = fast(x), function(x)
            for g, w in zip(*((v if isinstance(v, tuple | list) else [v]) for v in (got, want)), strict=True):
                assert (g == w) if isinstance(w, int) else g.stride() == w.stride()
                if isinstance(w, Tensor):
                    assert_close(g.numpy(), w.numpy(), scale=16)
    assert "a bug" not in caplog.text and ("not compiled for all sizes" in caplog.text) != once


@pytest.mark.parametrize("fallback", ["torch", "error"])
def test_a_fault_is_shown(fallback: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def faulty(*args: Any) -> Any:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(any_size, "_lengths", faulty)
    fast = torch.compile(F.relu, backend="migraphx", options={"fallback": fallback}, dynamic=True)
    x = torch.randn(3, 5)
    if fallback == "error":
        with pytest.raises(KeyError, match="a fault of ours"):
            fast(x)
        return
    with caplog.at_level("WARNING"):
        assert torch.equal(fast(x), F.relu(x))
    assert "a bug in the compilation for all sizes" in caplog.text and "a fault of ours" in caplog.text


def test_without_the_engines_help(monkeypatch: pytest.MonkeyPatch, made: list[any_size.AnySize]) -> None:
    """As on AMD's own migraphx: a program a size, which share weights."""
    monkeypatch.delattr(any_size.migraphx, "deferred_program")
    fast = torch.compile(F.relu, backend="migraphx", options={"target": "ref"}, dynamic=True)
    for n in (3, 4):
        x = torch.randn(n, 5)
        assert torch.equal(fast(x), F.relu(x))
    assert not made and backends.for_any_size is any_size.for_any_size


def test_what_is_written_and_returned_too(made: list[any_size.AnySize]) -> None:
    """A static cache of transformers counts its tokens so: AOTAutograd's graph has the sum as an output twice."""

    def count(x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, tokens.add_(x.shape[0])

    compiled = torch.compile(count, backend="migraphx", dynamic=True)
    for n in (5, 7, 6):
        x, tokens = torch.randn(n, 16), torch.tensor(3)
        with torch.no_grad():
            doubled, returned = compiled(x, tokens)
        assert torch.equal(doubled, x * 2) and tokens == 3 + n and returned.data_ptr() == tokens.data_ptr()
    assert len(made) == forms(made[0]) == 1


@pytest.mark.parametrize("write", [Tensor.index_copy_, Tensor.index_add_])
def test_a_cache_is_written_where_it_lies(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first run, which is a trial; AOTAutograd would copy all of it at each step."""
    shared: list[set[int]] = []
    run = AtLens.__call__

    def seen(self: AtLens, inputs: Any, outputs: Any, *rest: Any) -> bool:
        shared.append({*inputs} & {*outputs})
        return run(self, inputs, outputs, *rest)

    monkeypatch.setattr(AtLens, "__call__", seen)

    def step(x: Tensor, cache: Tensor, at: Tensor) -> Tensor:
        return write(cache, 2, at, x).sum((0, 2))

    compiled, cache = torch.compile(step, backend="migraphx", dynamic=True), torch.randn(1, 2, 9, 8)
    twin, apart = cache.clone(), cache.transpose(1, 2).contiguous().transpose(1, 2)
    with torch.no_grad():
        for n, at, own in ((3, 0, cache), (3, 4, cache), (5, 2, cache), (3, 1, cache), (3, 6, apart), (3, 3, cache)):
            own.copy_(twin)
            x, places = torch.randn(1, 2, n, 8), torch.arange(at, at + n)
            assert_close(compiled(x, own, places).numpy(), step(x, twin, places).numpy())
            assert torch.equal(own, twin)
    if write is Tensor.index_copy_:
        assert shared.count({cache.data_ptr()}) == len(shared) - 1 >= 3  # but for the one that lies apart


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_and_returned_as_new_memory(dynamic: bool) -> None:
    def step(x: Tensor, cache: Tensor, at: Tensor) -> Tensor:
        new = cache.index_copy(2, at, x)
        cache.copy_(new)
        return new

    compiled, cache = torch.compile(step, backend="migraphx", dynamic=dynamic), torch.randn(1, 2, 9, 8)
    twin = cache.clone()
    with torch.no_grad():
        for at in range(3):
            x, places = torch.randn(1, 2, 3, 8), torch.arange(at, at + 3)
            got, want = compiled(x, cache, places), step(x, twin, places)
            assert torch.equal(cache, twin)
            for own in (cache, twin):
                own.zero_()
            assert torch.equal(got, want)


class Positions:
    """As a static cache of transformers begins: its buffer is made in the graph, by a number that no tensor has."""

    def __init__(self, most: int) -> None:
        self.most = most

    def filled(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = torch.zeros(1, 2, self.most, 8).index_copy_(2, torch.arange(x.shape[2]), x)
        return F.scaled_dot_product_attention(x, x, x, is_causal=True), kept


def test_numbers_that_no_tensor_tells(made: list[any_size.AnySize]) -> None:
    """And causal attention of any length: queries see what lies before them."""
    fast = torch.compile(lambda x, cache: cache.filled(x), backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n, most in ((5, 9), (7, 12), (33, 70), (4, 70)):
            x, cache = torch.randn(1, 2, n, 8), Positions(most)
            for got, want in zip(fast(x, cache), cache.filled(x), strict=True):
                assert_close(got.numpy(), want.numpy(), scale=16)
    assert len(made) == forms(made[0]) == 1
    executable: Any = made[0].program.executable
    assert any("causal=1" in step.text for step in executable.steps)  # no mask is in memory


def test_numbers_that_may_be_negative(made: list[any_size.AnySize]) -> None:
    """No tensor has so many elements: there is a program for all sizes for each of them."""
    fast = torch.compile(lambda x, k: x + torch.full([x.shape[0]], k), backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n, k in ((5, 9), (6, -3), (7, 9), (9, -3)):
            x = torch.randn(n)
            assert_close(fast(x, k).numpy(), (x + k).numpy())
    assert len(made) == 2


@pytest.mark.parametrize("told", [True, False])
def test_no_guard_is_made(told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Torch 2.11 cannot be told to raise instead. It would also warn, of what is tried in vain."""
    if not told:
        monkeypatch.delattr(ShapeEnv, "error_on_new_guards", raising=False)
    gm = make_fx(lambda x: x * 2, tracing_mode="symbolic")(torch.randn(3, 5))
    (x,) = gm.graph.find_nodes(op="placeholder")
    size = x.meta["val"].shape[0]
    guards = size.node.shape_env.guards
    with any_size._no_new_guards(gm), pytest.raises(Exception, match=r"[Gg]uard"):
        assert size < 7
    assert not guards and not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert size < 7 and len(guards) == 1  # afterwards torch makes its guards again


class Scaled(nn.Module):
    """Floats where operators take numbers, some computed of others; a torch.Size; a symbol that is always 3."""

    def __init__(self) -> None:
        super().__init__()
        self.eps, self.scale = 0.25, 0.5

    def forward(self, x: Tensor, keep: int) -> tuple[Tensor, Tensor]:
        norm = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        seen = F.scaled_dot_product_attention(x, x * norm, x, scale=self.scale)[:, -keep:].view(2, 3, 4)
        return seen * math.sqrt(2 / math.pi), torch.relu(x).view(torch.Size((*x.shape[:-1], 2, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "use_aot", "scales"),
    [
        ("migraphx", False, (0.5, 2.0, 0.125)),
        ("migraphx", True, (0.5,)),  # then it goes the way of the next
        ("migraphx_aot", False, (0.5, 2.0, 0.125)),
    ],
)
def test_floats_of_modules_are_compiled_in(backend: str, use_aot: bool, scales: Any, monkeypatch: Any) -> None:
    """Dynamo traces once; another value is another program, and a third one an input."""
    aot = use_aot or backend == "migraphx_aot"
    ways: list[str] = []
    for name in ("_direct", "_autograd"):
        real = getattr(backends, name)
        monkeypatch.setattr(backends, name, lambda *a, n=name, f=real, **k: (ways.append(n), f(*a, **k))[1])
    model = Scaled().eval()
    fast = torch.compile(model, backend=backend, dynamic=True, options={"target": "ref", "use_aot": use_aot})
    with torch.no_grad():
        for scale in scales:
            model.scale = scale
            for n in (6, 5, 8):
                x = torch.randn(2, n, 4)
                for got, want in zip(fast(x, 3), model(x, 3), strict=True):
                    assert_close(got.numpy(), want.numpy(), scale=16)
            if scale == 0.5:
                assert ways == ["_autograd" if aot else "_direct"]
    assert not TensorifyState.force_specializations  # else floats of other graphs with these names were numbers


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["migraphx", "migraphx_aot"])
def test_floats_that_autograd_finds_are_numbers_when_dynamo_traces_again(backend: str, monkeypatch: Any) -> None:
    """torch's own layer in inference has two, one of which Dynamo made a number by itself; it went round and round."""
    traced: list[Any] = []
    real = backends._autograd
    monkeypatch.setattr(backends, "_autograd", lambda gm, *a, **k: (traced.append(gm), real(gm, *a, **k))[1])
    model = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True).eval()
    fast = torch.compile(model, backend=backend, dynamic=True, options={"target": "ref", "fallback": "error"})
    with torch.no_grad():
        for sizes in ((2, 5, 8), (3, 9, 8)):
            x = torch.randn(sizes)
            assert_close(fast(x).numpy(), model(x).numpy(), scale=16)
    assert len(traced) <= 2
    assert not TensorifyState.force_specializations


def test_floats_that_are_arguments_stay_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled for the third one that was not for the second."""
    graphs: list[Any] = []
    real = backends._autograd
    monkeypatch.setattr(backends, "_autograd", lambda gm, *a, **k: (graphs.append(gm), real(gm, *a, **k))[1])
    fast = torch.compile(lambda x, k: torch.relu(x) * k, backend="migraphx", dynamic=True, options={"target": "ref"})
    counts: list[int] = []
    with torch.no_grad():
        for n, k in ((3, 0.5), (5, 1.5), (4, 2.5), (7, 3.5)):
            x = torch.randn(n, 4)
            assert_close(fast(x, k).numpy(), (torch.relu(x) * k).numpy())
            counts.append(len(graphs))
    assert counts[-1] == counts[1]


def weights_of(one: any_size.AnySize) -> set[int]:
    """The memory of what a program for any size has packed."""
    executable: Any = one.program.executable
    (form,) = executable.region.forms
    return {w.ctypes.data for w in form.weights if w.nbytes >= 64 * 64 * 4}


class Ways(nn.Module):
    """A graph for each value of `way`, and one set of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 80), nn.Linear(80, 64)

    def forward(self, x: Tensor, way: bool) -> Tensor:
        y = self.second(F.gelu(self.first(x)))
        return y if way else y * x


@pytest.mark.slow
def test_graphs_of_the_same_weights_pack_them_once(made: list[any_size.AnySize]) -> None:
    """Until they are written: then each packs what they are."""
    model = Ways().eval()
    fast = torch.compile(model, backend="migraphx", dynamic=True)

    def right() -> None:
        for n, way in ((3, True), (5, False), (4, True), (2, False)):
            x = torch.randn(n, 64)
            assert_close(fast(x, way).numpy(), model(x, way).numpy())

    with torch.no_grad():
        right()
        assert len(made) == 2 and weights_of(made[0]) == weights_of(made[1]) and weights_of(made[0])
        before = weights_of(made[0])
        model.first.weight.mul_(2)
        x = torch.randn(3, 64)
        got = fast(x, False)  # the second graph, which finds the first one out of date
        assert_close(got.numpy(), model(x, False).numpy())
        assert len(made) == 3 and not before & weights_of(made[2]) and weights_of(made[0]) == before
        right()
        assert len(made) == 4 and weights_of(made[2]) == weights_of(made[3])


def test_what_is_written_beside_weights_does_not_part_them(
    made: list[any_size.AnySize], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their pages of memory, which others have, too."""
    memory = torch.randn(1 << 16)
    model = Ways().eval()
    model.first.weight = nn.Parameter(memory[64 : 64 + 64 * 80].view(80, 64))
    keep = Watch.changed

    def changed(self: Watch) -> set[int]:
        found = keep(self)
        memory[0] += 1
        return found

    monkeypatch.setattr(Watch, "changed", changed)
    fast = torch.compile(model, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n, way in ((3, True), (5, False)):
            x = torch.randn(n, 64)
            assert_close(fast(x, way).numpy(), model(x, way).numpy())
    assert len(made) == 2 and weights_of(made[0]) == weights_of(made[1])


def test_a_graph_is_normalized_once(made: list[any_size.AnySize], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    keep = backends.to_acc
    monkeypatch.setattr(backends, "to_acc", lambda gm, inputs: (seen.append(gm), keep(gm, inputs))[1])
    model = nn.Linear(8, 8).eval()
    with torch.no_grad():
        torch.compile(model, backend="migraphx", dynamic=True)(torch.randn(3, 8))
    assert len(made) == len(seen) == 1


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_a_recurrent_layer_is_one_node(training: bool, caplog: pytest.LogCaptureFixture) -> None:
    """AOTAutograd would unroll it. It makes states of as many rows as a batch has; without dropout it never drops."""
    model = nn.Sequential(nn.Dropout(0.0), nn.GRU(6, 5)).train(training)
    fast = torch.compile(model, backend="migraphx", dynamic=True)
    with torch.no_grad(), caplog.at_level("INFO", "torch_migraphx"):
        for batch in (3, 5):
            x = torch.randn(4, batch, 6)
            for got, want in zip(fast(x), model(x), strict=True):
                assert_close(got.numpy(), want.numpy())
    assert "run in the engine, for all sizes" in caplog.text and "AOTAutograd" not in caplog.text


@pytest.mark.slow
def test_a_recurrent_layer_that_drops_nothing_is_trained_in_the_engine() -> None:
    """Its rate of dropout is a float of a module."""
    model = nn.LSTM(6, 5, 2)
    fast = torch.compile(model, backend="migraphx_aot", dynamic=True, options={"target": "ref", "fallback": "error"})
    for batch in (3, 2):
        x = torch.randn(2, batch, 6)
        got, want = (torch.autograd.grad(m(x)[0].square().sum(), [*model.parameters()]) for m in (fast, model))
        for g, w in zip(got, want, strict=True):
            assert_close(g.numpy(), w.numpy(), scale=64)


@pytest.mark.parametrize("make", few([torch.zeros, torch.ones, torch.empty], torch.zeros))
def test_tensors_made_of_a_size(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor) -> Tensor:
        own = make(x.shape[0], 1, dtype=torch.float64).fill_(2) if make is torch.empty else make((x.shape[0], 1))
        return x + own

    fast = torch.compile(function, backend="migraphx", dynamic=True)
    with torch.no_grad(), caplog.at_level("INFO", "torch_migraphx"):
        for n in (3, 5):
            x = torch.randn(n, 6)
            torch.testing.assert_close(fast(x), function(x))
    assert "AOTAutograd" not in caplog.text


@pytest.mark.parametrize(
    "function",
    few(
        [
            lambda x: x.unfold(2, 3, 2).sum(-1),
            lambda x: x.cummax(2)[1],
            lambda x: x.slice_scatter(x[:, :, 1:-1:2] * 2, 2, 1, -1, 2),
            lambda x: x.slice_scatter(x[:, :, 1:-1] * 2, 2, 1, -1),
            lambda x: F.max_pool2d(x, 3, 2, 1, 1, ceil_mode=True, return_indices=True),
            lambda x: F.max_pool2d(x, (2, 3), 1, 1, (2, 1), return_indices=True)[1],
            lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True)[1],
            lambda x: F.unfold(x[:, None], 3, 1, 1, 2),
            lambda x: (x @ x.mT).diagonal(1, 1, 2).sum(-1),
            lambda x: F.pad(x[None], (-1, 2, 1, -1), mode="replicate"),
            lambda x: torch.zeros_like(x) + x[:, :1].expand_as(x) + x.flatten().view_as(x),
            lambda x: x.clone().copy_(x[:1]).relu() + x.new_ones(x.shape) + torch.full_like(x, 3),
        ],
        at=[0, 9],
    ),
)
def test_what_is_counted_along_an_open_length(function: Any, made: list[any_size.AnySize]) -> None:
    """One program for each graph of Dynamo's: torch 2.11 makes two for windows that may reach over the end."""
    graphs: list[Any] = []
    fast = torch.compile(function, backend="migraphx")
    plain = torch.compile(function, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    with torch.no_grad():
        for rows, columns in ((9, 6), (12, 7), (7, 8), (10, 5)):
            x = torch.randn(2, rows, columns)
            x[0, 2, 1:4] = torch.nan
            torch._dynamo.mark_dynamic(x, (1, 2))
            got, want, _ = fast(x), function(x), plain(x)
            for g, w in zip(*((v if isinstance(v, tuple | list) else [v]) for v in (got, want)), strict=True):
                assert_close(g.numpy(), w.numpy())
    assert len(made) == len(graphs)


@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx"))
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (1 / x.shape[0]),
        lambda x: x * -(x.shape[0] / 7) + x.shape[1] / 2 - 1.5,
        lambda x: x.clamp(max=x.shape[1] / 20).double() * x.shape[1] ** -0.5,
    ],
)
def test_floats_of_sizes(function: Any, backend: str, made: list[any_size.AnySize]) -> None:
    fast = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        for rows, columns in ((4, 5), (7, 3), (9, 11)):
            x = torch.randn(rows, columns) * 4
            got, want = fast(x), function(x)
            assert got.dtype == want.dtype
            assert_close(got.numpy(), want.numpy())
    (one,) = made
    executable: Any = one.program.executable
    assert len(executable.region.forms) == 1


@pytest.mark.parametrize(
    "function",
    few(
        [
            lambda x: x.select(1, x.shape[1] - 1) * 2,
            lambda x: x.select(1, x.shape[1] // 2) * x[:, -2],
            lambda x: x.select_scatter(x[:, 0] * 2, 1, x.shape[1] - 2),
        ],
        at=[0],
    ),
)
def test_an_element_at_an_open_place(function: Any, made: list[any_size.AnySize]) -> None:
    """Python's own index is a number to Dynamo, `select` takes a symbol: it is one form for all lengths."""
    fast = torch.compile(function, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for length in (7, 11, 5, 30):
            x = torch.randn(2, length, 8)
            assert_close(fast(x).numpy(), function(x).numpy())
    (one,) = made
    executable: Any = one.program.executable
    assert len(executable.region.forms) == 1

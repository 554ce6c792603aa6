"""Training with open sizes: forward and backward are one program each, whatever the sizes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tests.tiers import few, few_rows
from tests.tolerances import assert_close
from torch_migraphx.dynamo import backends
from torch_migraphx.fx import any_size

SIZES = (4, 6, 5, 9)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were made, for all sizes or for one."""
    found: list[Any] = []
    keep, lower = any_size.AnySize.__init__, backends.lower

    def init(self: any_size.AnySize, *args: Any, **named: Any) -> None:
        keep(self, *args, **named)
        found.append(self)

    def lowered(*args: Any) -> Any:
        found.append(lower(*args))
        return found[-1]

    monkeypatch.setattr(any_size.AnySize, "__init__", init)
    monkeypatch.setattr(backends, "lower", lowered)
    return found


def square(outputs: Any) -> Tensor:
    return sum((x.square().sum() for x in tree_leaves(outputs) if isinstance(x, Tensor)), torch.zeros(()))


def step(model: Callable[..., Any], inputs: list[Any], loss: Callable[[Any], Tensor]) -> list[Tensor]:
    """Outputs and the gradients of the inputs, for which the random numbers are alike."""
    torch.manual_seed(1)
    outputs = model(*inputs)
    loss(outputs).backward()
    grads = [x.grad for x in inputs if isinstance(x, Tensor) and x.grad is not None]
    return [x.detach() for x in tree_leaves(outputs) if isinstance(x, Tensor)] + grads


def same_steps(
    model: Any, inputs: Callable[[int], list[Any]], loss: Callable[[Any], Tensor] = square, **named: Any
) -> None:
    """Some steps of other sizes each, weights written in between, beside eager's."""
    named = {"backend": "migraphx_aot", "dynamic": True} | named
    theirs = copy.deepcopy(model)
    ours = torch.compile(model, **named)
    modules = [m for m in (model, theirs) if isinstance(m, nn.Module)]
    optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in modules]
    for n in SIZES:
        torch.manual_seed(n)
        given = inputs(n)
        got, want = step(ours, copy.deepcopy(given), loss), step(theirs, given, loss)
        got += [p.grad for p in model.parameters()] if modules else []
        want += [p.grad for p in theirs.parameters()] if modules else []
        for g, w in zip(got, want, strict=True):
            assert_close(g.numpy(), w.numpy(), scale=256)
            assert g.stride() == w.stride()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def rows(n: int) -> list[Tensor]:
    return [torch.randn(n, 8).requires_grad_()]


def words(n: int) -> list[Tensor]:
    return [torch.randint(0, 11, (2, n))]


class Tied(nn.Module):
    """Words to logits by the transposed embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden = nn.Embedding(11, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.tanh(self.hidden(self.words(ids))) @ self.words.weight.t()


class Attention(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(8, 16), nn.Linear(8, 8), causal

    def forward(self, x: Tensor) -> Tensor:
        """Two heads read the keys and values of one; without `causal`, each row sees what lies within two steps."""
        n = x.shape[0]
        q, k, v = (part.view(1, n, -1, 4).transpose(1, 2) for part in self.qkv(x).split([8, 4, 4], 1))
        places = torch.arange(n)
        seen = None if self.causal else (places[:, None] - places).abs() < 3
        y = F.scaled_dot_product_attention(q, k, v, seen, is_causal=self.causal, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(n, 8))


def images() -> nn.Module:
    convolved = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(nn.Unflatten(1, (1, 4, 2)), convolved, nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("model", "inputs"),
    few_rows(
        [
            (nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)), rows),
            (images(), rows),
            (Tied(), words),
            (Attention(causal=True), rows),
            (Attention(causal=False), rows),
        ],
        at=[2],
    ),
)
def test_models_that_learn(model: nn.Module, inputs: Any, made: list[Any]) -> None:
    """A forward, a backward, and a forward that is given the weights, which have changed."""
    same_steps(model, inputs)
    assert len(made) == 3
    counts = [len(one.program.executable.region.forms) for one in made]
    assert max(counts) <= 2, counts  # a second one is faster at some sizes; four would be one for each


@pytest.mark.slow
def test_dropout(made: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Torch draws ahead of the forward, as eager does; the backward reads the same numbers."""
    same_steps(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Dropout(0.1)), rows)
    same_steps(lambda x: F.dropout(x.exp().t(), 0.3) * 2, rows)
    assert all(isinstance(m, any_size.AnySize) for m in made)
    assert "torch draws the random numbers of a compiled graph" in caplog.text


@pytest.mark.slow
def test_a_number_that_is_never_positive(made: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Transformers slices logits by one: the least length of what the backward is given is no number then."""
    same_steps(lambda x, k: x.exp()[slice(-k, None)] * 2, lambda n: [*rows(n), 0])
    assert len(made) == 2 and "a bug" not in caplog.text


def test_dropout_with_nothing_in_torch() -> None:
    fast = torch.compile(nn.Dropout(0.5), backend="migraphx_aot", dynamic=True, options={"fallback": "error"})
    with pytest.raises(Exception, match="torch draws the random numbers"):
        fast(torch.ones(4, 3, requires_grad=True))


@pytest.mark.parametrize(
    ("function", "loss"),
    few_rows(
        [
            (lambda x: x.exp(), torch.sum),
            (lambda x: (x * 3).t(), square),
            (lambda x: (x * 3)[1:, ::2], square),
            (lambda x: x.sum(1, keepdim=True).expand(-1, 5), square),
            (lambda x: (x, x.view(-1), x * 2), square),
            (lambda x: (y := x * 3, y.t(), y[1:], y.view(-1)), square),
            (lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % 8, label_smoothing=0.1), square),
            (lambda x: F.log_softmax(x[:, :-1].reshape(-1, x.shape[1] - 1), 1), square),
            (lambda x: x.mean(0) / (x.shape[0] * 3 + 1), square),
        ],
        at=[0, 1, 2, 3],
    ),
)
def test_functions(function: Any, loss: Any, made: list[Any]) -> None:
    """Gradients that hold an element many times, outputs that share memory, numbers that a backward is given."""
    same_steps(function, rows, loss)
    assert len(made) == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx"))
def test_a_backward_that_comes_again(backend: str, dynamic: bool) -> None:
    """What the forward saved is as it was."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    theirs, (x,) = copy.deepcopy(model), rows(4)
    for one in (torch.compile(model, backend=backend, dynamic=dynamic), theirs):
        loss = one(x.detach()).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    for g, w in zip(model.parameters(), theirs.parameters(), strict=True):
        assert g.grad is not None and w.grad is not None
        assert_close(g.grad.numpy(), w.grad.numpy(), scale=256)


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_saved_of_weights_is_not_copied(dynamic: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4, bias=False))
    answer: Any = torch.compile(model, backend="migraphx", dynamic=dynamic)(*rows(4))  # what is saved lives as long
    saved = {t.untyped_storage().data_ptr() for t in answer.grad_fn.saved_tensors}
    assert {w.untyped_storage().data_ptr() for w in model.parameters() if w.ndim == 2} <= saved


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_write_to_an_output_leaves_what_is_saved(dynamic: bool) -> None:
    """Eager notices the write and refuses the gradient; AOTAutograd hides from autograd that the two share memory."""
    (x,) = rows(4)
    out = torch.compile(lambda x: x.exp().t(), backend="migraphx", dynamic=dynamic)(x)
    out.add_(1)
    out.sum().backward()
    assert x.grad is not None
    assert_close(x.grad.numpy(), x.detach().exp().numpy())


def test_what_is_saved_may_share_memory_that_no_value_holds_whole(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor, c: Tensor) -> Tensor:
        y = c * 2
        return x[1:] * y[1:] + x[1:] * y[1:].view(torch.int32)

    (x,), c = rows(4), torch.rand(4, 8) * 1e-38  # so that the bits are no large integers
    out = torch.compile(function, backend="migraphx", dynamic=False)(x, c)
    want = function(x, c)
    assert_close(out.detach().numpy(), want.detach().numpy(), scale=4)
    ours, theirs = (torch.autograd.grad(one.sum(), x)[0] for one in (out, want))
    assert_close(ours.numpy(), theirs.numpy(), scale=4)
    assert "holds whole" not in caplog.text

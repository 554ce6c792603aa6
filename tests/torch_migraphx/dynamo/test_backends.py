"""torch.compile with the backends, against eager."""

import copy
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends import registry
from torch.fx.experimental.proxy_tensor import make_fx

import torch_migraphx.dynamo
from tests.limits import HANG
from tests.tiers import few
from tests.tolerances import assert_close
from torch_migraphx.dynamo import backends, migraphx_pretraced_backend

REF: dict[str, Any] = {"target": "ref"}


def compiled(model, backend="migraphx", **options):
    return torch.compile(model, backend=backend, options=REF | options)


def same(got, want, scale=8.0):
    assert type(got) is type(want)
    if isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype
        assert_close(got.detach().numpy(), want.detach().numpy(), scale=scale)
    else:
        for g, w in zip(got, want, strict=True):
            same(g, w, scale)


class Net(nn.Module):
    """A convolution, batch norm, in-place activation, pooling, a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.act(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


X = torch.randn(2, 3, 8, 8)


@pytest.mark.parametrize("backend", ["migraphx", "migraphx_aot"])
def test_inference(backend, caplog):
    model = Net().eval()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        same(compiled(model, backend)(X), model(X))
    assert not caplog.records


@pytest.mark.slow
def test_a_process_that_imports_torch_alone():
    """The backend is found, with no torchao, whose absence has one message; the log says once whose the backward is."""
    code = (
        "import gc, sys; gc.disable(); sys.modules['torchao'] = None\n"
        "import torch; m = torch.nn.Linear(4, 5); x = torch.ones(2, 4)\n"
        "c = torch.compile(m, backend='migraphx', options={'target': 'ref'})\n"
        "with torch.no_grad(): assert torch.allclose(c(x), m(x))\n"
        "assert 'migraphx_aot' in torch._dynamo.list_backends()\n"
        "c(x).sum().backward(); c(torch.ones(3, 4)).sum().backward()\n"
        "import torch_migraphx.fx\n"
        "try:\n    import torch_migraphx.dynamo.quantization\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.count("gradients are computed by torch") == 1, done.stderr
    assert "openmgx[quantization]" in done.stdout


def test_unknown_option_names_the_nearest():
    with pytest.raises(Exception, match="did you mean 'target'"):
        compiled(nn.Linear(4, 5), targt="ref")(torch.ones(2, 4))


@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx_aot"))
def test_training_step(backend):
    """Output, gradients and running statistics of a model in training mode."""
    model = Net().train()
    twin = copy.deepcopy(model)
    fast = compiled(model, backend)
    for k in range(3):
        x = X + k
        want, got = twin(x), fast(x)
        same(got, want)
        want.square().sum().backward()
        got.square().sum().backward()
        for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            assert p.grad is not None and q.grad is not None, name
            if name != "conv.bias":  # its gradient is 0 but for rounding: batch norm takes the mean away
                same(p.grad, q.grad, scale=100)
        for p, q in zip(model.buffers(), twin.buffers(), strict=True):
            same(p, q)
        with torch.no_grad():
            for p, q in zip([*model.parameters()], [*twin.parameters()], strict=True):
                assert p.grad is not None
                p -= 0.01 * p.grad
                q.copy_(p)
                p.grad = q.grad = None


def test_training_mode_without_gradients():
    model = Net().train()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        same(compiled(model)(X), twin(X))
    for p, q in zip(model.buffers(), twin.buffers(), strict=True):
        same(p, q)


def test_gradient_of_the_input():
    model = Net().eval()
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    compiled(model)(x).sum().backward()
    model(y).sum().backward()
    same(x.grad, y.grad)


def test_changed_weights_are_seen(caplog):
    model: Any = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    fast, x = compiled(model), torch.randn(2, 4)
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        same(fast(x), model(x))
        model[0].weight.mul_(2)
        same(fast(x), model(x))
        model[2].bias = nn.Parameter(torch.randn(3))
        same(fast(x), model(x))
        model[2].weight.data = torch.randn(3, 5)
        same(fast(x), model(x))
        model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
        same(fast(x), model(x))
        for _ in range(4):
            model[0].weight.add_(1)
            same(fast(x), model(x))
    assert caplog.text.count("compiling again") == 1
    assert caplog.text.count("from now on they are inputs") >= 1


def test_writes_that_torch_does_not_count_are_seen(caplog):
    last, x = nn.Linear(5, 3), torch.randn(2, 4)
    model, weight = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), last), last.weight
    fast = compiled(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        same(fast(x), model(x))
        weight.data.mul_(2)
        same(fast(x), model(x))
        weight.detach().numpy()[:] += 1
        same(fast(x), model(x))
    assert "(l_fn_modules_2_parameters_weight_)" in caplog.text


def test_modules_that_share_their_code_have_a_form_each(caplog):
    """A graph break in a layer: Dynamo compiles the rest of it once, for all layers."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            torch._dynamo.graph_break()
            return torch.relu(self.linear(x))

    layers, x = [Layer() for _ in range(6)], torch.randn(2, 4)
    fast = compiled(nn.Sequential(*layers))
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        for _ in range(2):
            same(fast(x), nn.Sequential(*layers)(x))
        assert not caplog.records
        layers[3].linear.weight.mul_(2)
        same(fast(x), nn.Sequential(*layers)(x))
    assert caplog.text.count("compiling again") == 1


def test_buffers_that_the_model_writes():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3))

        def forward(self, x):
            self.n += x
            return self.n * 2

    model, twin = Counter(), Counter()
    fast = compiled(model)
    with torch.no_grad():
        for k in range(6):
            same(fast(torch.full((3,), float(k))), twin(torch.full((3,), float(k))))
            same(model.n, twin.n)


def test_inputs_that_the_model_writes():
    def fn(x):
        x.add_(1)
        return x * 2

    x, y = torch.ones(3), torch.ones(3)
    same(compiled(fn)(x), fn(y))
    same(x, y)


def test_in_place_through_a_view():
    def fn(x):
        y = x * 2
        z = y.view(-1)
        z[1:3].mul_(10)
        return y + 1

    same(compiled(fn)(torch.ones(2, 3)), fn(torch.ones(2, 3)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_outputs_that_are_views_of_inputs(dynamic):
    """What the caller writes to them is seen in the inputs, as in eager."""
    fn = lambda x: (x[1:], x.t(), x.contiguous(), x * 2)  # noqa: E731
    fast = torch.compile(fn, backend="migraphx", options=REF, dynamic=dynamic)
    with torch.no_grad():
        for n in (3, 5):
            x = torch.ones(n, 2)
            part, turned, itself, other = fast(x)
            part.mul_(3)
            other.zero_()
            turned[0, 0] = 7
            itself[1, 1] = 9
            assert x.tolist() == [[7, 1], [3, 9], *[[3, 3]] * (n - 2)]


def test_outputs_that_share_memory_behind_a_graph_break():
    def fn(x):
        y = x * 2
        part = y[::2]
        torch._dynamo.graph_break()
        y.sub_(1)
        return part

    with torch.no_grad():
        same(compiled(fn)(torch.ones(6)), torch.ones(3))


def wider(x):
    half = x.half()
    return half.add_(x.exp())


def turned(x):
    y = x.sum(1, keepdim=True)
    z = y * 2
    y.t_()
    return z - y


def from_a_number(x):
    return (x * 2).copy_(x.shape[0])


def by_name(x):
    y = x * 2
    F.relu(inplace=True, input=y)
    return y + 1


@pytest.mark.parametrize("fn", [wider, turned, from_a_number, by_name])
def test_in_place_keeps_its_type_and_may_change_its_shape(fn):
    x = torch.randn(3, 3)
    with torch.no_grad():
        same(compiled(fn)(x), fn(x))


def test_what_was_copied_into_is_no_input():
    x = torch.ones(3)
    with torch.no_grad():
        compiled(lambda x: (x * 2).copy_(x))(x).zero_()
    assert x.tolist() == [1, 1, 1]


def test_gradients_of_attention_in_double():
    x, y = (torch.randn(1, 2, 3, 4, dtype=torch.float64).requires_grad_() for _ in "xy")
    fn = lambda x: F.scaled_dot_product_attention(x, x, x)  # noqa: E731
    y.data.copy_(x.data)
    compiled(fn)(x).square().sum().backward()
    fn(y).square().sum().backward()
    same(x.grad, y.grad)


def test_axes_of_a_scalar():
    with torch.no_grad():
        same(compiled(lambda x: x.movedim(0, -1) + 1)(torch.tensor(2.0)), torch.tensor(3.0))


def test_a_function_of_tensors_gives_one_of_numbers_too():
    with torch.no_grad():
        number, _ = compiled(lambda x: (torch.add(x.dim(), 2), x + 1))(torch.randn(3, 5))
    same(number, torch.tensor(4))


@pytest.mark.parametrize("name", ["data", "T", "mT", "H", "mH", "real"])
def test_attributes_are_acc_operators(name, caplog):
    """However this version of Dynamo writes them."""
    x = torch.randn(3, 5)
    with torch.no_grad(), caplog.at_level("INFO"):
        same(compiled(lambda x: getattr(x, name) * 2)(x), getattr(x, name) * 2)
    assert "run in the engine" in caplog.text and "AOTAutograd" not in caplog.text


def test_changes_in_place_of_any_length():
    """Nothing is forgotten where sizes are symbols, and what needs AOTAutograd goes there."""

    def an_input(x):
        x.add_(1)
        return x * 2

    def a_value(x):
        y = x * 2
        y.add_(1)
        return y * x

    def in_training(x):
        return F.dropout(x, 0.0, True) * 2

    for fn in (an_input, a_value, in_training):
        fast = torch.compile(fn, backend="migraphx", options=REF, dynamic=True)
        with torch.no_grad():
            for n in (3, 5):
                x, y = torch.ones(n, 2), torch.ones(n, 2)
                same(fast(x), fn(y))
                same(x, y)


def test_dropout_in_training_mode():
    """Random numbers are drawn by torch: about half of the elements are dropped, others are doubled."""
    y = compiled(lambda x: F.dropout(x, 0.5, True) + 0)(torch.ones(1000))
    assert set(y.tolist()) == {0.0, 2.0} and 400 < (y == 0).sum() < 600


@pytest.mark.parametrize("dynamic", [True, None])
def test_many_shapes(dynamic):
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU()).eval()
    fast = torch.compile(
        lambda x: model(x).reshape(x.shape[0], -1) * x.shape[0], backend="migraphx", options=REF, dynamic=dynamic
    )
    with torch.no_grad():
        for n in (2, 5, 3, 2, 7):
            x = torch.randn(n, 4)
            same(fast(x), model(x).reshape(n, -1) * n)


def test_shapes_share_their_weights(monkeypatch):
    seen: list[Any] = []
    share: Any = backends.share_weights
    monkeypatch.setattr(backends, "share_weights", lambda m, others: (share(m, others), seen.append(m)))
    layers = nn.Sequential(nn.Linear(64, 80), nn.GELU()).eval()

    def model(x):
        """A part runs in torch: one program a size."""
        return torch.special.airy_ai(layers(x))

    fast = torch.compile(model, backend="migraphx", dynamic=True)
    with torch.no_grad():
        for n in (2, 5, 3):
            x = torch.randn(n, 64)
            same(fast(x), model(x))
    programs: list[list[Any]] = [backends._programs(m) for m in seen]
    weights = [[id(w) for p in one for w in p.executable.weights] for one in programs]
    assert len(weights) == 3 and weights[0] and weights == [weights[0]] * 3


def test_many_shapes_with_gradients():
    model = nn.Linear(4, 5)
    fast = torch.compile(model, backend="migraphx", options=REF, dynamic=True)
    for n in (2, 5, 3):
        x = torch.randn(n, 4)
        fast(x).square().sum().backward()
        got, model.weight.grad = model.weight.grad, None
        model(x).square().sum().backward()
        same(got, model.weight.grad)
        model.weight.grad = None


def test_outputs_of_every_kind():
    def fn(x, k):
        return {"a": x + 1, "b": [x, (x * 2).t()], "c": None, "d": k}

    x = torch.randn(2, 3)
    got, want = compiled(fn)(x, 3), fn(x, 3)
    assert got["c"] is None and got["d"] == 3 and got["b"][0] is x
    same(got["a"], want["a"])
    same(got["b"][1], want["b"][1])


def test_what_the_engine_cannot_take_runs_in_torch(caplog):
    def fn(x):
        y = torch.special.airy_ai(x @ x.t())
        return torch.relu(x) @ x.t() + y

    x = torch.randn(3, 4)
    with caplog.at_level(logging.WARNING):
        same(compiled(fn)(x), fn(x), scale=100)
    assert "runs in torch" in caplog.text and "airy_ai" in caplog.text and "test_backends.py" in caplog.text


def test_what_is_traced_again_keeps_its_lines(caplog):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    model, x = Model().eval(), torch.randn(2, 3, 8)
    with torch.no_grad(), caplog.at_level(logging.INFO):
        same(compiled(model, verbose_log=True)(x), model(x))
    became = [r.getMessage() for r in caplog.records if " became " in r.getMessage() and "acc_ops" in r.getMessage()]
    assert became and all("test_backends.py" in line for line in became)


def test_graph_break_and_data_dependent_control_flow():
    def fn(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    fast = compiled(fn)
    for x in (torch.ones(3), -torch.ones(3)):
        same(fast(x), fn(x))


def test_inference_mode_and_autocast(caplog):
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU()).eval()
    fast, x = compiled(model), torch.randn(2, 4)
    with torch.inference_mode():
        same(fast(x), model(x))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), caplog.at_level(logging.WARNING):
        want, got = model(x), fast(x)
    assert "runs in torch" not in caplog.text
    assert got.dtype == want.dtype == torch.bfloat16
    assert_close(got.float().numpy(), want.float().numpy(), dtype=ml_dtypes.bfloat16)


@pytest.mark.slow
def test_threads():
    model = Net().eval()
    fast = compiled(model)
    inputs = [torch.randn(2, 3, 8, 8) for _ in range(8)]
    failures = []

    def work(x):
        try:
            with torch.no_grad():
                for _ in range(5):
                    same(fast(x), model(x))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_threads_look_up_registered_backends(monkeypatch):
    """Torch's own Dynamo does not always bear threads that compile at once (2.11 crashes): they look up alone."""
    for table in ("_BACKENDS", "_COMPILER_FNS"):  # as in a process that has looked up none
        monkeypatch.setattr(registry, table, {})
    torch_migraphx.dynamo.register()
    torch_migraphx.dynamo.register()  # somebody else's
    together = threading.Barrier(4)

    def work(_):
        together.wait(HANG)
        for name, backend in torch_migraphx.dynamo.BACKENDS.items():
            assert registry.lookup_backend(name) is backend

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_pretraced():
    x = torch.randn(2, 4)
    gm = make_fx(lambda x: torch.softmax(x @ x.t(), -1))(x)
    same(migraphx_pretraced_backend(gm, [x], options=REF)(x), gm(x))


def test_other_devices_stay_in_torch(caplog):
    x = torch.ones(2, 4, device="meta")
    with torch.no_grad():
        assert compiled(nn.Linear(4, 5, device="meta"))(x).is_meta
    assert "is on meta; the engine compiles for cpu" in caplog.text


def test_nan_and_infinities():
    x = torch.tensor([[float("nan"), 1.0, float("inf"), -float("inf")]])
    for fn in (torch.relu, lambda x: torch.softmax(x, -1), lambda x: x.max(-1).values, lambda x: x.clamp(0, 1)):
        torch._dynamo.reset()
        torch.testing.assert_close(compiled(fn)(x), fn(x), equal_nan=True)


def test_empty_tensors():
    fn = lambda x: torch.relu(x) + x.sum()  # noqa: E731
    same(compiled(fn)(torch.ones(0, 3)), fn(torch.ones(0, 3)))

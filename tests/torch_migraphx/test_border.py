"""What the engine cannot hold stays in torch, with eager's numbers and one line of the log for each place."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from tests.tiers import few, few_rows
from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.border import foreign, not_held, opaque

REF: dict[str, Any] = {"target": "ref"}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Scaled(torch.Tensor):
    """Bytes times a scale, as the weights of torchao are: a wrapper without memory of its own."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, strides=data.stride())

    def __init__(self, data, scale):
        self.bytes_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["bytes_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, meta, size, stride):
        return cls(inner["bytes_"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kept = (torch.ops.aten.detach.default, torch.ops.aten.t.default, torch.ops.aten.clone.default)
        if func in kept:
            return return_and_correct_aliasing(func, args, kwargs or {}, cls(func(args[0].bytes_), args[0].scale))
        args, kwargs = tree_map(lambda a: a.plain() if isinstance(a, Scaled) else a, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __repr__(self):
        return "Scaled"

    def plain(self):
        return self.bytes_.to(self.scale.dtype) * self.scale


def scaled():
    return Scaled(torch.randint(-100, 100, (8, 8)).to(torch.int8), torch.tensor(0.01))


class Model(nn.Module):
    """`function(self, *inputs)`, between what the engine computes."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function, self.linear = function, nn.Linear(8, 8)
        for name, value in tensors.items():
            if isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, x, *others):
        return self.linear(self.function(self, self.linear(x), *others))


def rotary(m, x):
    return torch.view_as_real(torch.view_as_complex(x.reshape(4, 4, 2)) * m.freqs_cis).flatten(1)


def spectral(m, x):
    return torch.fft.irfft(torch.einsum("bi,io->bo", torch.fft.rfft(x), m.w), n=8)


def sines(x):
    return torch.sin(x).sum()


def gradients(m, x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(sines(x), x)[0]


def complexes(*shape):
    return torch.randn(*shape, dtype=torch.complex64)


def nested():
    return torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)


def eighths():
    return torch.randn(8, 8).to(torch.float8_e4m3fn)


def mkldnn():
    return torch.randn(4, 8).to_mkldnn()


def quantized():
    return torch.quantize_per_tensor(torch.randn(4, 8), 0.1, 0, torch.qint8)


FLOAT8, TRACE = "float8_e4m3fn, a type", "can't be exported"
CASES: dict[str, tuple[Any, list[Any], str, str]] = {
    # what it is: the model, its inputs behind the first, what the log says of torch.compile and of lower_to_mgx
    "complex input": (lambda: Model(lambda m, x, c: x + (c * c).real), [lambda: complexes(4, 8)], "", ""),
    "rotary": (lambda: Model(rotary, freqs_cis=torch.polar(torch.ones(4, 4), torch.randn(4, 4))), [], "", ""),
    "complex number": (lambda: Model(lambda m, x: (x * (1 + 2j)).real), [], "", ""),
    "float8 input": (lambda: Model(lambda m, x, w: x @ w.to(torch.float32)), [eighths], FLOAT8, FLOAT8),
    "float8 buffer": (lambda: Model(lambda m, x: x @ m.w.to(torch.float32), w=eighths()), [], FLOAT8, FLOAT8),
    "float8 inside": (lambda: Model(lambda m, x: x.to(torch.float8_e4m3fn).to(torch.float32)), [], FLOAT8, FLOAT8),
    "jacrev": (lambda: Model(lambda m, x: torch.func.jacrev(sines)(x)), [], "", TRACE),
    "hessian": (lambda: Model(lambda m, x: torch.func.hessian(sines)(x[0])), [], "", TRACE),
    "vmap": (lambda: Model(lambda m, x: torch.func.vmap(lambda r: torch.outer(r, r).sum(0))(x)), [], "", ""),
    "autograd.grad": (lambda: Model(gradients), [], "", ""),
    "tensor subclass": (lambda: Model(lambda m, x, w: F.linear(x, w)), [scaled], "", "Scaled, which has operators"),
    "subclass as weight": (
        lambda: Model(lambda m, x: F.linear(x, m.w), w=nn.Parameter(scaled(), False)), [], "", "Scaled, which has"
    ),
    "sparse buffer": (
        lambda: Model(lambda m, x: torch.sparse.mm(m.a, x), a=torch.eye(4).to_sparse()), [], "", "torch.sparse_coo"
    ),
    "quantized buffer": (lambda: Model(lambda m, x: x + m.q.dequantize(), q=quantized()), [], "", "qint8"),
    "mkldnn input": (lambda: Model(lambda m, x, d: x + d.to_dense()), [mkldnn], "torch._mkldnn", "torch._mkldnn"),
    "mkldnn inside": (lambda: Model(lambda m, x: x.to_mkldnn().to_dense()), [], "torch._mkldnn", "to_mkldnn"),
    "meta buffer": (lambda: Model(lambda m, x: x.view((m.s * 2).shape).t(), s=torch.ones(8, 4).to("meta")), [], "", ""),
}  # fmt: skip


def dense(x):
    return x.plain() if isinstance(x, Scaled) else x.values() if x.is_nested else x


def check(fast, model, inputs):
    """Eager's answers, in two calls."""
    for _ in range(2):
        for got, want in zip(tree_leaves(fast(*inputs)), tree_leaves(model(*inputs)), strict=True):
            assert type(got) is type(want) and got.dtype == want.dtype
            assert_close(dense(got).detach().numpy(), dense(want).detach().numpy(), scale=16)


def made(name):
    build, others, *_ = CASES[name]
    return build().eval(), [torch.randn(4, 8), *(make() for make in others)]


def in_torch(caplog):
    return [r.message for r in caplog.records if "runs in torch" in r.message]


BACKENDS = {"jacrev": ["migraphx"], "hessian": ["migraphx_aot"]}
"""Those that a case is compiled by, if not both."""


@pytest.mark.parametrize(
    ("name", "backend"),
    few_rows([(n, b) for n in CASES for b in BACKENDS.get(n, ["migraphx", "migraphx_aot"])], at=[0, 1]),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_compile(name, backend, caplog):
    (model, inputs), why = made(name), CASES[name][2]
    with torch.no_grad():
        check(torch.compile(model, backend=backend, options=REF), model, inputs)
    said = in_torch(caplog)
    assert len(said) == bool(why) and all(why in line for line in said)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lower(name, caplog):
    (model, inputs), why = made(name), CASES[name][3]
    with torch.no_grad():
        check(lower_to_mgx(model, inputs, target="ref"), model, inputs)
    said = in_torch(caplog)
    assert len(said) == bool(why) and all(why in line for line in said)


@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx"))
def test_jagged(backend, caplog):
    model, n = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval(), nested()
    with torch.no_grad():
        check(torch.compile(model, backend=backend, options=REF), model, [n])
        assert "runs in torch" not in caplog.text  # AOTAutograd hands over what a nested tensor is made of
        check(lower_to_mgx(model, [n], target="ref"), model, [n])
        assert "NestedTensor, which has operators of its own" in caplog.text


@pytest.mark.slow
def test_gradients_flow_to_what_stays_in_torch():
    model = Model(spectral, w=nn.Parameter(complexes(5, 5)))
    twin, x = copy.deepcopy(model), torch.randn(4, 8)
    torch.compile(model, backend="migraphx", options=REF)(x).square().sum().backward()
    twin(x).square().sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)


def test_what_can_be_held():
    x = torch.randn(3, 4)
    freed, zeros = torch.randn(3, 4), vars(torch)["_efficientzerotensor"]
    freed.untyped_storage().resize_(0)
    for held in (x, x.t(), x[:0], nn.Parameter(x), torch.tensor(1), x.half(), x.expand(2, 3, 4)):
        assert not not_held(held)
    refused = {
        "complex64": x.to(torch.complex64), "float8_e5m2": x.to(torch.float8_e5m2), "sparse_coo": x.to_sparse(),
        "_mkldnn": mkldnn(), "qint8": quantized(), "Scaled": scaled(), "NestedTensor": nested(),
        "on meta": x.to("meta"), "has no memory": freed, "no memory": zeros((3, 4)),
    }  # fmt: skip
    for why, value in refused.items():
        assert why in not_held(value)
    seen = []
    torch.vmap(lambda r: seen.append(foreign(r)) or r)(x)
    assert "torch.func" in seen[0] and not opaque(x)

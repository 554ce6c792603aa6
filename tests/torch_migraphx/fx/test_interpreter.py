"""MGXInterpreter on its own: what it takes apart, and where it may be called."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_migraphx.fx import MGXInterpreter, MGXModule
from torch_migraphx.fx.fx2mgx import UnsupportedNodes
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer

aten = torch.ops.aten
R = torch.randn
IMAGE, LABELS = R(2, 3, 4, 4), torch.tensor([0, 2, 1, 4])
STATISTICS = (R(3), R(3), R(3), R(3).abs())
Q = R(2, 3, 8, 4)


def graph_of(function: Any, args: Sequence[Any], take: int | None) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """One call on `args`, whose tensors are inputs; of several results that at the place `take`."""
    graph, tensors, given = fx.Graph(), [], []
    for x in args:
        given.append(graph.placeholder(f"x{len(tensors)}") if isinstance(x, torch.Tensor) else x)
        tensors += [x] if isinstance(x, torch.Tensor) else []
    call = graph.call_function(function, tuple(given))
    if take is not None:
        call = graph.call_function(operator.getitem, (call, take))
    graph.output(call)
    return fx.GraphModule(nn.Module(), graph), tensors


def on_ref(gm: fx.GraphModule, inputs: Sequence[Any]) -> MGXModule:
    interpreter = MGXInterpreter(gm, inputs)
    return MGXModule(interpreter.run(), interpreter.get_input_names(), target="ref")


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (aten.nll_loss_forward.default, (R(4, 5), LABELS, None, 1, -100)),
        (aten.nll_loss2d_forward.default, (R(2, 5, 3, 3), torch.randint(5, (2, 3, 3)), None, 1, -100)),
        (aten.scatter_reduce.two, (R(4, 5), 0, torch.randint(4, (4, 5)), R(4, 5), "sum")),
        (aten.index_copy.default, (R(4, 5), 0, torch.tensor([2, 0]), R(2, 5))),
        (aten.slice_scatter.default, (R(4, 5), R(4, 2), 1, 1, 3)),
        (aten.select_scatter.default, (R(4, 5), R(5), 0, 2)),
        (aten.instance_norm.default, (IMAGE, R(3), R(3), None, None, True, 0.1, 1e-5, False)),
        (aten._native_batch_norm_legit.default, (IMAGE, *STATISTICS, False, 0.1, 1e-5)),
        (aten._native_batch_norm_legit.no_stats, (IMAGE, R(3), R(3), True, 0.1, 1e-5)),
        (aten._native_batch_norm_legit_no_training.default, (IMAGE, *STATISTICS, 0.1, 1e-5)),
        (aten._batch_norm_with_update_functional.default, (IMAGE, *STATISTICS, 0.1, 1e-5)),
        (aten._batch_norm_no_update.default, (IMAGE, *STATISTICS, 0.1, 1e-5)),
        (aten.new_zeros.default, (R(2, 3), [4, 2])),
        (aten.fill.Scalar, (R(2, 3), 2.0)),
        (aten.fill.Tensor, (R(2, 3), R(()))),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, (Q, Q, Q, 0.0, True)),
        (aten.as_strided.default, (R(4, 5), [2, 3], [5, 1], 1)),
        (aten.as_strided.default, (R(20), [4, 3], [2, 1], 1)),
    ],
    ids=lambda x: str(x).removeprefix("aten.") if not isinstance(x, tuple) else "",
)
def test_what_has_no_converter_is_taken_apart(function: Any, args: tuple[Any, ...]) -> None:
    want = function(*args)
    several = isinstance(want, tuple)
    gm, tensors = graph_of(function, args, 0 if several else None)
    nodes = list(gm.graph.nodes)
    got = on_ref(gm, tensors)(*tensors)
    torch.testing.assert_close(got, want[0] if several else want, atol=1e-4, rtol=1e-4)
    assert nodes == list(gm.graph.nodes)  # the caller's graph is as it was


@pytest.mark.parametrize(
    ("function", "rest"),
    [
        (aten._scaled_dot_product_flash_attention.default, (0.0, True)),
        (aten._scaled_dot_product_efficient_attention.default, (None, False, 0.0, True)),
        (aten._scaled_dot_product_cudnn_attention.default, (None, False, 0.0, True)),
    ],
)
def test_attention_of_gpus(function: Any, rest: tuple[Any, ...]) -> None:
    """Exported on a GPU, they run on the CPU, where torch has no kernel for them."""
    gm, tensors = graph_of(function, (Q, Q.flip(2), Q * 2, *rest), 0)
    query, key, value = tensors
    want = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(on_ref(gm, tensors)(*tensors), want)


@pytest.mark.parametrize("name", ["cudnn_batch_norm", "miopen_batch_norm"])
def test_batch_norms_of_gpus(name: str) -> None:
    weight, bias, mean, var = R(3), R(3), R(3), R(3).abs() + 1
    gm, _ = graph_of(getattr(aten, name).default, (R(2, 3, 4), weight, bias, mean, var, False, 0.1, 1e-3), 0)
    tensors = [R(2, 3, 4), weight, bias, mean, var]
    want = F.batch_norm(tensors[0], mean, var, weight, bias, eps=1e-3)
    torch.testing.assert_close(on_ref(gm, tensors)(*tensors), want)


def test_what_cannot_be_taken_apart_is_listed() -> None:
    gm, tensors = graph_of(aten.geqrf.default, (R(3, 3),), 0)
    with pytest.raises(UnsupportedNodes, match=r"1 nodes have no converter:\n.*aten\.geqrf"):
        on_ref(gm, tensors)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, times: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x).reshape(x.shape[0] * 2, -1) * times + torch.full((), 2.0)
        return y, F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long))


def compiler(graphs: list[fx.GraphModule]) -> Callable[..., Any]:
    """A compiler for AOTAutograd, as a user writes one."""

    def compile_(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        interpreter = MGXInterpreter(gm, inputs)
        module = MGXModule(interpreter.run(), interpreter.get_input_names(), target="ref")
        names = [str(n.target) for n in gm.graph.find_nodes(op="placeholder")]

        def run(*args: Any) -> list[Any]:
            given = dict(zip(names, args, strict=True))
            return list(module(*(given[n] for n in module.input_names)))

        return make_boxed_func(run)

    return compile_


@pytest.mark.parametrize("dynamic", [False, True])
def test_inside_a_compiler_of_aotautograd(dynamic: bool) -> None:
    """Its inputs are fake tensors and, with dynamic sizes, symbols."""
    torch._dynamo.reset()
    graphs: list[fx.GraphModule] = []

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return aot_module_simplified(gm, inputs, fw_compiler=compiler(graphs))

    model, x = Model().eval(), R(6, 4)
    with torch.no_grad():
        for got, want in zip(torch.compile(model, backend=backend, dynamic=dynamic)(x), model(x), strict=True):
            torch.testing.assert_close(got, want)
    inputs = [n.meta["val"] for n in graphs[0].graph.find_nodes(op="placeholder")]
    assert any(isinstance(v, torch.SymInt) for v in inputs) == dynamic


def test_under_a_fake_mode() -> None:
    model, x = Model().eval(), R(2, 4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        sample = torch.empty(2, 4)
        module = on_ref(acc_tracer.trace(model, [sample]), [sample])
        imagined = module(sample)
    with torch.no_grad():
        want = model(x)
    for fake, got, w in zip(imagined, module(x), want, strict=True):
        torch.testing.assert_close(got, w)
        assert fake.shape == w.shape and fake.dtype == w.dtype
    with pytest.raises(ValueError, match="must be"), FakeTensorMode():
        module(torch.empty(3, 4))

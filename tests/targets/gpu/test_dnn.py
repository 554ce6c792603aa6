"""Convolutions by cuDNN, whose part NumPy plays: what the library is told is what was meant."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Unsupported
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.gpu import choices
from migraphx.targets.gpu import target as targets
from migraphx.targets.gpu.choices import DNN, LIBRARY, Choices, Config, Problem
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.libraries import blas, dnn
from migraphx.targets.gpu.libraries.dnn import ConvGraph
from migraphx.targets.gpu.library import Append
from migraphx.targets.gpu.lower import library
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.side_by_side import built, check
from tests.targets.gpu.test_libraries import NumpyBlas

RNG = np.random.default_rng(6)


class NumpyDnn:
    """The library by its rules: tensors by lens and strides, a residual, a bias, ReLU."""

    version = 1

    def __init__(self) -> None:
        self.asked: list[ConvGraph] = []

    def plans(self, graph: ConvGraph, most: int) -> list[ConvGraph]:
        self.asked.append(graph)
        packed, window = prod(graph.y_lens[1:]), graph.w_lens[1:]
        assert graph.w_strides[0] == prod(window), "the library's kernels take no gaps"
        if graph.residual and {graph.residual[0], graph.y_strides[0]} != {packed}:
            return []  # as the library's own kernels
        return [replace(graph, plan=f"{n} 2=1", workspace=n, version=self.version) for n in range(most)]

    def append(self, graph: ConvGraph) -> Append:
        def run(pointers: Sequence[int], stream: int) -> None:
            x, w, *more, _, y = pointers
            (of, lens), at = (graph.type, graph.y_lens), iter(more)
            sums = convolved(
                _tensor(x, of, graph.x_lens, graph.x_strides), _tensor(w, of, graph.w_lens, graph.w_strides), graph
            )
            if graph.bias:
                bias = _tensor(next(at), of, (lens[1],), (1,))
                sums += bias.reshape(-1, *(1,) * (len(lens) - 2))
            if graph.residual:
                sums += _tensor(next(at), of, lens, graph.residual)
            _tensor(y, of, lens, graph.y_strides)[...] = np.maximum(sums, 0) if graph.relu else sums

        return run


def _tensor(address: int, type: str, lens: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """A tensor of the library in main memory."""
    of = dtypes.to_numpy(type)
    steps = [s * of.itemsize for s in strides]
    size = sum((n - 1) * s for n, s in zip(lens, steps, strict=True)) + of.itemsize
    memory = (ctypes.c_char * size).from_address(address)
    return np.ndarray(tuple(lens), of, memoryview(memory), 0, tuple(steps))


def convolved(x: np.ndarray, w: np.ndarray, graph: ConvGraph) -> np.ndarray:
    """The sums in double, an element of the window at a time."""
    x, w, out = x.astype(np.float64), w.astype(np.float64), graph.y_lens
    x = np.pad(x, ((0, 0), (0, 0), *zip(graph.before, graph.after, strict=True)))
    groups, each = x.shape[1] // w.shape[1], w.shape[1]
    sums = np.zeros(out)
    filters = out[1] // groups
    for tap in product(*map(range, w.shape[2:])):
        begin = [t * d for t, d in zip(tap, graph.dilation, strict=True)]
        window = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begin, out[2:], graph.stride, strict=True)]
        part = x[(slice(None), slice(None), *window)]
        for g in range(groups):
            mine = slice(g * filters, (g + 1) * filters)
            weights = w[(mine, slice(None), *tap)]
            sums[:, mine] += np.einsum("nc...,kc->nk...", part[:, g * each : (g + 1) * each], weights)
    return sums


def prefer(monkeypatch: pytest.MonkeyPatch, *kernels: str) -> None:
    """Whatever a library takes, the first of these that does computes it."""

    def pick(self: Choices, problem: Problem, candidates: Sequence[Config], *rest: object) -> Config:
        return next((c for k in kernels for c in candidates if c.kernel == k), candidates[0])

    monkeypatch.setattr(Choices, "pick", pick)
    monkeypatch.setattr(choices, "WORTH_ASKING", 0)
    monkeypatch.setattr(library, "LEAST_ROWS", 1)
    monkeypatch.setattr(library, "LEAST_FLOPS", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ConvGraph]:
    """What the library is asked for, whose part NumPy plays; it computes what it takes."""
    fake, other = NumpyDnn(), NumpyBlas()
    prefer(monkeypatch, DNN, LIBRARY)
    monkeypatch.setattr(dnn, "dnn", lambda index: fake)
    monkeypatch.setattr(blas, "blas", lambda index: other)
    monkeypatch.setattr(targets, "plans_on", lambda device: fake.plans)
    monkeypatch.setattr(targets, "algorithms_on", lambda device: other.algorithms)
    return fake.asked


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return RNG.standard_normal(lens).astype(dtypes.to_numpy(type))


def channels_last(*lens: int, type: str = "half") -> Shape:
    return permuted(type, lens, (0, *range(2, len(lens)), 1))


def conv(b: Builder, x: Instruction, *lens: int, bias: bool = True, **how: object) -> Instruction:
    """A convolution with weights of these lens, and its bias."""
    axes, type = len(lens) - 2, x.shape.type
    given = {"padding": (0,) * axes, "stride": (1,) * axes, "dilation": (1,) * axes, **how}
    y = b.convolution(x, b.literal(weight(*lens, type=type)), **given)
    if not bias:
        return y
    return b.add(y, b.broadcast(b.literal(weight(lens[0], type=type)), axis=1, out_lens=y.shape.lens))


def normed(b: Builder, x: Instruction) -> Instruction:
    """A convolution and its batch norm, as models in half have it."""
    y = conv(b, x, 24, 16, 3, 3, bias=False, padding=(1, 1))
    scale, shift, mean, var = (b.literal(np.abs(weight(24)) + np.float16(0.5)) for _ in range(4))
    return b.relu(b.batchnorm(y, scale, shift, mean, var, epsilon=1e-5))


def biased(b: Builder, x: Instruction, w: Instruction, bias: Instruction) -> Instruction:
    """The convolution of whole images, whose weights and bias are inputs."""
    padding = tuple(n // 2 for n in w.shape.lens[2:])
    y = b.convolution(x, w, padding=padding, stride=(1, 1), dilation=(1, 1))
    return b.add(y, b.broadcast(bias, axis=1, out_lens=y.shape.lens))


X, Z = channels_last(2, 16, 5, 7), channels_last(2, 24, 5, 7)
FORMS: dict[str, tuple[Callable[..., Instruction], tuple[Shape, ...], tuple[bool, bool, bool] | None]] = {
    "plain": (lambda b, x: conv(b, x, 24, 16, 3, 3, bias=False), (X,), (False, False, False)),
    "bias and relu": (lambda b, x: b.relu(conv(b, x, 24, 16, 3, 3, padding=(1, 1))), (X,), (True, False, True)),
    "norm": (normed, (X,), (True, False, True)),
    "residual": (
        lambda b, x, z: b.relu(b.add(z, conv(b, x, 24, 16, 3, 3, padding=(1, 1)))), (X, Z), (True, True, True),
    ),
    "a product": (lambda b, x: conv(b, x, 24, 16, 1, 1), (X,), (True, False, False)),
    "strides, dilation, uneven padding": (
        lambda b, x: conv(b, x, 24, 16, 3, 2, padding=(2, 0, 0, 1), stride=(2, 3), dilation=(1, 2)),
        (X,), (True, False, False),
    ),
    "the window does not reach the end": (
        lambda b, x: conv(b, x, 24, 16, 2, 2, stride=(2, 3)), (X,), (True, False, False),
    ),
    "groups": (lambda b, x: conv(b, x, 32, 8, 3, 3, group=2), (X,), (True, False, False)),
    "a line": (
        lambda b, x: conv(b, x, 24, 16, 3, padding=(1,), stride=(2,)), (channels_last(2, 16, 9),), (True, False, False),
    ),
    "a volume of float": (
        lambda b, x: conv(b, x, 8, 4, 2, 2, 2), (channels_last(1, 4, 3, 4, 3, type="float"),), (True, False, False),
    ),
    "gelu, by a kernel behind it": (lambda b, x: b.gelu(conv(b, x, 24, 16, 3, 3)), (X,), (False, False, False)),
    "a residual into a part, by a kernel behind it": (
        lambda b, x, z: b.concat(b.add(conv(b, x, 24, 16, 3, 3, padding=(1, 1)), z), x, axis=1),
        (X, Z), (False, False, False),
    ),
    "few channels": (lambda b, x: conv(b, x, 24, 3, 3, 3), (channels_last(2, 3, 5, 7),), (True, False, False)),
    "channels with gaps behind them": (
        lambda b, x: conv(b, x, 24, 20, 3, 1), (channels_last(2, 20, 5, 7),), (True, False, False),
    ),
    "a bias that is an input, before a norm": (
        lambda b, x, *w: b.cast(
            b.reduce_sum(b.cast(b.reshape(biased(b, x, *w), dims=(2, 24, 35)), "float"), axes=(2,)), "half"
        ),
        (X, Shape("half", (24, 16, 3, 3)), Shape("half", (24,))), (True, False, False),
    ),
    "biases that are inputs, of two that meet": (
        lambda b, x, *w: b.add(biased(b, x, *w[:2]), biased(b, x, *w[2:])),
        (X, *(Shape("half", s) for s in ((24, 16, 1, 1), (24,), (24, 16, 3, 3), (24,)))), (True, True, False),
    ),
    "odd results, by our kernel": (lambda b, x: conv(b, x, 20, 16, 3, 3), (X,), None),
    "depthwise, by our kernel": (lambda b, x: conv(b, x, 16, 1, 3, 3, group=16), (X,), None),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_what_the_library_is_told(form: str, asked: list[ConvGraph]) -> None:
    build, shapes, told = FORMS[form]
    made = check(built(build, *shapes), {f"x{k}": weight(*s.lens, type=s.type) for k, s in enumerate(shapes)}, scale=4)
    last = [(g.bias, bool(g.residual), g.relu) for g in asked][-1:]
    assert last == ([told] if told else [])
    assert any(s.kernel.startswith("cudnn") for s in made.executable.steps) == (told is not None)


@pytest.mark.device
@pytest.mark.parametrize("form", [f for f in FORMS if FORMS[f][2]])
def test_by_the_library(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU: tensors, epilogues and addresses as the library itself reads them, in a graph."""
    try:
        device = current_device()
        with device.current():
            found = dnn.dnn(device.index)
    except Unsupported as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("cuDNN is not installed")
    prefer(monkeypatch, DNN)
    build, shapes, _ = FORMS[form]
    arrays = {f"x{k}": weight(*s.lens, type=s.type) for k, s in enumerate(shapes)}
    check(built(build, *shapes), arrays, GpuTarget(device), scale=4)


# ---- layouts ----

ENDS: dict[str, Callable[..., Instruction]] = {
    "none": lambda b, y, z: y,
    "residual": lambda b, y, z: b.relu(b.add(y, z)),
    "turned": lambda b, y, z: b.mul(t := b.transpose(b.gelu(y), permutation=(0, 3, 2, 1)), t),
    "joined": lambda b, y, z: b.concat(b.gelu(y), z, axis=1),
    "part": lambda b, y, z: b.slice(b.add(b.gelu(y), z), axes=(1,), starts=(8,), ends=(24,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kernels", [(DNN,), (LIBRARY,)], ids=lambda k: k[0])
def test_layouts_behind_a_library(
    end: str, kernels: tuple[str, ...], asked: list[ConvGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of pixels and what follows it, whatever the order of dimensions of either, and of a caller's views."""
    prefer(monkeypatch, *kernels)
    plain, last, turned = (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 2, 1)
    for first, second in ((last, turned), (plain, last)):
        shapes = permuted("half", (2, 16, 5, 7), first), permuted("half", (2, 24, 5, 7), second)
        arrays = {"x0": weight(2, 16, 5, 7), "x1": weight(2, 24, 5, 7)}
        made = built(lambda b, x, z: ENDS[end](b, conv(b, x, 24, 16, 1, 1), z), *shapes)
        check(made, arrays, scale=4)


# ---- other versions ----


def test_another_version_is_refused(asked: list[ConvGraph]) -> None:
    graph = ConvGraph("half", (1, 8, 1, 1), (8, 1, 8, 8), (8, 8, 1, 1), (8, 1, 8, 8), (1, 8, 1, 1), (8, 1, 8, 8),
                      (1, 1), (1, 1), (0, 0), (0, 0), version=2)  # fmt: skip
    with pytest.raises(RuntimeError, match="compiled for cuDNN 2, here is 1"):
        graph.prepare(InterpretedDevice())


def test_saved(asked: list[ConvGraph]) -> None:
    """What a file says of a convolution is the convolution."""
    build, shapes, _ = FORMS["residual"]
    made, target = built(build, *shapes), GpuTarget(InterpretedDevice())
    made.compile(target)
    executable: Any = made.executable
    data, tensors = executable.sections()
    restored: Any = target.restore(data, tensors, True, lambda: made.graph, made._options)
    assert restored is not None and restored.plan == executable.plan


def test_threads_that_compile_have_the_handle_in_turn() -> None:
    """Of a library that has nothing for any graph."""
    others: list[Future[list[ConvGraph]]] = []

    class Asked(dnn.Dnn):
        def _open(self) -> None: ...

        def _graph(self, graph: ConvGraph) -> dnn.Descriptor:
            if not others:
                others.append(other.submit(self.plans, graph))
                with pytest.raises(TimeoutError):
                    others[0].result(timeout=0.05)
            raise dnn.DnnError("none")

    lens, strides, ones = (1, 8, 4, 4), (128, 1, 32, 8), (1, 1)
    weights = (8, 8, 1, 1), (8, 1, 8, 8)
    graph = ConvGraph("half", lens, strides, *weights, lens, strides, ones, ones, (0, 0), (0, 0))
    with ThreadPoolExecutor(1) as other:
        assert Asked(cast(Any, SimpleNamespace(cudnnGetVersion=lambda: 1))).plans(graph) == []
        assert others[0].result() == []


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that it does not serve, or a machine without it, has no plans; a program that needs it says so."""
    dnn.dnn.cache_clear()
    monkeypatch.setattr(dnn, "load", lambda name: None)
    device = InterpretedDevice()
    plans = dnn.plans_on(device)
    pixel = (1, 8, 1, 1), (8, 1, 8, 8)
    graph = ConvGraph("half", *pixel, *pixel, *pixel, (1, 1), (1, 1), (0, 0), (0, 0))
    assert plans is not None and plans(graph, 1) == []
    with pytest.raises(RuntimeError, match="pip install nvidia-cudnn-cu13"):
        graph.prepare(device)
    dnn.dnn.cache_clear()

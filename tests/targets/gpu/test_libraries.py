"""Products by cuBLASLt, whose part NumPy plays: what the library is told is what was meant."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
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
from migraphx.targets.gpu.choices import LIBRARY, Choices, Config, Problem
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.libraries import blas
from migraphx.targets.gpu.libraries.blas import Gemm, Matrix
from migraphx.targets.gpu.library import Append
from migraphx.targets.gpu.lower import library
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.side_by_side import built, check

RNG = np.random.default_rng(5)


class NumpyBlas:
    """The library by its rules: column-major operands, transposed as it was told."""

    version = 1

    def __init__(self) -> None:
        self.asked: list[Gemm] = []

    def algorithms(self, gemm: Gemm) -> list[Gemm]:
        self.asked.append(gemm)
        return [replace(gemm, algorithm="00" * 64, version=self.version)]

    def append(self, gemm: Gemm) -> Append:
        def run(pointers: Sequence[int], stream: int) -> None:
            a, b, *more, c = pointers
            (first, first_turned), (second, second_turned), addend, result = gemm.matrices()
            of = dtypes.to_numpy(gemm.result or gemm.type)
            factors = [np.ones((1, 1))] * 2
            if gemm.scaled:
                lengths = (first.columns, second.columns)  # transposed and not, as it takes fp8 only
                assert (first_turned, second_turned) == (True, False)
                factors = [
                    _array(p, Matrix(n, 1, n, 0), np.dtype(np.float32), 0) for p, n in zip(more, lengths, strict=False)
                ]
                del more[:2]
            for k in range(gemm.sizes[0]):
                x, y = (_array(p, m, dtypes.to_numpy(gemm.type), k) for p, m in ((b, first), (a, second)))
                out = _array(c, result, of, k)
                left, right = (x.T if first_turned else x), (y.T if second_turned else y)
                sums = left.astype(np.float64) @ right.astype(np.float64) * factors[0] * factors[1].T
                if "bias" in gemm.epilogue:
                    sums += _array(more[0], Matrix(gemm.sizes[2], 1, gemm.sizes[2], 0), of, 0)
                if gemm.residual:
                    sums += _array(more[-1], addend, of, k)
                out[...] = np.maximum(sums, 0) if "relu" in gemm.epilogue else sums

        return run


def _array(address: int, m: Matrix, dtype: np.dtype, number: int) -> np.ndarray:
    """A matrix of the library in main memory."""
    start = address + number * m.batch_step * dtype.itemsize
    memory = (ctypes.c_char * (((m.columns - 1) * m.step + m.rows) * dtype.itemsize)).from_address(start)
    strides = (dtype.itemsize, m.step * dtype.itemsize)
    return np.ndarray((m.rows, m.columns), dtype, memoryview(memory), 0, strides)


class CountingBlas:
    """The library's own functions: which objects are alive, and with which bias each product ran."""

    def __init__(self, during: Callable[[int], None] = lambda bias: None) -> None:
        self.alive, self.biases, self.during = dict[int, int](), list[int](), during

    def __getattr__(self, name: str) -> Callable[..., int]:
        def function(*arguments: Any) -> int:
            if name.endswith("Create"):
                arguments[0]._obj.value = handle = len(self.alive) + 1
                self.alive[handle] = 0
            elif name.endswith("Destroy"):
                self.alive[arguments[0].value] = -1
            elif name == "cublasLtMatmulDescSetAttribute" and arguments[1].value == blas.BIAS:
                self.alive[arguments[0].value] = arguments[2]._obj.value
            elif name == "cublasLtMatmul":
                self.during(self.alive[arguments[1].value])
                self.biases.append(self.alive[arguments[1].value])
            return 0

        return function


GEMM = Gemm("half", (1, 8, 8, 8), (8, 1, 0), (1, 8, 0), (8, 64), "bias", (), "00" * 64)


def test_objects_of_the_library_live_as_long_as_who_needs_them() -> None:
    fake = CountingBlas()
    made = blas.Blas(cast(Any, fake))
    assert made.algorithms(GEMM) == []
    gc.collect()
    assert [n for n in fake.alive.values() if n >= 0] == [0]  # the handle
    append = made.append(GEMM)
    append([16, 32, 48, 64, 80], 1)
    assert fake.biases == [48] and sum(n >= 0 for n in fake.alive.values()) == 6
    del append
    gc.collect()
    assert sum(n >= 0 for n in fake.alive.values()) == 1


def test_products_of_several_threads_have_addresses_of_their_own() -> None:
    """Which are attributes of what they share: one is appended after the other."""
    waiting: list[Future[None]] = []

    def during(bias: int) -> None:
        if not waiting:
            waiting.append(other.submit(append, [16, 32, 49, 64, 80], 2))
            with pytest.raises(TimeoutError):
                waiting[0].result(timeout=0.05)

    fake = CountingBlas(during)
    append = blas.Blas(cast(Any, fake)).append(GEMM)
    with ThreadPoolExecutor(1) as other:
        append([16, 32, 48, 64, 80], 1)
        waiting[0].result()
    assert fake.biases == [48, 49]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the library takes, it computes."""

    def pick(self: Choices, problem: Problem, candidates: Sequence[Config], *rest: object) -> Config:
        return next((c for c in candidates if c.kernel == LIBRARY), candidates[0])

    monkeypatch.setattr(Choices, "pick", pick)
    monkeypatch.setattr(choices, "WORTH_ASKING", 0)
    monkeypatch.setattr(library, "LEAST_ROWS", 1)
    monkeypatch.setattr(library, "LEAST_FLOPS", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, always: None) -> list[Gemm]:
    """What the library is asked for, whose part NumPy plays."""
    fake = NumpyBlas()
    monkeypatch.setattr(blas, "blas", lambda index: fake)
    monkeypatch.setattr(targets, "algorithms_on", lambda device: fake.algorithms)
    return fake.asked


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return RNG.standard_normal(lens).astype(dtypes.to_numpy(type))


def linear(b: Builder, x: Instruction) -> Instruction:
    return b.linear(x, b.literal(weight(32, 48)), b.literal(weight(32)))


def turned(b: Builder, x: Instruction) -> Instruction:
    rank = x.shape.ndim
    return b.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


X = Shape("half", (6, 48))
FORMS: dict[str, tuple[Callable[..., Instruction], tuple[Shape, ...], str]] = {
    "plain": (lambda b, x: b.dot(x, b.literal(weight(48, 32))), (X,), ""),
    "bias": (linear, (X,), "bias"),
    "bias and relu": (lambda b, x: b.relu(linear(b, x)), (X,), "bias relu"),
    "relu": (lambda b, x, y: b.relu(b.dot(x, y)), (X, Shape("half", (48, 16))), "relu"),
    "gelu, by a kernel behind it": (lambda b, x: b.gelu(linear(b, x)), (X,), ""),
    "batch": (lambda b, x, y: b.dot(x, y), (Shape("float", (2, 3, 8, 16)), Shape("float", (2, 3, 16, 24))), ""),
    "both turned": (
        lambda b, x, y: b.dot(turned(b, x), turned(b, y)),
        (Shape("bf16", (2, 16, 8)), Shape("bf16", (2, 24, 16))),
        "",
    ),
    "residual": (lambda b, x, z: b.add(b.dot(x, b.literal(weight(48, 32))), z), (X, Shape("half", (6, 32))), ""),
    "bias, residual and relu": (
        lambda b, x, z: b.relu(b.add(z, linear(b, x))),
        (X, Shape("half", (6, 32), (40, 1))),
        "bias relu",
    ),
    "residual of a batch": (
        lambda b, x, y, z: b.add(b.dot(x, y), z),
        (Shape("half", (3, 8, 16)), Shape("half", (3, 16, 24)), Shape("half", (3, 8, 24))),
        "",
    ),
    "two residuals, by a kernel behind it": (
        lambda b, x, y, z: b.add(b.add(b.dot(x, b.literal(weight(48, 32))), y), z),
        (X, Shape("half", (6, 32)), Shape("half", (6, 32))),
        "",
    ),
}
IMAGE = permuted("half", (2, 16, 3, 5), (0, 2, 3, 1))


def pixels(b: Builder, x: Instruction) -> Instruction:
    """A convolution that is a product: its columns are not the last dimension."""
    y = b.convolution(x, b.literal(weight(24, 16, 1, 1)), padding=(0, 0), stride=(1, 1), dilation=(1, 1))
    return b.add(y, b.broadcast(b.literal(weight(24)), axis=1, out_lens=y.shape.lens))


def narrow(b: Builder, x: Instruction, y: Instruction | None = None) -> Instruction:
    """A product of fp8, and a scale a column."""
    sums = b.quant_dot(x, b.literal(weight(48, 32, type=x.shape.type)) if y is None else y)
    scales = b.literal(np.abs(RNG.standard_normal(32)).astype(np.float32))
    return b.cast(b.mul(sums, b.broadcast_to(scales, sums.shape.lens)), "half")


def biased(b: Builder, x: Instruction) -> Instruction:
    return b.add(x, b.broadcast_to(b.literal(weight(32)), x.shape.lens))


X8 = Shape("fp8e4m3fn", (6, 48))
FORMS |= {
    "fp8": (lambda b, x: narrow(b, x), (X8,), ""),
    "fp8, bias and relu": (lambda b, x: b.relu(biased(b, narrow(b, x))), (X8,), "bias relu"),
    "fp8, gelu by a kernel behind it": (lambda b, x: b.gelu(biased(b, narrow(b, x))), (X8,), ""),
}
FORMS |= {
    "convolution": (lambda b, x: b.relu(pixels(b, x)), (IMAGE,), "bias relu"),
    "convolution and residual": (
        lambda b, x, z: b.relu(b.add(pixels(b, x), z)),
        (IMAGE, permuted("half", (2, 24, 3, 5), (0, 2, 3, 1))),
        "bias relu",
    ),
    "convolution, by a kernel behind it": (lambda b, x: b.gelu(pixels(b, x)), (IMAGE,), ""),
}
ADDED = {"convolution and residual", "residual", "bias, residual and relu", "residual of a batch"}


@pytest.mark.parametrize("form", FORMS)
def test_what_the_library_is_told(form: str, asked: list[Gemm]) -> None:
    build, shapes, epilogue = FORMS[form]
    arrays = {f"x{k}": weight(*s.lens, type=s.type) for k, s in enumerate(shapes)}
    made = check(built(build, *shapes), arrays, scale=4)
    assert {(g.epilogue, bool(g.residual)) for g in asked} == {(epilogue, form in ADDED)}
    assert made.executable.steps[0].kernel.startswith("cublasLt")
    assert {g.result for g in asked} == {"half" if form.startswith("fp8") else ""}


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.quant_dot(x, b.literal(weight(48, 32, type=X8.type))),
        lambda b, x: b.cast(b.quant_dot(x, b.literal(weight(48, 32, type=X8.type))), "half"),
        lambda b, x: b.relu(b.quant_dot(x, b.literal(weight(48, 32, type=X8.type)))),
    ],
)
def test_sums_of_fp8_that_are_not_scaled_and_narrowed_are_not_the_librarys(
    build: Callable[..., Instruction], asked: list[Gemm]
) -> None:
    check(built(build, X8), {"x0": weight(6, 48, type=X8.type)}, scale=4)
    assert not asked


def test_a_result_of_another_type_is_not_the_librarys(asked: list[Gemm], hopper_with: Callable[..., None]) -> None:
    """fp8 is multiplied as half where matrix units do not take it, and no epilogue makes it fp8 again."""
    hopper_with(fp8=False)
    x, y = Shape("fp8e4m3fn", (8, 16)), Shape("fp8e4m3fn", (16, 32))
    check(
        built(lambda b, x, y: b.dot(x, y), x, y), {"x0": weight(8, 16, type=x.type), "x1": weight(16, 32, type=x.type)}
    )
    assert not asked


@pytest.mark.device
@pytest.mark.parametrize("form", FORMS)
def test_by_the_library(form: str, always: None) -> None:
    """On a GPU: operands, epilogues and addresses as the library itself reads them, in a graph."""
    try:
        device = current_device()
        with device.current():
            found = blas.blas(device.index)
    except Unsupported as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("cuBLASLt is not installed")
    build, shapes, _ = FORMS[form]
    arrays = {f"x{k}": weight(*s.lens, type=s.type) for k, s in enumerate(shapes)}
    made = check(built(build, *shapes), arrays, GpuTarget(device), scale=4)
    assert made.executable.steps[0].kernel.startswith("cublasLt")


def test_another_version_compiles_again(
    asked: list[Gemm], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was saved with one version of the library is no error with another."""
    made, target = built(FORMS["plain"][0], X), GpuTarget(InterpretedDevice())
    made.compile(target)
    data, tensors = made.executable.sections()
    restored = [target.restore(data, tensors, True, lambda: made.graph, made._options)]
    monkeypatch.setattr(NumpyBlas, "version", 2)
    restored.append(target.restore(data, tensors, True, lambda: made.graph, made._options))
    assert [r is not None for r in restored] == [True, False]
    assert "compiled for cuBLASLt 1, here is 2; compiling it again" in caplog.text


def test_another_version_is_refused(asked: list[Gemm]) -> None:
    gemm = Gemm("half", (1, 8, 8, 8), (8, 1, 0), (1, 8, 0), (8, 0), version=2)
    with pytest.raises(RuntimeError, match="compiled for cuBLASLt 2, here is 1"):
        gemm.prepare(InterpretedDevice())

"""Complex numbers run in the engine as pairs of real ones."""

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

from tests.tiers import few_rows
from tests.tolerances import assert_close
from tests.torch_migraphx.one_model import one_model
from torch_migraphx.fx import lower_to_mgx

R = torch.view_as_real
X, Z = torch.randn(4, 6), torch.randn(4, 6, dtype=torch.complex64)
WINDOW = torch.hann_window(4)
TURNS = torch.polar(torch.ones(5, 4), torch.randn(5, 4))


def rotary(q: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotary embeddings as Llama has them, of {batch, length, heads, size}."""
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return R(pairs * turns[None, :, None]).flatten(3).type_as(q)


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5, 2, 3, dtype=torch.cfloat) * 0.1)
        self.beside = nn.Conv2d(3, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 5, 8, 5, dtype=torch.cfloat)
        out[:, :, :2, :3] = torch.einsum("bixy,ioxy->boxy", modes[:, :, :2, :3], self.weight)
        return F.gelu(torch.fft.irfft2(out, s=(8, 8)) + self.beside(x))


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, 4, 2, window=WINDOW, return_complex=True)


def eigenvectors(x: torch.Tensor) -> torch.Tensor:
    """What they are, whatever their phases: x v - v l, and their lengths."""
    values, vectors = torch.linalg.eig(x)
    left = R(x.to(vectors.dtype) @ vectors - vectors * values)
    return torch.cat([left.flatten() + 1, vectors.abs().square().sum(0)])


CASES: dict[str, tuple[Any, list[torch.Tensor]]] = {
    "fft": (lambda x: R(torch.fft.fft(x, 9)), [X]),
    "rfft": (lambda x: torch.fft.rfft(x, 5).abs(), [X]),
    "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * (1 + 2j), n=7), [X]),
    "ifft2": (lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real, [X]),
    "irfft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") ** 2, s=(4, 6), norm="ortho"), [X]),
    "fftn": (lambda x: torch.fft.fftshift(torch.fft.fftn(x, norm="forward")).imag, [X]),
    "hfft": (lambda x: torch.fft.hfft(torch.fft.ihfft(x)), [X]),
    "irfft of real numbers": (lambda x: torch.fft.irfft(x, n=7, norm="ortho"), [X]),
    "hfft2 of real numbers": (lambda x: torch.fft.hfft2(x), [X]),
    "stft as pairs": (lambda x: torch.stft(x, 4, window=WINDOW, return_complex=False), [torch.randn(16)]),
    "eigenvalues": (lambda x: R(torch.linalg.eigvals(x)), [X[:, :4]]),
    "eigenvectors": (eigenvectors, [X[:, 1:5]]),
    "stft": (lambda x: spectrum(x).angle(), [torch.randn(2, 16)]),
    "istft": (lambda x: torch.istft(spectrum(x) * 2, 4, 2, window=WINDOW, length=15), [torch.randn(2, 16)]),
    "rotary, constant": (lambda q: rotary(q, TURNS), [torch.randn(2, 5, 3, 8)]),
    "rotary, given": (rotary, [torch.randn(2, 5, 3, 8), TURNS]),
    "rotary, computed": (
        lambda q, a: rotary(q, torch.polar(torch.ones_like(a), a)), [torch.randn(2, 5, 3, 8), torch.randn(5, 4)]
    ),
    "Fourier neural operator": (Spectral().eval(), [torch.randn(2, 3, 8, 8)]),
    "in and out": (lambda z: (z * 2 + 1j, z.conj(), z.real + 1), [Z]),
    "functions": (
        lambda z: torch.cat([z.exp(), z.sqrt(), z.sgn(), z.log(), z.sin(), z.cos(), z.sinh(), z.cosh(), z.tanh()]), [Z]
    ),
    "arithmetic": (
        lambda z: torch.cat([z / z.conj(), 1 / z, z**3, z ** (0.5 + 1j), 2j - z, -z, z / (1 - 1j), z - X]), [Z]
    ),
    "reductions": (lambda z: z.mean(0) * z.sum(0) + torch.linalg.vector_norm(z), [Z]),
    "products": (lambda z, w: F.linear(z @ z.T.conj() @ z, w), [Z, torch.randn(3, 6, dtype=torch.complex64)]),
    "convolution": (lambda z, w: F.conv1d(z[None], w, padding=1), [Z, torch.randn(2, 4, 3, dtype=torch.complex64)]),
    "moved": (lambda z: torch.cat(torch.split(z.T.flip(0).roll(1, 0), 2)).reshape(3, 8)[1:, ::2], [Z]),
    "chosen": (lambda z: torch.where(z.real > 0, z, torch.zeros_like(z)).masked_fill(z.imag > 1, 2j), [Z]),
    "compared": (lambda z: (z == z.real) | torch.isnan(z), [torch.cat([Z, Z.real + 0j])]),
    "wide": (lambda z: torch.fft.fft(z.to(torch.complex128)).abs(), [Z]),
}  # fmt: skip


def check(fast: Any, function: Any, inputs: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for got, want in zip(tree_leaves(fast(*inputs)), tree_leaves(function(*inputs)), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            parts = [R(x.resolve_conj()) if x.is_complex() else x for x in (got, want)]
            assert_close(parts[0].numpy(), parts[1].numpy(), scale=32)


EXPORTED = ("Fourier neural operator", "istft")
"""By torch.export, to which the symbolic tracer leaves them."""
MODELS = {name: CASES[name] for name in EXPORTED}
MODELS["all others"] = one_model({name: case for name, case in CASES.items() if name not in EXPORTED})


@pytest.mark.parametrize(
    ("name", "target"),
    few_rows([("Fourier neural operator", "cpu"), ("istft", "ref"), ("all others", "ref")], ("istft", "ref")),
)
def test_lower(name: str, target: str, caplog: Any) -> None:
    function, inputs = MODELS[name]
    with caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(function, inputs, target=target, fallback="error")
    assert "in torch" not in caplog.text
    check(lowered, function, [torch.randn_like(x) for x in inputs])


@pytest.mark.parametrize(
    ("name", "backend"),
    few_rows(
        [
            ("stft", "migraphx"),
            ("rotary, given", "migraphx"),
            ("Fourier neural operator", "migraphx_aot"),
            ("in and out", "migraphx_aot"),
        ],
        at=[0, 1],
    ),
)
def test_compile(name: str, backend: str) -> None:
    function, inputs = CASES[name]
    torch._dynamo.reset()
    options: Any = {"target": "ref", "fallback": "error"}
    check(torch.compile(function, backend=backend, options=options), function, inputs)


def test_what_has_no_form_for_pairs_is_given_complex_numbers() -> None:
    def function(z: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(z @ z).sum() * 2

    z = torch.randn(3, 3, dtype=torch.complex64)
    lowered = lower_to_mgx(function, [z], target="ref", min_acc_module_size=1)
    assert [r.instruction.partition(",")[0] for r in lowered.refusals] == ["%linalg_eigvals = linalg.linalg_eigvals"]
    check(lowered, function, [z])


def test_a_transform_that_would_take_one_huge_matrix_stays_in_torch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()

    x = torch.randn(1, 2 * 4099)
    lowered = lower_to_mgx(function, [x], target="ref")
    assert [r.why for r in lowered.refusals] == ["a Fourier transform of 8198 points, which has 4099 in one step"]
    check(lowered, function, [x])

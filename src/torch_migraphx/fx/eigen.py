"""Eigenvalues of any square matrix as an operator of torch: on pairs of real numbers, so that graphs can hold it."""

from __future__ import annotations

import torch

from torch_migraphx.fx.fourier import LIBRARY

LIBRARY.define("eig(Tensor x) -> (Tensor, Tensor, Tensor, Tensor)")


@torch.library.impl(LIBRARY, "eig", "CompositeExplicitAutograd")
def eig(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The real and imaginary parts of the eigenvalues {..., n} and of the eigenvectors {..., n, n} of x {..., n, n}."""
    values, vectors = torch.linalg.eig(x)
    return (values.real.clone(), values.imag.clone(), vectors.real.clone(), vectors.imag.clone())


@torch.library.register_fake("migraphx::eig", lib=LIBRARY)
def _(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values = x.new_empty(x.shape[:-1])
    return values, torch.empty_like(values), x.new_empty(x.shape), x.new_empty(x.shape)


EIG: torch._ops.OpOverload = torch.ops.migraphx.eig.default

"""Functions of torch that look at data while they are traced, written so that they need not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

LSTSQ: Any = vars(torch.return_types)["linalg_lstsq"]


def one_hot(input: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """A one at each number's own place; there are as many classes as the largest number says, where none are given."""
    if num_classes != -1:
        return F.one_hot(input, num_classes)
    classes = torch.bincount(input.reshape(-1)).shape[0]
    return (input[..., None] == torch.arange(classes, device=input.device)).long()


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:  # noqa: N803
    """The shortest X that makes A X - B smallest, by the pseudo-inverse; whichever driver: it is the same.

    The residuals are those of matrices of full rank with more rows than columns; unchecked: torch has none of others.
    """
    driver = driver or "gelsy"
    rows, columns = A.shape[-2:]
    vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    none = A.new_empty(0)
    solution = torch.linalg.pinv(A, rtol=rcond) @ right
    residuals = (A @ solution - right).square().sum(-2) if rows > columns and driver != "gelsy" else none
    rank = torch.linalg.matrix_rank(A, rtol=rcond) if driver != "gels" else torch.empty(0, dtype=torch.int64)
    values = torch.linalg.svdvals(A) if driver in ("gelss", "gelsd") else none
    return LSTSQ((solution.squeeze(-1) if vector else solution, residuals, rank, values))


def quantile(
    input: torch.Tensor,
    q: torch.Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> torch.Tensor:
    """Quantiles along `dim`, or of all elements; a NaN among them is the answer. Torch 2.11 does not take it apart."""
    return _quantile(input, q, dim, keepdim, interpolation, without_nan=False)


def nanquantile(
    input: torch.Tensor,
    q: torch.Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> torch.Tensor:
    """The same of the elements that are no NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, without_nan=True)


def _quantile(
    input: torch.Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, without_nan: bool
) -> torch.Tensor:
    if not input.numel():
        raise NotImplementedError("quantiles of nothing")
    parts = torch.as_tensor(q, dtype=input.dtype, device=input.device)
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1) if input.dim() else input.reshape(1)
    ordered = x.sort(-1).values  # NaN behind all others
    last = x.shape[-1] - 1
    if without_nan:
        ranks = parts.reshape(-1) * ((~x.isnan()).sum(-1, keepdim=True) - 1).clamp(min=0)
    else:
        ranks = torch.where(ordered[..., -1:].isnan(), last, parts.reshape(-1) * last)
    whole = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}.get(interpolation, torch.floor)(ranks)
    made = ordered.gather(-1, whole.long())
    if interpolation in ("linear", "midpoint"):
        between = ranks - whole if interpolation == "linear" else torch.full_like(ranks, 0.5)
        made = torch.lerp(made, ordered.gather(-1, ranks.ceil().long()), between)
    made = made.movedim(-1, 0)
    if keepdim and dim is None:
        made = made.reshape(-1, *[1] * input.dim())
    elif keepdim and dim is not None and input.dim():
        made = made.unsqueeze(1 + dim % input.dim())
    return made if parts.dim() else made.squeeze(0)


def cov(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Covariances of the rows; unchecked: weights may be negative."""
    x = input.reshape(1, -1) if input.dim() < 2 else input
    x = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
    given = [w for w in (fweights, aweights) if w is not None]
    if not given:
        count: Any = x.shape[1]
        d = x - x.mean(1, keepdim=True)
        return (d @ d.conj().T / max(count - correction, 0)).squeeze()
    w = math.prod(given[1:], start=given[0])
    total = w.sum()
    d = x - (x * w).sum(1, keepdim=True) / total
    spent = correction if aweights is None else correction * (w * aweights).sum() / total
    return ((d * w) @ d.conj().T / (total - spent).clamp(min=0)).squeeze()


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    """Correlations of the rows, in [-1, 1]."""
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = c.diagonal().sqrt()
    return (c / deviation[:, None] / deviation).clamp(-1, 1)


def gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Half of log(var) + (input - target)^2 / var; unchecked: var may be negative."""
    var = var if isinstance(var, torch.Tensor) else var * torch.ones_like(input)
    var = var.unsqueeze(-1) if var.dim() == input.dim() - 1 and var.shape == input.shape[:-1] else var
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """All choices of `r` elements, in order, one a row."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = torch.tensor(list(choose(range(input.shape[0]), r)), dtype=torch.int64, device=input.device)
    return input[places.reshape(-1, r)] if r else input.new_empty(0)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    F.one_hot: one_hot,
    torch.linalg.lstsq: lstsq,
    torch.combinations: combinations,
    torch.cov: cov,
    torch.corrcoef: corrcoef,
    F.gaussian_nll_loss: gaussian_nll_loss,
}


class WithoutData(TorchFunctionMode):
    """In this mode the functions above stand for torch's own."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        chosen: Callable[..., Any] = FUNCTIONS.get(func) or func
        return chosen(*args, **(kwargs or {}))

"""The Fourier transform as an operator of torch: on pairs of real numbers, so that graphs can hold it."""

from __future__ import annotations

import torch

LIBRARY = torch.library.Library("migraphx", "FRAGMENT")
LIBRARY.define("dft(Tensor x, int axis, int? length, bool inverse, bool onesided) -> Tensor")


@torch.library.impl(LIBRARY, "dft", "CompositeExplicitAutograd")
def dft(x: torch.Tensor, axis: int, length: int | None, inverse: bool, onesided: bool) -> torch.Tensor:
    """The discrete Fourier transform of x {..., 1 or 2}, real or real and imaginary parts, along `axis`.

    Arguments and result are those of the engine's composite of the same name; an inverse is divided by the length.
    """
    z = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x[..., 0]
    if inverse and onesided:
        return torch.fft.irfft(z, length, axis)[..., None]
    transform = torch.fft.ifft if inverse else torch.fft.rfft if onesided else torch.fft.fft
    return torch.view_as_real(transform(z, length, axis).resolve_conj())


@torch.library.register_fake("migraphx::dft", lib=LIBRARY)
def _(x: torch.Tensor, axis: int, length: int | None, inverse: bool, onesided: bool) -> torch.Tensor:
    sizes = list(x.shape)
    size = length or (2 * (sizes[axis] - 1) if inverse and onesided else sizes[axis])
    sizes[axis] = size // 2 + 1 if onesided and not inverse else size
    sizes[-1] = 1 if inverse and onesided else 2
    return x.new_empty(sizes)


DFT: torch._ops.OpOverload = torch.ops.migraphx.dft.default

"""The discrete Fourier transform, as products with constant matrices."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction

Value = Instruction


@composite
def dft(
    b: Builder, x: Value, *, axis: int, length: int | None = None, inverse: bool = False, onesided: bool = False
) -> Value:
    """The discrete Fourier transform of x {..., 1 or 2} along `axis` (ONNX DFT).

    The last dimension holds real and imaginary parts. `length` cuts x or pads it with zeros. `onesided` gives the
    first length // 2 + 1 of the results, of which the rest are the conjugates; with `inverse` it takes them, and
    gives {..., 1}.
    """
    parts, n = x.shape.lens[-1], x.shape.lens[axis]
    if parts not in (1, 2) or axis >= x.shape.ndim - 1:
        raise ValueError(f"dft: axis {axis} of {x.shape}, whose last dimension must be 1 or 2")
    back = inverse and onesided
    size = length or (2 * (n - 1) if back else n)
    taken = min(n, size // 2 + 1 if back else size)
    x = b.slice(x, axes=(axis,), starts=(0,), ends=(taken,)) if taken < n else x
    matrix = b.literal(dft_matrix(taken, parts, size, inverse, onesided), x.shape.type)
    rest = [d for d in range(x.shape.ndim - 1) if d != axis]
    rows = b.transpose(x, permutation=(*rest, axis, x.shape.ndim - 1))
    lens = rows.shape.lens[:-2]
    y = b.dot(b.reshape(rows, dims=(-1, taken * parts)), matrix)
    columns = 1 if back else 2
    y = b.reshape(y, dims=(*lens, matrix.shape.lens[1] // columns, columns))
    order = [*range(axis), len(rest), *range(axis, len(rest)), len(rest) + 1]
    return b.transpose(y, permutation=tuple(order))


def dft_matrix(n: int, parts: int, size: int, inverse: bool, onesided: bool) -> np.ndarray:
    """{n * parts, results * parts of each}: the transforms of 1 and i at each of n samples."""
    unit = np.kron(np.eye(n), np.array([[1], [1j]])[:parts])
    if inverse and onesided:
        return np.fft.irfft(unit, size)
    made = np.fft.ifft(unit, size) if inverse else np.fft.fft(unit, size)
    made = made[:, : size // 2 + 1] if onesided else made
    return np.stack([made.real, made.imag], -1).reshape(n * parts, -1)

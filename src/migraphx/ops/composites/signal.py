"""The discrete Fourier transform, as products with constant matrices; of many points, in two steps or more."""

from __future__ import annotations

import math

import numpy as np

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction

Value = Instruction
MOST_AT_ONCE = 1024  # points whose transform is one product


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
    if size > MOST_AT_ONCE and divisor(size) > 1:
        return _in_steps(b, x, axis, size, inverse, onesided)
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


def divisor(n: int) -> int:
    """The largest divisor of n that is not above its root."""
    return next(k for k in range(math.isqrt(n), 0, -1) if n % k == 0)


def _in_steps(b: Builder, x: Value, axis: int, size: int, inverse: bool, onesided: bool) -> Value:
    """The transform of p q points by transforms of p and of q points (Cooley and Tukey, 1965).

    Point j1 q + j2 goes to k1 + k2 p: a transform over j1, a turn of each by j2 k1 of the circle's p q parts, and one
    over j2.
    """
    back, last = inverse and onesided, x.shape.ndim - 1
    if back:
        x = _both_sides(b, x, axis, size)
    rest = [d for d in range(last) if d != axis]
    rows = b.transpose(x, permutation=(*rest, axis, last))
    outer = rows.shape.lens[:-2]
    missing = size - rows.shape.lens[-2]
    if missing:
        rows = b.pad(rows, pads=(*[0] * (2 * rows.shape.ndim - 2), missing, 0))
    p = divisor(size)
    q = size // p
    y = dft(b, b.reshape(rows, dims=(math.prod(outer), p, q, rows.shape.lens[-1])), axis=1, inverse=inverse)
    angles = (2 if inverse else -2) * np.pi * np.outer(np.arange(p), np.arange(q)) / size
    y = dft(b, _rotated(b, y, angles), axis=2, inverse=inverse)
    y = b.reshape(b.transpose(y, permutation=(0, 2, 1, 3)), dims=(*outer, size, 2))
    if back:
        y = b.slice(y, axes=(last,), starts=(0,), ends=(1,))
    elif onesided:
        y = b.slice(y, axes=(last - 1,), starts=(0,), ends=(size // 2 + 1,))
    order = [*range(axis), len(rest), *range(axis, len(rest)), len(rest) + 1]
    return b.transpose(y, permutation=tuple(order))


def _rotated(b: Builder, x: Value, angles: np.ndarray) -> Value:
    """The complex numbers x {..., p, q, 2}, rotated by angles {p, q} in radians."""
    lens = (*x.shape.lens[:-1], 1)
    last = len(lens) - 1
    re, im = (b.slice(x, axes=(last,), starts=(k,), ends=(k + 1,)) for k in (0, 1))
    cos, sin = (b.broadcast_to(b.literal(of(angles)[..., None], x.shape.type), lens) for of in (np.cos, np.sin))
    return b.concat(b.sub(b.mul(re, cos), b.mul(im, sin)), b.add(b.mul(re, sin), b.mul(im, cos)), axis=last)


def _both_sides(b: Builder, x: Value, axis: int, size: int) -> Value:
    """All `size` results of which x has those from 0 to the middle: the others are their conjugates, backwards."""
    half = size // 2 + 1
    missing = half - x.shape.lens[axis]
    if missing:
        pads = [0] * (2 * x.shape.ndim)
        pads[x.shape.ndim + axis] = missing
        x = b.pad(x, pads=tuple(pads))
    middle = b.slice(x, axes=(axis,), starts=(1,), ends=(size - half + 1,))
    turned = b.reverse(middle, axes=(axis,))
    signs = b.broadcast_to(b.literal(np.array([1.0, -1.0]), x.shape.type), turned.shape.lens)
    return b.concat(x, b.mul(turned, signs), axis=axis)

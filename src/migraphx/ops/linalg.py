"""Linear algebra on the last two dimensions, each matrix of a batch on its own.

But for `det` NumPy computes it, by LAPACK, between the parts of a program that a target compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation, Value
from migraphx.ir.shape import Shape

PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""Higham's approximant of exp of degree 13 (SIAM J. Matrix Anal. Appl. 26, 2005), good to double for norms to 5.37."""
PADE_NORM = 5.371920351148152


class Det(Operation, name="det"):
    """The determinant of each matrix of {..., n, n} (ONNX Det, aten::linalg_det)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.ndim >= 2 and x.lens[-1] == x.lens[-2], inputs, "takes square matrices")
        self.require(x.type in dtypes.FLOATS, inputs, "takes floats")
        return Shape(x.type, x.lens[:-2])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)


class OfMatrices(Operation):
    """What NumPy computes of matrices of float or double."""

    on_host: ClassVar[bool] = True

    def check_matrices(self, inputs: Sequence[Shape], square: bool = False) -> None:
        x = inputs[0]
        right = x.ndim >= 2 and (not square or x.lens[-1] == x.lens[-2])
        self.require(right, inputs, "takes square matrices" if square else "takes matrices")
        self.require(x.type in ("float", "double"), inputs, "takes float or double")

    def check_rest(self, inputs: Sequence[Shape], *rest: Shape) -> None:
        """ShapeError unless these have the first input's type and batch, and are matrices."""
        x = inputs[0]
        for s in rest:
            same = s.type == x.type and s.ndim >= 2 and s.lens[:-2] == x.lens[:-2]
            self.require(same, inputs, "inputs differ in type or batch")


class Informed(OfMatrices):
    """What has no answer for some matrices: `info`, of int32, is 0 where there is one; `linalg_check` reads it."""

    def each(self, function: Callable[..., np.ndarray], args: Sequence[np.ndarray], like: np.ndarray) -> np.ndarray:
        """`function` of each matrix of a batch on its own, NaN where it raises LinAlgError."""
        made = np.full_like(like, np.nan)
        for place in np.ndindex(args[0].shape[:-2]):
            try:
                made[place] = function(*(a[place] for a in args))
            except np.linalg.LinAlgError:
                continue
        return made


FAILURES = {
    "inv": "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is "
    "singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading "
    "minor of order {0} is not positive-definite).",
    "lu_factor": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}
"""What an `info` above 0 means, by the function that gave it."""


class LinalgCheck(Operation, name="linalg_check"):
    """LinAlgError where an `info` is not 0: names the function `api`, the matrix of the batch and what is wrong."""

    on_host: ClassVar[bool] = True
    arity = 1
    pure = False
    can_fail = True
    api: str

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].type == "int32", inputs, "takes int32")
        return inputs[0].as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (info,) = args
        bad = np.flatnonzero(info)
        if bad.size:
            which = f"(Batch element {bad[0]}): " if info.ndim else ""
            why = next((w for name, w in FAILURES.items() if name in self.api), "it failed with the code {0}")
            raise np.linalg.LinAlgError(f"{self.api}: {which}{why.format(info.reshape(-1)[bad[0]])}")
        return info


def _info(shape: Shape) -> Shape:
    return Shape("int32", shape.lens[:-2])


def _first_zero(lu: np.ndarray) -> np.ndarray:
    """The first diagonal element that is 0, from 1; 0 where none is."""
    zero: np.ndarray = np.diagonal(lu, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return np.zeros(zero.shape[:-1], np.int32)
    first = np.argmax(zero, -1) + 1
    return np.where(np.any(zero, -1), first, 0).astype(np.int32)


def lu_factors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and U in one, and which row each one was exchanged with, from 1 (LAPACK getrf)."""
    lu = x.copy()
    rows, columns = x.shape[-2:]
    flat = lu.reshape(math.prod(x.shape[:-2]), rows, columns)
    pivots = np.empty((len(flat), min(rows, columns)), np.int32)
    every = np.arange(len(flat))
    with np.errstate(all="ignore"):
        for k in range(pivots.shape[1]):
            at = k + np.argmax(np.abs(flat[:, k:, k]), axis=1)
            pivots[:, k] = at + 1
            flat[every, at], flat[:, k] = flat[:, k].copy(), flat[every, at]
            pivot = flat[:, k, k, None]
            below = flat[:, k + 1 :, k]
            below /= np.where(pivot == 0, 1, pivot)
            flat[:, k + 1 :, k + 1 :] -= below[:, :, None] * flat[:, k, None, k + 1 :]
    return lu, pivots.reshape(*x.shape[:-2], min(rows, columns))


def permutation_of(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The row of the matrix that each row of L U is."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(rows), (len(flat), 1))
    every = np.arange(len(flat))
    for k in range(flat.shape[1]):
        at = flat[:, k] - 1
        order[every, at], order[:, k] = order[:, k].copy(), order[every, at]
    return order.reshape(*pivots.shape[:-1], rows)


def solved_triangle(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """x with a x = b, of a's triangle alone, row after row."""
    n = a.shape[-1]
    x = np.array(np.broadcast_to(b, (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])))
    with np.errstate(all="ignore"):
        for k in range(n - 1, -1, -1) if upper else range(n):
            own = slice(k + 1, n) if upper else slice(0, k)
            x[..., k, :] -= (a[..., k, None, own] @ x[..., own, :])[..., 0, :]
            if not unit:
                x[..., k, :] /= a[..., k, k, None]
    return x


class Inv(Informed, name="inv"):
    """(The inverse of each matrix, info) (aten::linalg_inv_ex, Inverse of ONNX Runtime)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        self.check_matrices(inputs, square=True)
        return Shape.tuple_of([inputs[0].as_standard(), _info(inputs[0])])

    def compute(self, *args: np.ndarray) -> Value:
        (x,) = args
        info = np.zeros(x.shape[:-2], np.int32)
        try:
            return np.linalg.inv(x), info
        except np.linalg.LinAlgError:
            info = _first_zero(lu_factors(x)[0])
            return self.each(np.linalg.inv, args, x), info


class Solve(Informed, name="solve"):
    """(x with A x = B of each matrix A {..., n, n} and B {..., n, k}, info) (aten::linalg_solve_ex)."""

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        a, b = inputs
        self.check_matrices(inputs, square=True)
        self.check_rest(inputs, b)
        self.require(b.lens[-2] == a.lens[-1], inputs, "the right side has another number of rows")
        return Shape.tuple_of([b.as_standard(), _info(a)])

    def compute(self, *args: np.ndarray) -> Value:
        a, b = args
        info = np.zeros(a.shape[:-2], np.int32)
        try:
            return np.linalg.solve(a, b), info
        except np.linalg.LinAlgError:
            info = _first_zero(lu_factors(a)[0])
            return self.each(np.linalg.solve, args, b), info


class Cholesky(Informed, name="cholesky"):
    """(L with L L^T the matrix, or L^T, info) (aten::linalg_cholesky_ex). Reads the triangle that it gives."""

    arity = 1
    upper: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        self.check_matrices(inputs, square=True)
        return Shape.tuple_of([inputs[0].as_standard(), _info(inputs[0])])

    def compute(self, *args: np.ndarray) -> Value:
        (x,) = args
        info = np.zeros(x.shape[:-2], np.int32)
        try:
            made = np.linalg.cholesky(x, upper=self.upper)
        except np.linalg.LinAlgError:
            made = self.each(partial(np.linalg.cholesky, upper=self.upper), args, x)
        if np.isnan(made).any():  # of NaN, too
            low = x.swapaxes(-1, -2) if self.upper else x
            for place in np.ndindex(info.shape):
                info[place] = _minor(low[place])
        return made, info


def _minor(x: np.ndarray) -> int:
    """The order of the first leading minor of a symmetric matrix that is not positive; 0 where all are."""
    low, size = np.tril(x), x.shape[-1]
    for k in range(size):
        left = low[k:, :k] @ low[k, :k]
        column = low[k:, k] - left
        if not column[0] > 0:
            return k + 1
        low[k:, k] = column / np.sqrt(column[0])
    return 0


class LuFactor(Informed, name="lu_factor"):
    """(L and U in one matrix {..., m, n}, the exchanges of rows as int32 from 1, info) (aten::linalg_lu_factor_ex)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs)
        pivots = Shape("int32", (*x.lens[:-2], min(x.lens[-2:])))
        return Shape.tuple_of([x.as_standard(), pivots, _info(x)])

    def compute(self, *args: np.ndarray) -> Value:
        lu, pivots = lu_factors(args[0])
        return lu, pivots, _first_zero(lu)


class LuPermutation(OfMatrices, name="lu_permutation"):
    """Which of `rows` rows each row of L U is, as int64, of the exchanges of rows (aten::lu_unpack)."""

    arity = 1
    rows: int

    def infer(self, *inputs: Shape) -> Shape:
        (pivots,) = inputs
        right = pivots.type == "int32" and pivots.ndim >= 1 and pivots.lens[-1] <= self.rows
        self.require(right, inputs, "takes at most so many exchanges, as int32")
        return Shape("int64", (*pivots.lens[:-1], self.rows))

    can_fail = True

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (pivots,) = args
        if pivots.size and not (pivots.min() >= 1 and pivots.max() <= self.rows):
            raise IndexError(f"lu_permutation: exchanges of rows must be from 1 to {self.rows}")
        return permutation_of(pivots, self.rows).astype(np.int64)


class SolveTriangular(OfMatrices, name="solve_triangular"):
    """x with A x = B, of one triangle of A alone (aten::linalg_solve_triangular); with `unit` its diagonal is ones."""

    arity = 2
    upper: bool = False
    unit: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        a, b = inputs
        self.check_matrices(inputs, square=True)
        self.check_rest(inputs, b)
        self.require(b.lens[-2] == a.lens[-1], inputs, "the right side has another number of rows")
        return b.as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return solved_triangle(*args, upper=self.upper, unit=self.unit)


class Qr(OfMatrices, name="qr"):
    """(Q, R) of {..., m, n}, of min(m, n) columns and rows, or with `complete` of m (aten::linalg_qr)."""

    arity = 1
    complete: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs)
        *batch, m, n = x.lens
        k = m if self.complete else min(m, n)
        return Shape.tuple_of([Shape(x.type, (*batch, m, k)), Shape(x.type, (*batch, k, n))])

    def compute(self, *args: np.ndarray) -> Value:
        return tuple(np.linalg.qr(args[0], "complete" if self.complete else "reduced"))


class HouseholderProduct(OfMatrices, name="householder_product"):
    """The first columns of a product of reflections {..., m, n} with factors {..., k} (aten::orgqr).

    Column i below the diagonal is the i-th reflection's vector, whose element i is 1.
    """

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        x, factors = inputs
        self.check_matrices(inputs)
        right = factors.type == x.type and factors.lens[:-1] == x.lens[:-2] and factors.lens[-1:] <= x.lens[-1:]
        self.require(
            right and x.lens[-1] <= x.lens[-2], inputs, "takes {.., m, n}, m >= n, and factors {.., k}, k <= n"
        )
        return x.as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, factors = args
        rows, columns = x.shape[-2:]
        made = np.broadcast_to(np.eye(rows, columns, dtype=x.dtype), x.shape).copy()
        for k in range(factors.shape[-1] - 1, -1, -1):
            v = x[..., k:, k, None].copy()
            v[..., 0, 0] = 1
            made[..., k:, :] -= factors[..., k, None, None] * (v @ (v.swapaxes(-1, -2) @ made[..., k:, :]))
        return made


class MayNotConverge(OfMatrices):
    """LinAlgError where LAPACK's iteration does not end."""

    can_fail = True

    def failed(self, error: Exception) -> NoReturn:
        raise np.linalg.LinAlgError(
            f"linalg.{self.name}: The algorithm failed to converge because the input matrix is ill-conditioned or has "
            "too many repeated singular values or eigenvalues."
        ) from error


class Svd(MayNotConverge, name="svd"):
    """(U, the singular values, V^T) of {..., m, n} (aten::linalg_svd); with `full_matrices` U and V are square."""

    arity = 1
    full_matrices: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs)
        *batch, m, n = x.lens
        k = min(m, n)
        left, right = (m, n) if self.full_matrices else (k, k)
        lens = ((*batch, m, left), (*batch, k), (*batch, right, n))
        return Shape.tuple_of([Shape(x.type, own) for own in lens])

    def compute(self, *args: np.ndarray) -> Value:
        try:
            return tuple(np.linalg.svd(args[0], full_matrices=self.full_matrices))
        except np.linalg.LinAlgError as error:
            self.failed(error)


class Eigh(MayNotConverge, name="eigh"):
    """(Eigenvalues, ascending, eigenvectors as columns) of symmetric matrices, of one triangle (aten::linalg_eigh)."""

    arity = 1
    upper: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs, square=True)
        return Shape.tuple_of([Shape(x.type, x.lens[:-1]), x.as_standard()])

    def compute(self, *args: np.ndarray) -> Value:
        try:
            return tuple(np.linalg.eigh(args[0], "U" if self.upper else "L"))
        except np.linalg.LinAlgError as error:
            self.failed(error)


class Eig(MayNotConverge, name="eig"):
    """(Real, imaginary parts of the eigenvalues {..., n}, and of the eigenvectors, columns) (aten::linalg_eig)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs, square=True)
        values = Shape(x.type, x.lens[:-1])
        return Shape.tuple_of([values, values, x.as_standard(), x.as_standard()])

    def compute(self, *args: np.ndarray) -> Value:
        try:
            found: Sequence[Any] = np.linalg.eig(args[0])
        except np.linalg.LinAlgError as error:
            self.failed(error)
        parts = [part(z) for z in found for part in (np.real, np.imag)]
        return tuple(np.ascontiguousarray(p, args[0].dtype) for p in parts)


class Slogdet(OfMatrices, name="slogdet"):
    """(The sign of the determinant, the logarithm of its magnitude); 0 and -inf of a singular one (aten::slogdet)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.check_matrices(inputs, square=True)
        own = Shape(x.type, x.lens[:-2])
        return Shape.tuple_of([own, own])

    def compute(self, *args: np.ndarray) -> Value:
        with np.errstate(all="ignore"):
            return tuple(np.asarray(a, args[0].dtype) for a in np.linalg.slogdet(args[0]))


class MatrixExp(OfMatrices, name="matrix_exp"):
    """The exponential of each matrix (aten::linalg_matrix_exp): scaled, approximated in double, squared."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        self.check_matrices(inputs, square=True)
        return inputs[0].as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (given,) = args
        x = given.astype(np.float64)
        if not x.size:
            return given.copy()
        with np.errstate(all="ignore"):
            norm = np.abs(x).sum(-2).max(-1)
            known = np.isfinite(norm) & (norm > PADE_NORM)
            halvings = np.where(known, np.ceil(np.log2(np.where(known, norm, 1) / PADE_NORM)), 0).astype(int)
            x = x / np.exp2(halvings)[..., None, None]
            broken = ~np.isfinite(norm)[..., None, None]
            made = np.where(broken, math.nan, _approximated(np.where(broken, 0, x)))
            for k in range(int(halvings.max(initial=0))):
                made = np.where((k < halvings)[..., None, None], made @ made, made)
            return made.astype(given.dtype)


def _approximated(x: np.ndarray) -> np.ndarray:
    square, one = x @ x, np.eye(x.shape[-1])
    powers = [one, square, square @ square]
    powers.append(powers[2] @ square)

    def summed(factors: Sequence[float]) -> np.ndarray:
        low = sum((c * p for c, p in zip(factors[:4], powers, strict=True)), np.zeros_like(x))
        return low + powers[3] @ sum((c * p for c, p in zip(factors[4:], powers[1:], strict=True)), np.zeros_like(x))

    odd, even = x @ summed(PADE[1::2]), summed(PADE[0::2])
    return np.linalg.solve(even - odd, even + odd)

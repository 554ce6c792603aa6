"""Linear algebra: what the engine leaves to LAPACK, and what is written with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.fx.node import has_side_effect

from torch_migraphx.fx.builder import Builder, Value, broadcast_sizes, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, existing, named
from torch_migraphx.fx.eigen import EIG
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graph_info import value_of

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float64)


def _matrices(*given: Value) -> None:
    if any(dtype_of(x) not in FLOATS for x in given):
        raise UnsupportedError("linear algebra of float32 and float64 only")


def _t(b: Builder, x: Value) -> Value:
    n = rank(x)
    return b.permute(x, [*range(n - 2), n - 1, n - 2])


def _same_batch(b: Builder, *given: Value) -> list[Value]:
    batch = broadcast_sizes(*(lens(x)[:-2] for x in given))
    return [b.expand(x, [*batch, *lens(x)[-2:]]) for x in given]


def _parts(b: Builder, x: Value, count: int) -> list[Value]:
    return [b.get_tuple_elem(x, index=k) for k in range(count)]


def _triangle(b: Builder, x: Value, upper: bool, unit: bool = False) -> Value:
    rows, columns = lens(x)[-2:]
    own = torch.ones(rows, columns, dtype=torch.bool)
    own = own.triu() if upper else own.tril(-1 if unit else 0)
    made = b.where(b.expand(b.literal(own), lens(x)), x, b.full(0, dtype_of(x), lens(x)))
    one = b.expand(b.literal(torch.eye(rows, columns, dtype=dtype_of(x))), lens(x))
    return b.add(made, one) if unit else made


has_side_effect(aten._linalg_check_errors.default)  # torch 2.11 takes it for dead code: it gives nothing


@converter(aten._linalg_check_errors.default)
def check_errors(b: Builder, info: Value, api_name: str, is_matrix: bool) -> None:
    b.linalg_check(info, api=api_name)


def _checked(b: Builder, info: Value, api: str, check: bool) -> None:
    if check:
        b.linalg_check(info, api=api)


@converter(named(aten.linalg_inv_ex.default, A="input"))
def inv_ex(b: Builder, input: Value, check_errors: bool = False) -> tuple[Value, Value]:
    _matrices(input)
    inverse, info = _parts(b, b.inv(input), 2)
    _checked(b, info, "linalg.inv_ex", check_errors)
    return inverse, info


def _is_vector(a: Value, other: Value) -> bool:
    """Whether the right side of a system is one column, as torch decides it."""
    return rank(other) == 1 or (rank(a) - 1 == rank(other) and lens(other) == lens(a)[:-1])


def _system(b: Builder, a: Value, other: Value, left: bool, solve: Callable[[Value, Value], Value]) -> Value:
    """What `solve` gives for a system of either side, its right side in columns."""
    a, other = _same_batch(b, a, other)
    return solve(a, other) if left else _t(b, solve(_t(b, a), _t(b, other)))


@converter(named(aten._linalg_solve_ex.default, A="input", B="other"))
def solve_ex(
    b: Builder, input: Value, other: Value, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    _matrices(input, other)
    lu, pivots, info = _parts(b, b.lu_factor(input), 3)  # nothing is computed of it that nothing reads
    _checked(b, info, "torch.linalg.solve_ex", check_errors)
    vector = _is_vector(input, other)
    if vector:
        other = b.unsqueeze(other, axes=[rank(other)])
    made = _system(b, input, other, left or vector, lambda a, x: b.get_tuple_elem(b.solve(a, x), index=0))
    return (b.squeeze(made, axes=[rank(made) - 1]) if vector else made), lu, pivots, info


@converter(named(aten.linalg_cholesky_ex.default, self="input"))
def cholesky_ex(b: Builder, input: Value, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    _matrices(input)
    made, info = _parts(b, b.cholesky(input, upper=upper), 2)
    _checked(b, info, "linalg.cholesky_ex", check_errors)
    return made, info


@converter(*existing("aten.cholesky.default"))
def cholesky(b: Builder, input: Value, upper: bool = False) -> Value:
    made, info = cholesky_ex(b, input, upper)
    b.linalg_check(info, api="cholesky")
    return made


@converter(aten.cholesky_solve.default)
def cholesky_solve(b: Builder, input: Value, input2: Value, upper: bool = False) -> Value:
    _matrices(input, input2)
    other, factor = _same_batch(b, input, input2)
    first, second = (_t(b, factor), factor) if upper else (factor, _t(b, factor))
    return b.solve_triangular(second, b.solve_triangular(first, other), upper=True)


@converter(aten.cholesky_inverse.default)
def cholesky_inverse(b: Builder, input: Value, upper: bool = False) -> Value:
    n = lens(input)[-1]
    return cholesky_solve(b, b.expand(b.literal(torch.eye(n, dtype=dtype_of(input))), lens(input)), input, upper)


@converter(named(aten.linalg_lu_factor_ex.default, A="input"))
def lu_factor_ex(
    b: Builder, input: Value, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value]:
    _matrices(input)
    if not pivot:
        raise UnsupportedError("LU without pivoting")
    lu, pivots, info = _parts(b, b.lu_factor(input), 3)
    _checked(b, info, "torch.linalg.lu_factor_ex", check_errors)
    return lu, pivots, info


@converter(named(aten.linalg_lu.default, A="input"))
def lu(b: Builder, input: Value, pivot: bool = True) -> tuple[Value, Value, Value]:
    factors, pivots, _ = lu_factor_ex(b, input, pivot)
    return lu_unpack(b, factors, pivots)


@converter(aten.lu_unpack.default)
def lu_unpack(
    b: Builder, LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value, Value, Value]:
    rows, columns = lens(LU_data)[-2:]
    k, last, dtype = min(rows, columns), rank(LU_data) - 1, dtype_of(LU_data)
    nothing = b.full(0, dtype, [0])
    low = high = place = nothing
    if unpack_data:
        low = _triangle(b, b.cut(LU_data, last, 0, k), upper=False, unit=True)
        high = _triangle(b, b.cut(LU_data, last - 1, 0, k), upper=True)
    if unpack_pivots:
        order = b.unsqueeze(b.lu_permutation(LU_pivots, rows=rows), axes=[last - 1])
        sizes = [*lens(LU_data)[:-2], rows, rows]
        own = b.unsqueeze(b.counted(rows), axes=[1])
        place = b.cast(b.equal(b.expand(order, sizes), b.expand(own, sizes)), dtype)
    return place, low, high


@converter(named(aten.linalg_lu_solve.default, LU="input", B="other"))
def lu_solve(b: Builder, input: Value, pivots: Value, other: Value, left: bool = True, adjoint: bool = False) -> Value:
    """A x = B with A = P L U, or with `adjoint` A^T x = B; from the right, the transpose of it."""
    _matrices(input, other)
    if not left:
        return _t(b, lu_solve(b, input, pivots, _t(b, other), True, not adjoint))
    place = lu_unpack(b, input, pivots, unpack_data=False)[0]
    place, factors, other = _same_batch(b, place, input, other)
    if adjoint:
        turned = _t(b, factors)
        made = b.solve_triangular(turned, other)
        return b.dot(place, b.solve_triangular(turned, made, upper=True, unit=True))
    made = b.solve_triangular(factors, b.dot(_t(b, place), other), unit=True)
    return b.solve_triangular(factors, made, upper=True)


@converter(named(aten.linalg_solve_triangular.default, self="input", B="other"))
def solve_triangular(
    b: Builder, input: Value, other: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    _matrices(input, other)
    down = upper == left
    return _system(b, input, other, left, lambda a, x: b.solve_triangular(a, x, upper=down, unit=unitriangular))


@converter(named(aten.triangular_solve.default, A="matrix"))
def triangular_solve(
    b: Builder, input: Value, matrix: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    _matrices(input, matrix)
    matrix, other = _same_batch(b, matrix, input)
    own, down = (_t(b, matrix), not upper) if transpose else (matrix, upper)
    return b.solve_triangular(own, other, upper=down, unit=unitriangular), b.contiguous(matrix)


@converter(named(aten.linalg_qr.default, A="input"))
def qr(b: Builder, input: Value, mode: str = "reduced") -> tuple[Value, Value]:
    _matrices(input)
    q, r = _parts(b, b.qr(input, complete=mode == "complete"), 2)
    return (b.full(0, dtype_of(input), [0]) if mode == "r" else q), r


@converter(named(aten._linalg_svd.default, A="input"))
def svd(
    b: Builder, input: Value, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> tuple[Value, Value, Value]:
    _matrices(input)
    u, s, v = _parts(b, b.svd(input, full_matrices=full_matrices), 3)
    nothing = b.full(0, dtype_of(input), [0])
    return (u, s, v) if compute_uv else (nothing, s, nothing)


@converter(named(aten._linalg_eigh.default, A="input"))
def eigh(b: Builder, input: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    _matrices(input)
    values, vectors = _parts(b, b.eigh(input, upper=UPLO.upper() == "U"), 2)
    return values, (vectors if compute_v else b.full(0, dtype_of(input), [0]))


@converter(named(EIG, x="input"))
def eig(b: Builder, input: Value) -> tuple[Value, ...]:
    _matrices(input)
    return tuple(_parts(b, b.eig(input), 4))


@converter(named(aten.linalg_pinv.atol_rtol_tensor, self="input"))
def pinv(
    b: Builder, input: Value, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """V / S U^T; singular values up to the larger of `atol` and `rtol` times the largest count as 0."""
    _matrices(input)
    dtype = dtype_of(input)
    if not min(lens(input)[-2:]):
        return b.full(0, dtype, [*lens(input)[:-2], lens(input)[-1], lens(input)[-2]])
    if hermitian:
        values, left = eigh(b, input)
        sizes, right = b.abs(values), left
    else:
        left, values, turned = svd(b, input)
        sizes, right = values, _t(b, turned)
    batch, last = lens(sizes)[:-1], rank(sizes) - 1
    most = b.reduce_max(sizes, axes=[last])
    default = 0.0 if atol is not None else torch.finfo(dtype).eps * max(lens(input)[-2:])
    relative = b.full(default, dtype, batch) if rtol is None else b.expand(b.cast(rtol, dtype), batch)
    if rtol is None and atol is not None:  # torch has its own default where atol is 0
        own = b.full(torch.finfo(dtype).eps * max(lens(input)[-2:]), dtype, batch)
        absolute = b.expand(b.cast(atol, dtype), batch)
        relative = b.where(b.pointwise("greater", absolute, 0.0), relative, own)
    limit = b.mul(b.unsqueeze(relative, axes=[last]), most)
    if atol is not None:
        limit = b.max(limit, b.unsqueeze(b.expand(b.cast(atol, dtype), batch), axes=[last]))
    large = b.pointwise("greater", sizes, b.expand(limit, lens(sizes)))
    inverse = b.where(large, b.pointwise("div", 1.0, values), b.full(0, dtype, lens(sizes)))
    scaled = b.mul(right, b.expand(b.unsqueeze(inverse, axes=[last]), lens(right)))
    return b.dot(scaled, _t(b, left))


def _factors(b: Builder, x: Value) -> list[Value]:
    """The factors that a determinant's gradient reads: of a row-major matrix those of its transpose."""
    given = value_of(b.node.all_input_nodes[0]) if b.node is not None and b.node.all_input_nodes else None
    turned = given is None or given.is_contiguous()
    return _parts(b, b.lu_factor(_t(b, x) if turned else x), 2)


@converter(named(aten._linalg_det.default, A="input"))
def det_whole(b: Builder, input: Value) -> tuple[Value, Value, Value]:
    _matrices(input)
    lu, pivots = _factors(b, input)
    return b.det(input), lu, pivots


@converter(named(aten._linalg_slogdet.default, A="input"))
def slogdet_whole(b: Builder, input: Value) -> tuple[Value, Value, Value, Value]:
    _matrices(input)
    lu, pivots = _factors(b, input)
    sign, logarithm = _parts(b, b.slogdet(input), 2)
    return sign, logarithm, lu, pivots


@converter(named(aten.linalg_householder_product.default, tau="factors"))
def householder_product(b: Builder, input: Value, factors: Value) -> Value:
    _matrices(input, factors)
    return b.householder_product(input, factors)


@converter(named(aten.ormqr.default, input2="factors", input3="other"))
def ormqr(b: Builder, input: Value, factors: Value, other: Value, left: bool = True, transpose: bool = False) -> Value:
    """Q times a matrix, or that times Q, of all columns of Q."""
    _matrices(input, factors, other)
    rows, columns = lens(input)[-2:]
    wide: Sequence[int] = [*lens(input)[:-1], rows - columns]
    whole = b.concat(input, b.full(0, dtype_of(input), wide), axis=rank(input) - 1) if rows > columns else input
    q = b.householder_product(b.cut(whole, rank(whole) - 1, 0, rows), factors)
    q = _t(b, q) if transpose else q
    return b.dot(q, other) if left else b.dot(other, q)


@converter(aten.linalg_matrix_exp.default)
def matrix_exp(b: Builder, input: Value) -> Value:
    _matrices(input)
    return b.matrix_exp(input)

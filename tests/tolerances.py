"""How exact an answer must be: one table by element type, used by every test and by the benchmarks.

An element passes when |got - want| <= rtol * |want| + atol * max|want|. NaN must meet NaN and an infinity
its equal; integers and bool must be equal.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """`rtol` relative to the element, `atol` relative to the largest finite element of the answer."""

    rtol: float
    atol: float


TOLERANCES: dict[np.dtype, Tolerance] = {
    np.dtype(np.float64): Tolerance(1e-11, 1e-12),
    np.dtype(np.float32): Tolerance(2e-5, 2e-6),
    np.dtype(np.float16): Tolerance(4e-3, 2e-3),
    np.dtype(ml_dtypes.bfloat16): Tolerance(3e-2, 1.6e-2),
    np.dtype(ml_dtypes.float8_e4m3fn): Tolerance(0.13, 0.07),
    np.dtype(ml_dtypes.float8_e4m3fnuz): Tolerance(0.13, 0.07),
    np.dtype(ml_dtypes.float8_e5m2): Tolerance(0.26, 0.13),
    np.dtype(ml_dtypes.float8_e5m2fnuz): Tolerance(0.26, 0.13),
}
EXACT = Tolerance(0.0, 0.0)
MODEL_ERROR = 1e-4  # largest error over largest output of a whole fp32 model
BATCH_NORM_ERROR = 1e-3  # the same of a deep one that normalizes by the statistics of its batch
QUANTIZED_ERROR = 5e-3  # the same of half precision, or of integers whose roundings may differ by a step

# Where an element must be right whatever the largest one is; here `atol` is a plain number.
WORDS: dict[str, Tolerance] = {  # one elementwise operator, rounded once; `atol` is the least number above 0
    "double": Tolerance(1e-13, 1e-323),
    "float": Tolerance(1e-6, 3e-45),
    "half": Tolerance(1e-3, 6e-8),
    "bf16": Tolerance(8e-3, 1e-40),
}
TRAINED = Tolerance(1e-4, 1e-5)  # weights and losses after a few steps of SGD
STATISTICS = Tolerance(1e-3, 1e-3)  # running statistics of a deep model
SPLIT = Tolerance(1e-4, 1e-4)  # sums of hundreds of products of numbers round 1, in another order
TIMES_SIGMOID = Tolerance(1e-5, 1e-36)  # a product with it; where it is least, 100 roundings of the exponent
ONE_PLUS = Tolerance(0.0, 5e-7)  # a number in [0, 2], as a sum with 1 whose operands are rounded to float


def tolerance(dtype: Any) -> Tolerance:
    """The row of the table for a NumPy-like element type; exact for integers and bool."""
    return TOLERANCES.get(np.dtype(dtype), EXACT)


def relative_error(got: Any, want: Any) -> float:
    """Largest error over the largest finite |want|; inf where NaN, infinities or shapes differ."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return np.inf
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    error, largest = np.abs(got - want)[finite].max(), np.abs(want[finite]).max()
    return float(error / largest) if largest else float(error)


def assert_each(got: Any, want: Any, row: Tolerance, message: str = "") -> None:
    """Check every element by itself; NaN must meet NaN."""
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=row.rtol, atol=row.atol, err_msg=message)


def assert_close(got: Any, want: Any, dtype: Any = None, scale: float = 1.0) -> None:
    """Check shape and values of array-likes against the table.

    `dtype` picks the row (that of `got` when absent); `scale` widens it, e.g. sqrt(K) for a sum of K terms.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, want {want.shape}"
    if got.size == 0:
        return
    row = tolerance(got.dtype if dtype is None else dtype)
    if row == EXACT:
        if got.dtype.isbuiltin != 1:  # to NumPy the NaN of ml_dtypes' types are no NaN
            got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(want[np.isfinite(want)])
    largest = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(got, want, rtol=row.rtol * scale, atol=row.atol * scale * largest)

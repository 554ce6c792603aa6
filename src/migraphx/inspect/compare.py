"""How far two arrays are apart, and whether that is too far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.program import Program, reachable


@dataclass(frozen=True)
class Tolerance:
    """Upstream's three: the root mean square of the error over the largest value, and |error| <= atol + rtol |want|.

    A float passes when both hold; NaN must meet NaN and an infinity its equal. Integers and bool must be equal.
    """

    rms: float = 1e-3
    atol: float = 1e-3
    rtol: float = 1e-3


DEFAULT = Tolerance()
NARROW = Tolerance(8e-2, 4e-2, 4e-2)  # what upstream allows half precision


def tolerance_of(program: Program) -> Tolerance:
    """What a program may be off where nobody says otherwise: more where it computes in 16 bits or fewer."""
    types = {ins.shape.type for m in reachable(program.main) for ins in m}
    return NARROW if any(t in dtypes.FLOATS and dtypes.to_numpy(t).itemsize < 4 for t in types) else DEFAULT


@dataclass(frozen=True)
class Check:
    """One output compared: errors are inf where NaN, infinities or lens differ. `max_rel` leaves out zeros."""

    name: str
    rms: float
    max_abs: float
    max_rel: float
    passed: bool

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        return f"{self.name}: {verdict} (rms {self.rms:.3g}, max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g})"


def compare(name: str, got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> Check:
    """Compare a target's answer with the one wanted."""
    if got.shape != want.shape:
        return Check(name, np.inf, np.inf, np.inf, False)
    if not got.size:
        return Check(name, 0.0, 0.0, 0.0, True)
    if dtypes.from_numpy(got.dtype) not in dtypes.FLOATS:
        wrong = got != want
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0.0)
        share = float(np.sqrt(np.mean(wrong)))
        return Check(name, share, float(apart), share, not wrong.any())
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return Check(name, np.inf, np.inf, np.inf, False)
    got, want = got[finite], want[finite]
    apart, size = np.abs(got - want), np.abs(want)
    largest = max(np.abs(got).max(initial=0.0), size.max(initial=0.0))
    rms = float(np.sqrt(np.mean(np.square(apart))) / largest) if largest else 0.0
    max_rel = float((apart[size > 0] / size[size > 0]).max(initial=0.0))
    passed = rms <= tolerance.rms and bool((apart <= tolerance.atol + tolerance.rtol * size).all())
    return Check(name, rms, float(apart.max(initial=0.0)), max_rel, passed)

"""When a run must have ended."""

from __future__ import annotations

import time

LONGEST = 2**62  # nanoseconds


class Deadline:
    """So many seconds from now; ValueError where these are negative or NaN."""

    def __init__(self, seconds: float) -> None:
        self.seconds = float(seconds)
        if not self.seconds >= 0:
            raise ValueError(f"timeout={seconds!r} is not a number of seconds")
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 after the deadline."""
        return max(0.0, self._end - time.monotonic())

    @property
    def nanoseconds(self) -> int:
        """Those that are left, as an int64 holds them."""
        return int(min(self.left * 1e9, LONGEST))

    def check(self) -> None:
        """TimeoutError after the deadline."""
        if not self.left:
            raise self.error()

    def error(self) -> TimeoutError:
        return TimeoutError(f"the run did not end within its timeout of {self.seconds:g} s")

"""How many threads a program is worth, and whether its runs take all of them where other processes want the cores.

A run waits for every thread that holds a part of a kernel, and where a neighbour takes a core for some milliseconds at
a time, threads wait for each other in turn: then one alone is often faster, and steadier. Which it is depends on the
program and on the neighbours, so it is timed: a few runs of one thread where short runs have become slow and the
system says that it took cores from this process, and then a few runs of all threads now and then, as neighbours may go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from migraphx.targets.cpu.table import FLOW, steps_words

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # no Unix
    getrusage = None

SHARE = 50e3  # nanoseconds of work that are worth a thread: waking one takes about as long
BARRIER = 5e3  # what passing from kernel to kernel costs several threads; more on busy machines
TRIPS = 1000  # of a loop, at most, as far as they count here

SLOW = 1.3  # times the fastest run
FADES = 1.0001  # what the fastest run counts for after each other one: clocks and inputs change, too
GAIN = 0.9  # of one thread's time: then all are faster, not by chance. One is steadier, and leaves others more
LONG = 20e6  # nanoseconds: the turns that neighbours take on a core are short beside such a run, and all ways are alike
RUNS = 8  # until it is clear whether cores are taken away
TAKEN = 2  # times in these runs
TRIAL = 4  # runs, or fewer: the first that is slower than those of the way that was chosen ends it
FIRST, MOST = 16, 64  # runs between two trials, twice as many after each that changed nothing; of one thread, as
FIRST_OF_ONE, MOST_OF_ONE = 4, 256  # neighbours may go soon, and of 16 threads one takes five times as long


def threads_worth(table: np.ndarray, most: int) -> int:
    """How many threads, 1 to `most`, run the program of this table fastest."""
    steps = steps_words(table)
    times = np.ones(len(steps))
    for n in np.flatnonzero(steps[:, 0] < 0):
        numbers = steps[n, 1]
        if table[numbers] == FLOW["LOOP"]:
            times[n + 1 : table[numbers + 2]] *= min(table[numbers + 3], TRIPS)
    divided = (steps[:, -1] - BARRIER * (steps[:, 0] >= 0)) @ times
    return min(most, max(1, int(divided / SHARE)))


def times_taken() -> int:
    """How often a thread of this process has lost its core to another."""
    return getrusage(RUSAGE_SELF).ru_nivcsw if getrusage is not None else 0


class Crew:
    """Says of each run whether one thread is to do it, and is told how long it took.

    Runs beside each other, of several callers, need no lock: at worst one is counted for the other.
    """

    __slots__ = ("_fastest", "_left", "_mean", "_pause", "_taken", "_times", "_trial", "alone")

    def __init__(self, taken: Callable[[], int] = times_taken) -> None:
        self._times = taken
        self.alone = False
        self._fastest = self._mean = 0.0  # nanoseconds: of all threads; recent ones of the way that was chosen
        self._trial: list[float] | None = None  # runs of the other way
        self._pause, self._left = FIRST, 0  # runs: between trials, until the next one
        self._taken: int | None = None  # where it is being found out

    @property
    def runs_at_once(self) -> int:
        """How many runs there may be without a word."""
        return RUNS if self._trial is None else TRIAL

    def ran(self, alone: bool, nanoseconds: float, runs: int = 1) -> None:
        """So many runs took so long together."""
        nanoseconds /= runs
        if not alone:
            self._fastest = min(nanoseconds, self._fastest * FADES) if self._fastest else nanoseconds
        trial = self._trial
        if trial is not None:
            if alone == self.alone:
                trial += [nanoseconds] * runs
                if nanoseconds > self._mean:
                    self._judge(nanoseconds)
                elif len(trial) >= TRIAL:
                    self._judge(sum(trial) / len(trial))
            return
        if alone != self.alone:
            return
        self._mean += (nanoseconds - self._mean) / TRIAL if self._mean else nanoseconds
        self._left -= runs
        if self._left <= 0 and (self.alone or self._disturbed()):
            self._trial, self.alone = [], not self.alone

    def _disturbed(self) -> bool:
        """Whether runs of all threads are slow since the system takes cores from this process."""
        if self._mean <= SLOW * self._fastest or self._fastest > LONG:
            self._taken = None
        elif self._taken is None:
            self._taken, self._left = self._times(), RUNS
        else:
            before, self._taken = self._taken, None
            return self._times() - before >= TAKEN
        return False

    def _judge(self, mean: float) -> None:
        """Keep to the way that was tried, or go back."""
        self._trial = None
        if mean < (1.0 if self.alone else GAIN) * self._mean:
            self._mean, self._pause = mean, FIRST_OF_ONE if self.alone else FIRST
        else:
            self._pause = min(2 * self._pause, MOST_OF_ONE if self.alone else MOST)
            self.alone = not self.alone
        self._left = self._pause

"""`migraphx.AsyncQueue`: runs of one program beside each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import BoundedSemaphore
from types import TracebackType
from typing import Any, Self

from migraphx.api.argument import argument
from migraphx.api.program import program
from migraphx.targets.registry import get_target


class AsyncQueue:
    """Runs of a compiled program beside each other: more answers a second, each somewhat later.

    `streams` threads run what is submitted, in order; each keeps to its share of the device (of 8 cores, 4 streams have
    2 each), unless the program was compiled for a `num_threads`. 0 takes as many as the device runs side by side: a
    stream a core on target cpu. At most `depth` runs are unfinished (0: twice the streams); `submit` waits until there
    is room, so that what produces inputs cannot fill the memory. Threads may share a queue. It is a context manager;
    `close` waits.

    RuntimeError where the program is not compiled; ValueError for numbers below 0, or a depth below the streams.
    """

    def __init__(self, p: program, streams: int = 0, depth: int = 0) -> None:
        if streams < 0 or depth < 0:
            raise ValueError(f"AsyncQueue: streams={streams} and depth={depth} must not be negative")
        target = get_target(p.executable.target)
        self.streams = streams or target.concurrency()
        self.depth = depth or 2 * self.streams
        if self.depth < self.streams:
            raise ValueError(f"AsyncQueue: depth={depth} leaves some of {self.streams} streams without work")
        self._program = p
        self._room = BoundedSemaphore(self.depth)
        self._pool = ThreadPoolExecutor(self.streams, "migraphx-stream", target.share, (self.streams,))

    def submit(self, params: Mapping[str, Any], timeout: float | None = None) -> Future[list[argument]]:
        """What `program.run(params, timeout)` will return or raise; the inputs must stay as they are until then.

        `timeout` counts from the run's beginning. A future that is cancelled in time is not run. RuntimeError where the
        queue is closed.
        """
        self._room.acquire()
        try:
            future = self._pool.submit(self._program.run, params, timeout)
        except BaseException:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def map(self, inputs: Iterable[Mapping[str, Any]]) -> Generator[list[argument], None, None]:
        """The results for many inputs, in their order; inputs are taken as there is room for them."""
        rest = iter(inputs)
        waiting = deque(self.submit(p) for p in islice(rest, self.depth))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(self.submit(p) for p in islice(rest, 1))
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Finish what was submitted, then end the threads."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

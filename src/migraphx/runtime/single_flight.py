"""What is made once for a key and kept: programs compiled for the lengths and values that arrive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Generic, TypeVar

from migraphx.runtime.deadline import Deadline

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class SingleFlightLRU(Generic[Key, Made]):
    """The `cap` things that were used last, by key. Each is made once, however many threads ask for it meanwhile.

    What fails is not kept: its error goes to all who wait for it, and the next caller tries again. `apart`: each
    is made in a thread of its own, so that a deadline or a signal ends the wait for it; what is made is still kept.
    """

    def __init__(self, cap: int, apart: bool = False) -> None:
        self.cap, self.apart = cap, apart
        self._made: OrderedDict[Key, Made] = OrderedDict()
        self._making: dict[Key, Future[Made]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._made)

    def items(self) -> list[tuple[Key, Made]]:
        """What is kept, from the one used longest ago to the last."""
        with self._lock:
            return list(self._made.items())

    def values(self) -> list[Made]:
        """What is kept without its keys, in the same order."""
        with self._lock:
            return list(self._made.values())

    def find(self, key: Key) -> Made | None:
        """What is kept for the key, which counts as a use; None where nothing is."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def put(self, key: Key, made: Made) -> None:
        """Keep what was made for the key elsewhere."""
        with self._lock:
            self._made[key] = made
            while len(self._made) > self.cap:
                self._made.popitem(last=False)

    def get(self, key: Key, make: Callable[[], Made], deadline: Deadline | None = None) -> Made:
        """What is kept for the key, or is made now; TimeoutError where another thread makes it beyond the deadline."""
        while True:
            found = self.find(key)
            if found is not None:
                return found
            with self._lock:
                if key in self._made:  # meanwhile
                    continue
                future = self._making.get(key)
                mine = future is None
                if future is None:
                    future = self._making[key] = Future()
            if mine and not self.apart:
                return self._make(key, future, make)
            if mine:
                Thread(target=self._make_apart, args=(key, future, make), daemon=True).start()
            try:
                return future.result(None if deadline is None else deadline.left)
            except CancelledError:
                continue  # a signal ended the thread that made it
            except TimeoutError:
                if deadline is None or future.done():
                    raise
                raise deadline.error() from None

    def forget(self, unwanted: Callable[[Key], bool]) -> None:
        """Drop what is kept for keys that are `unwanted`."""
        with self._lock:
            for key in [k for k in self._made if unwanted(k)]:
                del self._made[key]

    def _make_apart(self, key: Key, future: Future[Made], make: Callable[[], Made]) -> None:
        with suppress(Exception):  # it goes to who waits for the future
            self._make(key, future, make)

    def _make(self, key: Key, future: Future[Made], make: Callable[[], Made]) -> Made:
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            if isinstance(error, Exception):
                future.set_exception(error)
            else:  # a KeyboardInterrupt is this thread's alone
                future.cancel()
            raise
        self.put(key, made)
        with self._lock:
            del self._making[key]
        future.set_result(made)
        return made

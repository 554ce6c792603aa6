"""Work in several threads, at any time in a process's life."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def side_by_side(
    function: Callable[[Item], Made], items: Iterable[Item], threads: int, begin: Callable[[], None] | None = None
) -> list[Made]:
    """The function's values for the items, in their order, by so many threads; each calls `begin` before that.

    The error of the first item that has one is raised. Where a signal ends the wait, what was begun is finished.
    A pool of concurrent.futures takes no work from the moment when the main thread ends, though other threads go on
    and functions of atexit come later. These threads do; where the system gives none, the caller does their work.
    """
    work = deque((item, Future[Made]()) for item in items)
    made = [future for _, future in work]

    def run() -> None:
        try:
            if begin is not None:
                begin()
        finally:
            _do(function, work)

    crew: list[Thread] = []
    try:
        for _ in range(min(threads, len(made)) if threads > 1 or begin is not None else 0):
            thread = Thread(target=run, name="migraphx-work", daemon=False)
            try:
                thread.start()
            except RuntimeError:
                break
            crew.append(thread)
        if not crew:
            _do(function, work)
        wait(made)
    finally:
        work.clear()
        for thread in crew:
            thread.join()
    return [future.result() for future in made]


def _do(function: Callable[[Item], Made], work: deque[tuple[Item, Future[Made]]]) -> None:
    while work:
        try:
            item, future = work.popleft()
        except IndexError:  # another thread has just taken the last one
            return
        try:
            future.set_result(function(item))
        except BaseException as error:
            future.set_exception(error)

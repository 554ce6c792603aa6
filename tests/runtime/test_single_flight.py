"""What is kept by key: made once, however many ask, and the least recently used dropped."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from migraphx.runtime.deadline import Deadline
from migraphx.runtime.single_flight import SingleFlightLRU
from tests.limits import HANG


def test_the_least_recently_used_is_dropped():
    kept: SingleFlightLRU[str, str] = SingleFlightLRU(2)
    for key in "abac":
        assert kept.get(key, lambda key=key: key.upper()) == key.upper()
    assert kept.items() == [("a", "A"), ("c", "C")]
    assert kept.find("a") == "A" and kept.find("b") is None
    kept.get("d", lambda: "D")
    assert kept.items() == [("a", "A"), ("d", "D")]
    kept.forget(lambda key: key == "a")
    assert kept.items() == [("d", "D")] and len(kept) == 1


def test_many_threads_make_one():
    kept: SingleFlightLRU[str, int] = SingleFlightLRU(4)
    made: list[int] = []
    together = Barrier(4)

    def ask(_: int) -> int:
        together.wait(HANG)
        return kept.get("key", lambda: made.append(1) or len(made))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [1] * 4
    assert made == [1]


class Asked(Deadline):
    """Is asked for what is left by who is about to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.event = Event()

    @property
    def left(self) -> float:
        self.event.set()
        return super().left


def asked_meanwhile(kept: SingleFlightLRU[int, int], make: Callable[[], int], own: Callable[[], int]) -> int:
    """What a thread gets that would make `own` and asks while another runs `make`; its error is raised."""
    started, deadline = Event(), Asked(HANG)

    def waited() -> int:
        started.set()
        assert deadline.event.wait(HANG)
        return make()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.get, 0, waited)
        assert started.wait(HANG)
        second = pool.submit(kept.get, 0, own, deadline)
        first.exception(HANG)
        return second.result(HANG)


def failing(error: BaseException) -> Callable[[], int]:
    def make() -> int:
        raise error

    return make


def test_an_error_goes_to_all_who_wait_and_is_not_kept():
    kept: SingleFlightLRU[int, int] = SingleFlightLRU(4)
    with pytest.raises(ValueError, match="no kernel"):
        asked_meanwhile(kept, failing(ValueError("no kernel")), lambda: 1)
    assert kept.get(0, lambda: 2) == 2


def test_an_interrupt_is_its_threads_alone():
    kept: SingleFlightLRU[int, int] = SingleFlightLRU(4)
    assert asked_meanwhile(kept, failing(KeyboardInterrupt()), lambda: 7) == 7


def test_a_deadline_ends_the_wait_for_another_thread():
    kept: SingleFlightLRU[int, int] = SingleFlightLRU(4)
    started, released = Event(), Event()

    def held() -> int:
        started.set()
        assert released.wait(HANG)
        return 1

    with ThreadPoolExecutor(1) as pool:
        pool.submit(kept.get, 0, held)
        assert started.wait(HANG)
        with pytest.raises(TimeoutError, match="timeout of 0 s"):
            kept.get(0, lambda: 2, Deadline(0))
        released.set()
    assert kept.find(0) == 1


def test_what_is_made_apart_outlives_the_wait():
    kept: SingleFlightLRU[int, int] = SingleFlightLRU(4, apart=True)
    released, made = Event(), []

    def held() -> int:
        assert released.wait(HANG)
        made.append(1)
        return 5

    with pytest.raises(TimeoutError, match="timeout of 0 s"):
        kept.get(0, held, Deadline(0))
    released.set()
    assert kept.get(0, lambda: 6) == 5 and made == [1]
    with pytest.raises(ValueError, match="no kernel"):
        kept.get(1, failing(ValueError("no kernel")))
    assert kept.get(1, lambda: 2) == 2

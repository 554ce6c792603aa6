"""Memory that runs work in, one run at a time in each: programs that are lengths of one program share it."""

from __future__ import annotations

from threading import Lock
from typing import Protocol
from weakref import WeakSet

from migraphx.targets.gpu.accelerator import Accelerator, Block, Event

MOST = 8  # runs at once whose memory is apart; more wait for one another on the device


class Slot:
    """An arena, the stream of its last run, and when that is over."""

    def __init__(self, device: Accelerator) -> None:
        self.arena: Block | None = None
        self.event: Event = device.event()
        self.stream: int | None = None

    def left(self, stream: int) -> None:
        """A run has been appended to the stream as a whole."""
        self.event.record(stream)
        self.stream = stream


class User(Protocol):
    """What keeps things that were made for slots."""

    @property
    def holds_slots(self) -> bool: ...

    def forget(self, slot: Slot) -> None:
        """The slot's arena moves."""
        ...


class Slots:
    """Slots that nobody runs in, and the executables that share them."""

    def __init__(self, device: Accelerator) -> None:
        self._device = device
        self._idle: list[Slot] = []
        self._count, self._lock = 0, Lock()
        self._users: WeakSet[User] = WeakSet()

    def join(self, user: User) -> None:
        with self._lock:
            self._users.add(user)

    def take(self, stream: int) -> Slot:
        """A slot for a run in a stream: the stream's own, one whose run is over, a new one, or the oldest."""
        with self._lock:
            slot = next((s for s in reversed(self._idle) if s.stream == stream), None)
            slot = slot or next((s for s in self._idle if s.event.done()), None)
            if slot is None and self._idle and self._count >= MOST:
                slot = self._idle[0]
            if slot is None:
                self._count += 1
            else:
                self._idle.remove(slot)
        if slot is None:
            return Slot(self._device)
        if slot.stream != stream:
            slot.event.wait(stream)
        return slot

    def arena(self, slot: Slot, nbytes: int) -> Block:
        """The arena of a slot that was taken, which has so many bytes at least; it moves where it grows."""
        if slot.arena is None or slot.arena.nbytes < nbytes:
            with self._lock:
                for user in self._users:
                    user.forget(slot)
            slot.arena = None  # given back before the larger one is asked for
            slot.arena = Block(self._device, nbytes)
        return slot.arena

    def give(self, slot: Slot) -> None:
        with self._lock:
            self._idle.append(slot)

    def drop(self) -> None:
        """One that was taken is not given back."""
        with self._lock:
            self._count -= 1

    def clear(self) -> None:
        """Give the memory back, where no user has anything that was made for it."""
        with self._lock:
            if not any(user.holds_slots for user in self._users):
                self._count -= len(self._idle)
                self._idle = []

"""Memory that runs work in, one run at a time in each: programs that are lengths of one program share it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Protocol
from weakref import WeakSet

from migraphx.targets.gpu.accelerator import Accelerator, Block, Event
from migraphx.targets.gpu.plan import Buffers
from migraphx.targets.gpu.words import Words

ARENA: Buffers = ("arena", 0)
MOST = 8  # runs at once whose memory is apart; more wait for one another on the device


class Slot:
    """An arena and copies, the stream of its last run, and when that is over."""

    def __init__(self, device: Accelerator) -> None:
        self.blocks: dict[Buffers, Block] = {}  # the arena; copies of blocks of callers whose memory is elsewhere
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
        self.words = Words(device)
        self._users: WeakSet[User] = WeakSet()

    def join(self, user: User) -> None:
        with self._lock:
            self._users.add(user)

    def take(self, stream: int) -> Slot:
        """A slot for a run in a stream: the stream's own, one whose run is over, a new one, or the oldest."""
        with self._lock:
            if self._idle and self._idle[-1].stream == stream:  # as in most programs
                return self._idle.pop()
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
        return self._large_enough(slot, ARENA, nbytes)

    def copies(self, slot: Slot, sizes: Mapping[Buffers, int]) -> dict[Buffers, int]:
        """Where copies of a caller's blocks of these sizes lie in a slot that was taken."""
        return {which: self._large_enough(slot, which, nbytes).address for which, nbytes in sizes.items()}

    def _large_enough(self, slot: Slot, which: Buffers, nbytes: int) -> Block:
        """A block of a slot; where it must grow, what was made for the slot is forgotten."""
        before = slot.blocks[which].nbytes if which in slot.blocks else 0
        if before < nbytes or which not in slot.blocks:
            with self._lock:
                for user in self._users:
                    user.forget(slot)
            slot.blocks.pop(which, None)  # given back before the larger one is asked for
            slot.blocks[which] = Block(
                self._device, max(nbytes, before * 3 // 2)
            )  # lengths may grow a little at a time
        return slot.blocks[which]

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

"""Sees every write to the memory of weights: by torch, `.data`, NumPy, other threads, other processes.

Pages that hold weights are tracked by the kernel where it can (`written_pages.py`). What is left is compared with what
it held: a few small weights, pages where others write too, memory that other processes can write, everything where the
kernel can't help. The engine does so natively; where it can't (AMD's, no C++ compiler) copies are kept here.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
import weakref
import zlib
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._C._functorch import is_functorch_wrapped_tensor

import migraphx
from torch_migraphx.dynamo.written_pages import PAGE, Range, WrittenPages

logger = logging.getLogger(__name__)

SMALL = PAGE // 4  # bytes: less is compared sooner than the kernel is asked about it
GAP = 1 << 20  # bytes: one question is about ranges that lie so close
# Times that a page was written in which others' data are, too, before its weights are compared. The first two calls of
# a model write to most such pages, as tensors are counted and guards built there, and the calls behind them to none.
ALARMS = 4
LARGE = 1 << 16  # bytes: less is compared in one go with others
# Bytes of a watch whose pages become huge ones first, as many as there is time for: that takes 0.3 s a GB on one
# machine and 2 s on another, and a question about small ones 0.8 ms a GB, since what runs between two questions leaves
# nothing of the page tables in the caches.
WORTH_HUGE_PAGES, SECONDS_FOR_HUGE_PAGES = 1 << 28, 0.5
MOST_RANGES = 8192  # a range costs two of the 65,530 mappings that Linux allows a process

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def is_plain(t: Any, anywhere: bool = False) -> bool:
    """Whether `t` is a tensor whose address and strides say where its elements are: in main memory, or `anywhere`."""
    if type(t) not in (torch.Tensor, nn.Parameter) or t.layout is not torch.strided or not (anywhere or t.is_cpu):
        return False
    if is_functorch_wrapped_tensor(t) or torch._is_functional_tensor(t):  # type: ignore[attr-defined]
        return False
    begin, end = extent(t)
    memory = t.untyped_storage()
    return begin == end or memory.data_ptr() <= begin <= end <= memory.data_ptr() + memory.nbytes()


def extent(t: torch.Tensor) -> Range:
    """The bytes from the first element of a plain tensor to the last; there may be others' between them."""
    begin = t.data_ptr()
    if not t.numel():
        return begin, begin
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return begin, begin + (last + 1) * t.element_size()


def _bytes(begin: int, end: int) -> Any:
    return (ctypes.c_char * (end - begin)).from_address(begin)


def _digest(t: torch.Tensor) -> int:
    """A checksum of the elements. It is asked of what was written, whether it was written with what was there."""
    begin, end = extent(t)
    if end - begin <= t.nbytes:
        return zlib.crc32(_bytes(begin, end))
    strides = [s * t.element_size() for s in t.stride()]
    elements = np.ndarray((*t.shape, t.element_size()), np.uint8, _bytes(begin, end), 0, (*strides, 1))
    return zlib.crc32(elements.tobytes())


def _digests(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Not by torch's operators: after a fork its threads are no more, and it would wait for them."""
    return migraphx.side_by_side(_digest, tensors, torch.get_num_threads())


def _united(ranges: Iterable[Range]) -> list[Range]:
    """Sorted ranges that neither overlap nor touch."""
    united: list[Range] = []
    for begin, end in sorted(ranges):
        if united and begin <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        elif begin < end:
            united.append((begin, end))
    return united


def _shared() -> list[Range]:
    """The mappings of this process that others can write to."""
    with open("/proc/self/maps") as lines:
        fields = [line.split(None, 2)[:2] for line in lines]
    spans = [span.split("-") for span, mode in fields if mode[3] == "s"]
    return _united((int(begin, 16), int(end, 16)) for begin, end in spans)


def _overlaps(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Whether one of the sorted ranges has a byte of [begin, end)."""
    at = bisect_left(ranges, (end,)) - 1
    return begin < end and at >= 0 and ranges[at][1] > begin


class Tracker:
    """What the watches of a process share: the kernel's tracking, and a lock for all but the question."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pages: WrittenPages | None = None
        self.why_none = ""
        self._open()
        self.watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._gone: deque[list[Range]] = deque()

    def _open(self) -> None:
        try:
            self.pages = WrittenPages()
        except OSError as error:  # everything is compared
            self.pages, self.why_none = None, f"this system can't track writes ({error})"

    def add(self, watch: Watch, ranges: Iterable[Range]) -> None:
        """Register and protect those of the ranges that the kernel can track, and give them to `watch`."""
        self.watches.add(watch)
        pages = self.pages
        if pages is None:
            return
        self._release_gone()
        others, ranges = self.used(), list(ranges)
        large = sum(end - begin for begin, end in ranges) >= WORTH_HUGE_PAGES
        until = time.perf_counter() + (SECONDS_FOR_HUGE_PAGES if large else 0)
        for begin, end in ranges[: max(0, MOST_RANGES - len(others))]:
            watch.ranges.append((begin, end))
            try:
                for part in _without(begin, end, others):
                    pages.collapse(*part, until)
                    pages.register(*part)
                self.sweep([(begin, end)])
            except OSError as error:  # special memory, or too many mappings
                logger.debug("pages %#x to %#x can't be tracked: %s", begin, end, error)
                watch.ranges.pop()
        weakref.finalize(watch, self._gone.append, watch.ranges).atexit = False
        for other in self.watches:
            if other is not watch and any(_overlaps(other.gaps, *r) for r in watch.ranges):
                other.ask_anew()

    def used(self, but: Watch | None = None) -> list[Range]:
        """The ranges of all watches `but` one."""
        return _united(r for w in self.watches if w is not but for r in w.ranges)

    def give_up(self, watch: Watch, ranges: Iterable[Range]) -> None:
        """`watch` no longer asks about these of its ranges."""
        watch.ranges[:] = [p for r in watch.ranges for p in _without(*r, list(ranges))]
        self._release(ranges)

    def sweep(self, ranges: Iterable[Range]) -> None:
        """Tell all watches which pages of the ranges were written, then protect these pages.

        In this order: a thread that finds them protected finds the word of it too.
        """
        assert self.pages is not None
        for span in ranges:
            regions = self.pages.written(*span)
            for watch in self.watches:
                watch.note(regions)
            for region in regions:
                self.pages.protect(*region)

    def _release_gone(self) -> None:
        """Unregister what only watches had that are gone."""
        while self._gone:
            self._release(self._gone.popleft())

    def _release(self, ranges: Iterable[Range]) -> None:
        used = self.used()
        for part in (p for r in ranges for p in _without(*r, used)):
            with suppress(OSError):  # the memory is gone too
                if self.pages is not None:
                    self.pages.unregister(*part)

    def forked(self) -> None:
        """In the child of a fork nothing is registered, and locks may be held by threads that are no more."""
        self.lock = threading.RLock()
        self._open()
        self._gone.clear()
        for watch in self.watches:
            watch.lost, watch.ranges = True, []


def _within(ranges: Sequence[Range], begin: int, end: int) -> Sequence[Range]:
    """Those of the sorted ranges that have a byte of [begin, end)."""
    first = bisect_left(ranges, begin, key=lambda r: r[1])
    return ranges[first : bisect_left(ranges, (end,))]


def _without(begin: int, end: int, used: Sequence[Range]) -> Iterator[Range]:
    for b, e in used:
        if b < end and e > begin:
            if begin < b:
                yield begin, b
            begin = e
    if begin < end:
        yield begin, end


@cache
def tracker() -> Tracker:
    """The process's own."""
    made = Tracker()
    os.register_at_fork(after_in_child=made.forked)
    return made


def _pages_of(begin: int, end: int) -> Range:
    """From the first page that has a byte of the range to the last."""
    return begin // PAGE * PAGE, -(-end // PAGE) * PAGE


@dataclass(frozen=True, eq=False)
class Look:
    """What a question reads: pages that the kernel tracks, and pieces of memory beside what they held.

    `image` is both, natively, where the engine has that; then nothing is kept here.
    """

    pages: WrittenPages | None
    queries: Sequence[bytearray]
    small: Sequence[memoryview]
    kept: bytes
    comparisons: tuple[list[int], list[int], list[int]]  # where large pieces lie, where their copies, how many bytes
    copies: Sequence[Any]
    image: Any

    def finds_written(self) -> bool:
        """Whether anything was written. OSError where the kernel no longer tracks."""
        if self.image is not None:
            return not self.image.same()
        if self.pages is not None and self.pages.any_written(self.queries):
            return True
        if self.small and b"".join(self.small) != self.kept:
            return True
        return bool(self.copies) and any(map(_memcmp, *self.comparisons))


def _image(pieces: Sequence[Range], pages: WrittenPages | None, queries: Sequence[bytearray]) -> Any:
    """An image of these pieces that asks these queries, too; None where the engine makes none: it may be AMD's."""
    make = getattr(migraphx.get_target("cpu"), "memory_image", None)
    if make is None:
        return None
    begin, end = np.array(pieces, np.int64).reshape(-1, 2).T
    return make([(begin, end)], pages.requests(queries) if pages is not None else None, lasting=True)


class Watch:
    """Whether plain tensors have the elements that they had when it was made.

    The tensors' memory stays alive with it, and must be where it was at each question. From the moment when it
    is made every write counts: what is derived from the tensors afterwards is out of date when `clean` is false.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], owner: Tracker | None = None) -> None:
        self._tracker = owner or tracker()
        self.tensors = [t.detach() for t in tensors]
        self.ranges: list[Range] = []  # of pages that the kernel tracks
        self.gaps: list[Range] = []  # which are no range of any watch, and are asked about with the ranges round them
        self.lost = False  # as after a fork
        self.stale = False  # once and for all
        self.compared = 0  # bytes that every question reads, those of small pieces left out
        self._written: set[int] = set()  # numbers of tensors whose pages were written, says another watch or this one
        self._edges: Sequence[int] = ()  # pages that hold others' data, too
        self._alarms: Counter[int] = Counter()  # how often such a page was written
        spans = sorted((*extent(t), k) for k, t in enumerate(self.tensors))
        self._spans = [(begin, end, k) for begin, end, k in spans if begin < end]
        with self._tracker.lock:
            self._arm()
            self._written.clear()
            self._digests = _digests(self.tensors)

    def _arm(self) -> None:
        """Have writes noted: by the kernel first, then by copies."""
        shared = _shared()
        private = _united(s[:2] for s in self._spans if not _overlaps(shared, *s[:2]))
        self._edges = sorted({at // PAGE * PAGE for r in private for at in r if at % PAGE})
        pages = _united(_pages_of(*r) for r in private)
        sizes = [sum(min(end, e) - max(begin, b) for b, e in _within(private, begin, end)) for begin, end in pages]
        self.ranges = []
        self._tracker.add(self, [p for r, n in zip(pages, sizes, strict=True) if n >= SMALL for p in self._quiet(*r)])
        self._prepare()

    def _quiet(self, begin: int, end: int) -> Iterator[Range]:
        """A range without the pages that others write."""
        return _without(begin, end, self._busy())

    def _busy(self) -> list[Range]:
        return [(p, p + PAGE) for p in self._edges if self._alarms[p] >= ALARMS]

    def _prepare(self) -> None:
        """Say what a question reads, and copy what will be compared."""
        pieces = [p for s in _united(s[:2] for s in self._spans) for p in _without(*s, self.ranges)]
        pages = self._tracker.pages
        queries = self._queries(pages) if pages else ()
        image = _image(pieces, pages, queries)
        self.compared = sum(end - begin for begin, end in pieces if end - begin >= LARGE)
        pieces = [] if image is not None else pieces
        self._small = [(begin, end) for begin, end in pieces if end - begin < LARGE]
        self._large = [(begin, end) for begin, end in pieces if end - begin >= LARGE]
        views = [memoryview(_bytes(*p)).cast("B") for p in self._small]
        sizes = [end - begin for begin, end in self._large]
        copies = [(ctypes.c_char * n).from_buffer_copy(_bytes(*p)) for n, p in zip(sizes, self._large, strict=True)]
        comparisons = [begin for begin, _ in self._large], list(map(ctypes.addressof, copies)), sizes
        self._look = Look(pages, queries, views, b"".join(views), comparisons, copies, image)

    def ask_anew(self) -> None:
        """Another watch has got pages in a gap."""
        pages, image = self._look.pages, self._look.image
        if pages is not None:
            queries = self._queries(pages)
            image = None if image is None else image.asking(pages.requests(queries))
            self._look = replace(self._look, queries=queries, image=image)

    def _queries(self, pages: WrittenPages) -> list[bytearray]:
        """Of ranges with small gaps between them, in which no other watch has pages, one question."""
        others, whole, gaps = self._tracker.used(but=self), list[Range](), list[Range]()
        for begin, end in sorted(self.ranges):
            last = whole[-1][1] if whole else -GAP - 1
            if begin - last <= GAP and not _overlaps(others, last, begin):
                whole[-1] = whole[-1][0], end
                gaps.append((last, begin))
            else:
                whole.append((begin, end))
        self.gaps = gaps
        queries = [pages.query(*r, gaps=_overlaps(gaps, *r)) for r in whole]
        if gaps:  # whether pages are registered at all is asked of one
            queries.append(pages.query(whole[0][0], whole[0][0] + PAGE))
        return queries

    @property
    def why_compared(self) -> str:
        return self._tracker.why_none or "other processes can write to them, or their memory is of a special kind"

    def clean(self) -> bool:
        """Whether nothing was written, not even beside the tensors; what is equal all the same `changed` tells."""
        if self.lost or self.stale:
            return False
        try:
            if self._look.finds_written():
                return False
        except OSError:  # the registration is lost: somebody closed the file
            self.lost = True
            return False
        # Another thread may have protected and copied anew what was written: it notes that before, and clears the note
        # after it has said whether anything changed. So these are read last, in this order.
        return not (self._written or self.stale or self.lost)

    def run_if_clean(self, function: Callable[[Any, Sequence[Any]], Any], args: Sequence[Any]) -> Any:
        """What `function` returns; None where something was written.

        It is given what native code compares while it runs, and returns None where that has changed; or None, where
        nothing is left to be compared; and `args`.
        """
        image = self._look.image
        if image is None:
            return function(None, args) if self.clean() else None
        results = None if self.lost or self.stale else function(image, args)
        return None if self._written or self.stale or self.lost else results  # as `clean` does

    def note(self, regions: Sequence[Range]) -> None:
        """These pages were written."""
        if regions:
            self._written.update(k for begin, end, k in self._spans if _overlaps(regions, begin, end))
            self._alarms.update(p for p in self._edges if _overlaps(regions, p, p + PAGE))

    def changed(self) -> set[int]:
        """The numbers of tensors that have other elements now, whoever asks; where none, it is `clean` from here on."""
        with self._tracker.lock:
            numbers = self._suspects()
            now = _digests([self.tensors[k] for k in numbers])
            changed = {k for k, d in zip(numbers, now, strict=True) if d != self._digests[k]}
            self.stale = self.stale or bool(changed)
            self._written.clear()
            self._written |= changed
            self.lost = False
            return changed

    def _suspects(self) -> list[int]:
        """Which tensors have to be looked at. What is written from now on will be noted again."""
        if not self.lost and self._look.pages is not None:
            try:
                self._tracker.sweep(self.ranges)
            except OSError:
                self.lost = True
        if self.lost:
            self._arm()
            return list(range(len(self.tensors)))
        self._written |= self._differing()
        suspects = sorted(self._written)
        self._tracker.give_up(self, [b for b in self._busy() if _overlaps(self.ranges, *b)])
        self._prepare()
        return suspects

    def _differing(self) -> set[int]:
        """The numbers of tensors with pieces that are not equal to their copies."""
        found, at, look = [], 0, self._look
        if look.image is not None:
            found = look.image.differing()
        for piece, view in zip(self._small, look.small, strict=True):
            if view != look.kept[at : at + len(view)]:
                found.append(piece)
            at += len(view)
        found += [p for p, *c in zip(self._large, *look.comparisons, strict=True) if _memcmp(*c)]
        found.sort()
        return {k for begin, end, k in self._spans if _overlaps(found, begin, end)}

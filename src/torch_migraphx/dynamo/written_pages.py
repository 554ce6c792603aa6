"""Which pages of this process were written: userfaultfd's write protection in asynchronous mode and PAGEMAP_SCAN.

Linux 6.7 or newer, see Documentation/admin-guide/mm/{userfaultfd,pagemap}.rst. The kernel itself lets a write to a
protected page pass and notes it, whoever writes: threads, system calls, debuggers. Containers often forbid userfaultfd.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import repeat
from pathlib import Path

import numpy as np

PAGE = mmap.PAGESIZE
Range = tuple[int, int]
"""Addresses: the first, and the one behind the last."""

USERFAULTFD = {"x86_64": 323, "aarch64": 282}  # numbers of the system call
USER_MODE_ONLY = 1  # needs no privilege; asynchronous faults of the kernel's own writes pass all the same
API = 0xAA
FEATURES = 1 << 13 | 1 << 15  # WP_UNPOPULATED: pages that are not there yet too; WP_ASYNC
MODE_WRITE_PROTECT = 2

REGISTERED, WRITTEN = 1, 2  # PAGE_IS_WPALLOWED, PAGE_IS_WRITTEN
PROTECT = 1  # PM_SCAN_WP_MATCHING
CHECK = 2  # PM_SCAN_CHECK_WPASYNC: EPERM where a page is not registered, rather than "written"
MOST_REGIONS = 512  # a call
COLLAPSE = 25  # MADV_COLLAPSE, Linux 6.1
COLLAPSED_AT_ONCE = 1 << 26  # bytes between two looks at the clock
PRESENT, OF_FILE, EXCLUSIVE = 63, 61, 56  # bits of a page's entry in /proc/self/pagemap


def _ioctl_number(direction: int, kind: int, number: int, size: int) -> int:
    return direction << 30 | size << 16 | kind << 8 | number


UFFDIO_API = _ioctl_number(3, API, 0x3F, 24)
UFFDIO_REGISTER = _ioctl_number(3, API, 0, 32)
UFFDIO_WRITEPROTECT = _ioctl_number(3, API, 6, 24)
UFFDIO_UNREGISTER = _ioctl_number(2, API, 1, 16)
PAGEMAP_SCAN = _ioctl_number(3, ord("f"), 16, 96)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


@cache
def _huge_page() -> int:
    """Bytes; 0 where the kernel has none."""
    with suppress(OSError):
        return int(Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())
    return 0


def _userfaultfd() -> int:
    number = USERFAULTFD.get(platform.machine(), -1)
    fd = _libc().syscall(number, os.O_CLOEXEC | USER_MODE_ONLY) if number > 0 else -1
    if fd < 0:
        code = ctypes.get_errno() or errno.ENOSYS
        raise OSError(code, f"userfaultfd: {os.strerror(code)}")
    return fd


class WrittenPages:
    """Pages that are registered here are asked about by `any_written` and `written`.

    Valid in the process that made it, not in its forks. Raises OSError where the system has no such thing, and from
    every method where a page is not registered (any more).
    """

    def __init__(self) -> None:
        self._fd, self._pagemap = _userfaultfd(), -1
        try:
            self._request(UFFDIO_API, API, FEATURES, 0)
            self._pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self._found = (ctypes.c_uint64 * (3 * MOST_REGIONS))()
            self._unread = (ctypes.c_uint64 * 3)()  # apart from it: other threads may ask while one reads what it found
            self._scan(0, 0, 0)  # ENOTTY where the kernel lacks it
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for fd in (self._fd, self._pagemap):
            if fd >= 0:
                os.close(fd)
        self._fd = self._pagemap = -1

    def _request(self, number: int, *fields: int) -> None:
        fcntl.ioctl(self._fd, number, struct.pack(f"{len(fields)}Q", *fields))

    def register(self, begin: int, end: int) -> None:
        """Of pages that are not registered: have them protected, also those that are not in memory yet."""
        self._request(UFFDIO_REGISTER, begin, end - begin, MODE_WRITE_PROTECT, 0)
        self._request(UFFDIO_WRITEPROTECT, begin, end - begin, 1)

    def collapse(self, begin: int, end: int, until: float) -> None:
        """Of pages that are not registered: make them huge pages, where they can be, up to a time of `perf_counter`.

        A question looks at each page.
        """
        if time.perf_counter() >= until:
            return
        for address, size in self._collapsible(begin, end):
            for at in range(address, address + size, COLLAPSED_AT_ONCE):
                if time.perf_counter() >= until:
                    return
                _libc().madvise(at, min(COLLAPSED_AT_ONCE, address + size - at), COLLAPSE)  # or they stay as they are

    def _collapsible(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Addresses and lengths within a range that are whole huge pages, in memory and this process's alone.

        Pages that are shared with a fork would be copied, and those that nobody has written yet take no memory.
        """
        size = _huge_page()
        if not size or end - (begin := -(-begin // size) * size) < size:
            return
        count = (end - begin) // size
        raw = os.pread(self._pagemap, count * size // PAGE * 8, begin // PAGE * 8)
        entries = np.frombuffer(raw, np.uint64).reshape(count, -1)
        wanted, looked_at = 1 << PRESENT | 1 << EXCLUSIVE, 1 << PRESENT | 1 << EXCLUSIVE | 1 << OF_FILE
        suits = ((entries & np.uint64(looked_at)) == np.uint64(wanted)).all(1)
        borders = np.flatnonzero(np.diff(suits, prepend=False, append=False)).tolist()
        for first, last in zip(borders[::2], borders[1::2], strict=True):
            yield begin + first * size, (last - first) * size

    def unregister(self, begin: int, end: int) -> None:
        self._request(UFFDIO_UNREGISTER, begin, end - begin)

    def query(self, begin: int, end: int, gaps: bool = False) -> bytearray:
        """What `any_written` asks of a range. The answer's region is written to a place that nobody reads.

        With `gaps` pages that are not registered do not count, else they are an error.
        """
        return self._argument(0 if gaps else CHECK, begin, end, 1)

    def _argument(self, flags: int, begin: int, end: int, regions: int) -> bytearray:
        most_pages = 1 if regions == 1 else 0
        where = ctypes.addressof(self._unread if regions == 1 else self._found)
        wanted = WRITTEN if flags & CHECK else WRITTEN | REGISTERED
        fields = (96, flags, begin, end, 0, where, regions, most_pages, 0, wanted, 0, wanted)
        return bytearray(struct.pack("12Q", *fields))

    def any_written(self, queries: Sequence[bytearray]) -> bool:
        """Whether a page of the ranges was written since it was protected. May be called from several threads."""
        return any(map(fcntl.ioctl, repeat(self._pagemap), repeat(PAGEMAP_SCAN), queries))

    def requests(self, queries: Sequence[bytearray]) -> tuple[int, int, Sequence[bytearray]]:
        """These queries for who calls `ioctl` itself: a file, a number, arguments. 0 means that nothing was written."""
        return self._pagemap, PAGEMAP_SCAN, queries

    def written(self, begin: int, end: int) -> list[Range]:
        """The pages of a range that were written. One thread at a time, as the methods below."""
        return self._scan(CHECK, begin, end)

    def protect(self, begin: int, end: int) -> None:
        """From now on no page of the range counts as written, until somebody writes to it again."""
        self._scan(CHECK | PROTECT, begin, end)

    def _scan(self, flags: int, begin: int, end: int) -> list[Range]:
        regions: list[Range] = []
        while True:
            argument = self._argument(flags, begin, end, MOST_REGIONS)
            count = fcntl.ioctl(self._pagemap, PAGEMAP_SCAN, argument)
            regions += [(self._found[3 * k], self._found[3 * k + 1]) for k in range(count)]
            begin = struct.unpack_from("Q", argument, 32)[0]
            if begin >= end or not count:
                return regions

"""The disk cache of compiled objects: by content, with a lock, never trusted blindly.

Its objects are run, and their checksums detect damage, not malice. So the folder must be the user's own: one that
belongs to somebody else, or that others may write to, is not used at all. Keys may come from files and are checked.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import BinaryIO

from migraphx.targets.common.scratch import scratch

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes may compile the same thing twice, never half of it
    fcntl = None

log = logging.getLogger(__name__)
MAGIC = b"openmgx object 1\n"
SPACE = 4 << 20  # bytes: a compiler that fails with less may have failed for that
ABANDONED = 3600.0  # seconds: no compilation takes so long
KEY = re.compile(r"[0-9a-f]{40}")
OURS = re.compile(rf"{KEY.pattern}\.")  # how the names of our files begin; others in the folder are not touched


def folder() -> Path:
    """`OPENMGX_CACHE`, or `openmgx` under the user's cache folder."""
    given = os.environ.get("OPENMGX_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(given) if given else Path(base) / "openmgx"


def digest(*parts: str | bytes) -> str:
    """A key for contents: any difference in any part gives another key."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:40]


def obtain(key: str, suffix: str, make: Callable[[Path], object]) -> Path:
    """The path of the object `key`; `make(path)` writes it, itself, where the cache does not hold it whole.

    Two processes that need the same object wait for each other. A damaged entry is made anew. Where the folder
    cannot be written, is not the user's own, is full or was removed meanwhile, the object goes to a temporary folder
    that ends with the process, with a warning. Others may remove an entry as soon as it is there.
    """
    home = folder()
    try:
        home = usable_folder()
        with _locked(home / f"{key}.lock"):
            path = home / f"{key}{suffix}"
            if not _whole(path):
                _fill(path, make)
            return path
    except ChildProcessError:  # of what is asked to make it, which is not the folder's fault
        raise
    except OSError as error:
        _warn(home, error.strerror or str(error))
    path = scratch() / f"{key}{suffix}"
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{get_ident()}.new")
        make(fresh)
        os.replace(fresh, path)  # an object that another thread put there stays mapped
    return path


def usable_folder() -> Path:
    """The folder, made where it is missing; OSError says why it is not used."""
    home = folder()
    home.mkdir(0o700, parents=True, exist_ok=True)
    _refuse_others(home)
    return home


_warned: set[tuple[Path, str]] = set()


def _warn(home: Path, why: str) -> None:
    """Once a process: every object that is compiled or looked up would say the same."""
    level = logging.DEBUG if (home, why) in _warned else logging.WARNING
    _warned.add((home, why))
    log.log(level, "the cache folder %s cannot be used (%s); compiling into a temporary folder", home, why)


def lookup(key: object, suffix: str) -> Path | None:
    """The path of a whole entry, or None, also where `key` is no key: it may come from a file."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        return None
    path = folder() / f"{key}{suffix}"
    try:
        _refuse_others(path.parent)
    except FileNotFoundError:  # nothing was compiled yet
        return None
    except OSError as error:
        _warn(path.parent, error.strerror or str(error))
        return None
    return path if _whole(path) else None


def _refuse_others(home: Path) -> None:
    """PermissionError where anybody but this user (and root) may put files into the folder; FileNotFoundError."""
    if not hasattr(os, "geteuid"):
        return  # not a POSIX system: who may write is not in the mode
    found = home.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"it belongs to user {found.st_uid}, and what it holds is run")
    if found.st_mode & 0o022:
        raise PermissionError(f"others may write to it, and what it holds is run: chmod go-w {home}")


@dataclass(frozen=True)
class Entry:
    """A file of the cache; `used` is when it was last read or written (seconds since 1970, as exact as the system)."""

    path: Path
    bytes: int
    used: float
    whole: bool


def entries() -> list[Entry]:
    """What the cache holds, the longest unused first; seals and locks belong to their entry."""
    found: list[Entry] = []
    for path in folder().glob("*") if folder().is_dir() else ():
        if OURS.match(path.name) and path.suffix not in (".lock", ".sha256"):
            with suppress(FileNotFoundError):  # another process removed it
                stat = path.stat()
                found.append(Entry(path, stat.st_size, max(stat.st_atime, stat.st_mtime), _whole(path)))
    return sorted(found, key=lambda e: e.used)


def remove(entry: Entry) -> None:
    """Delete an entry, once nobody is making it; programs that run it keep it mapped."""
    key = entry.path.name.split(".")[0]
    lock = entry.path.with_name(f"{key}.lock")
    with _locked(lock):
        for path in (entry.path, _seal(entry.path), lock):
            path.unlink(missing_ok=True)


@functools.cache
def _remove_abandoned(home: Path) -> None:
    """What processes that were killed left half-written; once a process."""
    for path in home.glob("*.new"):
        with suppress(OSError):  # another process removed it
            if OURS.match(path.name) and abs(time.time() - path.stat().st_mtime) > ABANDONED:
                path.unlink()


def _fill(path: Path, make: Callable[[Path], object]) -> None:
    _remove_abandoned(path.parent)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        make(fresh)
        seal = MAGIC + hashlib.sha256(fresh.read_bytes()).hexdigest().encode()
        _seal(path).write_bytes(seal)
        os.replace(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink()


def _seal(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _whole(path: Path) -> bool:
    """The entry exists and its content is what was written."""
    try:
        want = _seal(path).read_bytes()
        return want == MAGIC + hashlib.sha256(path.read_bytes()).hexdigest().encode()
    except OSError:
        return False


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """While the file of this name is locked; whoever held one before may have removed it."""
    while True:
        with open(path, "wb") as handle:
            if fcntl is None:
                yield
                return
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                if _is_named(handle, path):
                    yield
                    return
            finally:  # closing is not enough: a child forked meanwhile holds the file open too
                fcntl.flock(handle, fcntl.LOCK_UN)


def _is_named(handle: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False

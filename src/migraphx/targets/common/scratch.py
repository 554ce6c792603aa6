"""The temporary folder of this process. It is removed when the process ends; if it was killed, by a later process."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing tells whether a folder's process lives
    fcntl = None

PREFIX = "openmgx-"
LOCK = "lock"  # a file in the folder that its process keeps locked while it lives
YOUNG = 60.0  # seconds: the process of a folder that is newer may be about to lock it
OLD = 86400.0  # seconds: a folder without a lock that is older is left from a process that was killed meanwhile

_guard = Lock()
_own: dict[int, tuple[Path, BinaryIO]] = {}  # by process: a child that was forked makes its own


def scratch() -> Path:
    """The folder, under $TMPDIR, made at the first call; OSError where it cannot be made."""
    with _guard:
        found = _own.get(os.getpid())
        if found is None or not found[0].is_dir():
            found = _own[os.getpid()] = _made()
        return found[0]


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """One in it; what a compiler still writes when the process ends goes with the folder of the process."""
    return tempfile.TemporaryDirectory(dir=scratch(), ignore_cleanup_errors=True)


def _made() -> tuple[Path, BinaryIO]:
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    handle = open(folder / LOCK, "wb")  # noqa: SIM115  # open as long as the process lives
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX)
    atexit.register(_remove_own, os.getpid(), folder, handle)
    return folder, handle


def _remove_own(pid: int, folder: Path, handle: BinaryIO) -> None:
    handle.close()
    if os.getpid() == pid:  # not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of processes that ended without doing so themselves."""
    if fcntl is None:
        return
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is locked, or another process removes it
            found = folder.lstat()
            age = abs(time.time() - found.st_mtime)
            if found.st_uid != os.geteuid() or not folder.is_dir() or folder.is_symlink() or age < YOUNG:
                continue
            if not (folder / LOCK).exists():
                if age > OLD:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            with open(folder / LOCK, "rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)

"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """What to write the file to. It takes the place of one that was there at the end, and not where writing raises.

    A link stays a link, a file keeps its mode; pipes and devices are written directly. OSError names the file.
    """
    try:
        with _beside(os.fspath(path)) as out:
            yield out
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(path)) from error


@contextmanager
def _beside(path: str) -> Iterator[BinaryIO]:
    old = os.stat(path) if os.path.exists(path) else None
    if old and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as out:
            yield out
        return
    if old and not os.access(path, os.W_OK):  # renaming would ask the folder alone
        raise PermissionError(errno.EACCES, "must not be written to")
    target = os.path.realpath(path)
    fresh = os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.openmgx")
    try:
        with open(fresh, "xb") as out:
            if old:
                os.chmod(fresh, stat.S_IMODE(old.st_mode))
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(fresh, target)
    finally:
        with suppress(FileNotFoundError):  # it was renamed, or never made
            os.unlink(fresh)

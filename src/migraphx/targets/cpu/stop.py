"""What ends a native run early: a deadline, a signal, or another thread. stop.hpp says how it works.

ctypes releases Python's lock during a run, and Python calls signal handlers in its main thread only, with the lock. So
a run that the main thread called asks the interpreter every few milliseconds whether a signal came.
"""

from __future__ import annotations

import ctypes
import os
import threading

from migraphx.runtime.deadline import Deadline
from migraphx.runtime.memory_image import MemoryImage
from migraphx.targets.cpu.headers import enumerators

REASON = enumerators("Reason", "stop.hpp")
_NAMES = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyErr_Fetch", "PyGILState_Release")


class _Python(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _NAMES]


_python = _Python(*(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in _NAMES))
_address = ctypes.addressof(_python)
_restore = ctypes.PYFUNCTYPE(None, *(ctypes.c_void_p,) * 3)(("PyErr_Restore", ctypes.pythonapi))


class _Main:
    ident = threading.main_thread().ident


def _forked() -> None:
    _Main.ident = threading.get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)  # which leaves one thread, then the main one


class Stop(ctypes.Structure):
    """One for each run, as in stop.hpp. A run that was ended has a `reason`."""

    _fields_ = [
        ("timeout", ctypes.c_int64),
        ("python", ctypes.c_void_p),
        ("reason", ctypes.c_int64),
        ("error", ctypes.c_void_p * 3),
        ("deadline", ctypes.c_int64),
        ("next", ctypes.c_int64),
        ("holds", ctypes.c_void_p),
        ("subject", ctypes.c_void_p),
    ]

    def begin(self, deadline: Deadline | None, image: MemoryImage | None) -> None:
        """In the thread that will run. Memory that is not as in `image` ends the run."""
        self.timeout = -1 if deadline is None else deadline.nanoseconds
        self.python = _address if threading.get_ident() == _Main.ident else None
        self.holds, self.subject = image.native if image is not None else (None, None)

    def ask(self) -> None:
        """End the run; from any thread, also before it begins."""
        self.reason = REASON["ASKED"]

    def finish(self, deadline: Deadline | None) -> None:
        """Raise what ended the run: TimeoutError, what a signal handler raised, InterruptedError; not for an image."""
        if self.reason == REASON["CHANGED"]:
            return
        if self.reason == REASON["SIGNAL"]:
            _restore(*self.error)
        if self.reason == REASON["TIMEOUT"] and deadline is not None:
            raise deadline.error()
        raise InterruptedError("the run was told to end")

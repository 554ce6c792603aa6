"""Instructions computed by NumPy, which a signal or a deadline can end."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ir.operation import RunModule, Value
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST

SHORT = 1 << 16  # elements: what NumPy makes of fewer takes a few milliseconds


def compute(ins: Instruction, args: Sequence[Value], run: RunModule, deadline: Deadline | None) -> Value:
    """The instruction's value for these inputs; TimeoutError after the deadline."""
    if deadline is not None:
        deadline.check()
    leaf = not (ins.modules or ins.op.deferred)  # what runs modules comes back here for each of their instructions
    if leaf and sum(_elements(v) for v in (*args, ins.shape)) > SHORT and (deadline is not None or _in_main_thread()):
        return _attended(lambda: ins.op.compute_with(args, ins.modules, run), deadline)
    return ins.op.compute_with(args, ins.modules, run)


def lasting(argument: Argument, stream: int | None = None) -> Any:
    """The argument's values in main memory, or a copy where nothing but the caller's word keeps them.

    The thread of an instruction that was left may read them later.
    """
    here = argument.to(HOST, stream)
    return here.array if here.owner is not None else here.array.copy()


def _elements(value: Any) -> int:
    found = getattr(value, "size", None) or getattr(value, "elements", 0)
    return found if isinstance(found, int) else 0


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _attended(work: Callable[[], Value], deadline: Deadline | None) -> Value:
    """What `work` returns, from a thread of its own, since Python calls no signal handler while NumPy computes.

    Where a handler raises or the deadline passes, the thread is left: it ends when it comes back to Python.
    """
    future: Future[Value] = Future()

    def fill() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=copy_context().run, args=(fill,), daemon=True)
    thread.start()
    try:
        wait([future], None if deadline is None else deadline.left)
    finally:
        if not future.done():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    if deadline is not None and not future.done():
        raise deadline.error()
    return future.result()

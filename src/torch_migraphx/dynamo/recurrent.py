"""Recurrent layers in a graph of Dynamo's, which leaves them to eager torch unless `config.allow_rnn` is set.

It is set for as long as Dynamo compiles for a backend of ours; what others compile, and the user's own configuration,
stay as they are. torch documents one place for this, a backend's attribute `backend_ctx_ctor`, but torch.compile does
not read it (2.11 to 2.15); so Dynamo's callbacks at the start and end of a compilation are used. Where they no longer
say who compiles, recurrent layers stay in eager torch, and the log says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from torch._dynamo import config, disable
from torch._dynamo.callback import CallbackArgs, callback_handler

Callback = Callable[[CallbackArgs], None]
_backends: list[Callable[..., Any]] = []
_open: list[AbstractContextManager[Any]] = []


def traces_recurrent_layers(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a backend whose graphs hold them, whenever Dynamo compiles for it."""
    _backends.append(backend)
    return backend


@disable  # Dynamo holds a lock while it calls this: were it to trace it, it would wait for itself
def _start(_: CallbackArgs) -> None:
    ours = _compiling_for() in _backends
    _open.append(config.patch(allow_rnn=True) if ours else nullcontext())
    _open[-1].__enter__()


@disable
def _end(_: CallbackArgs) -> None:
    if _open:
        _open.pop().__exit__(None, None, None)


def _compiling_for() -> Any:
    """The backend that Dynamo compiles for: it tells its callbacks nothing, so that the callers are asked."""
    frame = sys._getframe()
    while frame is not None:
        if "compiler_fn" in frame.f_locals:
            given = frame.f_locals["compiler_fn"]
            given = getattr(given, "_torchdynamo_orig_backend", given)
            return getattr(given, "compiler_fn", given)
        frame = frame.f_back
    return None


class _Lasting(list[Callback]):
    """Callbacks, of which the first outlives Dynamo's reset(): the next compilation has to be seen from its start."""

    def clear(self) -> None:
        del self[1:]


callback_handler.start_callbacks = _Lasting([cast(Callback, _start), *callback_handler.start_callbacks])
callback_handler.end_callbacks = _Lasting([cast(Callback, _end), *callback_handler.end_callbacks])

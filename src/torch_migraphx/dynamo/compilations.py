"""What happens whenever Dynamo compiles for a backend of ours; what others compile stays as it is.

Recurrent layers become part of the graph: Dynamo leaves them to eager torch unless `config.allow_rnn` is set. What most
graphs need of the C++ compiler begins to be compiled. At the end the log names what Dynamo runs in eager torch.

torch documents one place for this, a backend's attribute `backend_ctx_ctor`, but torch.compile does not read it (2.11
to 2.15); so Dynamo's callbacks at the start and end of a compilation are used, also of those that give no graph. Where
they no longer say who compiles, recurrent layers stay in eager torch, and the log says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, cast

import torch
from torch._dynamo import config, disable
from torch._dynamo.callback import CallbackArgs, callback_handler
from torch._dynamo.utils import counters

from torch_migraphx.dynamo.expected import expect
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
KEPT_BY_DYNAMO = re.compile(r"torch[./]jit|ScriptModule")
"""What Dynamo says of modules that it can't trace: scripted ones."""

Callback = Callable[[CallbackArgs], None]
_backends: list[Callable[..., Any]] = []
_open: list[ExitStack] = []


def observes_compilations(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a backend of ours."""
    _backends.append(backend)
    return backend


@disable  # Dynamo holds a lock while it calls this: were it to trace it, it would wait for itself
def _start(_: CallbackArgs) -> None:
    under_way = ExitStack()
    if _compiling_for() in _backends:
        under_way.enter_context(config.patch(allow_rnn=True))
        under_way.callback(_say_what_dynamo_keeps)
        if not torch.cuda.is_available():
            expect(torch.float32)  # most graphs have products or convolutions of floats, many have attention
    _open.append(under_way)


@disable
def _end(_: CallbackArgs) -> None:
    if _open:
        _open.pop().close()


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


def _say_what_dynamo_keeps() -> None:
    """Log the modules that Dynamo runs in eager torch, where no backend sees them: its counters name them."""
    for reason in [*counters["unimplemented"], *counters["graph_break"]]:
        if KEPT_BY_DYNAMO.search(reason):
            _say_kept(reason)


@cache
def _say_kept(reason: str) -> None:
    context = re.search(r"Developer debug context: (.*)", reason)
    module = context[1] if context else "a module"
    logger.warning(f"torch.compile runs {module} and its surroundings in eager torch: {reason.splitlines()[0]}")


class _Lasting(list[Callback]):
    """Callbacks, of which the first outlives Dynamo's reset(): the next compilation has to be seen from its start."""

    def clear(self) -> None:
        del self[1:]


callback_handler.start_callbacks = _Lasting([cast(Callback, _start), *callback_handler.start_callbacks])
callback_handler.end_callbacks = _Lasting([cast(Callback, _end), *callback_handler.end_callbacks])

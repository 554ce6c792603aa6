"""What happens whenever Dynamo compiles for a backend of ours; what others compile stays as it is.

Recurrent layers become part of the graph: Dynamo leaves them to eager torch unless `config.allow_rnn` is set. What most
graphs need of the C++ compiler begins to be compiled. At the end the log names what Dynamo runs in eager torch.

torch documents one place for this, a backend's attribute `backend_ctx_ctor`, but torch.compile does not read it (2.11
to 2.15); so the context that Dynamo enters for each compilation is used, also of those that give no graph. Where
its callers no longer say who compiles, recurrent layers stay in eager torch, and the log says so.

For two logs Dynamo reads every file of Python that it traces word by word, also where nobody has turned them on: a
tenth of a language model's first trace. From here on it reads them where somebody has, whatever the backend.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any, cast

import torch
from torch._dynamo import config, disable, symbolic_convert
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters

from torch_migraphx.dynamo.expected import expect
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
KEPT_BY_DYNAMO = re.compile(r"torch[./]jit|ScriptModule")
"""What Dynamo says of modules that it can't trace: scripted ones."""

_backends: list[Callable[..., Any]] = []
_theirs = callback_handler.install_callbacks


def observes_compilations(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a backend of ours."""
    _backends.append(backend)
    return backend


class _Compilation:
    """Dynamo's context of a compilation, within ours.

    Both are of the thread that compiles: others may compile a backward meanwhile, and configurations are of a thread.
    Dynamo's callbacks would not do: it calls them when the first of several compilations begins and the last one ends.
    """

    def __init__(self, theirs: AbstractContextManager[Any]) -> None:
        self._theirs, self._entered = theirs, ExitStack()

    @disable  # a backward may be compiled inside a compiled function, whose calls Dynamo traces
    def __enter__(self) -> None:
        with ExitStack() as entered:
            if _compiling_for() in _backends:
                entered.enter_context(config.patch(allow_rnn=True))
                entered.callback(_say_what_dynamo_keeps)
                if not torch.cuda.is_available():
                    expect(torch.float32)  # most graphs have products or convolutions of floats, many have attention
            entered.enter_context(self._theirs)
            self._entered = entered.pop_all()

    @disable
    def __exit__(self, *error: Any) -> bool | None:
        return self._entered.__exit__(*error)


@disable
def _observed(*arguments: Any, **named: Any) -> _Compilation:
    return _Compilation(_theirs(*arguments, **named))


def _compiling_for() -> Any:
    """The backend that Dynamo compiles for; nothing is told, so that the callers are asked."""
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


def name_for_logs(filename: str, line: int) -> str | None:
    """The function at a line of a file, as Dynamo names it in its logs; None where these are off."""
    return _name_of(filename, line) if any(log.isEnabledFor(logging.DEBUG) for log in _logs) else None


callback_handler.install_callbacks = cast(Any, _observed)
_logs = [x for n in ("trace_call_log", "trace_source_log") if (x := getattr(symbolic_convert, n, None)) is not None]
_name_of: Any = getattr(symbolic_convert, "get_funcname", None)
if _name_of is not None and len(_logs) == 2:
    cast(Any, symbolic_convert).get_funcname = name_for_logs

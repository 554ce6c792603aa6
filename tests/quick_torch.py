"""What torch does again for each graph, and need not do in the tests, which make some thousand graphs.

Answers, graphs and messages are the same. Each place is changed only where the installed torch has it.
"""

from __future__ import annotations

import logging
import sys
import typing
from collections.abc import Callable
from typing import Any


def hurry() -> None:
    """Change what has been imported of torch.

    pytest hangs its handlers on every logger that does not propagate. torch writes each graph that it makes, and the
    stacks that led to it, to one of these, where that has handlers: which no user's has who does not ask for it.
    """
    logging.getLogger("torch.__trace").propagate = True
    for module, name, change in CHANGES:
        place = vars(sys.modules[module]) if module in sys.modules else {}
        if name in place:
            place[name] = change(place[name])


def _untimed(profile_guard_manager: Callable[..., float]) -> Callable[..., float]:
    """Each graph's guards are timed for the log, and the processor's cache is emptied for that: 25 ms."""
    return lambda *of: 0.0


def _known(annotation: Any) -> Any:
    """Each export evaluates `Callable[P, T]` twelve thousand times, and only typing's remembers what it made: 0.1 s."""
    return typing.Callable


def _once(materialize: Callable[[], None]) -> Callable[[], None]:
    """Each export looks up all composite operators once a namespace of operators; new namespaces bring new ones."""
    seen: set[str] = set()

    def made() -> None:
        names = sys.modules["torch"].ops._dir
        if not seen.issuperset(names):
            seen.update(names)
            materialize()

    return made


CHANGES: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("torch._dynamo.guards", "profile_guard_manager", _untimed),
    ("torch._ops", "Callable", _known),
    ("torch._export.utils", "_materialize_cpp_cia_ops", _once),
]

"""Loggers of the bridge: Python prints a warning without its logger's name, so the text says whose it is."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

ROOT = logging.getLogger("torch_migraphx")
LOGGERS = {
    "TORCH_MIGRAPHX_LOGLEVEL": ("torch_migraphx",),
    "TORCH_MIGRAPHX_LOG_INTERPRETER": ("torch_migraphx.fx.fx2mgx",),
    "TORCH_MIGRAPHX_LOG_FX_LOWER": ("torch_migraphx.fx.lower", "torch_migraphx.fx.lower_graph"),
    "TORCH_MIGRAPHX_LOG_DYNAMO_LOWER": ("torch_migraphx.dynamo", "torch_migraphx.fx.lower_graph"),
    "TORCH_MIGRAPHX_LOG_DYNAMO_PASSES": ("torch_migraphx.dynamo.passes",),
    "TORCH_MIGRAPHX_LOG_PARTITIONER": ("torch_migraphx.dynamo.passes.partition", "torch_migraphx.fx.lower_graph"),
}
"""Torch-MIGraphX's environment variables, whose values are levels of Python's logging, and the loggers they set."""

_showing = threading.Lock()


class _PrefixedLogger(logging.LoggerAdapter):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"OpenMGX: {msg}", kwargs


def get_logger(name: str) -> logging.LoggerAdapter:
    """The logger `name`; its messages begin with `OpenMGX: `."""
    return _PrefixedLogger(logging.getLogger(name), {})


def set_levels(environment: Mapping[str, str] = os.environ) -> None:
    """Set the levels that variables of the environment ask for; what they let through goes to stderr.

    Without such a variable nothing is set up. ValueError for a value that is no level.
    """
    asked = {name: environment[name].upper() for name in LOGGERS if environment.get(name)}
    for name, level in asked.items():
        if level not in logging.getLevelNamesMapping():
            raise ValueError(f"{name}={level} is no level of logging: {', '.join(logging.getLevelNamesMapping())}")
        for logger in LOGGERS[name]:
            logging.getLogger(logger).setLevel(level)
    if asked and not ROOT.hasHandlers():
        ROOT.addHandler(logging.StreamHandler())


@contextmanager
def shown(verbose: bool) -> Iterator[None]:
    """With `verbose`, messages of level INFO are meanwhile let through, to stderr where nobody handles them."""
    if not verbose or ROOT.isEnabledFor(logging.INFO):
        yield
        return
    with _showing:
        level, handler = ROOT.level, None if ROOT.hasHandlers() else logging.StreamHandler()
        ROOT.setLevel(logging.INFO)
        if handler is not None:
            ROOT.addHandler(handler)
        try:
            yield
        finally:
            ROOT.setLevel(level)
            if handler is not None:
                ROOT.removeHandler(handler)

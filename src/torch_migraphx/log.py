"""Loggers of the bridge: Python prints a warning without its logger's name, so the text says whose it is."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class _PrefixedLogger(logging.LoggerAdapter):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"OpenMGX: {msg}", kwargs


def get_logger(name: str) -> logging.LoggerAdapter:
    """The logger `name`; its messages begin with `OpenMGX: `."""
    return _PrefixedLogger(logging.getLogger(name), {})

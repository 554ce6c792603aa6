"""Where in the user's source a traced operation comes from."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from pathlib import Path

import torch

# Frames name their files as they were imported, so links are not followed.
_OURS = str(Path(__file__).parents[2]) + os.sep  # torch_migraphx
_TORCH = str(Path(torch.__file__).parent) + os.sep  # the separator: torchvision is not torch


def _is_user_file(name: str) -> bool:
    return not name.startswith((_OURS, _TORCH, "<"))


def _describe(file: str, line: int, function: str) -> str:
    code = linecache.getline(file, line).strip()
    return f'File "{file}", line {line}, in {function}' + (f"\n    {code}" if code else "")


def current_origin() -> str | None:
    """The innermost line of the running stack that is neither torch's nor the tracer's."""
    frame = sys._getframe(1)
    while frame is not None:
        if _is_user_file(frame.f_code.co_filename):
            return _describe(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def error_origin(error: BaseException) -> str | None:
    """The innermost line that raised `error` and is neither torch's nor the tracer's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_user_file(frame.filename):
            return _describe(frame.filename, frame.lineno or 0, frame.name)
    return None

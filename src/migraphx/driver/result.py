"""What a verb gives back: an answer for people and for programs, and an exit code for scripts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes; MEANINGS says what each one tells a script."""

    DONE = 0
    NO = 1
    USAGE = 2
    INPUT = 3
    UNSUPPORTED = 4
    COMPILER = 5
    INTERNAL = 70
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done",
    Exit.NO: "done, and the answer is no: verify found a difference, perf diff a slowdown, doctor a fault",
    Exit.USAGE: "the command line is wrong",
    Exit.INPUT: "a file or a value cannot be used: missing, malformed, of the wrong shape, too large",
    Exit.UNSUPPORTED: "this build lacks the operator, target or feature",
    Exit.COMPILER: "no C++ compiler, or it failed",
    Exit.INTERNAL: "an error of the driver itself; --log-level debug shows where",
    Exit.INTERRUPTED: "interrupted",
}


class UsageError(Exception):
    """The command line is well formed and means nothing: says which option."""


class RunError(Exception):
    """A run refused its inputs: an index out of range."""


@dataclass(frozen=True)
class Result:
    """`data` is what `--json` prints; without it `text` is printed whatever the options say."""

    text: str | bytes
    data: Any = None
    code: Exit = Exit.DONE

    def rendered(self, as_json: bool) -> bytes:
        if as_json and self.data is not None:
            return rendered(self.data)
        if isinstance(self.text, bytes):
            return self.text
        return self.text.encode() if self.text.endswith("\n") or not self.text else (self.text + "\n").encode()


def rendered(data: Any) -> bytes:
    """A JSON document."""
    return (json.dumps(plain(data), indent=1, allow_nan=False) + "\n").encode()


def plain(value: Any) -> Any:
    """A value as strict JSON holds it: tuples as lists; NaN and infinities, which JSON has no number for, as words."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

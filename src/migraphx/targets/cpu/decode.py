"""Steps of a language model, one behind the other, natively: as decode.hpp says."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from migraphx.runtime.argument import address
from migraphx.runtime.repeat import DecodeOptions
from migraphx.targets.cpu.helpers import library_path
from migraphx.targets.target import CompilerError

log = logging.getLogger(__name__)
TOLD = ctypes.CFUNCTYPE(ctypes.c_int)


class _Decode(ctypes.Structure):
    _fields_ = [
        ("logits", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("sequences", "vocabulary")),
        *((name, ctypes.c_void_p) for name in ("ids", "positions", "start", "text")),
        *((name, ctypes.c_int64) for name in ("count", "most")),
        ("ends", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("end_count", "padding")),
        ("ended", ctypes.c_void_p),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("temperature", ctypes.c_float),
        ("uniform", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("scores", "largest", "candidates")),
        ("told", TOLD),
    ]


class NativeDecode:
    """A Decode, natively."""

    def __init__(
        self, logits: np.ndarray, inputs: Sequence[np.ndarray], options: DecodeOptions, library: ctypes.CDLL
    ) -> None:
        sequences, vocabulary = logits.shape
        self.ended = np.zeros(sequences, np.bool_)
        self._numbers = options.numbers
        self._told: Callable[[int], object] | None = None
        self._error: BaseException | None = None
        ends, top_k = np.array(options.ends, np.int64), min(options.top_k, vocabulary)
        scores, largest = np.empty(vocabulary if top_k else 0, np.float32), np.empty(top_k, np.float32)
        candidates = np.empty((len(scores), 2), np.int64)
        self._held = logits, *inputs, ends, scores, largest, candidates
        padding = -1 if options.padding is None else options.padding
        self._state = _Decode(
            address(logits), sequences, vocabulary, *map(address, inputs), None, 0, 0,
            address(ends), len(ends), padding, address(self.ended),
            top_k, options.top_p, options.temperature, None, 1, *map(address, (scores, largest, candidates)),
        )  # fmt: skip
        self._callback = TOLD(self._tell)
        self._more = library.mgx_more
        self.native = ctypes.cast(library.mgx_more, ctypes.c_void_p).value or 0, ctypes.addressof(self._state)

    def begin(self, text: np.ndarray, told: Callable[[int], object] | None = None) -> None:
        state, self._text, self._told, self._error = self._state, text, told, None
        state.text, state.count, state.most = address(text), 0, len(text)
        state.told = TOLD() if told is None else self._callback
        self._draw(1 if told else len(text))

    def _draw(self, tokens: int) -> None:
        """Where somebody is told of each token, its numbers are drawn behind that: he may draw some, too."""
        if self._numbers is not None:
            self._uniform = np.ascontiguousarray(self._numbers(tokens), np.float64)
            self._state.uniform, self._state.rows = address(self._uniform), tokens

    def _tell(self) -> int:
        try:
            assert self._told is not None
            self._told(self._state.count - 1)
            if self._numbers is not None and self._state.count < self._state.most and not self.ended.all():
                self._draw(1)
        except BaseException as error:  # which would get lost in native code
            self._error = error
            return 0
        return 1

    def more(self) -> bool:
        return bool(self._more(self.native[1]))

    @property
    def steps(self) -> int:
        if self._error is not None:
            raise self._error
        return self._state.count


def decode(logits: np.ndarray, inputs: Sequence[np.ndarray], options: DecodeOptions) -> NativeDecode | None:
    """As Target.decode; None where there is no C++ compiler, which is logged."""
    try:
        path = library_path()
    except CompilerError as error:
        log.info("tokens are not chosen natively: %s", error)
        return None
    return NativeDecode(logits, inputs, options, _library(path))


@cache
def _library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.mgx_more.argtypes, library.mgx_more.restype = [ctypes.c_void_p], ctypes.c_int
    return library

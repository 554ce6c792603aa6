"""Steps of a language model, one behind the other, natively: as decode.hpp says."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from migraphx.runtime.argument import address
from migraphx.runtime.repeat import DecodeOptions
from migraphx.targets.cpu.helpers import library

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
        _check(logits, inputs, options)
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
        if not len(text):
            raise ValueError("decode: text has no room for a step")
        _check_array("text", text, np.int64, len(text) * len(self.ended))
        state, self._text, self._told, self._error = self._state, text, told, None
        state.text, state.count, state.most = address(text), 0, len(text)
        state.told = TOLD() if told is None else self._callback
        self._draw(1 if told else len(text))

    def _draw(self, tokens: int) -> None:
        """Where somebody is told of each token, its numbers are drawn behind that: he may draw some, too."""
        if self._numbers is not None:
            self._uniform = np.ascontiguousarray(self._numbers(tokens), np.float64)
            if self._uniform.shape != (tokens, len(self.ended), self._state.vocabulary):
                raise ValueError(f"decode: numbers for {tokens} tokens have shape {self._uniform.shape}")
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
    found = library()
    return None if found is None else NativeDecode(logits, inputs, options, found)


def _check(logits: np.ndarray, inputs: Sequence[np.ndarray], options: DecodeOptions) -> None:
    if logits.ndim != 2 or 0 in logits.shape or len(inputs) != 3:
        given = f"{logits.shape} and {len(inputs)}"
        raise ValueError(f"decode takes logits {{sequences, vocabulary}} and 3 inputs, not {given}")
    _check_array("logits", logits, np.float32, logits.size)
    for name, array, size in zip(("ids", "positions", "start"), inputs, (len(logits), len(logits), 1), strict=True):
        _check_array(name, array, np.int64, size)
    if options.top_k < 0 or not 0 <= options.top_p <= 1 or not options.temperature > 0:
        raise ValueError(f"decode draws with top_k >= 0, top_p from 0 to 1 and a temperature above 0, not {options}")
    if options.top_k and options.numbers is None:
        raise ValueError("decode draws by random numbers: DecodeOptions(numbers=...)")


def _check_array(name: str, array: np.ndarray, dtype: type[np.generic], size: int) -> None:
    if array.dtype != dtype or array.size != size or not (array.flags.c_contiguous and array.flags.writeable):
        wants = f"{size} elements of {np.dtype(dtype)}, side by side, to write to"
        raise ValueError(f"decode: {name} has to be {wants}, not {array.dtype} of shape {array.shape}")

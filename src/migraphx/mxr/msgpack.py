"""MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), as far as AMD's files use it.

Values are None, bool, int, float, str, bytes, lists and dicts with string keys. AMD writes bytes as a list of
chunks, each at most 2^32 - 2 bytes long, and an empty dictionary as an empty list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from migraphx.mxr.container import FileError

DEEPEST = 64
CHUNK = 2**32 - 2
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
           0xD3: ">q"}  # fmt: skip
PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
SIZED = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("dict", 2), 0xDF: ("dict", 4),
}  # fmt: skip
"""First byte -> kind, and how many bytes hold its length."""


def unpack(data: bytes | memoryview) -> Any:
    """The one value that `data` holds; FileError names the byte where it breaks."""
    reader = _Reader(memoryview(data))
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise FileError(f"msgpack: {len(reader.data) - reader.at} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise FileError(f"msgpack: truncated at byte {len(self.data)}, {count} are due from byte {start}")
        return self.data[start : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise FileError(f"msgpack: nested deeper than {DEEPEST} at byte {self.at}")
        start, first = self.at, self.number(">B")
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 256
        if first < 0xC0:
            kind, size = ("str", first & 31) if first >= 0xA0 else ("list" if first >= 0x90 else "dict", first & 15)
            return self.sized(kind, size, depth)
        if first in PLAIN:
            return PLAIN[first]
        if first in NUMBERS:
            return self.number(NUMBERS[first])
        if first not in SIZED:
            raise FileError(f"msgpack: byte {start} is {first:#04x}, which starts no value that is read here")
        kind, width = SIZED[first]
        return self.sized(kind, int.from_bytes(self.take(width), "big"), depth)

    def sized(self, kind: str, size: int, depth: int) -> Any:
        if kind == "bytes":
            return bytes(self.take(size))
        if kind == "str":
            start = self.at
            try:
                return str(self.take(size), "utf-8")
            except UnicodeDecodeError:
                raise FileError(f"msgpack: the string at byte {start} is no UTF-8") from None
        if kind == "list":  # elements take a byte at least: a size that is too large ends with the data
            return [self.value(depth + 1) for _ in range(size)]
        return dict(self.pair(depth) for _ in range(size))

    def pair(self, depth: int) -> tuple[str, Any]:
        start, key = self.at, self.value(depth + 1)
        if not isinstance(key, str):
            raise FileError(f"msgpack: the key at byte {start} is no string")
        return key, self.value(depth + 1)


def pack(value: Any) -> bytes:
    """A value as bytes; TypeError for what MessagePack as AMD uses it cannot hold."""
    return b"".join(_packed(value))


def _packed(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool):
        yield {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    elif isinstance(value, int):
        yield _int(value)
    elif isinstance(value, float):
        yield b"\xcb" + struct.pack(">d", value)
    elif isinstance(value, str):
        text = value.encode()
        yield _head(0xA0, 31, (0xD9, 0xDA, 0xDB), len(text)) + text
    elif isinstance(value, bytes):
        chunks = [value[k : k + CHUNK] for k in range(0, len(value), CHUNK)] or [b""]
        yield _head(0x90, 15, (None, 0xDC, 0xDD), len(chunks))
        for chunk in chunks:
            yield _head(0, -1, (0xC4, 0xC5, 0xC6), len(chunk)) + chunk
    elif isinstance(value, dict) and value:
        yield _head(0x80, 15, (None, 0xDE, 0xDF), len(value))
        for key, item in value.items():
            yield from _packed(key)
            yield from _packed(item)
    elif isinstance(value, (list, tuple, dict)):
        yield _head(0x90, 15, (None, 0xDC, 0xDD), len(value))
        for item in value:
            yield from _packed(item)
    else:
        raise TypeError(f"msgpack cannot hold {value!r}")


def _int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    forms = ((0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q")) if value > 0 else ((0xD3, ">q"),)
    for first, form in forms:
        if value < 256 ** struct.calcsize(form):
            return bytes([first]) + struct.pack(form, value)
    raise TypeError(f"msgpack cannot hold {value}")


def _head(short: int, most: int, firsts: tuple[int | None, int, int], size: int) -> bytes:
    """The first byte and the length: in the first byte up to `most`, else in 1, 2 or 4 bytes behind it."""
    if size <= most:
        return bytes([short | size])
    for first, form in zip(firsts, (">B", ">H", ">I"), strict=True):
        if first is not None and size < 256 ** struct.calcsize(form):
            return bytes([first]) + struct.pack(form, size)
    raise TypeError(f"msgpack cannot hold {size} elements")

"""Protobuf's wire format, as far as it takes to find the weights of a model without copying them.

A message is a list of fields: a tag (number << 3 | kind) and a value. Kinds: 0 a varint, 1 eight bytes, 2 a
length and as many bytes, 5 four bytes (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Iterator

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # field numbers in ModelProto, GraphProto, TensorProto
BYTES = 2
SMALLEST = 1024  # bytes; what is smaller stays in the message

Field = tuple[int, int, int, int, int]
"""Number, kind, start of the tag, start of the value, end."""


def varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number at `at` and the position behind it."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(f"truncated or damaged at byte {at}")


def encoded(value: int) -> bytes:
    """A number as a varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def fields(data: memoryview, at: int, end: int) -> Iterator[Field]:
    """The fields of the message between two positions; ValueError where it is cut off."""
    while at < end:
        start = at
        tag, at = varint(data, at, end)
        kind = tag & 7
        if kind == BYTES:
            length, at = varint(data, at, end)
        elif kind == 0:
            length = varint(data, at, end)[1] - at
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"damaged at byte {start}: no field is of kind {kind}")
        if at + length > end:
            raise ValueError(f"truncated: a field at byte {start} ends {at + length - end} bytes behind its message")
        yield tag >> 3, kind, start, at, at + length
        at += length


def without_weights(data: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    """A ModelProto without its large initializers' raw data, and that data by their index."""
    out, weights, index = bytearray(), dict[int, memoryview](), 0
    for number, kind, start, value, end in fields(data, 0, len(data)):
        if (number, kind) != (GRAPH, BYTES):
            out += data[start:end]
            continue
        graph = bytearray()
        for inner, inner_kind, tensor_start, tensor, tensor_end in fields(data, value, end):
            if (inner, inner_kind) != (INITIALIZER, BYTES):
                graph += data[tensor_start:tensor_end]
                continue
            kept, raw = _tensor(data, tensor, tensor_end)
            if raw is not None:
                weights[index] = raw
            graph += _field(INITIALIZER, kept)
            index += 1
        out += _field(GRAPH, graph)
    return bytes(out), weights


def _tensor(data: memoryview, at: int, end: int) -> tuple[bytes, memoryview | None]:
    """One TensorProto without large raw data, and that data."""
    kept, raw = bytearray(), None
    for number, kind, start, value, behind in fields(data, at, end):
        if (number, kind) == (RAW_DATA, BYTES) and behind - value >= SMALLEST:
            raw = data[value:behind]
        else:
            kept += data[start:behind]
    return bytes(kept), raw


def _field(number: int, value: bytes | bytearray) -> bytes:
    return encoded(number << 3 | BYTES) + encoded(len(value)) + bytes(value)

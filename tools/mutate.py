"""Deterministic damage to files: bytes, protobuf messages, JSON values, texts."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Rng = np.random.Generator
NUMBERS = (0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.5, -1.0, float("inf"), float("nan"), 1e300, 1e-300)
WORDS = ("", "x", "main", "@0", "..", "../secret", "/etc/passwd", "float_type", "Relu", "If", "com.microsoft", "\0")


def pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def in_bytes(data: bytes, rng: Rng) -> bytes:
    """One to four edits: a byte changed, a stretch removed, doubled, or filled; the end cut off."""
    made = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if not made:
            break
        at, length = int(rng.integers(len(made))), int(rng.integers(1, 17))
        kind = int(rng.integers(6))
        if kind == 0:
            made[at] = int(rng.integers(256))
        elif kind == 1:
            made[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del made[at : at + length]
        elif kind == 3:
            made[at:at] = made[at : at + length]
        elif kind == 4:
            made[at : at + length] = bytes([pick(rng, (0, 255, 127, 128))]) * length
        elif rng.random() < 0.2:
            del made[at:]
    return bytes(made)


# ---- protobuf ----


def in_message(message: Message, rng: Rng) -> None:
    """One to three edits of fields that are set, anywhere in the message."""
    for _ in range(int(rng.integers(1, 4))):
        holders = [m for m in messages(message) if m.ListFields()]
        if not holders:
            return
        holder = pick(rng, holders)
        field, value = pick(rng, holder.ListFields())
        if field.is_repeated:
            _in_repeated(field, value, rng)
        elif field.message_type is None:
            _set(holder, field, rng)
        elif rng.random() < 0.3:
            holder.ClearField(field.name)
        else:
            others = [m for m in messages(message) if m.DESCRIPTOR is field.message_type]
            value.CopyFrom(copy.deepcopy(pick(rng, others)))


def messages(message: Message) -> list[Message]:
    """A message and all that it holds."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                found += messages(inner)
    return found


def _in_repeated(field: FieldDescriptor, values: Any, rng: Rng) -> None:
    at, other = int(rng.integers(len(values))), int(rng.integers(len(values)))
    kind = int(rng.integers(4))
    if kind == 0:
        del values[at]
    elif field.message_type is not None:
        held = copy.deepcopy(values[other])
        if kind == 1:
            values.add().CopyFrom(held)
        else:
            values[at].CopyFrom(held)
    elif kind == 1:
        values.append(values[other])
    elif kind == 2:
        values[at], values[other] = values[other], values[at]
    elif field.type in WIDE:
        values[at] = number_or_word(values[at], rng, field.type in UNSIGNED)


UNSIGNED = (FieldDescriptor.TYPE_UINT64,)
TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
WIDE = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE, *UNSIGNED, *TEXTS)


def _set(holder: Message, field: FieldDescriptor, rng: Rng) -> None:
    value = number_or_word(getattr(holder, field.name), rng, field.type in UNSIGNED)
    if field.enum_type is not None:
        value = pick(rng, field.enum_type.values).number
    elif field.type == FieldDescriptor.TYPE_INT32:
        value = int(rng.integers(-1, 40))
    setattr(holder, field.name, value)


def number_or_word(value: Any, rng: Rng, unsigned: bool = False) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = abs(value) + 1 if abs(value) < 2**62 else 0
        return near if rng.random() < 0.3 else pick(rng, NUMBERS[:2] if unsigned else NUMBERS)
    if isinstance(value, float):
        return pick(rng, FLOATS)
    if isinstance(value, bytes):
        return in_bytes(value, rng)
    return pick(rng, WORDS) if rng.random() < 0.5 else value[: int(rng.integers(len(value) + 1))] + pick(rng, WORDS)


# ---- JSON ----


def in_json(value: Any, rng: Rng) -> Any:
    """A copy with one to three values changed, removed, doubled, or taken from elsewhere."""
    made = copy.deepcopy(value)
    for _ in range(int(rng.integers(1, 4))):
        holders = [h for h in containers(made) if h]
        if not holders:
            return made
        holder = pick(rng, holders)
        key = pick(rng, list(holder) if isinstance(holder, dict) else range(len(holder)))
        kind = int(rng.integers(5))
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = pick(rng, (None, [], {}, *NUMBERS, *FLOATS, *WORDS, True, [1, 2], {"a": 1}))
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 3:
            holder[key] = copy.deepcopy(pick(rng, holders))
        elif not isinstance(holder[key], (dict, list)) and holder[key] is not None:
            holder[key] = number_or_word(holder[key], rng)
    return made


def containers(value: Any) -> list[Any]:
    """The dictionaries and lists in a value, long runs of numbers left out."""
    if not isinstance(value, (dict, list)) or (isinstance(value, list) and len(value) > 2000):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(c for v in inner for c in containers(v))]


# ---- text ----


def in_text(text: str, rng: Rng) -> str:
    """One to four edits: a number or a word replaced, a line removed, doubled or moved."""
    for _ in range(int(rng.integers(1, 5))):
        if rng.random() < 0.3:
            lines: list[str] = text.split("\n")
            at, to = int(rng.integers(len(lines))), int(rng.integers(len(lines)))
            line = lines.pop(at) if rng.random() < 0.6 else lines[at]
            lines[to:to] = [line] if rng.random() < 0.7 else []
            text = "\n".join(lines)
            continue
        words: list[str] = re.findall(r"\w+|\W", text)
        if not words:
            return text
        at = int(rng.integers(len(words)))
        other = (str(pick(rng, NUMBERS)), pick(rng, WORDS), pick(rng, words), pick(rng, '{}[](),;=->@:"\\'))
        words[at] = pick(rng, other)
        text = "".join(words)
    return text

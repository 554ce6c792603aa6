"""The `.mxr` container: a safetensors file whose tensors start at multiples of 64 bytes, read by memory map.

Layout (https://github.com/huggingface/safetensors): eight bytes of header length, a JSON header, the tensors'
bytes without a hole. Alignment comes from filler tensors named `__pad_<n>`. The header begins with its own
checksum, and its metadata hold one for each tensor: what a disk or a transfer changed is an
error, never another answer.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes

ALIGNMENT = 64
MAX_HEADER = 256 << 20
BLOCK = 1 << 15  # bytes
SUMS = "checksums"  # the key of the tensors' in the metadata
OWN = b'{"__metadata__":{"checksum":"'  # how a header of ours begins; then come DIGITS of its checksum
DIGITS = 8
TYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "half",
    "BF16": "bf16",
    "F32": "float",
    "F64": "double",
    "F8_E4M3": "fp8e4m3fn",
    "F8_E5M2": "fp8e5m2",
    "F8_E4M3FNUZ": "fp8e4m3fnuz",
    "F8_E5M2FNUZ": "fp8e5m2fnuz",
    "F8_E8M0": "fp8e8m0fnu",
    "MGX_F4_E2M1": "fp4e2m1fn",  # one a byte, where safetensors' F4 has two
    "MGX_I4": "int4",
    "MGX_U4": "uint4",
    "MGX_I2": "int2",
    "MGX_U2": "uint2",
    "MGX_F4X2": "fp4x2",
}
"""A file's word for a type -> ours."""
NAMES = {type: name for name, type in TYPES.items()}


class FileError(ValueError):
    """A file that is no whole `.mxr`: says where it breaks."""


class Tensors(dict[str, np.ndarray]):
    """A file's tensors by name. Each is held against its checksum, if it has one, when `[]` first asks for it."""

    def __init__(self, file: str, arrays: Mapping[str, np.ndarray], sums: Mapping[str, Any]) -> None:
        super().__init__(arrays)
        self._file, self._sums = file, dict(sums)

    def __getitem__(self, name: str) -> np.ndarray:
        array = super().__getitem__(name)
        if name in self._sums and self._sums[name] != checksum(array):
            raise FileError(f"{self._file}: tensor {name!r} is damaged: its checksum is another")
        self._sums.pop(name, None)
        return array


def checksum(array: np.ndarray) -> str:
    """CRC-32 of the sums of blocks: ten times as fast as of the bytes, and any single damage gives another, too."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    blocks = data[: data.size // BLOCK * BLOCK].view(np.uint64).reshape(-1, BLOCK // 8)
    return _crc(data[blocks.nbytes :].data, _crc(blocks.sum(axis=1).data))


def _crc(data: bytes | memoryview, before: str = "0") -> str:
    return f"{zlib.crc32(data, int(before, 16)):0{DIGITS}x}"


def layout(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> tuple[bytes, list[tuple[int, np.ndarray]]]:
    """The header's bytes, and each tensor with the filler bytes before it."""
    sums = {name: checksum(array) for name, array in tensors.items()}
    own = {"checksum": "0" * DIGITS, SUMS: json.dumps(sums, separators=(",", ":"))}
    header: dict[str, Any] = {"__metadata__": own | dict(metadata)}
    body: list[tuple[int, np.ndarray]] = []
    at = 0
    for name, array in tensors.items():
        gap = -at % ALIGNMENT
        if gap:
            header[f"__pad_{len(body)}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [at, at + gap]}
            at += gap
        type = NAMES[dtypes.from_numpy(array.dtype)]
        header[name] = {"dtype": type, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        body.append((gap, array))
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    rest = text[len(OWN) + DIGITS :] + b" " * (-(8 + len(text)) % ALIGNMENT)
    text = OWN + _crc(rest).encode() + rest
    return len(text).to_bytes(8, "little") + text, body


def write(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write a file; it appears under its name only when it is whole."""
    header, body = layout(tensors, metadata)
    arrays = ((bytes(gap), np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) for gap, array in body)
    replace_file(path, chain((header,), chain.from_iterable(arrays)))


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file of these parts; it appears under its name only when it is whole and on the disk.

    Until then, and where writing fails, a file that was there stays as it was. A link stays a link, a file keeps its
    mode; pipes and devices are written directly. OSError names the file.
    """
    try:
        _replace_file(os.fspath(path), parts)
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(path)) from error


def _replace_file(path: str, parts: Iterable[bytes | memoryview]) -> None:
    old = os.stat(path) if os.path.exists(path) else None
    if old and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as out:
            out.writelines(parts)
        return
    if old and not os.access(path, os.W_OK):  # renaming would ask the folder alone
        raise PermissionError(errno.EACCES, "must not be written to")
    target = os.path.realpath(path)
    fresh = os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.openmgx")
    try:
        with open(fresh, "xb") as out:
            if old:
                os.chmod(fresh, stat.S_IMODE(old.st_mode))
            out.writelines(parts)
            out.flush()
            os.fsync(out.fileno())
        os.replace(fresh, target)
    finally:
        with suppress(FileNotFoundError):  # it was renamed, or never made
            os.unlink(fresh)


def to_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """What `write` would write."""
    header, body = layout(tensors, metadata)
    return b"".join([header, *(bytes(gap) + np.ascontiguousarray(array).tobytes() for gap, array in body)])


def read(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, str]]:
    """Tensors (read-only views of the mapped file) and metadata; FileError for anything else than a whole file."""
    with open(path, "rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        if size < 8:
            raise FileError(f"{path}: {size} bytes are too few for a header")
        mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    return parse(np.frombuffer(mapped, np.uint8), str(path))


def from_bytes(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """As `read`, from memory."""
    return parse(np.frombuffer(data, np.uint8), "buffer")


def parse(data: np.ndarray, name: str) -> tuple[Tensors, dict[str, str]]:
    """Tensors and metadata of a file's bytes, which the tensors share where they are aligned.

    The metadata are those that were written: without checksums.
    """
    if data.size < 8:
        raise FileError(f"{name}: {data.size} bytes are too few for a header")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if not 2 <= length <= min(MAX_HEADER, data.size - 8):
        raise FileError(f"{name}: no .mxr file, or truncated: a header of {length} bytes in a file of {data.size}")
    text = data[8 : 8 + length].tobytes()
    stated, rest = text[len(OWN) :][:DIGITS], text[len(OWN) + DIGITS :]
    if text.startswith(OWN) and stated != _crc(rest).encode():
        raise FileError(f"{name}: the header is damaged: its checksum is another")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: the header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise FileError(f"{name}: the header is not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileError(f"{name}: __metadata__ is not an object of strings")
    body = data[8 + length :]
    tensors = {k: _tensor(name, k, e, body) for k, e in header.items() if not k.startswith("__pad_")}
    metadata.pop("checksum", None)
    try:
        return Tensors(name, tensors, json.loads(metadata.pop(SUMS, "{}"))), metadata
    except (ValueError, TypeError, RecursionError):
        raise FileError(f"{name}: its checksums are malformed") from None


def _tensor(file: str, name: str, entry: Any, body: np.ndarray) -> np.ndarray:
    try:
        dtype, shape, (begin, end) = dtypes.to_numpy(TYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        raise FileError(f"{file}: the entry of tensor {name!r} is malformed") from None
    size = dtype.itemsize
    for n in shape if whole else ():
        size *= n
    if not whole or end - begin != size or end > body.size:
        raise FileError(f"{file}: tensor {name!r} does not fit the file (truncated?)")
    try:
        array = body[begin:end].view(dtype).reshape(shape)
        return array if array.flags.aligned else array.copy()  # which ours always are
    except ValueError as error:  # more dimensions than NumPy has, or a length beyond any memory beside one of 0
        raise FileError(f"{file}: tensor {name!r}: {error}") from None

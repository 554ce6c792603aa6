"""Argument: a shape and the memory that holds its values."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape, strided
from migraphx.runtime.device import HOST, Device

_BYTE = ctypes.c_char


def address(array: np.ndarray) -> int:
    """Where an array's first element is."""
    try:  # a third of the time that NumPy takes to say it; not of what is read-only or has gaps
        return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]  # its stub says so from 3.12 on
    except (BufferError, TypeError, ValueError):
        return array.__array_interface__["data"][0]


class Argument:
    """Memory of a device, laid out as `shape` says, starting at `pointer`; `owner` keeps it alive."""

    __slots__ = ("__weakref__", "_array", "device", "owner", "pointer", "shape")

    def __init__(self, shape: Shape, pointer: int, owner: Any = None, device: Device = HOST) -> None:
        self.shape = shape
        self.pointer = pointer
        self.owner = owner
        self.device = device
        self._array: np.ndarray | None = None

    @classmethod
    def of(cls, array: np.ndarray, shape: Shape | None = None) -> Argument:
        """View an array; no copy."""
        made = cls(shape or Shape.of(array), address(array), array)
        made._array = array
        return made

    @classmethod
    def empty(cls, shape: Shape, device: Device = HOST, stream: int | None = None) -> Argument:
        """Uninitialised memory for `shape`, its strides included; `stream` is where it is used."""
        if device is not HOST:
            return cls(shape, *device.allocate(shape.bytes, stream), device)
        if shape.row_major:
            return cls.of(np.empty(shape.lens, shape.numpy_dtype), shape)
        return cls.of(strided(np.empty(shape.element_space, shape.numpy_dtype), shape), shape)

    def to(self, device: Device, stream: int | None = None) -> Argument:
        """The values on a device: themselves where they are there, else a copy, made in a stream.

        What reads them in that stream finds them; on the host they are there when this returns.
        """
        if device is self.device:
            return self
        if device is not HOST and self.device is not HOST:
            return self.to(HOST, stream).to(device, stream)
        made, nbytes = Argument.empty(self.shape, device, stream), self.shape.bytes
        if not nbytes:
            return made
        if device is HOST:
            self.device.read(made.pointer, self.pointer, nbytes, stream)
        else:
            device.write(made.pointer, self.pointer, nbytes, stream)
        return made

    def copy_to(self, place: Argument, stream: int | None = None) -> None:
        """Copy the values into memory of equal shape on the same device."""
        self.device.copy(place.pointer, self.pointer, self.shape.bytes, stream)

    def overlaps(self, other: Argument) -> bool:
        """Whether the two have a byte in common."""
        ends = self.pointer + self.shape.bytes, other.pointer + other.shape.bytes
        return self.device is other.device and self.pointer < ends[1] and other.pointer < ends[0]

    @property
    def writeable(self) -> bool:
        """Whether nobody has said that its memory is read-only."""
        return self._array is None or self._array.flags.writeable

    @property
    def array(self) -> np.ndarray:
        """The values as an array over the same memory; ValueError where that is not main memory."""
        if self.device is not HOST:
            raise ValueError(
                f"the values ({self.shape}) are on {self.device.name}, not in main memory: copy them first"
            )
        if self._array is None:
            space = self.shape.element_space
            if not space:
                self._array = np.empty(self.shape.lens, self.shape.numpy_dtype)
            else:
                raw = np.array(Memory(self.pointer, space * self.shape.numpy_dtype.itemsize, self.owner), copy=False)
                self._array = strided(raw.view(self.shape.numpy_dtype), self.shape)
        return self._array


class Memory:
    """Bytes at an address, as NumPy's array interface describes them; `owner` lives as long as a view of them."""

    def __init__(self, pointer: int, nbytes: int, owner: Any = None) -> None:
        self.owner = owner
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (pointer, False), "version": 3}

"""Argument: a shape and the memory that holds its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from migraphx.ir.shape import Shape, strided


class Argument:
    """Memory laid out as `shape` says, starting at `pointer`; `owner` keeps it alive."""

    __slots__ = ("_array", "owner", "pointer", "shape")

    def __init__(self, shape: Shape, pointer: int, owner: Any = None) -> None:
        self.shape = shape
        self.pointer = pointer
        self.owner = owner
        self._array: np.ndarray | None = None

    @classmethod
    def of(cls, array: np.ndarray, shape: Shape | None = None) -> Argument:
        """View an array; no copy."""
        made = cls(shape or Shape.of(array), array.__array_interface__["data"][0], array)
        made._array = array
        return made

    @classmethod
    def empty(cls, shape: Shape) -> Argument:
        """Uninitialised memory for `shape`, its strides included."""
        flat = np.empty(shape.element_space, shape.numpy_dtype)
        return cls.of(strided(flat, shape), shape)

    @property
    def array(self) -> np.ndarray:
        """The values as an array over the same memory."""
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

"""`migraphx.argument` and the functions that make one."""

from __future__ import annotations

import os
from operator import index
from typing import Any

import numpy as np

from migraphx.api.shape import shape, wrap
from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import Shape
from migraphx.ir.text import values_text
from migraphx.mxr import container
from migraphx.runtime import dlpack
from migraphx.runtime.argument import Argument, address
from migraphx.runtime.buffer import Exporter
from migraphx.runtime.device import CUDA, HOST, device_of

FILE_TENSOR = "argument"


class argument(Argument, Exporter):
    """A shape and the memory that holds its values.

    Made from an array, a tensor (DLPack) or a buffer without a copy, and from numbers and lists. Arrays with
    negative strides or of foreign byte order, and tensors on a device on which no target runs, must be copied first:
    ValueError. What shows or compares values of another device copies them to main memory, and waits for them.
    """

    __slots__ = ()

    def __init__(self, data: Any) -> None:
        found = elsewhere(data)
        if found is None and isinstance(data, Argument) and data.device is not HOST:
            found = data
        if found is not None:
            super().__init__(found.shape, found.pointer, found, found.device)
            return
        array = as_array(data)
        super().__init__(Shape.of(array), address(array), data)
        self._array = array

    def get_shape(self) -> shape:
        """The shape, as a `migraphx.shape`."""
        return wrap(self.shape)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.pointer

    def tolist(self) -> list:
        """The values in row-major order, as Python numbers."""
        return dtypes.numbers(self._here()).ravel().tolist()

    def _here(self) -> np.ndarray:
        return self.to(HOST).array

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file of one tensor, in row-major order: unlike `.npy` it knows bf16 and fp8."""
        container.write(path, {FILE_TENSOR: self._here()}, {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> argument:
        """Read what `save` wrote, by memory map; FileError for anything else."""
        tensors, _ = container.read(path)
        if FILE_TENSOR not in tensors:
            raise container.FileError(f"{path}: holds no tensor {FILE_TENSOR!r}")
        return cls(tensors[FILE_TENSOR])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy)

    def __buffer__(self, flags: int) -> memoryview:
        """What `memoryview(argument)` is.

        BufferError for bf16, fp8 and their like, which have no format, and for memory of other devices.
        NumPy asks here first, and takes `__array__` where this is refused.
        """
        if self.device is not HOST:
            raise BufferError(f"the values are on {self.device.name}, not in main memory: copy them first")
        if self.array.dtype.isbuiltin != 1:
            raise BufferError(f"{self.shape.type}_type has no buffer format; use numpy.asarray or DLPack")
        return memoryview(self.array)  # type: ignore[arg-type]  # its stub says so from 3.12 on

    def __dlpack__(self, *, stream: Any = None, dl_device: Any = None, copy: bool | None = None, **more: Any) -> Any:
        """A capsule of the values where they are; BufferError where a copy or another device is asked for.

        Values of another device are there when it returns, unless `stream` is -1.
        """
        if self.device is HOST and self.shape.type not in dlpack.BEYOND_NUMPY:
            return self.array.__dlpack__(stream=stream, dl_device=dl_device, copy=copy, **more)
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(f"the values on {self.device.name} are exported where they are, not copied")
        if stream != -1:
            self.device.synchronise()
        return dlpack.write(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.kind, self.device.index

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """As Numba and CuPy read it, of an argument on a CUDA device; AttributeError for any other.

        Consumers wait for the default stream; what ran in others must be over.
        """
        dtype = self.shape.numpy_dtype
        if self.device.kind != CUDA or dtype.isbuiltin != 1:
            raise AttributeError(f"{self.shape.type}_type on {self.device.name} has no __cuda_array_interface__")
        steps = tuple(s * dtype.itemsize for s in self.shape.strides)
        place = {"data": (self.pointer, False), "strides": steps, "stream": dlpack.DEFAULT_STREAMS[CUDA]}
        return {"shape": self.shape.lens, "typestr": dtype.str, "version": 3, **place}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles own their memory, on the same device."""
        return (argument, (self.array,)) if self.device is HOST else (_on, (self._here(), *self.__dlpack_device__()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Argument):
            return NotImplemented
        same = self.shape.type == other.shape.type and self.shape.lens == other.shape.lens
        values = self._here(), other.to(HOST).array
        return same and np.array_equal(*values, equal_nan=self.shape.type in dtypes.FLOATS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return values_text(self._here())


def _on(array: np.ndarray, kind: int, index: int) -> argument:
    return publish(Argument.of(array).to(device_of(kind, index)))


def elsewhere(data: Any, stream: int | None = None) -> Argument | None:
    """View a tensor (DLPack) on a device other than the host, ready for what that device's stream does next.

    None for anything else. ValueError where no target of this build has the device, or its type is none of ours.
    """
    if isinstance(data, (np.ndarray, Argument)) or not hasattr(data, "__dlpack_device__"):
        return None
    kind, index = data.__dlpack_device__()
    if device_of(int(kind), index) is HOST:
        return None
    found = dlpack.read(data, stream)
    if found is None:
        raise ValueError(f"no MIGraphX type is that of the tensor ({getattr(data, 'dtype', 'of an unknown type')})")
    return found


def as_array(data: Any) -> np.ndarray:
    """View `data` (array, DLPack tensor, buffer, number or nested list) as an array; copies only lists and numbers.

    ValueError for what is not in main memory.
    """
    if isinstance(data, Argument):
        return data.array
    found = elsewhere(data)
    return host_array(data) if found is None else found.array


def host_array(data: Any) -> np.ndarray:
    """As `as_array`, of what is in main memory; the producer's BufferError or RuntimeError where it does not export."""
    if isinstance(data, bytes):  # which NumPy takes for a word
        return np.frombuffer(data, np.uint8)
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        try:
            return np.from_dlpack(data)
        except (BufferError, RuntimeError, TypeError):
            found = dlpack.read(data)  # raises the producer's reason, where that is why
            if found is not None:
                return found.array
    return np.asarray(data)


def publish(plain: Argument) -> argument:
    """The public face of an engine argument."""
    if isinstance(plain, argument):
        return plain
    made = argument.__new__(argument)
    Argument.__init__(made, plain.shape, plain.pointer, plain.owner, plain.device)
    made._array = plain._array
    return made


def argument_from_pointer(shape: shape, address: int) -> argument:
    """View memory that the caller keeps alive.

    TypeError for what is no shape; ValueError for one that is dynamic or a tuple, and for a null or negative address.
    """
    impl, place = _memory("argument_from_pointer", shape), index(address)
    if place < 0 or (not place and impl.elements):
        raise ValueError(f"argument_from_pointer: a {'negative' if place else 'null'} pointer holds no {shape}")
    return publish(Argument(impl, place))


def create_argument(s: shape, values: Any) -> argument:
    """An argument of shape `s` filled with `values` in row-major order.

    ValueError where their number is another, the type cannot hold one of them, or `s` is dynamic or a tuple.
    """
    impl, given = _memory("create_argument", s), np.asarray(values)
    if impl.type == "uint64" and given.dtype == np.float64 and not isinstance(values, np.ndarray):
        exact = np.asarray(values, object)  # beside small integers NumPy rounds those that int64 does not hold
        if all(hasattr(v, "__index__") and v >= 0 for v in exact.flat):
            given = exact.astype(np.uint64)
    if given.size != impl.elements:
        raise ValueError(f"create_argument: {given.size} values for {s}, which holds {impl.elements}")
    return _filled(impl, given.reshape(impl.lens))


def fill_argument(s: shape, value: float) -> argument:
    """An argument of shape `s`, every element `value`.

    ValueError where the type cannot hold it, or `s` is dynamic or a tuple.
    """
    impl, given = _memory("fill_argument", s), np.asarray(value)
    if given.ndim:
        raise ValueError(f"fill_argument takes one value, got {given.size}: create_argument takes one an element")
    return _filled(impl, given)


def _memory(maker: str, s: Any) -> Shape:
    """The shape behind `s`, which memory can have."""
    if not isinstance(s, shape):
        raise TypeError(f"{maker}: the shape must be a migraphx.shape, got {s!r}")
    if s._impl.dynamic or s._impl.type == "tuple":
        raise ValueError(f"{maker}: {s} is no memory's shape: it needs one type and lens")
    return s._impl


def _filled(s: Shape, values: np.ndarray) -> argument:
    if values.dtype.kind in "OSUMmc" and values.size:
        raise ValueError(f"a value is no {s.type}: {np.array2string(values, threshold=10)}")
    whole, made = np.empty(s.lens, s.numpy_dtype), Argument.empty(s)
    with np.errstate(over="ignore", invalid="ignore"):
        whole[...] = values
    if s.type not in dtypes.FLOATS and not np.array_equal(
        dtypes.numbers(whole), np.broadcast_to(dtypes.numbers(values), s.lens)
    ):
        raise ValueError(f"a value is no {s.type}: {np.array2string(values, threshold=10)}")
    made.array[...] = whole
    if s.broadcasted and made.array.tobytes() != whole.tobytes():
        raise ValueError(f"{s}: its values must be equal where the stride is 0")
    return publish(made)


def generate_argument(s: shape, seed: int = 0) -> argument:
    """An argument of shape `s` with reproducible random values: floats in [-1, 1), small integers, bools.

    ValueError where `s` is dynamic or a tuple.
    """
    impl = _memory("generate_argument", s)
    rng, type, lens = np.random.default_rng(seed), impl.type, impl.lens
    made = Argument.empty(impl)
    if type == "bool":
        made.array[...] = rng.integers(0, 2, lens)
    elif type == "fp4x2":
        made.array[...] = rng.integers(0, 256, lens)
    elif type in dtypes.INTEGERS:
        made.array[...] = rng.integers(0 if type in dtypes.UNSIGNED else -8, 8, lens)
    else:
        made.array[...] = rng.uniform(0.25 if type == "fp8e8m0fnu" else -1, 1, lens)  # which has neither signs nor 0
    return publish(made)

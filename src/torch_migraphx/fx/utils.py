"""What Torch-MIGraphX's users import from here: precisions, types in both worlds, arguments, graphs as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata
from torch.torch_version import TorchVersion

import migraphx
from torch_migraphx.fx.dtypes import DTYPES, TYPES, type_name

P = ParamSpec("P")
R = TypeVar("R")


class LowerPrecision(Enum):
    """The values of `lower_precision`; int8 is a model that was quantized, see torch_migraphx.fx.quantization."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


TYPE_MAP = {dtype: f"{name}_type" for dtype, name in TYPES.items()}
INV_TYPE_MAP = {name: dtype for dtype, name in TYPE_MAP.items()}


def torch_dtype_to_mgx(dtype: torch.dtype) -> str:
    """MIGraphX's name of a torch dtype (`float_type`); UnsupportedError where it has none."""
    return f"{type_name(dtype)}_type"


def torch_dtype_from_mgx(type_string: str) -> torch.dtype:
    """The torch dtype of a type's name; ValueError for one that torch does not have."""
    try:
        return DTYPES[type_string.removesuffix("_type")]
    except KeyError:
        raise ValueError(f"torch has no type for {type_string!r}") from None


def torch_dtype_to_mgx_enum(dtype: torch.dtype) -> Any:
    """The member of `migraphx.shape.type_t` for a torch dtype."""
    return mgx_type_str_to_enum(torch_dtype_to_mgx(dtype))


def mgx_type_str_to_enum(type_string: str) -> Any:
    """The member of `migraphx.shape.type_t` of this name."""
    return getattr(migraphx.shape.type_t, type_string)


QTYPES = {torch.qint8: "int8_type", torch.quint8: "uint8_type", torch.qint32: "int32_type"}
"""torch's quantized types, and the types of their codes."""


def torch_qdtype_to_mgx(dtype: torch.dtype) -> str:
    """MIGraphX's name of the type of a quantized type's codes; ValueError for other types."""
    try:
        return QTYPES[dtype]
    except KeyError:
        raise ValueError(f"{dtype} is no quantized type; these are {list(QTYPES)}") from None


def torch_qdtype_from_mgx(type_string: str) -> torch.dtype:
    """The quantized type whose codes have this type; ValueError where there is none."""
    found = next((dtype for dtype, name in QTYPES.items() if name == type_string), None)
    if found is None:
        raise ValueError(f"torch has no quantized type for {type_string!r}")
    return found


def req_torch_version(min_torch_version: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of functions that need this version of torch; called with an older one they raise RuntimeError."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if torch.__version__ < TorchVersion(min_torch_version):
                raise RuntimeError(f"{function.__name__} needs torch {min_torch_version}; this is {torch.__version__}")
            return function(*args, **kwargs)

        return checked

    return decorate


def mgx_argument_from_tensor(tensor: torch.Tensor) -> migraphx.argument:
    """An argument over the memory of a tensor, which the caller keeps alive."""
    shape = migraphx.shape(type_name(tensor.dtype), list(tensor.shape), list(tensor.stride()))
    return migraphx.argument_from_pointer(shape, tensor.data_ptr())


def mgx_argument_from_ptr(ptr: int, shape: migraphx.shape) -> migraphx.argument:
    """An argument over memory that the caller keeps alive."""
    return migraphx.argument_from_pointer(shape, ptr)


def tensor_from_mgx_argument(arg: migraphx.argument, device: torch.device | str | None = None) -> torch.Tensor:
    """A tensor over the memory of an argument, on the device where that lies.

    ValueError where another `device` is asked for.
    """
    tensor = torch.from_dlpack(arg)
    if device is not None and torch.device(device).type != tensor.device.type:
        raise ValueError(f"the argument lies on {tensor.device}, not on {device}")
    return tensor


def tensors_from_mgx_arguments(
    args: Sequence[migraphx.argument],
    mgx_shapes: Sequence[migraphx.shape] | None = None,
    device: torch.device | str | None = None,
) -> list[torch.Tensor]:
    """`tensor_from_mgx_argument` of each; the arguments' own shapes are those of `mgx_shapes`."""
    return [tensor_from_mgx_argument(a, device) for a in args]


def mgx_program_to_bytearray(program: migraphx.program) -> bytearray:
    """A program as the bytes of an .mxr file."""
    return bytearray(migraphx.save_buffer(program))


def mgx_program_from_bytearray(barray: bytes | bytearray) -> migraphx.program:
    """The program of the bytes of an .mxr file."""
    return migraphx.load_buffer(bytes(barray))


def get_node_info(node: fx.Node) -> str:
    """A node as torch.fx prints it, and the type, sizes and strides of what it gives, on one line."""
    return f"{node.format_node()}{tensor_meta_str(node.meta.get('tensor_meta'))}"


def get_graph_info(graph: fx.Graph) -> str:
    """The nodes of a graph, a line for each."""
    return "\n".join(map(get_node_info, graph.nodes))


def print_graph(graph: fx.Graph) -> None:
    """Print the nodes of a graph, a line for each."""
    print(get_graph_info(graph))  # noqa: T201  # that is what it is for


def tensor_meta_str(tm: Any) -> str:
    """The type, sizes and strides in a TensorMetadata, or in each of several; "" for anything else."""
    if isinstance(tm, TensorMetadata):
        return f" -> {tm.dtype} {list(tm.shape)} at strides {list(tm.stride)}"
    return "".join(map(tensor_meta_str, tm)) if isinstance(tm, tuple | list) else ""

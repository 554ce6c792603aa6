"""Tensors as arguments of the engine and back, under the names of Torch-MIGraphX's C++ module."""  # noqa: N999

from torch_migraphx.fx.utils import mgx_argument_from_tensor as tensor_to_arg
from torch_migraphx.fx.utils import tensor_from_mgx_argument as arg_to_tensor

__all__ = ["arg_to_tensor", "tensor_to_arg"]

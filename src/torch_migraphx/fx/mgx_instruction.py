"""What converters that users register are given, and give."""

from __future__ import annotations

import torch

import migraphx
from torch_migraphx.fx.dtypes import DTYPES


class MGXInstruction:
    """A value as Torch-MIGraphX's converters have it: the instruction that computes it is `instr_ref`.

    `torch_attr_value` is the weight that it stands for, if it stands for one. `qparams` is always None: tensors of
    torch's quantized types do not reach the engine. `bool_output` is taken: comparisons give bool here in any case.
    """

    def __init__(
        self,
        instr_ref: migraphx.instruction_ref,
        qparams: None = None,
        torch_attr_value: torch.Tensor | None = None,
        bool_output: bool = False,
    ) -> None:
        self.instr_ref, self.qparams = instr_ref, qparams
        self.torch_attr_value, self.bool_output = torch_attr_value, bool_output

    def is_quantized(self) -> bool:
        """Whether it has parameters of a quantization."""
        return self.qparams is not None

    def shape(self) -> migraphx.shape:
        """The engine's shape."""
        return self.instr_ref.shape()

    def mgx_type(self) -> str:
        """The engine's name of its type: `float_type`."""
        return self.instr_ref.shape().type_string()

    def torch_type(self) -> torch.dtype:
        """Its torch dtype."""
        return DTYPES[self.mgx_type().removesuffix("_type")]

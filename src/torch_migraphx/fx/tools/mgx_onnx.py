"""ONNX files as modules of torch."""

from __future__ import annotations

import os
from typing import Any

import migraphx
from torch_migraphx.fx.mgx_module import MGXModule


def from_onnx(fname: str | os.PathLike[str], **kwargs: Any) -> MGXModule:
    """The module of an ONNX file, which takes the model's inputs in the file's order.

    `kwargs` are those of MGXModule (`quantize_fp16`, `target`, ...). The errors are those of `migraphx.parse_onnx`.
    """
    program = migraphx.parse_onnx(os.fspath(fname))
    return MGXModule(program, program.get_parameter_names(), **kwargs)

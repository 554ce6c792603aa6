"""PT2E quantization for the engine: export, prepare, calibrate (or train), convert, then compile.

It stands on torchao, which `pip install 'openmgx[quantization]'` brings.
"""

try:
    import torchao.quantization.pt2e  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "torch_migraphx.dynamo.quantization needs torchao: pip install 'openmgx[quantization]'", name=error.name
    ) from error

from torch_migraphx.dynamo.quantization.mixed import Layer, Quantized, quantize
from torch_migraphx.dynamo.quantization.quantizer import MGXQuantizer
from torch_migraphx.dynamo.quantization.workflow import (
    convert_pt2e,
    export_for_quantization,
    prepare_pt2e,
    prepare_qat_pt2e,
)

__all__ = [
    "Layer",
    "MGXQuantizer",
    "Quantized",
    "convert_pt2e",
    "export_for_quantization",
    "prepare_pt2e",
    "prepare_qat_pt2e",
    "quantize",
]

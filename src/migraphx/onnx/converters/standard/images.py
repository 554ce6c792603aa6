"""Encoded images: decoded while the model is read, as their sizes are in the data."""

from __future__ import annotations

import io

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter

Value = Instruction


@converter("ImageDecoder")
def image_decoder(b: OnnxBuilder, data: Value, *, pixel_format: str) -> Value:
    """The bytes of an image file as uint8 {height, width, channels}. Needs Pillow."""
    expect(data, "input", None)
    modes = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
    if pixel_format not in modes:
        raise OnnxError(f"pixel_format must be {', '.join(modes)}, is {pixel_format!r}")
    try:
        import PIL.Image
    except ImportError:
        raise OnnxError("decoding images needs Pillow: pip install pillow") from None
    encoded = b.known(data, "input (an encoded image)")
    try:
        with PIL.Image.open(io.BytesIO(encoded.tobytes())) as image:
            pixels = np.asarray(image.convert(modes[pixel_format]))
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise OnnxError(f"its input is no image: {error}") from None
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    return b.literal(np.ascontiguousarray(pixels[..., ::-1] if pixel_format == "BGR" else pixels))

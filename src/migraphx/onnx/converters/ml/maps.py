"""Maps as inputs (the domain ai.onnx.ml): their keys are known while the model is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.ml.features import DOMAIN
from migraphx.onnx.graph import Map, OnnxError, Strings
from migraphx.onnx.registry import converter

Value = Instruction
CASTS = {"TO_FLOAT": "float", "TO_INT64": "int64", "TO_STRING": "string"}


def row(b: OnnxBuilder, x: Map, wanted: Sequence[str | int]) -> Value | Strings:
    """The values of the keys `wanted`, {1, keys}; 0 or no text where the map has none."""
    place = {key: k for k, key in enumerate(x.keys)}
    places = np.array([[place.get(key, len(place)) for key in wanted]], np.int64)
    if isinstance(x.values, Strings):
        return Strings.of(np.array([*x.values.value.tolist(), ""], object)[places])
    nothing = b.literal(np.zeros(1, x.values.shape.numpy_dtype))
    return b.gather(b.concat(x.values, nothing, axis=0), b.literal(places), axis=0)


@converter("DictVectorizer", domain=DOMAIN)
def dict_vectorizer(
    b: OnnxBuilder, x: Map, *, int64_vocabulary: Sequence[int] = (), string_vocabulary: Sequence[str] = ()
) -> Value | Strings:
    """The values in the order of the vocabulary, {1, words}."""
    if bool(int64_vocabulary) == bool(string_vocabulary):
        raise OnnxError("must have one of int64_vocabulary and string_vocabulary")
    return row(b, x, string_vocabulary or int64_vocabulary)


@converter("CastMap", domain=DOMAIN)
def cast_map(
    b: OnnxBuilder, x: Map, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Value | Strings:
    """The values in the order of the keys, {1, n}, or (SPARSE) of keys 0 to max_map - 1, as another type."""
    if cast_to not in CASTS or map_form not in ("DENSE", "SPARSE"):
        raise OnnxError(f"cast_to {cast_to!r} and map_form {map_form!r} must be {', '.join(CASTS)} and DENSE or SPARSE")
    keys = sorted(int(key) for key in x.keys)
    if map_form == "SPARSE" and keys and not 0 <= keys[0] <= keys[-1] < max_map:
        raise OnnxError(f"keys {keys[0]} to {keys[-1]} are not below max_map {max_map}")
    found = row(b, x, keys if map_form == "DENSE" else range(max_map))
    type = CASTS[cast_to]
    if isinstance(found, Strings):
        numbers = [float(text or 0) for text in found.value.reshape(-1)] if type != "string" else []
        return found if type == "string" else b.literal(np.reshape(numbers, found.value.shape), type)
    if type == "string":
        raise OnnxError("numbers of a map as strings are not supported")
    return b.cast(found, type)

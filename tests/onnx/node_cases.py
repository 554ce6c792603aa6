"""The backend node cases of package onnx: one operator each, with inputs and answers."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import onnx
from onnx.backend.test import loader

from migraphx.ir import dtype as dtypes
from migraphx.ir.program import Program
from migraphx.onnx.builder import Options
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.importer import import_model
from migraphx.onnx.model import read_buffer
from migraphx.targets.ref.evaluate import evaluate
from tests.tolerances import assert_close

NOT_SUPPORTED: dict[str, str] = {
    "strings": r"equal_string.*|string.*|regex.*|strnorm.*|tfidf.*",
    "sequences and optionals as inputs or outputs": r"sequence_.*|optional_.*|split_to_sequence.*"
    r"|identity_(sequence|opt)|if_(seq|opt)|loop1[36]_seq.*",
    "classical machine learning, training and preview domains": r"ai_onnx_ml_.*|adam.*|adagrad.*|momentum.*"
    r"|nesterov.*|flexattention.*",
    "random numbers, training": r"bernoulli.*|training_dropout.*",
    "number of results known only at run time": r"nonmaxsuppression.*|unique_.*",
    "operators still to come": r"col2im.*|.*deform_conv.*|det_.*|dft.*|stft.*|maxunpool.*"
    r"|maxpool_with_argmax.*"
    r"|melweight.*|image_decoder.*|scan_sum",
    "options of Resize still to come": r"resize_.*(antialias|exclude_outside|tf_crop_and_resize).*",
    "made with a fractional length, unlike onnxruntime": r"resize_downsample_scales_.*_align_corners",
}
"""Reason -> names (without `test_`) of the cases that need not pass."""


def load() -> list[Any]:
    """All cases; takes seconds, as their data is made anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind="node")


def reason(name: str) -> str | None:
    """Why a case need not pass."""
    short = name.removeprefix("test_").removesuffix("_expanded")
    return next((why for why, pattern in NOT_SUPPORTED.items() if re.fullmatch(pattern, short)), None)


def array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def with_constants(model: onnx.ModelProto, inputs: list[Any], keep: int) -> onnx.ModelProto:
    """The model with its inputs from the `keep`th on as initializers."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for info, value in list(zip(changed.graph.input, inputs, strict=False))[keep:]:
        tensor = onnx.TensorProto()
        tensor.CopyFrom(
            value if isinstance(value, onnx.TensorProto) else onnx.numpy_helper.from_array(array(value))
        )
        tensor.name = info.name
        changed.graph.initializer.append(tensor)
        changed.graph.input.remove(info)
    return changed


def imported(case: Any) -> Program:
    """The case's program. Shapes are static: inputs that shapes depend on are given as constants."""
    for keep in (None, 1, 0):
        model = case.model if keep is None else with_constants(case.model, case.data_sets[0][0], keep)
        try:
            return import_model(read_buffer(model.SerializeToString()), Options()).program
        except OnnxError as error:
            if "must be known" not in str(error) or keep == 0:
                raise
    raise AssertionError("not reached")


def check(case: Any) -> None:
    """Run one case on `ref`; AssertionError or OnnxError where it fails."""
    program = imported(case)
    names = [i.name for i in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        given = {n: array(v) for n, v in zip(names, inputs, strict=False)}
        got = evaluate(program.main, given)
        for value, wanted in zip(got, map(array, outputs), strict=True):
            assert value.dtype == wanted.dtype and value.shape == wanted.shape, (
                f"{value.dtype}, {value.shape}"
            )
            if dtypes.from_numpy(value.dtype) in dtypes.NARROW_FLOATS:
                assert_close(value, wanted)
            else:
                wide = np.float64 if value.dtype.kind == "f" else value.dtype
                np.testing.assert_allclose(
                    value.astype(wide), wanted.astype(wide), case.rtol, max(case.atol, 1e-6)
                )

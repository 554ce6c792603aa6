"""Every version of the standard's operators from opset 7 on against onnxruntime.

What were attributes, what axes meant, and the rest. A row holds cases and the opsets that they are written for.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs
from onnx.reference import ReferenceEvaluator

from tests.onnx.contrib_cases import Case, model_of
from tests.onnx.one_node import one_node, ours, theirs
from tests.tolerances import assert_close

RNG = np.random.default_rng(11)
LAST = 24
Row = tuple[int, int, list[Case]]


def f(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def u8(*lens: int) -> np.ndarray:
    return RNG.integers(0, 255, lens, np.uint8)


def s(value: float, kind: Any = np.float32) -> np.ndarray:
    return np.array(value, kind)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def n(op: str, *inputs: np.ndarray | None, outs: int = 1, const: tuple[int, ...] = (), **attributes: Any) -> Case:
    return Case(op, inputs, range(outs), const, attributes, "")


X, M, IMAGE = f(2, 3, 4, 5), f(3, 4), f(1, 2, 6, 7)
TRUE = RNG.random((3, 4)) > 0.5
BINARY = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
          "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip


def axes() -> list[Row]:
    """Axes that became an input, or may be negative."""
    rows: list[Row] = []
    for op, change in [*((op, 18) for op in BINARY), ("ReduceSum", 13)]:
        y = np.abs(X) + np.float32(0.1)
        old = [n(op, y, axes=[1, 3], keepdims=0), n(op, y)]
        new = [n(op, y, ints(1, -1), const=(1,), keepdims=0), n(op, y), n(op, y, None, noop_with_empty_axes=1),
               n(op, y, ints(), const=(1,), noop_with_empty_axes=1), n(op, y, ints(), const=(1,))]  # fmt: skip
        rows += [(7, change - 1, old), (change, LAST, new)]
    thin = f(1, 3, 1)
    rows += [
        (7, 12, [n("Squeeze", thin, axes=[0]), n("Squeeze", thin), n("Unsqueeze", M, axes=[0, 3])]),
        (13, LAST, [n("Squeeze", thin, ints(-1), const=(1,)), n("Squeeze", thin),
                    n("Unsqueeze", M, ints(0, -1), const=(1,))]),
        (7, LAST, [n("ArgMax", X, axis=1), n("ArgMin", X, axis=2, keepdims=0), n("Flatten", X, axis=2),
                   n("Concat", M, M, axis=1), n("Gather", M, ints(2, 0), axis=0)]),
        (7, LAST, [n("LpNormalization", M, p=1, axis=0)]),
        (11, LAST, [n("ArgMax", X, axis=-1), n("Flatten", X, axis=-1), n("Concat", M, M, axis=-1),
                    n("Gather", M, ints(-1, 0), axis=-1), n("GatherElements", M, ints(-1, 0, 1, 2)[None]),
                    n("CumSum", X, s(1, np.int32), const=(1,), exclusive=1)]),
        (12, LAST, [n("ArgMax", np.round(X), axis=1, select_last_index=1)]),
        (9, 10, [n("Scatter", M, ints(0, 1, 1, 2)[None], f(1, 4))]),
        (11, LAST, [n("ScatterElements", M, ints(0, 1, -2, 2)[None], f(1, 4))]),
        (16, LAST, [n("ScatterElements", M, ints(0, 1, 1, 2)[None], f(1, 4), reduction="add"),
                    n("ScatterND", M, ints(0, 0, 1, 2).reshape(2, 2), f(2), reduction="mul")]),
    ]  # fmt: skip
    return rows


def softmax() -> list[Row]:
    """Before opset 13 over all dimensions from `axis` on, by default 1; then along one, by default the last."""
    rows: list[Row] = []
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        rows += [(7, LAST, [n(op, X), *(n(op, X, axis=a) for a in (0, 2))]), (11, LAST, [n(op, X, axis=-2)])]
    return rows


def bounds() -> list[Row]:
    """Attributes that became inputs."""
    return [
        (7, 9, [n("Slice", X, starts=[1, 0], ends=[3, -1], axes=[2, 3]), n("Slice", X, starts=[0], ends=[1]),
                n("TopK", X, outs=2, k=2, axis=1)]),
        (10, LAST, [n("Slice", X, ints(-1, 0), ints(-100, 3), ints(3, 2), ints(-2, 1), const=(1, 2, 3, 4)),
                    n("Slice", X, ints(0, 1), ints(1, 100), const=(1, 2)), n("TopK", X, ints(2), outs=2, const=(1,))]),
        (11, LAST, [n("TopK", X, ints(2), outs=2, const=(1,), axis=-2, largest=0)]),
        (7, 10, [n("Pad", M, pads=[1, 0, 2, 1], value=2.5), n("Pad", M, pads=[1, 1, 1, 2], mode="reflect"),
                 n("Pad", M, pads=[-1, 0, 2, -1]), n("Clip", M, min=-0.5, max=0.5), n("Clip", M)]),
        (11, LAST, [n("Pad", M, ints(1, 0, 2, 1), s(2.5), const=(1, 2)), n("Clip", M, s(-0.5), s(0.5)),
                    n("Pad", M, ints(-1, 1, 1, 2), const=(1,), mode="edge"), n("Clip", M, None, s(0.5)), n("Clip", M)]),
        (18, LAST, [n("Pad", X, ints(1, 2), s(1.0), ints(-1), const=(1, 2, 3))]),
        (19, LAST, [n("Pad", M, ints(1, 2, 1, 2), const=(1,), mode="wrap")]),
        (7, 11, [n("Dropout", M, ratio=0.3)]),
        (12, LAST, [n("Dropout", M, s(0.3), const=(1,)), n("Clip", ints(-9, 9), s(-3, np.int64), s(4, np.int64))]),
        (7, 12, [n("Split", X, outs=2, axis=2, split=[1, 3]), n("Split", X, outs=2, axis=2)]),
        (13, LAST, [n("Split", X, ints(1, 3), outs=2, const=(1,), axis=2)]),
        (13, 17, [n("Split", X, outs=2, axis=2)]),
        (18, LAST, [n("Split", f(5, 7), outs=3, axis=1, num_outputs=3)]),
        (14, LAST, [n("Reshape", f(0, 3), ints(3, 0), const=(1,), allowzero=1)]),
        (15, LAST, [n("Shape", X, start=1), n("Shape", X, end=-1)]),
        (9, LAST, [n("OneHot", ints(0, 2, -1), s(3, np.int64), f(2), const=(1,), axis=0),
                   n("EyeLike", M, k=1, dtype=7), n("ConstantOfShape", ints(2, 3), const=(0,))]),
    ]  # fmt: skip


def resize() -> list[Row]:
    def scales(*values: float) -> np.ndarray:
        return np.array([1, 1, *values], np.float32)

    none = np.zeros(0, np.float32)
    rows: list[Row] = [
        (7, 7, [n("Upsample", IMAGE, mode=m, scales=[1.0, 1.0, 2.0, 1.5]) for m in ("nearest", "linear")]),
        (9, 9, [n("Upsample", IMAGE, scales(2, 1.5), const=(1,), mode=m) for m in ("nearest", "linear")]),
        (10, 10, [n("Resize", IMAGE, scales(*v), const=(1,), mode=m)
                  for v in ((2, 0.7), (0.4, 1.6)) for m in ("nearest", "linear")]),
        (18, LAST, [n("Resize", IMAGE, None, np.array([2, 0.6], np.float32), const=(2,), mode="linear", axes=[2, 3]),
                    n("Resize", IMAGE, None, scales(0.5, 0.4), const=(2,), mode="linear", antialias=1),
                    n("Resize", IMAGE, None, None, ints(5, 9), const=(3,), mode="linear", axes=[2, 3],
                      keep_aspect_ratio_policy="not_larger")]),
    ]  # fmt: skip
    for how in ("half_pixel", "asymmetric", "pytorch_half_pixel"):
        for mode in ("nearest", "linear", "cubic"):
            given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
            sized = n("Resize", IMAGE, none, none, ints(1, 2, 4, 9), const=(1, 2, 3), **given)
            rows.append((11, LAST, [n("Resize", IMAGE, none, scales(1.6, 0.7), const=(1, 2), **given), sized]))
    return rows


def layers() -> list[Row]:
    """Pools, convolutions, norms, recurrent layers."""
    norm = [X, f(3), f(3), f(3), np.abs(f(3)) + np.float32(0.1)]
    rois = np.array([[0, 0, 0, 4, 4], [0, 1, 1, 5, 3], [0, 2, 2, 9, 9], [0, 8, 8, 9, 9]], np.float32)
    rows: list[Row] = [
        (7, LAST, [n("BatchNormalization", *norm, epsilon=1e-3), n("InstanceNormalization", X, *norm[1:3]),
                   n("LRN", X, size=3), n("GlobalMaxPool", IMAGE), n("LpPool", IMAGE, kernel_shape=[2, 2], p=1),
                   n("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
                   n("AveragePool", IMAGE, kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1),
                   n("Conv", IMAGE, f(4, 2, 3, 3), f(4), auto_pad="SAME_LOWER", strides=[2, 2]),
                   n("ConvTranspose", IMAGE, f(2, 3, 3, 3), output_shape=[13, 14], strides=[2, 2])]),
        (8, LAST, [n("MaxPool", IMAGE, outs=2, kernel_shape=[2, 2], storage_order=1)]),
        (10, LAST, [n("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, dilations=[2, 1]),
                    n("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1)]),
        (12, LAST, [n("MaxPool", u8(1, 2, 5, 5), kernel_shape=[2, 2])]),
        (14, LAST, [n("BatchNormalization", *norm, outs=3, training_mode=1, momentum=0.8)]),
        (18, LAST, [n("LpPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2], p=2)]),
        (19, LAST, [n("AveragePool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2])]),
        (17, LAST, [n("LayerNormalization", X, f(4, 5), outs=3, axis=2)]),
        (18, 20, [n("GroupNormalization", f(2, 4, 3), f(2), f(2), num_groups=2)]),
        (21, LAST, [n("GroupNormalization", f(2, 4, 3), f(4), f(4), num_groups=2)]),
        (7, 21, [n("GlobalLpPool", IMAGE, p=3), n("MaxRoiPool", IMAGE, rois, pooled_shape=[2, 3]),
                 n("MaxRoiPool", IMAGE, rois, pooled_shape=[3, 2], spatial_scale=0.4)]),
        (10, 21, [n("RoiAlign", IMAGE, rois[:2, 1:].copy(), ints(0, 0), output_height=2, output_width=2, mode=m)
                  for m in ("avg", "max")]),
    ]  # fmt: skip
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        x, w, r, b = f(4, 2, 3), f(2, gates * 5, 3), f(2, gates * 5, 5), f(2, 2 * gates * 5)
        both = n(op, x, w, r, b, np.array([4, 2], np.int32), outs=2, hidden_size=5, direction="bidirectional")
        one = n(op, x, w[:1], r[:1], None, None, f(1, 2, 5), outs=2, hidden_size=5, direction="reverse", clip=0.7)
        rows.append((7, LAST, [both, one]))
    return rows


def numbers() -> list[Row]:
    """Types and modes that came later."""
    code = [u8(2, 3), s(0.1), s(3, np.uint8), u8(3, 2), s(0.2), s(9, np.uint8), s(0.3), s(100, np.uint8)]
    return [
        (7, LAST, [n("Add", X, f(3, 4, 5)), n("Pow", np.abs(M), M), n("Less", M, f(4)), n("And", TRUE, ~TRUE),
                   n("Equal", ints(1, 2), ints(1, 3)), n("Gemm", M, f(4, 5), f(5), alpha=0.5), n("Cast", M, to=10),
                   n("PRelu", X, f(3, 1, 1)), n("Mean", M, M), n("Elu", M),
                   n("DepthToSpace", f(1, 8, 2, 3), blocksize=2)]),
        (8, LAST, [n("Sum", M, f(4)), n("Max", M, f(4)), n("Expand", f(3, 1), ints(2, 3, 4), const=(1,))]),
        (9, LAST, [n("Where", TRUE, M, -M), n("NonZero", TRUE), n("Shrink", M, lambd=0.3), n("Cast", TRUE, to=1)]),
        (10, LAST, [n("Mod", ints(5, -5, 7), ints(3, 3, -3)), n("Mod", M, f(4), fmod=1), n("IsInf", M),
                    n("QuantizeLinear", M, s(0.02), s(3, np.uint8)), n("QLinearMatMul", *code),
                    n("DequantizeLinear", u8(3), s(0.02), s(3, np.uint8)), n("MatMulInteger", code[0], code[3]),
                    n("ReverseSequence", f(4, 3), ints(2, 4, 1), batch_axis=1, time_axis=0)]),
        (11, LAST, [n("Equal", M, M), n("BitShift", u8(3), u8(3) % 8, direction="LEFT"), n("Round", M * 3),
                    n("Gemm", M, f(5, 4), transB=1), n("DynamicQuantizeLinear", M, outs=3), n("Det", f(3, 3)),
                    n("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode="CRD"), n("Unique", np.round(M), outs=4)]),
        (12, LAST, [n("Celu", M, alpha=0.5), n("Einsum", M, f(4, 2), equation="ij,jk->ik"), n("Min", ints(4), ints(3)),
                    n("GatherND", X, ints(0, 1).reshape(2, 1), batch_dims=1), n("Pow", np.abs(M), ints(2))]),
        (13, LAST, [n("QuantizeLinear", f(4, 6), np.abs(f(6)) + 1, u8(6), axis=1), n("Neg", ints(4)),
                    n("SoftmaxCrossEntropyLoss", f(4, 3), ints(0, 1, 2, 1), outs=2, ignore_index=1)]),
        (14, LAST, [n("Relu", np.array([-3, 4], np.int32)), n("HardSwish", M),
                    n("Trilu", M, s(-1, np.int64), const=(1,))]),
        (16, 19, [n("GridSample", IMAGE, np.tanh(f(1, 3, 4, 2)), mode=m) for m in ("bilinear", "bicubic")]),
        (20, LAST, [n("GridSample", IMAGE, np.tanh(f(1, 3, 4, 2)), mode=m) for m in ("linear", "cubic")]),
        (17, 19, [n("DFT", f(1, 6, 1), s(8, np.int64), const=(1,), axis=1, onesided=1)]),
        (20, LAST, [n("DFT", f(1, 6, 1), None, s(1, np.int64), const=(2,)), n("Gelu", M), n("ReduceMax", TRUE)]),
        (21, LAST, [n("QuantizeLinear", f(4, 6), np.abs(f(2, 6)) + 1, u8(2, 6), axis=0, block_size=2)]),
    ]  # fmt: skip


def by_opset() -> dict[int, list[Case]]:
    """Each case once for each version of its operator, in the first opset from 7 on that has it."""
    versions: dict[str, set[int]] = defaultdict(set)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name].add(schema.since_version)
    found: dict[int, list[Case]] = defaultdict(list)
    for rows in (axes, softmax, bounds, resize, layers, numbers):
        for first, last, cases in rows():
            for case in cases:
                known = [max(v for v in versions[case.op] if v <= opset) for opset in range(first, last + 1)]
                for version in set(known):
                    found[first + known.index(version)].append(case)
    return found


CASES = by_opset()


@pytest.mark.parametrize("opset", sorted(CASES))
def test_opset(opset: int) -> None:
    data, feeds = model_of(CASES[opset], opset)
    names = [f"{case.op} {dict(case.attributes)}" for case in CASES[opset] for _ in case.outputs]
    for name, got, want in zip(names, ours(data, feeds), theirs(data, feeds), strict=True):
        assert got.dtype == want.dtype, name
        if got.dtype == np.uint8:  # a number that lies between two codes
            got, want = (v.astype(np.float32) for v in (got, want))
            assert np.abs(got - want).max(initial=0) <= 1, name
        else:
            assert_close(got, want, scale=10)


def test_masks_of_dropout_and_hints_of_the_first_opset() -> None:
    """Cases that onnxruntime cannot run: masks were numbers before opset 10; opset 1 said what may be overwritten."""
    x, rows = f(2, 3), [np.array(v, np.float32) for v in ([1, 2, 1], [0, 1, 2], [1, 0, 0], [4, 1, 1])]
    for opset, kind in ((7, np.float32), (10, np.bool_)):
        _, kept = ours(one_node("Dropout", [x], 2, opset), {"x0": x})
        assert kept.dtype == kind and kept.all()
    data = one_node("BatchNormalization", [x, *rows], 1, 1, is_test=1, epsilon=0.0, consumed_inputs=[0, 0, 0, 1, 1])
    (y,) = ours(data, {f"x{k}": v for k, v in enumerate([x, *rows])})
    assert_close(y, (x - rows[2]) / np.sqrt(rows[3]) * rows[0] + rows[1])


def test_error_function_of_integers() -> None:
    """Opset 9 takes them; ONNX Runtime does not."""
    for kind in (np.int32, np.uint8):
        x = np.array([0, 1, 7], kind)
        data = one_node("Erf", [x], 1, 9)
        (want,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"x0": x})
        np.testing.assert_array_equal(ours(data, {"x0": x})[0], want)

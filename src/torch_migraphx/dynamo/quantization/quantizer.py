"""MGXQuantizer: what of an exported graph the engine computes on 8-bit integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from torch_migraphx.dynamo.quantization.observer import CalibratedObserver

aten = torch.ops.aten
CONVOLUTIONS = frozenset(
    {
        aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.conv1d.padding, aten.conv2d.padding,
        aten.conv3d.padding, aten.convolution.default,
    }
)  # fmt: skip
TRANSPOSED = frozenset({aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input})
LINEAR = frozenset({aten.linear.default})
MATRICES = frozenset({aten.matmul.default, aten.mm.default, aten.addmm.default})
"""Products with a matrix {K, N}; that of `linear` is {N, K}."""
PRODUCTS = CONVOLUTIONS | TRANSPOSED | LINEAR | MATRICES
ADDITIONS = frozenset({aten.add.Tensor, aten.add_.Tensor})
THROUGH = frozenset({aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default, aten.dropout.default})
"""What may stand between a convolution and the addition that its kernel takes along."""


class MGXQuantizer(Quantizer):
    """Convolutions, linear layers and products with a matrix of weights on 8-bit integers, and what is added to them.

    Inputs have one scale: symmetric in int8, or with a zero point in uint8 where activations are asymmetric. Weights
    are int8, symmetric, with one scale an output channel (`per_ch_weights`) or one for all. Of a sum of a product and
    another value only the other is quantized: the product's own result stays in the registers of its kernel. For
    `prepare_qat_pt2e` say `is_qat=True`.

    `calibration` says how ranges are found: "histogram" is torchao's search for the least error, others are minmax,
    percentile, mse and entropy. `exclude` holds nodes' names or the names of modules whose products stay in floats.
    """

    def __init__(
        self,
        per_ch_weights: bool = True,
        asymmetric_activations: bool = False,
        is_qat: bool = False,
        exclude: tuple[str, ...] = (),
        calibration: str = "histogram",
    ) -> None:
        super().__init__()
        self.is_qat, self.exclude = is_qat, frozenset(exclude)
        self.activation = _activation(asymmetric_activations, is_qat, calibration)
        self.weight = _weight(per_ch_weights, is_qat)

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Say of each product which of its inputs are quantized, and how."""
        for n in model.graph.nodes:
            if n.target not in PRODUCTS or self._excluded(n):
                continue
            x, weight = operands(n)
            if not isinstance(x, fx.Node) or not isinstance(weight, fx.Node):
                continue
            axis = _output_axis(n, weight)
            if axis is not None and _is_constant(weight) and _is_float(x):
                _annotate(n, {x: self.activation, weight: _along(self.weight, axis)})
        for n in model.graph.nodes:
            if n.target in ADDITIONS and (other := _added(n)) is not None:
                _annotate(n, {other: self.activation})
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """Nothing that `annotate` writes is beyond the engine."""

    def _excluded(self, n: fx.Node) -> bool:
        modules = (path for path, _ in n.meta.get("nn_module_stack", {}).values())
        own = {n.name, *(path.removeprefix("L['self'].") for path in modules)}
        return bool(own & self.exclude)


def _activation(asymmetric: bool, is_qat: bool, calibration: str) -> QuantizationSpec:
    dtype, low, high = (torch.uint8, 0, 255) if asymmetric else (torch.int8, -128, 127)
    scheme = torch.per_tensor_affine if asymmetric else torch.per_tensor_symmetric
    observer: Any = HistogramObserver.with_args(eps=2**-12)
    if calibration != "histogram":
        CalibratedObserver(method=calibration)  # an unknown one is an error now
        observer = CalibratedObserver.with_args(method=calibration, eps=2**-12)
    if is_qat:
        observer = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=2**-12)
    return QuantizationSpec(dtype, observer, low, high, scheme)


def _weight(by_channel: bool, is_qat: bool) -> QuantizationSpec:
    observers = {
        (False, False): MinMaxObserver,
        (False, True): PerChannelMinMaxObserver,
        (True, False): FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver),
        (True, True): FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver),
    }
    scheme = torch.per_channel_symmetric if by_channel else torch.per_tensor_symmetric
    observer: Any = observers[is_qat, by_channel]
    return QuantizationSpec(torch.int8, observer, -127, 127, scheme, ch_axis=0 if by_channel else None)


def operands(n: fx.Node) -> tuple[Any, Any]:
    """What a product multiplies: its input and its weights."""
    first = 1 if n.target is aten.addmm.default else 0
    return n.args[first], n.args[first + 1]


def _output_axis(n: fx.Node, weight: fx.Node) -> int | None:
    """Which dimension of a product's weights its output channels are; None where the engine has no integers for it."""
    if n.target in MATRICES:
        value = weight.meta.get("val")
        return 1 if isinstance(value, torch.Tensor) and value.ndim == 2 else None
    backwards = n.target is aten.convolution.default and n.args[6]
    return 1 if backwards or n.target in TRANSPOSED else 0


def _along(spec: QuantizationSpec, axis: int) -> QuantizationSpec:
    """One scale for each index of `axis`, where there are scales by channel."""
    return spec if spec.ch_axis is None else replace(spec, ch_axis=axis)


def _annotate(n: fx.Node, inputs: dict[fx.Node, QuantizationSpec]) -> None:
    n.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(input_qspec_map=dict(inputs), _annotated=True)


def _is_constant(n: fx.Node) -> bool:
    """Whether a weight is one of the model's own, as it is or computed from them alone."""
    if n.op == "get_attr":
        return True
    return n.op == "call_function" and bool(n.all_input_nodes) and all(map(_is_constant, n.all_input_nodes))


def _is_float(n: fx.Node) -> bool:
    value = n.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.dtype == torch.float32


def _added(n: fx.Node) -> fx.Node | None:
    """What is added to the result of a quantized product that nothing else reads; None where there is no such product.

    It must be a value of the same shape: of a bias there is nothing to gain.
    """
    if len(n.args) < 2 or not all(isinstance(a, fx.Node) for a in n.args[:2]):
        return None
    first, second = n.args[:2]
    for product, other in ((second, first), (first, second)):
        assert isinstance(product, fx.Node) and isinstance(other, fx.Node)
        shapes = [getattr(i.meta.get("val"), "shape", None) for i in (product, other)]
        if _from_product(product) and shapes[0] == shapes[1] and not _is_constant(other) and product is not other:
            return other
    return None


def _from_product(n: fx.Node) -> bool:
    while len(n.users) == 1 and n.target in THROUGH:
        n = n.all_input_nodes[0]
    return len(n.users) == 1 and n.target in PRODUCTS - TRANSPOSED and Q_ANNOTATION_KEY in n.meta

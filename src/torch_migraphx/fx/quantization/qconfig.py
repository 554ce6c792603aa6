"""How values are observed: 8-bit activations with one scale, int8 weights with one scale an output channel."""

from __future__ import annotations

import torch
from torch.ao.quantization import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    QConfigMapping,
)
from torch.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize
from torch.ao.quantization.observer import MovingAverageMinMaxObserver
from torch.ao.quantization.qconfig import default_symmetric_qnnpack_qat_qconfig

from torch_migraphx.fx.quantization.observer import CalibratedObserver

TRANSPOSED = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)
"""Their weights have the output channels along axis 1, where torch's observers look for them along axis 0."""


def _activation(asymmetric: bool) -> dict[str, object]:
    if asymmetric:
        return {"dtype": torch.quint8, "qscheme": torch.per_tensor_affine}
    return {"dtype": torch.qint8, "qscheme": torch.per_tensor_symmetric}


def get_migraphx_qconfig(
    asymmetric_activations: bool = False, is_qat: bool = False, calibration: str = "histogram"
) -> QConfig:
    """What observes activations and weights.

    Activations: the range that loses least (torch's HistogramObserver, or by `calibration`: minmax, percentile, mse,
    entropy), symmetric in int8 or, where asymmetric, with a zero
    point in uint8, which is finer for values of one sign. Weights: int8, symmetric, one scale an output channel.
    For training (`is_qat`) both are fake quantizers over moving averages.
    """
    if is_qat:
        activation = FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAverageMinMaxObserver,
            **_bounds(asymmetric_activations),
            **_activation(asymmetric_activations),
        )
        return QConfig(activation=activation, weight=default_symmetric_qnnpack_qat_qconfig.weight)
    weight = PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    kind = _activation(asymmetric_activations)
    if calibration == "histogram":
        return QConfig(activation=HistogramObserver.with_args(**kind), weight=weight)
    CalibratedObserver(method=calibration)  # an unknown one is an error now
    return QConfig(activation=CalibratedObserver.with_args(method=calibration, **kind), weight=weight)


def _bounds(asymmetric: bool) -> dict[str, int]:
    return {"quant_min": 0, "quant_max": 255} if asymmetric else {"quant_min": -128, "quant_max": 127}


def get_migraphx_qconfig_mapping(
    asymmetric_activations: bool = False, is_qat: bool = False, calibration: str = "histogram"
) -> QConfigMapping:
    """`get_migraphx_qconfig` for every module and function; transposed convolutions have one scale for all weights."""
    qconfig = get_migraphx_qconfig(asymmetric_activations, is_qat, calibration)
    mapping = QConfigMapping().set_global(qconfig)
    whole = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
    for kind in TRANSPOSED:
        mapping.set_object_type(kind, QConfig(activation=qconfig.activation, weight=whole))
    return mapping

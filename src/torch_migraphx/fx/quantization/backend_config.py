"""Which operators the engine computes on quantized values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.nn.quantized import reference
from torch.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, ObservationType
from torch.ao.quantization.backend_config._common_operator_config_utils import (
    _get_binary_op_configs,
    _get_cat_config,
    _get_conv_configs,
    _get_linear_configs,
    _get_share_qparams_op_configs,
    _get_tensor_info_op_configs,
)

ACTIVATIONS = (torch.qint8, torch.quint8)


class ReferenceOnly:
    """A reference module that `convert_fx` does not lower to torch's own kernels, which take no int8 activations.

    It is computed on dequantized values, in torch as in the engine, which makes a product of integers of it.
    """

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().from_float(*args, **kwargs)  # type: ignore[misc]
        made.__class__ = cls  # some of torch's make the base class
        return made


REFERENCES: dict[type, type] = {
    kind: type(kind.__name__, (ReferenceOnly, kind), {"__module__": __name__, "__doc__": ReferenceOnly.__doc__})
    for kind in (
        reference.Linear, reference.Conv1d, reference.Conv2d, reference.Conv3d, reference.ConvTranspose1d,
        reference.ConvTranspose2d, reference.ConvTranspose3d,
    )
}  # fmt: skip


def get_migraphx_backend_config() -> BackendConfig:
    """Convolutions and linear layers (with batch norms and relu), binary operators, and what keeps its input's scale.

    Activations are int8 or uint8, weights int8, biases float.
    """
    weighted = [DTypeConfig(a, a, weight_dtype=torch.qint8, bias_dtype=torch.float) for a in ACTIVATIONS]
    plain = [DTypeConfig(a, a) for a in ACTIVATIONS]
    addmm = BackendPatternConfig(torch.addmm).set_dtype_configs(weighted)
    addmm.set_observation_type(ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT)
    addmm._set_input_type_to_index({"bias": 0, "input": 1, "weight": 2})
    patterns = [
        *_get_conv_configs(weighted), *_get_linear_configs(weighted), addmm, *_get_binary_op_configs(plain),
        _get_cat_config(plain), *_get_share_qparams_op_configs(plain), *_get_tensor_info_op_configs(plain),
    ]  # fmt: skip
    for pattern in patterns:
        kept = REFERENCES.get(pattern.reference_quantized_module)
        if kept is not None:
            pattern.set_reference_quantized_module(kept)
    known = [*patterns, *(other for pattern in patterns for other in _spelled_otherwise(pattern))]
    return BackendConfig("migraphx").set_backend_pattern_configs(known)


def _spelled_otherwise(config: BackendPatternConfig) -> Iterator[BackendPatternConfig]:
    """A pattern that ends in F.relu, ended by torch.relu and by the method, which torch's own list leaves out."""
    pattern = config.pattern
    if not isinstance(pattern, tuple) or pattern[-1] is not F.relu:
        return
    for relu in (torch.relu, "relu"):
        other = copy.copy(config)
        other.pattern = (*pattern[:-1], relu)
        if config.fuser_method is not None:
            other.fuser_method = _with_module(config.fuser_method)
        yield other


def _with_module(fuser: Callable[..., Any]) -> Callable[..., Any]:
    """A method that fuses modules, given a function instead of the last of them."""
    return lambda is_qat, *parts: fuser(is_qat, *parts[:-1], nn.ReLU().train(parts[0].training))

"""torchao's PT2E workflow, with what the engine wants of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torchao.quantization.pt2e import ObserverBase, quantize_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer


def export_for_quantization(
    model: nn.Module,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> fx.GraphModule:
    """`model` as a graph of ATen operators in its present mode: eval for calibration, train for `prepare_qat_pt2e`.

    `inputs` are the positional sample arguments, `kwargs` those by name; `dynamic_shapes` are torch.export's.
    """
    if not isinstance(inputs, tuple | list):
        raise TypeError(f"inputs are a tuple of sample arguments, not a {type(inputs).__name__}")
    exported = torch.export.export(model, tuple(inputs), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    return exported.module()


def prepare_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """`model` with observers: run it on calibration data, then convert it. Batch norms are folded into products."""
    _check(model, quantizer, is_qat=False)
    return quantize_pt2e.prepare_pt2e(model, quantizer)


def prepare_qat_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """`model` with fake quantizers: train it, then convert it."""
    _check(model, quantizer, is_qat=True)
    return quantize_pt2e.prepare_qat_pt2e(model, quantizer)


def convert_pt2e(model: fx.GraphModule, use_reference_representation: bool = False) -> fx.GraphModule:
    """The observed model with its values quantized and dequantized.

    Weights stay as they were: the engine quantizes them when it compiles, so that it sees what they are scaled by.
    ValueError where an observer has seen no data, which would quantize everything to the codes of -1 to 1.
    """
    unseen = [name for name, m in model.named_modules() if isinstance(m, ObserverBase) and _saw_nothing(m)]
    if unseen:
        count = f"{len(unseen)} observers have" if len(unseen) > 1 else "an observer has"
        raise ValueError(f"{count} seen no data: run the prepared model on samples first ({', '.join(unseen[:5])})")
    return quantize_pt2e.convert_pt2e(model, use_reference_representation, fold_quantize=False)


def _saw_nothing(observer: Any) -> bool:
    """Whether an observer of ranges still holds the empty range that it began with."""
    low, high = getattr(observer, "min_val", None), getattr(observer, "max_val", None)
    if low is None or high is None:
        return False
    return low.numel() == 0 or bool((low > high).any())


def _check(model: Any, quantizer: Any, is_qat: bool) -> None:
    if not isinstance(model, fx.GraphModule):
        raise TypeError(f"a {type(model).__name__} is no graph: export_for_quantization(model, inputs) makes one")
    if getattr(quantizer, "is_qat", is_qat) != is_qat:
        wanted = "prepare_qat_pt2e takes" if is_qat else "prepare_pt2e takes"
        raise ValueError(f"{wanted} a quantizer made with is_qat={is_qat}")

"""The settings of Torch-MIGraphX's Lowerer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from torch_migraphx.fx.utils import LowerPrecision


@dataclass
class LowerSettingBasic:
    """How a model is traced and in which types it runs; the fields are arguments of `lower_to_mgx`."""

    lower_precision: LowerPrecision | str = LowerPrecision.FP32
    leaf_modules: Collection[type[nn.Module]] | None = None
    tracer_base_cls: type[fx.Tracer] = fx.Tracer
    use_aten: bool = False


@dataclass
class LowerSetting(LowerSettingBasic):
    """And how it is cut and compiled. `options` are further options of `lower_to_mgx` (`target`, `fallback`, ...)."""

    min_acc_module_size: int = 10
    verbose_log: bool = False
    save_subgraph_programs: bool = False
    suppress_accuracy_check: bool = False
    options: dict[str, Any] | None = None

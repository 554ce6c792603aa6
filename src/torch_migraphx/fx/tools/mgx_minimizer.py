"""MGXMinimizer: which nodes of a graph give another answer in the engine, by torch's network minimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.net_min_base import FxNetMinimizerRunFuncError, _MinimizerBase, _MinimizerSettingBase
from torch.fx.passes.tools_common import Tensors

Compare = Callable[[Any, Any, Any], tuple[float, bool]]
Lower = Callable[[fx.GraphModule, Tensors], nn.Module]


class MGXMinizerSetting(_MinimizerSettingBase):
    """torch's settings of a minimizer: `traverse_method`, `find_all`, `accumulate_error`, ..."""

    def __init__(self, explicit_batch_dimension: Any = True) -> None:
        super().__init__()


MGXMinimizerSetting = MGXMinizerSetting


class MGXMinimizer(_MinimizerBase):
    """Searches a graph for the nodes whose answers differ: `MGXMinimizer(gm, inputs, compare, lower).minimize()`.

    `compare_fn(torch's, the engine's, names)` gives a number and whether the two agree; `lower_fn(graph, inputs)` gives
    the module that runs in the engine.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        sample_input: Tensors,
        compare_fn: Compare,
        lower_fn: Lower,
        settings: MGXMinizerSetting | None = None,
    ) -> None:
        self.lower_fn = lower_fn
        super().__init__(module, sample_input, compare_fn, settings or MGXMinizerSetting())

    def run_a(self, mod: fx.GraphModule, inputs: Tensors, report_idx: int = -1) -> Any:
        """The answer of torch."""
        with torch.no_grad():
            return mod.eval()(*inputs)

    def run_b(self, mod: fx.GraphModule, inputs: Tensors, report_idx: int = -1) -> Any:
        """The answer of the engine. FxNetMinimizerRunFuncError where it cannot be lowered, or fails."""
        try:
            with torch.no_grad():
                return self.lower_fn(mod.eval(), inputs)(*inputs)
        except Exception as error:  # the minimizer's own error is how it learns that these nodes are the culprits
            raise FxNetMinimizerRunFuncError(f"{type(error).__name__}: {error}, in\n{mod.graph}") from error

    def get_nodes(self, start: str | None = None, end: str | None = None, enable_print: bool = False) -> list[fx.Node]:
        """The nodes that a minimization from `start` to `end` looks at."""
        nodes = self._collect_nodes(start, end)
        if enable_print:
            print(f"nodes from {start} to {end}: {nodes}")  # noqa: T201  # asked for
        return nodes

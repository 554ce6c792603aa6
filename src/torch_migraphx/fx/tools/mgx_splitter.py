"""MGXSplitter: a graph cut into what has converters and what has none, by torch's splitter.

`lower_to_mgx` cuts graphs itself (`fx/partition.py`), after it has tried to convert each node; this tool says what the
registry of converters alone says, in the form that torch.fx's tools have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes import splitter_base
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.tools_common import Tensors

from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.graph_info import is_python, refusal, value_of
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.tools.mgx_minimizer import MGXMinimizer

IN_TORCH = "_run_via_torch_"
"""What the names of submodules begin with that stay in torch; the others begin with `_run_on_acc_`."""


class MGXOperatorSupport(OperatorSupportBase):
    """A node is supported where it has a converter. `supported` and `unsupported` are the targets asked for so far."""

    def __init__(self) -> None:
        self.supported: set[Any] = set()
        self.unsupported: set[Any] = set()

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        """Whether a node is an input, a weight or an output, or has a converter."""
        if not node.op.startswith("call_"):
            return True
        of_python = is_python(node.target) and node.target is not getitem and isinstance(value_of(node), torch.Tensor)
        supported = not refusal(node) and not of_python
        (self.supported if supported else self.unsupported).add(node.target)
        return supported


def create_mgx_operator_support() -> MGXOperatorSupport:
    """What says which nodes the engine takes."""
    return MGXOperatorSupport()


class MGXSplitterSetting(splitter_base._SplitterSettingBase):
    """torch's settings of a splitter: `min_acc_module_size`, `skip_fusion`, ..."""


class MGXSplitter(splitter_base._SplitterBase):
    """Cuts a graph into submodules `_run_on_acc_N` and `_run_via_torch_N`: calling it gives the graph of these calls.

    `node_support_preview()` prints and returns what is supported, `split_preview()` which parts there would be.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase | None = None,
        settings: MGXSplitterSetting | None = None,
    ) -> None:
        super().__init__(
            module,
            sample_input,
            operator_support or create_mgx_operator_support(),
            settings or MGXSplitterSetting(),
            non_acc_submodule_name=IN_TORCH,
        )

    def _lower_model_to_backend(self, mod: fx.GraphModule, inputs: Tensors) -> nn.Module:
        """A part as a module that runs in the engine."""
        interpreter = MGXInterpreter(mod, inputs)
        return MGXModule(interpreter.run(), interpreter.get_input_names(), interpreter.get_output_names())

    def _find_culprit(self, mod: fx.GraphModule, inputs: Tensors) -> str:
        """The nodes for which a part cannot be lowered; whether answers agree is not asked."""
        search = MGXMinimizer(mod, inputs, lambda *_: (1.0, True), self._lower_model_to_backend)
        search.settings.traverse_method, search.settings.find_all = "sequential", True
        found = [node.format_node() or node.name for node in search.minimize()]
        return "\n".join(["cannot be lowered:", *found, ""]) if found else "each node alone can be lowered\n"

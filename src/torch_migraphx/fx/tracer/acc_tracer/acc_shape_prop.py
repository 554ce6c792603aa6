"""Shapes and types of a graph's values, found by a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils._pytree import tree_leaves, tree_map

from torch_migraphx.fx.graph_info import tensor_metadata


class AccShapeProp(ShapeProp):
    """torch's shape propagation: `AccShapeProp(gm).propagate(*inputs)` gives each node its `meta["tensor_meta"]`.

    What torch has no fp16 kernel for runs in fp32, and its floating-point results are noted as fp16.
    """

    def run_node(self, n: fx.Node) -> Any:
        """The value of a node."""
        try:
            return super().run_node(n)
        except (RuntimeError, NotImplementedError):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if not n.op.startswith("call_") or not any(_is(x, torch.float16) for x in tree_leaves((args, kwargs))):
                raise
            args, kwargs = tree_map(lambda x: x.float() if _is(x, torch.float16) else x, (args, kwargs))
            result = getattr(self, n.op)(n.target, args, kwargs)
            result = tree_map(lambda x: x.half() if _is(x, torch.float32) else x, result)
            n.meta["tensor_meta"] = tensor_metadata(result)
            return result


def _is(x: Any, dtype: torch.dtype) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == dtype

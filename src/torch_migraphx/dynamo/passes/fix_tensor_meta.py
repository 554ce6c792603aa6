"""`meta["tensor_meta"]` from the fake values that tracers note."""

from __future__ import annotations

import operator

from torch import fx

from torch_migraphx.fx.graph_info import tensor_metadata, value_of


def fix_tensor_meta(gm: fx.GraphModule) -> fx.GraphModule:
    """Give each node its `tensor_meta`, a tuple of them where it gives several tensors. Changes `gm`."""
    for n in gm.graph.nodes:
        meta = tensor_metadata(value_of(n))
        if meta is None and n.target is operator.getitem:
            whole = n.args[0].meta.get("tensor_meta")
            meta = whole[n.args[1]] if isinstance(whole, tuple) else None
        if meta is not None:
            n.meta["tensor_meta"] = meta
    return gm

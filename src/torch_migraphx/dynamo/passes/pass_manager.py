"""Passes on ATen graphs in a row, as Torch-MIGraphX's users run them by hand; the backends need none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import fx

from torch_migraphx.dynamo.passes.const_fold import const_fold
from torch_migraphx.dynamo.passes.fix_tensor_meta import fix_tensor_meta
from torch_migraphx.dynamo.passes.promote_types import promote_inputs
from torch_migraphx.dynamo.passes.remove_empty_slice import remove_empty_slices
from torch_migraphx.dynamo.passes.remove_lowered_constants import remove_lowered_constants
from torch_migraphx.dynamo.passes.remove_ops import remove_clone_ops, remove_const_ops, remove_view_ops
from torch_migraphx.dynamo.passes.rewrite_complex_ops import rewrite_complex_ops

Pass = Callable[[fx.GraphModule], fx.GraphModule]


class MGXPassManager:
    """Calls passes one after the other: `MGXPassManager([a, b])(gm)`; more by `add_pass`."""

    def __init__(self, passes: Iterable[Pass] = ()) -> None:
        self.passes = list(passes)

    def add_pass(self, one: Pass) -> None:
        """A further pass, the last one."""
        self.passes.append(one)

    def __call__(self, gm: fx.GraphModule) -> fx.GraphModule:
        for one in self.passes:
            gm = one(gm)
        return gm


def pre_partition_pass(gm: fx.GraphModule) -> fx.GraphModule:
    """What simplifies a graph before `partition`: copies, views, constants, types, complex numbers. Changes `gm`."""
    passes = [
        remove_const_ops, remove_clone_ops, remove_view_ops, remove_empty_slices, rewrite_complex_ops, promote_inputs,
        const_fold, fix_tensor_meta,
    ]  # fmt: skip
    return MGXPassManager(passes)(gm)


def post_partition_pass(gm: fx.GraphModule) -> fx.GraphModule:
    """What is left to do behind `partition`: metadata of the parts' results, and weights that no node reads."""
    return MGXPassManager([fix_tensor_meta, remove_lowered_constants])(gm)

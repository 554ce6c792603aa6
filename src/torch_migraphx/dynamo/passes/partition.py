"""A graph cut into what has converters and what has none, in place: torch's capability-based partitioner.

The backends cut graphs by `fx/partition.py`, after each node was tried; this pass asks for converters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from torch_migraphx.fx.partition import is_ordered
from torch_migraphx.fx.tools.mgx_splitter import MGXOperatorSupport
from torch_migraphx.fx.utils import get_graph_info
from torch_migraphx.log import get_logger

logger = get_logger(__name__)


class _Functional(MGXOperatorSupport):
    """Takes nothing that writes, or draws random numbers."""

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        calls = node.op.startswith("call_")  # inputs, weights and the output stay in the graph
        return calls and super().is_node_supported(submodules, node) and not is_ordered(node)


def partition(gm: fx.GraphModule, max_partitions: int = 20, verbose: bool = True) -> fx.GraphModule:
    """Put the nodes that have converters into submodules `fused_N` of `gm`, which is changed and returned.

    RuntimeError where these would be more than `max_partitions`. `verbose` logs the graph, and what has no converter.
    """
    support = _Functional()
    partitioner = CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True)
    found = partitioner.propose_partitions()
    if len(found) > max_partitions:
        raise RuntimeError(f"the graph falls into {len(found)} partitions; at most {max_partitions} are allowed")
    fused = partitioner.fuse_partitions(found)
    _output_last(fused.graph)
    fused.recompile()
    if verbose:
        logger.info("partitioned graph:\n%s", get_graph_info(fused.graph))
        logger.info("without a converter: %s", ", ".join(sorted(map(str, support.unsupported))) or "nothing")
    return fused


def _output_last(graph: fx.Graph) -> None:
    """The partitioner may leave what writes, and what nobody reads, behind the output."""
    (output,) = [n for n in graph.nodes if n.op == "output"]
    *_, last = graph.nodes
    if last is not output:
        last.append(output)


def get_partition_inputs(mod: fx.GraphModule, submod: nn.Module, example_input: Sequence[Any]) -> tuple[Any, ...]:
    """What `submod` is called with where `mod` runs on `example_input`; RuntimeError where it is not called."""
    given: list[tuple[Any, ...]] = []
    handle = submod.register_forward_pre_hook(lambda _, args: given.append(args))
    try:
        with torch.no_grad():
            mod(*example_input)
    finally:
        handle.remove()
    if not given:
        raise RuntimeError(f"the graph does not call {type(submod).__name__}")
    return given[0]

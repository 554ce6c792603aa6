"""Results that a submodule returns twice."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import fx

from torch_migraphx.log import get_logger

logger = get_logger(__name__)


@dataclass(frozen=True)
class RemoveDuplicateResult:
    """Whether a submodule returned something twice, where each result is now, and the submodule."""

    replacement_map: list[int] | None
    module: fx.GraphModule

    @property
    def has_dup(self) -> bool:
        """Whether results were removed."""
        return self.replacement_map is not None


def remove_duplicate_output_args(
    top_level: fx.GraphModule, target_subnets: Collection[str]
) -> Mapping[str, RemoveDuplicateResult]:
    """Let the submodules `target_subnets` of a graph return every value once, and its readers take it from there.

    Changes both graphs. ValueError where the result of such a submodule is used as a whole, or is nested.
    """
    found: dict[str, RemoveDuplicateResult] = {}
    for n in list(top_level.graph.nodes):
        if n.op != "call_module" or n.target not in target_subnets:
            continue
        subnet = top_level.get_submodule(n.target)
        if not isinstance(subnet, fx.GraphModule):
            raise ValueError(f"{n.target} is a {type(subnet).__name__}, and has no graph")
        found[n.target] = result = _without_duplicates(n.target, subnet)
        if result.replacement_map is None:
            continue
        for user in list(n.users):
            if user.target is not operator.getitem or not isinstance(user.args[1], int):
                raise ValueError(f"{user} uses the results of {n.target} as a whole")
            user.update_arg(1, result.replacement_map[user.args[1]])
    top_level.recompile()
    return found


def _without_duplicates(name: str, subnet: fx.GraphModule) -> RemoveDuplicateResult:
    output = subnet.graph.output_node()
    results = output.args[0]
    if not isinstance(results, tuple | list):
        return RemoveDuplicateResult(None, subnet)
    if not all(isinstance(x, fx.Node) for x in results):
        raise ValueError(f"the results of {name} are nested, or no tensors")
    kept = list(dict.fromkeys(results))
    if len(kept) == len(results):
        return RemoveDuplicateResult(None, subnet)
    logger.info("%s returns %d of its %d results once", name, len(kept), len(results))
    output.args = (tuple(kept),)
    subnet.recompile()
    return RemoveDuplicateResult([kept.index(x) for x in results], subnet)

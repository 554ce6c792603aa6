"""Outputs of a submodule that are views: rebuilt where the submodule is called, for programs give new memory only."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from torch_migraphx.dynamo.passes.alias_analysis import AliasSource, AliasSpec, infer_output_aliases, rebuild_alias


@dataclass(frozen=True)
class PartitionIO:
    """What a submodule was called with, and which of its outputs are views."""

    inputs: tuple[Any, ...] | None
    aliases: list[AliasSpec]
    aliases_representable: bool


@dataclass(frozen=True)
class AliasRewrite:
    """A submodule without the outputs that are views. `index_map`: the places of those that it kept, old to new."""

    module: fx.GraphModule
    aliases: list[AliasSpec]
    original_output_count: int
    kept_indices: list[int]
    index_map: dict[int, int]

    @property
    def prunes_every_output(self) -> bool:
        """Whether all outputs are views of inputs, so that nothing is left to compute."""
        return not self.kept_indices

    def supports_output_layouts(self, layouts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> bool:
        """Whether outputs of these sizes and strides, in the order of `kept_indices`, hold the views as they were."""
        if len(layouts) != len(self.kept_indices):
            return False
        of_outputs = [a for a in self.aliases if a.source is AliasSource.OUTPUT and not a.is_identity]
        return all(a.source_layout_matches(*layouts[self.index_map[a.source_index]]) for a in of_outputs)


def capture_partition_io(top_level: fx.GraphModule, submodule: fx.GraphModule, inputs: Sequence[Any]) -> PartitionIO:
    """Run `top_level` once, and note what `submodule` is given, and which outputs of it are views.

    A submodule that writes cannot have its views rebuilt.
    """
    given: list[tuple[Any, ...]] = []
    found: list[tuple[list[AliasSpec], bool]] = []

    def note(_: Any, args: tuple[Any, ...], outputs: Any) -> None:
        given.append(args)
        found.append(infer_output_aliases(args, outputs))

    handle = submodule.register_forward_hook(note)
    try:
        top_level(*inputs)
    finally:
        handle.remove()
    if not found:
        return PartitionIO(None, [], True)
    aliases, representable = found[0]
    writes = any(n.is_impure() for n in submodule.graph.nodes if n.op.startswith("call_"))
    return PartitionIO(given[0], aliases, representable and not (aliases and writes))


def plan_alias_rewrite(submodule: fx.GraphModule, aliases: Sequence[AliasSpec]) -> AliasRewrite:
    """A copy of `submodule` that gives no views, and how its outputs are numbered."""
    module = copy.deepcopy(submodule)
    output = module.graph.output_node()
    results = _results(output)
    views = {a.output_index for a in aliases}
    kept = [k for k in range(len(results)) if k not in views]
    output.args = (results[kept[0]] if len(kept) == 1 else tuple(results[k] for k in kept),)
    module.graph.eliminate_dead_code()
    module.recompile()
    return AliasRewrite(module, list(aliases), len(results), kept, {old: new for new, old in enumerate(kept)})


def _results(output: fx.Node) -> list[Any]:
    given = output.args[0]
    return list(given) if isinstance(given, tuple | list) else [given]


def apply_alias_rewrite(top_level: fx.GraphModule, call_node: fx.Node, rewrite: AliasRewrite) -> None:
    """Let `top_level` read what the submodule of `rewrite` still gives, and rebuild the views around its call."""
    graph = top_level.graph
    readers: dict[Any, fx.Node] = {u.args[1]: u for u in call_node.users if u.target is operator.getitem}
    if rewrite.original_output_count == 1 and not readers:
        readers = {0: call_node}
    made: dict[int, fx.Node] = {}
    with graph.inserting_after(call_node):
        for old in reversed(rewrite.kept_indices):
            alone = len(rewrite.kept_indices) == 1
            made[old] = (
                call_node if alone else graph.call_function(operator.getitem, (call_node, rewrite.index_map[old]))
            )
    kept = set(made.values()) - {call_node}
    behind = max(kept, default=call_node)
    for view in rewrite.aliases:
        source = call_node.args[view.source_index] if view.source is AliasSource.INPUT else made[view.source_index]
        with graph.inserting_after(behind):
            made[view.output_index] = graph.call_function(
                rebuild_alias, (source, view.shape, view.stride, view.relative_offset)
            )
    for k, reader in readers.items():
        if reader is made[k]:
            continue
        made[k].meta = dict(reader.meta)
        reader.replace_all_uses_with(made[k])
        if reader is not call_node:
            graph.erase_node(reader)
    if rewrite.prunes_every_output:
        graph.erase_node(call_node)
    graph.eliminate_dead_code()
    graph.lint()
    top_level.recompile()

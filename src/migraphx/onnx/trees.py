"""Ensembles of decision trees: all samples go down all trees at once, a level a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter

Value = Instruction
DOMAIN = "ai.onnx.ml"
WORDS = ("less_or_equal", "less", "greater_or_equal", "greater", "equal", "not_equal")
MEMBER, LEAF = 6, -1  # modes that are no comparison
AGGREGATES = ("average", "sum", "min", "max")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees in arrays; a leaf is a node that leads to itself.

    `mode` numbers the comparison; `members` {nodes, most} are padded with NaN; `weights` {nodes, targets}.
    """

    mode: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    missing: np.ndarray  # whether NaN goes the way of yes
    members: np.ndarray
    weights: np.ndarray
    roots: np.ndarray

    def depth(self) -> int:
        """Steps from the roots until every path is at a leaf."""
        level, steps = np.unique(self.roots), 0
        while (self.mode[level] != LEAF).any():
            level = np.unique(np.concatenate([self.yes[level], self.no[level]]))
            steps += 1
            if steps > len(self.mode):
                raise OnnxError("the nodes of a tree form a cycle")
        return steps


def leaves(b: OnnxBuilder, x: Value, forest: Forest) -> Value:
    """The number of the leaf that each sample of x {N, features} reaches in each tree: {N, trees}."""
    samples, trees = x.shape.lens[0], len(forest.roots)
    at = b.multibroadcast(b.literal(forest.roots.astype(np.int64)), out_lens=(samples, trees))

    def of(table: np.ndarray, type: str | None = None) -> Value:
        return b.gather(b.literal(np.ascontiguousarray(table), type), at, axis=0)

    for _ in range(forest.depth()):
        value = b.gather_elements(x, of(forest.feature.astype(np.int64)), axis=1)
        went = goes(b, forest, value, of)
        if forest.missing.any():
            went = b.logical_or(went, b.logical_and(b.isnan(value), of(forest.missing)))
        at = b.where(went, of(forest.yes.astype(np.int64)), of(forest.no.astype(np.int64)))
    return at


def goes(b: OnnxBuilder, forest: Forest, value: Value, of: Callable[..., Value]) -> Value:
    """Whether each value passes its node's test."""
    used = [m for m in np.unique(forest.mode).tolist() if m != LEAF]
    result = None
    for mode in used:
        if mode == MEMBER:
            members = of(forest.members, value.shape.type)
            wide = b.broadcast_to(b.unsqueeze(value, axes=(2,)), members.shape.lens)
            passes = b.squeeze(b.reduce_any(b.equal(wide, members), axes=(2,)), axes=(2,))
        else:
            passes = getattr(b, WORDS[mode])(value, of(forest.split, value.shape.type))
        result = passes if result is None else b.where(of(forest.mode == mode), passes, result)
    assert result is not None
    return result


def aggregated(b: OnnxBuilder, forest: Forest, at: Value, how: str, type: str) -> Value:
    """What the leaves reached say of each target: {N, targets}."""
    table = forest.weights
    if how in ("min", "max"):
        limit = np.finfo(np.float64 if type == "double" else np.float32)
        table = np.where(np.isnan(table), limit.max if how == "min" else limit.min, table)
    else:
        table = np.nan_to_num(table)
    wide = b.gather(b.literal(table, type), at, axis=0)  # {N, trees, targets}
    word = {"sum": "reduce_sum", "average": "reduce_mean", "min": "reduce_min", "max": "reduce_max"}[how]
    return b.squeeze(getattr(b, word)(wide, axes=(1,)), axes=(1,))


@converter("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(
    b: OnnxBuilder,
    x: Value,
    *,
    aggregate_function: int,
    leaf_targetids: Sequence[int],
    leaf_weights: np.ndarray,
    n_targets: int,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_modes: np.ndarray,
    nodes_splits: np.ndarray,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int,
    tree_roots: Sequence[int],
    membership_values: np.ndarray | None = None,
    nodes_hitrates: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
) -> Value:
    """x {N, features} to {N, n_targets}. Leaves are numbered behind the nodes."""
    if not 0 <= aggregate_function < len(AGGREGATES) or TRANSFORMS[post_transform] != "NONE":
        raise OnnxError(f"aggregate_function {aggregate_function}, post_transform {post_transform} are not supported")
    inner, outer = len(nodes_modes), len(leaf_weights)

    def child(ids: Sequence[int], are_leaves: Sequence[int]) -> np.ndarray:
        inside = np.array(ids) + inner * np.array(are_leaves, bool)
        return np.concatenate([inside, np.arange(inner, inner + outer)])

    def behind(values: Sequence[float] | np.ndarray, rest: float) -> np.ndarray:
        return np.concatenate([np.asarray(values), np.full(outer, rest)])

    weights = np.full((inner + outer, n_targets), np.nan)
    weights[np.arange(inner, inner + outer), list(leaf_targetids)] = leaf_weights
    modes = behind(nodes_modes, LEAF).astype(np.int64)
    roots = np.array(tree_roots)
    alone = [
        bool(nodes_trueleafs[r] and nodes_falseleafs[r]) and nodes_truenodeids[r] == nodes_falsenodeids[r]
        for r in tree_roots
    ]  # a tree that is one leaf
    yes = child(nodes_truenodeids, nodes_trueleafs)
    forest = Forest(
        mode=modes,
        feature=behind(nodes_featureids, 0),
        split=behind(nodes_splits, 0.0),
        yes=yes,
        no=child(nodes_falsenodeids, nodes_falseleafs),
        missing=behind(nodes_missing_value_tracks_true or (0,) * inner, 0).astype(bool),
        members=member_table(modes, membership_values),
        weights=weights,
        roots=np.where(alone, yes[roots], roots),
    )
    return aggregated(b, forest, leaves(b, x, forest), AGGREGATES[aggregate_function], x.shape.type)


def member_table(modes: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    """Each node's set {nodes, most}; the sets follow one another in `values`, each behind closed by NaN."""
    nodes = np.flatnonzero(modes == MEMBER)
    flat = np.zeros(0) if values is None else values.astype(np.float64)
    ends = np.flatnonzero(np.isnan(flat))
    if len(ends) != len(nodes):
        raise OnnxError(f"{len(nodes)} nodes test membership, membership_values has {len(ends)} sets")
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    most = int((ends - starts).max(initial=1))
    table = np.full((len(modes), most), np.nan)
    for node, start, end in zip(nodes, starts, ends, strict=False):
        table[node, : end - start] = flat[start:end]
    return table

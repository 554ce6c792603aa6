"""Ensembles of decision trees: all samples go down all trees at once, a level a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.ml.features import DOMAIN, TRANSFORMS, best_label, chosen_label, transformed
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter

Value = Instruction
WORDS = ("less_or_equal", "less", "greater_or_equal", "greater", "equal", "not_equal")
MEMBER, LEAF = 6, -1  # modes that are no comparison
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
AGGREGATES = ("average", "sum", "min", "max")


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


def numbers(given: Mapping[str, Any], name: str, count: int | None = None) -> np.ndarray:
    """An attribute that is a list of floats or a tensor of doubles; `count` zeros where there is none."""
    values = given.get(f"{name}_as_tensor")
    values = given.get(name) if values is None else values
    if values is None:
        return np.zeros(count or 0)
    return np.asarray(values, np.float64).reshape(-1)


def forest_of(given: Mapping[str, Any], kind: str, targets: int) -> Forest:
    """The forest of TreeEnsembleRegressor (kind `target`) or TreeEnsembleClassifier (`class`)."""
    names = list(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    place = {name: k for k, name in enumerate(names)}
    modes = np.array([MODES.index(m) if m in MODES else LEAF for m in given["nodes_modes"]])
    odd = {*given["nodes_modes"]} - {*MODES, "LEAF"}
    if odd:
        raise OnnxError(f"nodes_modes {min(odd)!r} is not supported")

    def child(ids: Sequence[int]) -> np.ndarray:
        return np.array([
            k if modes[k] == LEAF else place[tree, node]
            for k, ((tree, _), node) in enumerate(zip(names, ids, strict=True))
        ])  # fmt: skip

    yes, no = child(given["nodes_truenodeids"]), child(given["nodes_falsenodeids"])
    inner = modes != LEAF
    below = {*yes[inner].tolist(), *no[inner].tolist()}
    roots = [k for k in range(len(names)) if k not in below]
    if not roots:
        raise OnnxError("the nodes of a tree form a cycle")
    weights = np.full((len(names), targets), np.nan)
    rows = zip(given[f"{kind}_treeids"], given[f"{kind}_nodeids"], strict=True)
    for row, column, weight in zip(rows, given[f"{kind}_ids"], numbers(given, f"{kind}_weights"), strict=True):
        weights[place[row], column] = np.nan_to_num(weights[place[row], column]) + weight
    return Forest(
        mode=modes,
        feature=np.where(inner, given["nodes_featureids"], 0),
        split=numbers(given, "nodes_values", len(names)),
        yes=yes,
        no=no,
        missing=np.array(given.get("nodes_missing_value_tracks_true") or (0,) * len(names), bool),
        members=np.full((len(names), 1), np.nan),
        weights=weights,
        roots=np.array(roots),
    )


@converter("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    b: OnnxBuilder, x: Value, *, n_targets: int, aggregate_function: str, post_transform: str, **given: Any
) -> Value:
    if aggregate_function.lower() not in AGGREGATES:
        raise OnnxError(f"aggregate_function {aggregate_function!r} is not known")
    x = x if x.shape.type in ("float", "double") else b.cast(x, "float")
    forest = forest_of(given, "target", n_targets)
    y = aggregated(b, forest, leaves(b, x, forest), aggregate_function.lower(), x.shape.type)
    base = numbers(given, "base_values", n_targets)
    y = b.add(y, b.broadcast_to(b.literal(base, x.shape.type), y.shape.lens))
    return b.cast(transformed(b, y, post_transform), "float")


@converter("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(
    b: OnnxBuilder,
    x: Value,
    *,
    post_transform: str,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    **given: Any,
) -> tuple[Any, Value]:
    """The label and the scores {N, classes}; of two classes, weights may be those of one."""
    names = classlabels_strings or classlabels_int64s
    x = x if x.shape.type in ("float", "double") else b.cast(x, "float")
    forest = forest_of(given, "class", len(names))
    y = aggregated(b, forest, leaves(b, x, forest), "sum", x.shape.type)
    base = numbers(given, "base_values")
    ids = sorted({*given["class_ids"]})
    if len(names) == 2 and len(ids) == 1:
        y = b.slice(y, axes=(1,), starts=(ids[0],), ends=(ids[0] + 1,))
        y = b.add(y, b.full(base[-1], y)) if len(base) else y
        return two_classes(b, y, names, post_transform, bool((numbers(given, "class_weights") >= 0).all()))
    if len(base) not in (0, len(names)):
        raise OnnxError(f"{len(base)} base_values for {len(names)} classes")
    y = b.add(y, b.broadcast_to(b.literal(base, x.shape.type), y.shape.lens)) if len(base) else y
    scores = b.cast(transformed(b, y, post_transform), "float")
    return best_label(b, scores, names), scores


def two_classes(b: OnnxBuilder, y: Value, names: Sequence[Any], post_transform: str, shares: bool) -> tuple[Any, Value]:
    """Label and scores from the sum {N, 1} of the second of two classes.

    Where no weight is negative (`shares`) the sum is a probability, else it says how far it is above 0.
    """
    if post_transform == "PROBIT":
        raise OnnxError("post_transform PROBIT of the weights of one of two classes is not supported")
    second = b.greater(y, b.full(0.5 if shares else 0.0, y))
    label = chosen_label(b, b.cast(b.squeeze(second, axes=(1,)), "int64"), names)
    if post_transform == "LOGISTIC":
        return label, b.cast(b.sigmoid(b.concat(b.neg(y), y, axis=1)), "float")
    return label, b.cast(b.concat(b.sub(b.full(1.0, y), y) if shares else b.neg(y), y, axis=1), "float")


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
    if not (0 <= aggregate_function < len(AGGREGATES) and 0 <= post_transform < len(TRANSFORMS)):
        raise OnnxError(f"aggregate_function {aggregate_function} or post_transform {post_transform} is not known")
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
    y = aggregated(b, forest, leaves(b, x, forest), AGGREGATES[aggregate_function], x.shape.type)
    return transformed(b, y, TRANSFORMS[post_transform])


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

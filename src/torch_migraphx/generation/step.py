"""One step of a language model as a graph: some tokens, and caches that come out with their keys and values in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_leaves, tree_map, tree_structure, tree_unflatten
from transformers.cache_utils import Cache, CacheLayerMixin

from torch_migraphx.fx.decompositions import DECOMPOSITIONS
from torch_migraphx.generation.caches import rounded


class StepLayer(CacheLayerMixin):
    """A layer of a cache in a graph: buffers {batch, heads, capacity, size}, written from a position on."""

    is_compileable = True  # as a static one: its mask is for all positions of the buffer

    def __init__(
        self, keys: torch.Tensor, values: torch.Tensor, start: torch.Tensor, sliding: bool,
        scales: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        """`scales` {2}: of keys and values that are kept as fp8 would."""
        self.keys, self.values, self.scales = keys, values, scales
        self.start, self.is_sliding, self.is_initialized = start, sliding, True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """It is initialized from the start."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.keys is not None and self.values is not None
        if self.scales is not None:
            key_states, value_states = map(rounded, (key_states, value_states), self.scales.unbind())
        at = self.start + torch.arange(key_states.shape[2])
        self.keys = self.keys.index_copy(2, at, key_states)
        self.values = self.values.index_copy(2, at, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        assert self.keys is not None
        return self.keys.shape[2], 0

    def get_seq_length(self) -> Any:
        return self.start

    def get_max_length(self) -> int:
        return -1


@dataclass(frozen=True)
class Inputs:
    """What a step is given, beside weights.

    ids and positions {batch, tokens}; `mask`: bools {batch, capacity} of what is no padding, or the whole mask
    {batch, 1, tokens, capacity}, or one of these for each kind of layer; `start` {}: the position of the first token
    in the caches; `keep` {n}: for which tokens logits are wanted; caches: keys and values of each layer in turn;
    `scales` {layers, 2}: theirs, where they are rounded to fp8.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: Any
    start: torch.Tensor
    keep: torch.Tensor
    caches: Sequence[torch.Tensor]
    scales: torch.Tensor | None = None

    def flat(self) -> list[torch.Tensor]:
        """All tensors, in order."""
        scales = [] if self.scales is None else [self.scales]
        masks = [self.mask] if isinstance(self.mask, torch.Tensor) else tree_leaves(self.mask)
        return [self.ids, self.positions, self.start, self.keep, *scales, *masks, *self.caches]

    def kind(self) -> Hashable:
        """Equal for inputs that differ in sizes and values only."""
        nested = None if isinstance(self.mask, torch.Tensor) else str(tree_structure(self.mask))
        return nested, self.scales is None, tuple([(x.dtype, x.dim()) for x in self.flat()])

    def with_tensors(self, flat: Sequence[torch.Tensor]) -> Inputs:
        """Nested like these, with other tensors in the order of `flat`."""
        (ids, positions, start, keep), rest = flat[:4], list(flat[4:])
        scales = None if self.scales is None else rest.pop(0)
        nested = tree_structure(self.mask)
        masks, caches = rest[: nested.num_leaves], rest[nested.num_leaves :]
        return Inputs(ids, positions, tree_unflatten(masks, nested), start, keep, caches, scales)

    def like(self) -> Inputs:
        """The same without data, which may be kept."""
        return self.with_tensors([torch.empty(0, dtype=x.dtype) for x in self.flat()])

    def of_one_token(self) -> Inputs:
        """These for the first token of the first sequence."""
        mask = tree_map(lambda m: m[:1] if m.dim() == 2 else m[:1, :, :1], self.mask)
        caches = [c[:1] for c in self.caches]
        return Inputs(self.ids[:1, :1], self.positions[:1, :1], mask, self.start, self.keep[:1], caches, self.scales)


SAMPLE = {"batch": 3, "tokens": 5, "kept": 7, "room": 11}
"""Lengths that stand for any: different ones, so that the trace takes none for another."""


def symbolic(weights: Sequence[torch.Tensor], inputs: Inputs) -> tuple[list[torch.Tensor], Inputs]:
    """Stand-ins without data for weights and inputs whose sequences, tokens, logits and positions are any many."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    mode.cache_enabled = False  # with symbols to look a shape up takes longer than to compute it

    def stand_in(x: torch.Tensor, *names: str | None) -> torch.Tensor:
        names = (*names, *(None for _ in range(x.dim() - len(names))))
        sizes = [n if k is None else SAMPLE[k] for n, k in zip(x.shape, names, strict=True)]
        known = [DimDynamic.STATIC if k is None else DimDynamic.DUCK for k in names]
        of = x if not any(names) else torch.empty(sizes, dtype=x.dtype)
        return mode.from_tensor(of, symbolic_context=StatelessSymbolicContext(dynamic_sizes=known))

    def of_mask(x: torch.Tensor) -> torch.Tensor:
        return stand_in(x, "batch", *(None, "tokens")[: x.dim() - 2], "room")

    ids, positions = (stand_in(x, "batch", "tokens") for x in (inputs.ids, inputs.positions))
    caches = [stand_in(x, "batch", None, "room") for x in inputs.caches]
    start, keep, mask = stand_in(inputs.start), stand_in(inputs.keep, "kept"), tree_map(of_mask, inputs.mask)
    scales = None if inputs.scales is None else stand_in(inputs.scales)
    return [stand_in(w) for w in weights], Inputs(ids, positions, mask, start, keep, caches, scales)


def trace(
    model: nn.Module,
    forward: Callable[..., Any],
    names: Sequence[str],
    weights: Sequence[torch.Tensor],
    inputs: Inputs,
    sliding: Sequence[bool],
) -> fx.GraphModule:
    """The graph of a step for inputs of these sizes: weights and `inputs.flat()` to logits and the new caches.

    Sizes may be symbols, as `symbolic` makes them.
    `names` are those of the weights in `model`, whose call is `forward`; `sliding`: which layers have a window. What
    torch or the model raises where it cannot be traced is passed on.
    """

    def step(*tensors: torch.Tensor) -> list[torch.Tensor]:
        held, given = tensors[: len(names)], inputs.with_tensors(tensors[len(names) :])
        scales = [None] * len(sliding) if given.scales is None else given.scales.unbind()
        pairs = zip(given.caches[::2], given.caches[1::2], sliding, scales, strict=True)
        layers = [StepLayer(k, v, given.start, s, own) for k, v, s, own in pairs]
        with _reparametrize_module(model, dict(zip(names, held, strict=True)), tie_weights=True):
            out = forward(
                input_ids=given.ids,
                position_ids=given.positions,
                attention_mask=given.mask,
                past_key_values=Cache(layers=list(layers)),
                logits_to_keep=given.keep,
                use_cache=True,
                return_dict=True,
            )
        return [out.logits, *(x for layer in layers for x in (layer.keys, layer.values) if x is not None)]

    def traced(function: Callable[..., Any]) -> fx.GraphModule:
        """Products of experts are taken apart here: torch knows the shapes of those of bf16 only."""
        kind = "symbolic" if isinstance(inputs.ids, FakeTensor) else "fake"
        with _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]  # else "may be 1" is a guard
            return make_fx(function, DECOMPOSITIONS, kind, _allow_non_fake_inputs=True)(*weights, *inputs.flat())

    with torch.no_grad():
        made = traced(step)
        if any(map(_writes, made.graph.nodes)):  # of the graph, whose Python asks nothing of tensors
            made = traced(torch.func.functionalize(made, remove="mutations"))
        made.graph.eliminate_dead_code()
    return made


def _writes(n: fx.Node) -> bool:
    return isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable


def only_for_some(graph: fx.GraphModule, of_one: fx.GraphModule) -> str:
    """Why a graph of symbolic sizes does not stand for all sizes, as far as the model's Python told; else nothing.

    A comparison of sizes there is a guard of the trace, or was decided, where torch takes no symbol for a 1: then the
    graph of one token computes something else.
    """
    env = next(s.node.shape_env for n in graph.graph.nodes for s in _symbols(n))
    if env.guards:
        return f"the model compares its sizes: {env.guards[0].expr}"
    ways = [[n.target for n in g.graph.nodes if _computes(n)] for g in (graph, of_one)]
    return "" if ways[0] == ways[1] else "the model computes one token in its own way"


def _computes(n: fx.Node) -> bool:
    """Whether a node gives a tensor of other elements than it takes."""
    moves = n.op != "call_function" or n.target in (torch.ops.aten.clone.default, torch.ops.aten._unsafe_view.default)
    is_view = isinstance(n.target, torch._ops.OpOverload) and n.target.is_view
    return isinstance(n.meta.get("val"), torch.Tensor) and not (moves or is_view)


def _symbols(n: fx.Node) -> list[torch.SymInt]:
    return [s for s in getattr(n.meta.get("val"), "shape", ()) if isinstance(s, torch.SymInt)]

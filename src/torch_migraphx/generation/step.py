"""One step of a language model as a graph: some tokens, and caches that come out with their keys and values in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten
from transformers.cache_utils import Cache, CacheLayerMixin


class StepLayer(CacheLayerMixin):
    """A layer of a cache in a graph: buffers {batch, heads, capacity, size}, written from a position on."""

    is_compileable = True  # as a static one: its mask is for all positions of the buffer

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, start: torch.Tensor, sliding: bool) -> None:
        self.keys, self.values = keys, values
        self.start, self.is_sliding, self.is_initialized = start, sliding, True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """It is initialized from the start."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.keys is not None and self.values is not None
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
    in the caches; `keep` {n}: for which tokens logits are wanted; caches: keys and values of each layer in turn.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: Any
    start: torch.Tensor
    keep: torch.Tensor
    caches: Sequence[torch.Tensor]

    def flat(self) -> list[torch.Tensor]:
        """All tensors, in order."""
        return [self.ids, self.positions, self.start, self.keep, *tree_leaves(self.mask), *self.caches]

    def kind(self) -> Hashable:
        """Equal for inputs that differ in sizes and values only."""
        return str(tree_structure(self.mask)), tuple(x.dtype for x in self.flat())

    def with_tensors(self, flat: Sequence[torch.Tensor]) -> Inputs:
        """Nested like these, with other tensors in the order of `flat`."""
        (ids, positions, start, keep), rest = flat[:4], flat[4:]
        nested = tree_structure(self.mask)
        masks, caches = rest[: nested.num_leaves], rest[nested.num_leaves :]
        return Inputs(ids, positions, tree_unflatten(masks, nested), start, keep, caches)

    def like(self) -> Inputs:
        """The same without data, which may be kept."""
        return self.with_tensors([torch.empty(0, dtype=x.dtype) for x in self.flat()])


def trace(
    model: nn.Module,
    forward: Callable[..., Any],
    names: Sequence[str],
    weights: Sequence[torch.Tensor],
    inputs: Inputs,
    sliding: Sequence[bool],
) -> fx.GraphModule:
    """The graph of a step for inputs of these sizes: weights and `inputs.flat()` to logits and the new caches.

    `names` are those of the weights in `model`, whose call is `forward`; `sliding`: which layers have a window. What
    torch or the model raises where it cannot be traced is passed on.
    """

    def step(*tensors: torch.Tensor) -> list[torch.Tensor]:
        held, given = tensors[: len(names)], inputs.with_tensors(tensors[len(names) :])
        pairs = zip(given.caches[::2], given.caches[1::2], sliding, strict=True)
        layers = [StepLayer(k, v, given.start, s) for k, v, s in pairs]
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

    tensors = [*weights, *inputs.flat()]
    with torch.no_grad():
        made = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)
        if any(map(_writes, made.graph.nodes)):
            functional = torch.func.functionalize(step, remove="mutations")
            made = make_fx(functional, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)
    return made


def _writes(n: fx.Node) -> bool:
    return isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable

"""A language model whose calls with a cache run in the engine."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks
from torch.utils._pytree import tree_map
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

import migraphx
from torch_migraphx.dynamo.backends import share_weights
from torch_migraphx.dynamo.expected import expect
from torch_migraphx.dynamo.runner import Fetched, OfPlaces, Runner
from torch_migraphx.dynamo.words import words_of
from torch_migraphx.fx.any_size import or_each_size, takes
from torch_migraphx.fx.any_size_in_place import AnySizeInPlace
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.lower_graph import FallbackError, lower
from torch_migraphx.generation.caches import GrowingLayer, capacity, grow_in_place
from torch_migraphx.generation.call import Call, is_of_padding
from torch_migraphx.generation.decode import DecodeStep, Following, Steps
from torch_migraphx.generation.sampling import sample_by_steps
from torch_migraphx.generation.step import Inputs, only_for_some, symbolic, trace
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options

logger = get_logger(__name__)
CHUNK, FILLED = 128, 32
"""Tokens of a prompt that are computed together: a longer prompt is several chunks. The last one is filled up to a
multiple of the second number; to a whole chunk where programs are for one number of tokens."""
FIRST = torch.zeros(1, dtype=torch.int64)  # of one token: there is no other
READ = ("input_ids", "attention_mask", "position_ids", "past_key_values", "logits_to_keep")
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "use_cache": (True, None), "return_dict": (True, None), "labels": (None,), "inputs_embeds": (None,),
    "output_attentions": (False, None), "output_hidden_states": (False, None), "cache_position": (None,),
    "token_type_ids": (None,), "is_first_iteration": (True, False),
}  # fmt: skip
"""Arguments that a step does not read, and the values with which they change nothing."""


def compile_generation(model: nn.Module, **options: Any) -> nn.Module:
    """Let calls of `model` with a cache run in the engine, and so `model.generate()`; returns the model.

    `model` is a decoder of transformers whose `forward` takes `input_ids`, `attention_mask`, `position_ids`,
    `past_key_values` and `logits_to_keep`; its `forward` is replaced. A dynamic or static cache that arrives gets
    layers that grow in place (`GrowingLayer`). There is one program for any numbers of tokens and sequences, where the
    target has such; else one for a token and one for a chunk of a prompt for each number of sequences. Calls without a
    cache, with embeddings, for attentions or hidden states, with gradients or in training run in torch, which the log
    says; with `fallback="error"` they raise FallbackError. The options are those of torch.compile's backend. TypeError
    for a model whose `forward` lacks one of these arguments.
    """
    chosen = Options.of(**options)
    forward: Any = model.forward
    if isinstance(forward, CompiledForward):
        forward = forward.original
    missing = [n for n in READ if n not in inspect.signature(forward).parameters]
    if missing:
        raise TypeError(f"{type(model).__name__}.forward takes no {', '.join(missing)}")
    model.forward = CompiledForward(model, forward, chosen)
    sample_by_steps(model)
    return model


class NotTaken(UnsupportedError):
    """A call that runs in torch; the message says why."""


class CompiledForward:
    """Replaces `model.forward`: compiles a step for all sizes, or for each that it meets."""

    def __init__(self, model: Any, original: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, original)
        self.__signature__ = inspect.signature(original)
        self._names = list(inspect.signature(original).parameters)
        self.model, self.original, self.options = model, original, options
        self.compiled = 0
        """How many steps were compiled so far."""
        self._said: set[str] = set()
        self._layers = int(model.config.get_text_config(decoder=True).num_hidden_layers)
        self._heads: list[tuple[int, int, int, torch.dtype]] = []
        self._places = _places(model)
        self._numbers = frozenset(range(len(self._places)))  # of a step's arguments, which begin with the weights
        self._fetched = Fetched(())
        self._unwritten: Callable[[], bool] = lambda: False
        self._programs: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # those that a runner still holds
        self._runners: dict[Hashable, Runner] = {}
        self._steps: weakref.WeakKeyDictionary[Cache, DecodeStep] = weakref.WeakKeyDictionary()
        made: list[Any] = DynamicCache(config=model.config).layers
        self._sliding = [bool(x.is_sliding) for x in made] or [False] * self._layers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        try:
            call = self._read(given)
            logits = self._run(call)
        except NotTaken as why:
            self._say(str(why))
            return self.original(*args, **kwargs)
        return CausalLMOutputWithPast(logits=logits, past_key_values=call.cache)

    def _say(self, why: str) -> None:
        if self.options.fallback == "error":
            raise FallbackError(f"a call of the model runs in torch: {why}")
        if why not in self._said:
            self._said.add(why)
            logger.warning("a call of %s runs in torch: %s", type(self.model).__name__, why)

    def steps(self, outputs: Any, positions: torch.Tensor, mask: Any) -> Steps | None:
        """The steps of one token of each sequence behind a call.

        `outputs`: of the call before; `positions` {sequences, 1} of the first of these tokens, `mask` {sequences, n}
        says which of the tokens so far are padding, None: none is. None where a call could still turn out to run in
        torch, as nothing but one program for all numbers of tokens has been tried with one, or hooks wait for calls.
        """
        cache = outputs.past_key_values
        layers = [x for x in getattr(cache, "layers", ()) if isinstance(x, GrowingLayer)]
        if not isinstance(cache, Cache) or not layers or len(layers) < len(cache.layers):
            return None
        if not self._any_size() or self.model.training or _has_hooks(self.model) or not is_of_padding(mask):
            return None
        call = Call(positions, positions.clone(), mask, cache, layers, 1)
        return Steps(call, self._run, self._run_several)

    # ---- what a call asks for ----

    def _read(self, given: dict[str, Any]) -> Call:
        cache, ids = given.get("past_key_values"), given.get("input_ids")
        if self.model.training:
            raise NotTaken("the model is in training")
        if torch.is_grad_enabled() and any(w.requires_grad for w in self._weights().tensors):
            raise NotTaken("gradients may be asked for")
        if cache is None and given.get("use_cache", getattr(self.model.config, "use_cache", True)):
            cache = DynamicCache(config=self.model.config)
        if not isinstance(cache, Cache) or not isinstance(ids, torch.Tensor) or ids.dim() != 2 or 0 in ids.shape:
            raise NotTaken("it has no cache or no input_ids")
        if ids.device.type != "cpu":
            raise NotTaken(f"its inputs are on {ids.device}")
        for name, value in given.items():
            if name not in READ and not any(value is v for v in NEUTRAL.get(name, (None,))):
                raise NotTaken(f"it has {name}={value if isinstance(value, bool | str) else type(value).__name__}")
        if why := grow_in_place(cache, self._layers):
            raise NotTaken(f"the cache cannot grow in place: {why}")
        layers = [x for x in cache.layers if isinstance(x, GrowingLayer)]
        if len({x.length for x in layers}) != 1:
            raise NotTaken("the layers of its cache have different lengths")
        keep = given.get("logits_to_keep", 0)
        if isinstance(keep, torch.Tensor):
            raise NotTaken("it has logits_to_keep as a tensor")
        positions = self._positions(given, ids, layers[0].length)
        return Call(ids, positions, given.get("attention_mask"), cache, layers, keep)

    def _positions(self, given: dict[str, Any], ids: torch.Tensor, start: int) -> torch.Tensor:
        positions = given.get("position_ids")
        if positions is None:
            positions = torch.arange(start, start + ids.shape[1]).unsqueeze(0)
        if positions.dim() != 2:
            raise NotTaken(f"its position_ids have {positions.dim()} dimensions")
        return positions.expand(ids.shape)

    # ---- running ----

    def _weights(self) -> Fetched:
        """The model's tensors as they are now: those of the last step, where no dictionary of them was written."""
        if not self._unwritten():
            tensors = [of[name] for of, name in self._places.values()]
            words = words_of({id(of): of for of, _ in self._places.values()}.values(), (), tensors)
            self._fetched = Fetched(tensors, words is not None)
            self._unwritten = words.same if words is not None else lambda: False
        return self._fetched

    def _run(self, call: Call) -> torch.Tensor:
        """The logits; the cache then holds the new tokens."""
        weights, again = self._weights(), self._steps.get(call.cache)
        logits = again(call) if again is not None and again.serves(call, weights) else None
        if logits is None:
            logits = self._run_chunks(call, weights)
        start = call.layers[0].length
        for layer in call.layers:
            layer.filled(start + call.ids.shape[1])
        return logits

    def _run_several(self, call: Call, following: Following, most: int) -> torch.Tensor | None:
        """The tokens behind those of the call, of so many steps or fewer; None: a step has to be run by itself."""
        weights, again = self._weights(), self._steps.get(call.cache)
        if again is None or not again.serves(call, weights):
            again = self._step_of(call, weights)
        made = again.several(call, following, most) if again is not None else None
        if made is not None:
            for layer in call.layers:
                layer.filled(layer.length + made.shape[1])
        return made

    def _run_chunks(self, call: Call, weights: Fetched) -> torch.Tensor:
        tokens, kept = call.ids.shape[1], []
        wanted = tokens if call.keep == 0 else min(int(call.keep), tokens)
        filled = 1 if tokens == 1 else FILLED if self._any_size() else CHUNK
        self._allocate(call)
        start = call.layers[0].length
        need = capacity(start + -(-tokens // filled) * filled)
        buffers = [b for layer in call.layers for b in layer.reserve(need)]
        mask = self._mask(call, start, room=buffers[0].shape[2])  # more than is needed where the text was longer once
        for first in range(0, tokens, CHUNK):
            last = min(first + CHUNK, tokens)
            size = -(-(last - first) // filled) * filled
            logits = self._chunk(call, weights, (first, last, size), start, mask, buffers, tokens - wanted)
            if last > tokens - wanted:
                kept.append(logits)
        if tokens == 1:
            self._step_of(call, weights)
        return kept[0] if len(kept) == 1 else torch.cat(kept, 1)

    def _step_of(self, call: Call, weights: Fetched) -> DecodeStep | None:
        """What runs steps of one token for these sequences from now on; None where such lengths have not run yet."""
        self._steps.pop(call.cache, None)
        if call.scales is not None or not is_of_padding(call.mask):
            return None
        start = call.layers[0].length
        buffers = [b for layer in call.layers for b in layer.reserve(capacity(start + 1))]
        mask = self._mask(call, start, room=buffers[0].shape[2])
        ids, positions = (x.clone(memory_format=torch.contiguous_format) for x in (call.ids, call.positions))
        inputs = Inputs(ids, positions, mask, torch.tensor(start), FIRST, buffers)
        args = (*weights.tensors, *inputs.flat())
        run = self._runner(inputs).bound_without(self._numbers, args, weights)
        if run is None:
            return None
        made = self._steps[call.cache] = DecodeStep(inputs, weights, run)
        return made

    def _any_size(self) -> bool:
        """Whether programs are for any number of tokens, as far as is known."""
        return bool(self._runners) and all(r.any_size for r in self._runners.values())

    def _chunk(
        self, call: Call, weights: Fetched, span: tuple[int, int, int], start: int, mask: Any,
        buffers: list[torch.Tensor], from_token: int,
    ) -> torch.Tensor:  # fmt: skip
        """The logits of the tokens from `from_token` on that lie in this chunk, at least one token's."""
        first, last, size = span
        behind = size - (last - first)
        ids, positions = call.ids, call.positions
        if (first, last) != (0, ids.shape[1]):
            ids, positions = ids[:, first:last], positions[:, first:last]
        if behind:  # written behind the cache's length, where the next tokens go
            ids, positions = (torch.nn.functional.pad(x, (0, behind)) for x in (ids, positions))
        many = from_token < last - 1
        keep = torch.arange(size) if many else FIRST if size == 1 else torch.tensor([last - 1 - first])
        rows = functools.partial(_rows, first=first, last=last, size=size)
        masks = rows(mask) if isinstance(mask, torch.Tensor) else tree_map(rows, mask)
        inputs = Inputs(
            ids.contiguous(), positions.contiguous(), masks, torch.tensor(start + first), keep, buffers, call.scales
        )
        out = self._stepped(inputs, weights)
        for own, new in zip(buffers, out[1:], strict=True):
            if new is not own:
                own.copy_(new)
        return out[0][:, max(from_token - first, 0) : last - first] if many else out[0]

    def _mask(self, call: Call, start: int, room: int) -> Any:
        """Masks for all positions of the buffers: {batch, room}, or {batch, 1, tokens, room} where they came so."""
        batch, tokens = call.ids.shape
        kinds = list(call.mask.values()) if isinstance(call.mask, dict) else [call.mask]
        if all(m is None for m in kinds):  # a dictionary of a static cache, too: the same program serves both caches
            return torch.ones(batch, room, dtype=torch.bool)

        def wide(mask: torch.Tensor | None) -> torch.Tensor:
            if mask is None:  # of one kind of layers: causal, as their attention would be
                seen = torch.arange(room) <= start + torch.arange(tokens)[:, None]
                return seen.expand(batch, 1, tokens, room)
            if mask.dim() == 2:
                made = torch.ones(batch, room, dtype=torch.bool)
                made[:, : mask.shape[1]] = mask[:, :room]
                return made
            if mask.dim() != 4 or mask.shape[2] != tokens:
                raise NotTaken(f"its attention_mask has shape {list(mask.shape)}")
            low = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
            made = torch.full((batch, mask.shape[1], tokens, room), low, dtype=mask.dtype)
            made[..., : min(mask.shape[3], room)] = mask[..., :room]
            return made

        return {k: wide(m) for k, m in call.mask.items()} if isinstance(call.mask, dict) else wide(call.mask)

    def _allocate(self, call: Call) -> None:
        """Buffers of empty layers: the model says how large, by one token that it computes without data."""
        if call.layers[0].is_initialized:
            return
        if not self._heads:
            self._heads = _head_sizes(self.original, call.ids, len(call.layers))
        for layer, (heads, keys, values, dtype) in zip(call.layers, self._heads, strict=True):
            layer.allocate((call.ids.shape[0], heads), keys, values, dtype)

    def _stepped(self, inputs: Inputs, weights: Fetched) -> Any:
        """The outputs of the program of a step."""
        runner, args = self._runner(inputs), (*weights.tensors, *inputs.flat())
        out = runner.run_without(self._numbers, args, weights)
        return out if out is not None else runner.run(args, weights)

    def _runner(self, inputs: Inputs) -> Runner:
        """What runs steps whose inputs are nested and typed so."""
        key = inputs.kind()
        if key not in self._runners:
            names = [*self._places, *(f"input {k}" for k in range(len(inputs.flat())))]
            like = inputs.like()
            runner = Runner(
                lambda args, fixed: self._build(like, runner, args, fixed), names, self._numbers, True,
                frozen=self.options.frozen, max_specialisations=self.options.max_specialisations,
            )  # fmt: skip
            self._runners[key] = runner
        return self._runners[key]

    def _build(self, nested: Inputs, runner: Runner, args: Sequence[Any], fixed: frozenset[int]) -> Callable[..., Any]:
        """Compile a step: for any numbers of sequences and tokens where that can be, else for these."""
        names = list(self._places)
        weights, given = args[: len(names)], nested.with_tensors(args[len(names) :])
        caches = range(len(args) - 2 * len(self._sliding), len(args))
        written = dict(enumerate(caches, 1))
        if runner.any_size is not False:
            made = self._for_any_size(weights, given, args, fixed, written)
            runner.any_size = made is not None
            if made is not None:
                return made
        graph = self._traced(weights, given)
        with torch.no_grad():
            lowered = lower(graph, args, self.options, fixed, written)
        share_weights(lowered, self._programs)
        self._programs.add(lowered)
        self.compiled += 1
        return lowered.forward

    def _traced(self, weights: Sequence[torch.Tensor], given: Inputs) -> fx.GraphModule:
        try:
            return trace(self.model, self.original, list(self._places), weights, given, self._sliding)
        except Exception as error:  # a model may raise whatever it likes where its Python asks for a value
            why = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
            raise NotTaken(f"it cannot be traced: {why}") from error

    def _for_any_size(
        self, weights: Sequence[torch.Tensor], given: Inputs, args: Sequence[Any], fixed: frozenset[int],
        written: Mapping[int, int],
    ) -> Callable[..., Any] | None:  # fmt: skip
        """One program for all numbers of sequences, tokens and logits, its weights once; None: none."""
        options = self.options.beside(args)
        if not (hasattr(migraphx, "deferred_program") and options.target == "cpu" and takes(options)):
            return None

        expect(self._heads[0][3], self._heads[0][3])

        @torch.no_grad()
        def make() -> AnySizeInPlace:
            graph = self._traced(*symbolic(weights, given))
            if why := only_for_some(graph, self._traced(weights, given.of_one_token())):
                raise UnsupportedError(why)
            decompose(graph)
            made = AnySizeInPlace(graph, args, options, fixed, written)
            made(*args)  # what cannot be, is known after a run; another one writes the same
            return made

        made = or_each_size(make, options)
        self.compiled += made is not None
        return made and OfPlaces(made.run, tuple(made.inputs), lambda _: None, made.bound)


def _has_hooks(model: nn.Module) -> bool:
    """Whether somebody wants to know of each call."""
    return bool(model._forward_hooks or model._forward_pre_hooks or _global_forward_hooks or _global_forward_pre_hooks)


def _rows(mask: torch.Tensor, first: int, last: int, size: int) -> torch.Tensor:
    """The mask of a chunk. Of rows for each token those behind are copies of the last one."""
    if mask.dim() == 2:
        return mask
    rows = mask[:, :, first:last]
    behind = size - (last - first)
    return torch.cat([rows, rows[:, :, -1:].expand(-1, -1, behind, -1)], 2) if behind else rows.contiguous()


def _places(model: nn.Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Every parameter and buffer by name: the dictionary that holds it, where it is read at each call."""
    places: dict[str, tuple[dict[str, Any], str]] = {}
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for of in (module._parameters, module._buffers):
            for name, tensor in of.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    places[f"{prefix}.{name}".lstrip(".")] = (of, name)
    return places


def _head_sizes(forward: Callable[..., Any], ids: torch.Tensor, layers: int) -> list[tuple[int, int, int, torch.dtype]]:
    """Heads, numbers of a key and of a value, and their type, of each layer."""
    cache = DynamicCache()
    with torch.no_grad():
        forward(input_ids=ids[:1, :1], past_key_values=cache, use_cache=True)
    if len(cache.layers) != layers:
        raise NotTaken(f"the model keeps {len(cache.layers)} layers, not {layers}")
    found: list[tuple[int, int, int, torch.dtype]] = []
    for layer in cache.layers:
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None:
            raise NotTaken("a layer keeps no keys")
        found.append((keys.shape[1], keys.shape[3], values.shape[3], keys.dtype))
    return found

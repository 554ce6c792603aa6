"""Greedy and sampled generation: transformers' loop, which gives a step what it needs and keeps no more than that.

transformers prepares each call for any kind of model, and keeps masks and positions of all tokens so far: a tenth of a
step of two milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.generation.utils import GenerationMixin

import migraphx
from torch_migraphx.generation.decode import Following, Steps

Process = Callable[..., torch.Tensor]  # scores {sequences, vocabulary} by the tokens so far and scores
Choose = Callable[[torch.Tensor], torch.Tensor]  # the tokens {sequences} by their scores {sequences, vocabulary}
STEPS = 64
"""Steps that the engine makes before Python asks for more."""
NUMBERS = 1 << 22  # that are drawn at once, at most
WARPERS = {TemperatureLogitsWarper: "temperature", TopKLogitsWarper: "top_k", TopPLogitsWarper: "top_p"}
"""Processors that the engine knows, in its order, and what each has of migraphx.DecodeOptions."""
FILTERS = (TopKLogitsWarper, TopPLogitsWarper)
FEW = 256  # of the largest scores: of more, torch's vectors draw faster
PREPARES = ("prepare_inputs_for_generation", "_update_model_kwargs_for_generation", "_prefill", "_sample")
READ = {"attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep"}
"""Arguments of a model that the loop knows how to go on with."""


def sample_by_steps(model: Any) -> None:
    """Let `model.generate()` sample, or take the likeliest token, by this loop where it can.

    The model gets a class of its own, which is a subclass of the one that it has: transformers asks the class for its
    loop. A model that prepares its inputs in its own way stays as it is.
    """
    kind = type(model)
    if not issubclass(kind, GenerationMixin) or not all(_is_standard(kind, name) for name in PREPARES):
        return
    members = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    model.__class__ = type(kind.__name__, (kind,), {**members, "_sample": _sample})


def _is_standard(kind: type, name: str) -> bool:
    return hasattr(GenerationMixin, name) and getattr(kind, name) is getattr(GenerationMixin, name)


def _can(model: Any, config: Any, synced_gpus: bool, given: dict[str, Any]) -> bool:
    """Whether the loop does what transformers' own would."""
    rest = [k for k, v in given.items() if k not in READ and v is not None]
    asks = config.return_dict_in_generate or config.is_assistant or config.compile_config is not None
    return (
        not (asks or synced_gpus or rest or model.config.is_encoder_decoder)
        and bool(given.get("use_cache"))
        and given.get("position_ids") is not None
        and given["position_ids"].dim() == 2
        and model.device.type == "cpu"
        and hasattr(model.forward, "steps")
    )


def _steps(model: Any, outputs: Any, given: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives the logits of the next tokens {sequences, 1}: of the engine, or of calls of the model."""
    step = model.forward.steps(outputs, given["position_ids"][:, -1:], given.get("attention_mask"))
    if step is not None:
        return step

    def by_calls(tokens: torch.Tensor) -> torch.Tensor:
        inputs = model.prepare_inputs_for_generation(tokens, next_sequence_length=1, **given)
        outputs = model(**inputs, return_dict=True)
        given.update(model._update_model_kwargs_for_generation(outputs, given))
        return outputs.logits

    return by_calls


def _sample(
    self: Any,
    input_ids: torch.Tensor,
    logits_processor: Process,
    stopping_criteria: Any,
    generation_config: Any,
    synced_gpus: bool = False,
    streamer: Any = None,
    **given: Any,
) -> Any:
    """The token numbers {sequences, tokens}, of the prompt and new ones: as GenerationMixin._sample."""
    if not _can(self, generation_config, synced_gpus, given):
        return GenerationMixin._sample(  # type: ignore[attr-defined]
            self, input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, streamer, **given
        )
    outputs = self._prefill(input_ids, generation_config, given, is_first_iteration=True)
    given = self._update_model_kwargs_for_generation(outputs, given)
    step = _steps(self, outputs, given)
    by_engine = isinstance(step, Steps) and outputs.logits.dtype == torch.float32
    logits = outputs.logits[:, -1].to(torch.float32, copy=True)
    del outputs  # of all tokens of the prompt, perhaps
    text = _Text(input_ids, stopping_criteria, generation_config._pad_token_tensor)
    process, choose = _processing(logits_processor), _choice(generation_config.do_sample)
    numbers = _Numbers(logits.shape) if generation_config.do_sample else None
    options = _options(logits_processor, numbers, text.ends) if by_engine and text.ends is not None else None
    put = None if streamer is None else streamer.put
    following = Following(options, logits.shape, text.sequences_ended, put)
    steps = STEPS if numbers is None else max(1, min(STEPS, NUMBERS // logits.numel()))
    while True:
        tokens = text.add(choose(process(text.ids, logits) if logits_processor else logits))
        if put is not None:
            put(tokens)
        while not text.ended and options is not None:
            made = step.several(tokens[:, None], following, min(steps, text.left))
            if numbers is not None:
                numbers.keep(0 if made is None else made.shape[1])
            if made is None or not made.numel():
                break
            tokens = text.extend(made)
        if text.ended:
            break
        logits = step(tokens[:, None])[:, -1].float()
    if streamer is not None:
        streamer.end()
    return text.ids


class _Numbers:
    """Random numbers of torch's generator, which is then as if no more had been drawn than were kept.

    But where somebody else has drawn meanwhile, another thread perhaps: no number comes twice.
    """

    def __init__(self, lens: Sequence[int]) -> None:
        """`lens` of the numbers of one token."""
        self._lens, self._drawn = lens, 0

    def __call__(self, tokens: int) -> np.ndarray:
        """Those {tokens, ...} of so many."""
        self._before, self._last = torch.get_rng_state(), tokens
        self._drawn += tokens
        made = self._rand(tokens)
        self._after = torch.get_rng_state()
        return made

    def _rand(self, tokens: int) -> np.ndarray:
        return torch.rand(tokens, *self._lens, dtype=torch.float64).numpy()

    def keep(self, tokens: int) -> None:
        """Those of so many tokens were used since the last time; the others, of the last call, are to come again."""
        unused, self._drawn = self._drawn - tokens, 0
        if unused and torch.equal(torch.get_rng_state(), self._after):
            torch.set_rng_state(self._before)
            self._rand(self._last - unused)


def _options(processors: Any, numbers: _Numbers | None, ends: dict[str, Any]) -> Any:
    """How the engine chooses tokens as these processors do (migraphx.DecodeOptions); None where it does not."""
    if numbers is None:
        return None if processors else migraphx.DecodeOptions(**ends)
    given = {type(p): p for p in processors}
    if not _draws_largest_ratio() or [*given] != [k for k in WARPERS if k in given] or len(given) < len(processors):
        return None
    chosen = {name: getattr(given[kind], name) for kind, name in WARPERS.items() if kind in given}
    plain = all(p.filter_value == -math.inf and p.min_tokens_to_keep == 1 for k, p in given.items() if k in FILTERS)
    if not plain or not 0 < chosen.get("top_k", 0) <= FEW:
        return None
    return migraphx.DecodeOptions(**chosen, numbers=numbers, **ends)


def _processing(processors: Any) -> Process:
    """The processors in turn: their list would look at the signature of each, which takes longer than top-k does."""
    each: list[Any] = list(processors) if type(processors) is LogitsProcessorList else []
    if not each or any(len(signature(p).parameters) > 2 for p in each):
        return processors

    def process(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for processor in each:
            scores = processor(ids, scores)
        return scores

    return process


def _choice(sample: bool) -> Choose:
    if not sample:
        return _likeliest
    return _drawn if _draws_largest_ratio() else _drawn_by_torch


def _likeliest(scores: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(scores.numpy().argmax(-1))


def _drawn_by_torch(scores: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(torch.softmax(scores, -1), 1)[:, 0]


def _drawn(scores: torch.Tensor) -> torch.Tensor:
    """As torch.multinomial, by the same random numbers, in a quarter of the time.

    Where each token draws an exponential number, the largest ratio of probability to number is a fair choice. Torch
    makes these of numbers in [0, 1), one logarithm after the other, NumPy of several at once.
    """
    probabilities = torch.softmax(scores, -1)
    if np.isnan(probabilities.numpy()).any():
        return torch.multinomial(probabilities, 1)[:, 0]  # says what is wrong
    numbers = np.log1p(-torch.rand(probabilities.shape, dtype=torch.float64).numpy()).astype(np.float32)
    return torch.from_numpy((probabilities.numpy() / -numbers).argmax(-1))


@cache
def _draws_largest_ratio() -> bool:
    """Whether torch.multinomial of this torch takes the largest ratio: it does not say so, and another might not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scores = torch.randn(64, 100)
        state = torch.get_rng_state()
        theirs, after = _drawn_by_torch(scores), torch.get_rng_state()
        torch.set_rng_state(state)
        return torch.equal(theirs, _drawn(scores)) and torch.equal(after, torch.get_rng_state())


class _Text:
    """The numbers of tokens so far, and which sequences have ended."""

    def __init__(self, ids: torch.Tensor, criteria: Iterable[Any], padding: torch.Tensor | None) -> None:
        """`criteria` say when a sequence ends; `padding`: the number that follows then."""
        self._pieces, self._length = [ids], ids.shape[1]
        self.sequences_ended = np.zeros(len(ids), np.bool_)
        self._most = min((c.max_length for c in criteria if _is_length(c)), default=None)
        self._criteria = [c for c in criteria if not _is_length(c)]
        ends = any(hasattr(c, "eos_token_id") for c in self._criteria)
        self._padding = padding.numpy() if ends and padding is not None else None
        self.ends = self._native_ends()

    @property
    def ids(self) -> torch.Tensor:
        """{sequences, tokens}"""
        if len(self._pieces) > 1:
            self._pieces = [torch.cat(self._pieces, -1)]
        return self._pieces[0]

    def add(self, tokens: torch.Tensor) -> torch.Tensor:
        """One more for each sequence; returns them {sequences}: padding for those that have ended."""
        if self._padding is not None:
            tokens = torch.from_numpy(np.where(self.sequences_ended, self._padding, tokens.numpy()))
        self._pieces.append(tokens[:, None])
        self._length += 1
        for criterion in self._criteria:
            self.sequences_ended |= np.asarray(criterion(self.ids, None))
        return tokens

    def extend(self, tokens: torch.Tensor) -> torch.Tensor:
        """Some more {sequences, tokens}, chosen with `ends`; returns the last of each sequence {sequences}."""
        self._pieces.append(tokens)
        self._length += tokens.shape[1]
        return tokens[:, -1]

    def _native_ends(self) -> dict[str, Any] | None:
        """What migraphx.DecodeOptions has of the criteria; None where they ask for more than one token."""
        if any(type(c) is not EosTokenCriteria for c in self._criteria):
            return None
        ends = [int(n) for c in self._criteria for n in c.eos_token_id]
        return {"ends": ends, "padding": None if self._padding is None else int(self._padding)}

    @property
    def left(self) -> int:
        """How many more tokens there may be."""
        return STEPS if self._most is None else self._most - self._length

    @property
    def ended(self) -> bool:
        """Whether all sequences have."""
        return (self._most is not None and self._length >= self._most) or bool(self.sequences_ended.all())


def _is_length(criterion: Any) -> bool:
    """Whether it counts tokens and does nothing else: beyond a model's positions it warns."""
    if type(criterion) is not MaxLengthCriteria:
        return False
    positions = criterion.max_position_embeddings
    return positions is None or criterion.max_length <= positions

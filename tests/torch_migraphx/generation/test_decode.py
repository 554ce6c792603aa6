"""Steps of one token: `generate`'s loop and calls by hand, against what transformers answers."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
from transformers.generation.utils import GenerationMixin

from migraphx.targets.cpu import crew
from tests.torch_migraphx.generation.test_compile_generation import (
    answers,
    generation,
    library,
    llama,
    one_layer,
    pair,
    prompt,
)
from torch_migraphx.generation import decode, sampling
from torch_migraphx.generation.model import NotTaken


class Said:
    """A streamer, and how many tokens of each sequence it was given when."""

    def __init__(self) -> None:
        self.tokens: list[torch.Tensor] = []
        self.ended = False

    def put(self, tokens: torch.Tensor) -> None:
        self.tokens.append(tokens.clone())

    def end(self) -> None:
        self.ended = True


def likes_even(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """A processor that looks at all tokens so far, and writes to the scores."""
    scores[:, ids[0].unique()] -= 1
    scores[:, 1::2] -= 0.5
    return scores


def after_even(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
    """A criterion: a sequence ends behind two even tokens."""
    return (ids[:, -2:] % 2 == 0).all(1)


@pytest.fixture(scope="module")
def models() -> tuple[Any, Any]:
    return pair(llama)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"do_sample": True},
        {"do_sample": True, "top_k": 5, "num_return_sequences": 2},
        {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "max_new_tokens": 90},
        {"do_sample": True, "eos_token_id": [3, 17, 21, 34], "max_new_tokens": 90},
        {"do_sample": True, "top_k": 0, "top_p": 0.9},
        {"logits_processor": [likes_even], "stopping_criteria": [after_even]},
        {"eos_token_id": [3, 17, 21, 34], "pad_token_id": 7},
        {"max_length": 9, "max_new_tokens": None},
        {"prefill_chunk_size": 3},
        {"cache_implementation": "static"},
    ],
)
@pytest.mark.parametrize("sequences", [1, 3])
def test_the_loop_gives_the_tokens_of_transformers(models, monkeypatch, how, sequences):
    model, own = models
    given, how = prompt(sequences, 6), {"max_new_tokens": 12, **how}
    want = answers(model, given, **how)
    monkeypatch.setattr(GenerationMixin, "_sample", None)  # transformers' own loop is not used
    assert torch.equal(answers(own, given, **how), want)


@pytest.mark.parametrize("how", [{}, {"do_sample": True}])
def test_a_streamer_hears_each_token(models, how):
    heard = []
    for one in models:
        streamer = Said()
        answers(one, prompt(1, 6), streamer=streamer, max_new_tokens=80, **how)
        assert streamer.ended
        heard.append(streamer.tokens)
    assert len(heard[0]) == 81
    assert all(map(torch.equal, *heard))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("how", [{}, {"do_sample": True}])
def test_the_engine_chooses_tokens_by_itself(models, monkeypatch, how, streams):
    """All but the first two of a text; the random numbers behind it are those that would follow in torch."""
    model, own = models
    steps, more = [], {}
    run = decode.DecodeStep.__call__
    monkeypatch.setattr(decode.DecodeStep, "__call__", lambda self, call: steps.append(1) or run(self, call))
    states = []
    for one in (model, own):
        more = {"streamer": Said()} if streams else {}
        answers(one, prompt(1, 6), max_new_tokens=70, eos_token_id=[3, 17] if how else None, **how, **more)
        states.append(torch.get_rng_state())
    assert not steps and torch.equal(*states)


def test_random_numbers_come_once():
    """Those that were drawn and not used come again, unless somebody has drawn behind them."""
    for others in (0, 3):
        torch.manual_seed(5)
        want = torch.rand(9, 2, 7, dtype=torch.float64)
        rest = torch.rand(5)
        torch.manual_seed(5)
        numbers = sampling._Numbers((2, 7))
        np.testing.assert_array_equal(numbers(4), want[:4])
        numbers.keep(4)
        np.testing.assert_array_equal(numbers(16)[:5], want[4:])
        seen = torch.rand(others)
        numbers.keep(5)
        after = torch.rand(5)
        assert torch.equal(after, rest) == (others == 0)
        assert not set(seen.tolist()) & set(after.tolist())


def test_what_a_streamer_raises_is_raised(models):
    class Tired(Said):
        def put(self, tokens: torch.Tensor) -> None:
            super().put(tokens)
            if len(self.tokens) == 9:
                raise KeyError("tired")

    streamer = Tired()
    with pytest.raises(KeyError, match="tired"):
        answers(models[1], prompt(1, 6), streamer=streamer, max_new_tokens=80)
    assert len(streamer.tokens) == 9
    test_a_streamer_hears_each_token(models, {})


def test_weights_that_a_streamer_changes_are_seen_within_a_few_tokens():
    model, own = pair(one_layer)

    class Writes(Said):
        def put(self, tokens: torch.Tensor) -> None:
            super().put(tokens)
            if len(self.tokens) == 13:
                with torch.no_grad():
                    own.lm_head.weight.copy_(torch.roll(own.lm_head.weight, 1, 0))

    rolled, how = copy.deepcopy(model), {"max_new_tokens": 60}
    with torch.no_grad():
        rolled.lm_head.weight.copy_(torch.roll(model.lm_head.weight, 1, 0))
    answers(own, prompt(1, 6), **how)
    got = answers(own, prompt(1, 6), streamer=Writes(), **how)[0]
    begun = [m(input_ids=got[None, :-1]).logits[0].argmax(-1) for m in (model, rolled)]
    changed = next(n for n in range(6 + 12, len(got)) if got[n] != begun[0][n - 1])
    assert 6 + 12 <= changed <= 6 + 12 + crew.RUNS
    assert torch.equal(got[changed:], begun[1][changed - 1 :])


def test_scores_that_are_no_numbers_are_an_error():
    """As in transformers: torch says what is wrong."""
    for one in pair(one_layer):
        answers(one, prompt(1, 6), do_sample=True, max_new_tokens=5)
        with torch.no_grad():
            one.lm_head.weight[3] = torch.nan
        with pytest.raises(RuntimeError, match="nan"):
            answers(one, prompt(1, 6), do_sample=True, max_new_tokens=5)


def test_what_the_loop_does_not_know_is_left_to_transformers():
    model, own = pair(one_layer, target="ref")
    how = {"return_dict_in_generate": True, "output_scores": True, "do_sample": False}
    got, want = (model.generate(**prompt(2, 6), max_new_tokens=4, pad_token_id=0, **how) for model in (own, model))
    assert torch.equal(got.sequences, want.sequences)
    torch.testing.assert_close(got.scores, want.scores)


def test_a_step_that_cannot_be_traced_runs_in_torch(monkeypatch):
    """A model may trace for a prompt, and not for a token."""
    model = one_layer().eval()
    want = answers(model, prompt(2, 6))
    own = generation.compile_generation(model, target="ref")
    trace = own.forward._traced

    def refusing(weights: Any, given: Any) -> Any:
        if given.ids.shape[1] == 1:
            raise NotTaken("it is a token")
        return trace(weights, given)

    monkeypatch.setattr(own.forward, "_traced", refusing)
    assert torch.equal(answers(own, prompt(2, 6)), want)
    assert own.forward.compiled == 1


def test_without_a_cache_all_runs_in_torch():
    model = one_layer().eval()
    want = answers(model, prompt(2, 6), use_cache=False)
    own = generation.compile_generation(model, target="ref")
    assert torch.equal(answers(own, prompt(2, 6), use_cache=False), want)
    assert own.forward.compiled == 0


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_hooks_of_the_model_see_every_call(target):
    model, own = pair(one_layer, target=target)
    seen = []
    own.register_forward_pre_hook(lambda _, args, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True)
    assert torch.equal(answers(own, prompt(2, 6)), answers(model, prompt(2, 6)))
    assert seen == [(2, 6), (2, 1), (2, 1), (2, 1)]


def test_the_class_is_one_of_the_models_own():
    model, own = pair(one_layer)
    assert isinstance(own, type(model))
    assert type(own).__name__ == type(model).__name__
    kind = type(own)
    assert type(pair(one_layer)[1]) is not kind  # nobody else's
    assert "_sample" not in vars(type(model))


def test_a_model_that_prepares_its_inputs_keeps_its_loop():
    class Own(library.LlamaForCausalLM):
        def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
            return super().prepare_inputs_for_generation(*args, **kwargs)

    _, own = pair(lambda: Own(llama().config), target="ref")
    assert type(own) is Own


def test_steps_by_hand_see_what_changes(monkeypatch):
    """Masks, positions, dropped tokens, sequences that are chosen again, buffers that are full, a weight's place."""
    monkeypatch.setattr("torch_migraphx.generation.caches.BLOCK", 16)
    models, numbers = pair(llama), np.random.default_rng(0)
    answers(models[1], prompt(1, 3))  # then a chunk is no longer than it has to be
    caches = [library.DynamicCache(), library.DynamicCache()]

    def both(**given: Any) -> None:
        with torch.no_grad():
            want, got = (m(**given, past_key_values=c).logits for m, c in zip(models, caches, strict=True))
        torch.testing.assert_close(got, want)

    def step(tokens: Any = 1, **given: Any) -> None:
        both(input_ids=torch.from_numpy(numbers.integers(1, 50, (len(mask), tokens))), **given)

    ids, mask = prompt(3, 6).values()
    both(input_ids=ids, attention_mask=mask)
    for round_ in range(9):
        for masked in numbers.permutation([True, True, False, False]):
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            given = {"attention_mask": mask} if masked else {}
            positions = torch.from_numpy(numbers.integers(0, 20, (len(mask), 1)))
            step(**given, **({"position_ids": positions} if numbers.random() < 0.5 else {}))
        if round_ % 3 == 0:
            chosen = torch.from_numpy(numbers.integers(0, len(mask), 2 if round_ else 4))
            mask = mask[chosen]
            for cache in caches:
                cache.batch_select_indices(chosen)
        elif round_ % 3 == 1:
            mask = mask[:, :-2]
            for cache in caches:
                cache.crop(-2)
    for model in models:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight * 2)
    step()
    step(2)


def test_draws_are_those_of_torch():
    assert sampling._draws_largest_ratio()
    scores = torch.randn(5, 300).masked_fill(torch.rand(5, 300) < 0.9, -torch.inf)
    for draw in (sampling._drawn, sampling._drawn_by_torch):
        torch.manual_seed(3)
        first = draw(scores)
        torch.manual_seed(3)
        assert torch.equal(first, torch.multinomial(torch.softmax(scores, -1), 1)[:, 0])
    with pytest.raises(RuntimeError, match="nan"):
        sampling._drawn(torch.full((1, 3), torch.nan))


@pytest.mark.parametrize("largest_ratio", [False, True])
def test_another_torch_may_draw_otherwise(models, monkeypatch, largest_ratio):
    monkeypatch.setattr(sampling, "_draws_largest_ratio", lambda: largest_ratio)
    test_the_loop_gives_the_tokens_of_transformers(models, monkeypatch, {"do_sample": True}, 3)


def test_a_processor_that_takes_more_is_left_to_the_list(models):
    class Needs(LogitsProcessor):
        def __call__(self, ids: torch.Tensor, scores: torch.Tensor, more: Any) -> torch.Tensor:
            return scores

    for one in models:
        with pytest.raises(ValueError, match="more"):
            answers(one, prompt(1, 6), logits_processor=LogitsProcessorList([Needs()]))

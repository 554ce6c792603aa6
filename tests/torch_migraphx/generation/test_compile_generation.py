"""Language models whose steps run in the engine, on caches that grow in place, against what transformers answers."""

import copy
import gc
import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.models import import_transformers
from tests.tiers import few
from torch_migraphx.fx import any_size

pytest.importorskip("transformers")
library = import_transformers()
generation = pytest.importorskip("torch_migraphx.generation")
step = pytest.importorskip("torch_migraphx.generation.step")

SMALL = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip


def llama() -> Any:
    return library.LlamaForCausalLM(library.LlamaConfig(**SMALL))


def one_layer() -> Any:
    """For what layers have no part in."""
    return library.LlamaForCausalLM(library.LlamaConfig(**{**SMALL, "num_hidden_layers": 1}))


def qwen() -> Any:
    """Queries and keys are normed; the table of tokens is the matrix of logits too."""
    return library.Qwen3ForCausalLM(library.Qwen3Config(**SMALL, head_dim=8, tie_word_embeddings=True))


def gpt2() -> Any:
    return library.GPT2LMHeadModel(
        library.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, eos_token_id=None, bos_token_id=None)
    )


def sliding() -> Any:
    """One layer sees 5 positions, the other all."""
    config = library.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=1)
    return library.Qwen2ForCausalLM(config)


def mixture() -> Any:
    """Two of three experts for each token; one layer, since a trace of experts takes a second or two."""
    config = library.MixtralConfig(**{**SMALL, "num_hidden_layers": 1}, num_local_experts=3, num_experts_per_tok=2)
    return library.MixtralForCausalLM(config)


def pair(make: Any, **options: Any) -> tuple[Any, Any]:
    """A model, and a copy of it whose steps run in the engine."""
    torch.manual_seed(0)
    model = make().eval()
    return model, generation.compile_generation(copy.deepcopy(model), fallback="error", **options)


def prompt(batch: int, tokens: int) -> dict[str, torch.Tensor]:
    """Token numbers; sequences but the first begin with padding."""
    ids = torch.randint(1, 50, (batch, tokens), generator=torch.Generator().manual_seed(batch * tokens))
    mask = torch.ones_like(ids)
    for k in range(1, batch):
        mask[k, : k + 1] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def answers(model: Any, given: dict[str, torch.Tensor], **arguments: Any) -> torch.Tensor:
    torch.manual_seed(1)
    return model.generate(**given, **{"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, **arguments})


@pytest.mark.parametrize("make", few([qwen, gpt2, sliding], gpt2))
def test_tokens_are_those_of_eager(make):
    """Either cache takes the same program, where transformers makes no mask of its own for one."""
    model, own = pair(make, target="ref")
    for given in (prompt(1, 5), prompt(2, 9)):
        assert torch.equal(answers(own, given), answers(model, given))
        static = {"cache_implementation": "static", "disable_compile": True, "do_sample": True}
        assert torch.equal(answers(own, given, **static), answers(model, given, **static))
        assert len(own.forward._runners) == 1 or not given["attention_mask"].all() or make is sliding


@pytest.mark.slow
def test_a_mixture_of_experts():
    """On cpu: one program for prompts and steps, whatever the number of tokens that an expert gets."""
    model, own = pair(mixture)
    for given in (prompt(1, 3), prompt(2, 5), prompt(1, 70)):
        assert torch.equal(answers(own, given), answers(model, given))
    assert own.forward.compiled == 1


@pytest.mark.slow
def test_weights_of_4_bits_are_one_program_too():
    """The oracle is eager with weights that are rounded here: 32 along the depth share the largest magnitude over 7."""
    model, own = pair(one_layer, int4_weights=True)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear) and module.in_features % 32 == 0:
                blocks = module.weight.view(module.out_features, -1, 32)
                scale = blocks.abs().amax(2, keepdim=True) / 7
                module.weight.copy_(((blocks / scale).round().clamp(-8, 7) * scale).view_as(module.weight))
    for given in (prompt(1, 3), prompt(3, 70)):
        with torch.no_grad():
            mine, want = (m(**given).logits for m in (own, model))
        read = given["attention_mask"].bool()
        torch.testing.assert_close(mine[read], want[read], rtol=1e-4, atol=1e-5)
    assert own.forward.compiled == 1


@pytest.mark.slow
@pytest.mark.skipif(generation.caches.FP8 is None, reason="this transformers has no cache of fp8")
def test_a_cache_of_fp8():
    """In double: what two computations round to fp8 is then not told apart by their last bits.

    The first step says the scales; keys of those behind, of several tokens too, are rounded before they are read. What
    eager has filled goes on here, and what was filled here goes on in eager.
    """
    model, own = pair(lambda: llama().double(), target="ref")
    config = {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
    given = prompt(2, 5)
    assert torch.equal(answers(own, given, **config), answers(model, given, **config))
    mine, theirs = (library.QuantizedCache("fp8", config=model.config) for _ in range(2))
    with torch.no_grad():
        long, short, one = (prompt(2, n)["input_ids"] for n in (70, 3, 1))
        torch.testing.assert_close(own(long, past_key_values=mine).logits, model(long, past_key_values=theirs).logits)
        taken, turned = copy.deepcopy(theirs), copy.deepcopy(mine)
        for ids in (short, one):
            want = model(ids, past_key_values=theirs).logits
            for forward, cache in ((own, mine), (own, taken), (own.forward.original, turned)):
                torch.testing.assert_close(forward(ids, past_key_values=cache).logits, want)
        turned.reset()
        want = model(short, past_key_values=library.QuantizedCache("fp8", config=model.config)).logits
        torch.testing.assert_close(own(short, past_key_values=turned).logits, want)


@pytest.mark.slow
def test_lengths_are_numbers_of_a_run(monkeypatch):
    """On cpu: prompts of any length, several chunks of them too, and any number of sequences are one program.

    Only the first call waits for a compilation; a beam search moves the sequences.
    """
    programs = []
    make = any_size.AnySize.__init__
    monkeypatch.setattr(
        any_size.AnySize, "__init__", lambda self, *a, **k: programs.append(self) or make(self, *a, **k)
    )
    model, own = pair(llama)
    for tokens in (3, 20, 70, 150):
        given = prompt(1, tokens)
        assert torch.equal(answers(own, given), answers(model, given))
    (one,) = programs
    assert torch.equal(answers(own, prompt(2, 10), num_beams=2), answers(model, prompt(2, 10), num_beams=2))
    for sequences, tokens in ((2, 7), (3, 70), (7, 5)):
        given = prompt(sequences, tokens)
        assert torch.equal(answers(own, given), answers(model, given))
    executable: Any = one.program.executable
    forms = executable.region.forms
    assert forms.waited == own.forward.compiled == len(programs) == len(forms) == 1
    assert forms.improving is None  # a compilation beside slows the steps down: one form is as good at a token


@pytest.mark.parametrize(
    ("most", "why"), [(0, ""), (1, "the model computes one token in its own way"), (4, "the model compares its sizes")]
)
def test_models_that_ask_for_sizes_are_compiled_for_each(most, why):
    """A trace with symbols decides a comparison for good."""

    def forward(input_ids: torch.Tensor, **_: Any) -> Any:
        many = most and input_ids.shape[1] > most
        return SimpleNamespace(logits=input_ids * 2 if many else input_ids + 1)

    ids = torch.ones(1, 1, dtype=torch.long)
    inputs = step.Inputs(ids, ids, torch.ones(1, 8, dtype=torch.bool), torch.tensor(0), torch.tensor([0]), [])
    weights, symbols = step.symbolic([], inputs)
    graphs = [step.trace(torch.nn.Module(), forward, [], [], i, []) for i in (symbols, inputs.of_one_token())]
    assert (
        not weights and step.only_for_some(*graphs).startswith(why) and bool(step.only_for_some(*graphs)) == bool(why)
    )


@pytest.mark.slow
def test_a_fault_is_no_refusal(monkeypatch):
    """What goes wrong inside is not taken for a model that cannot be compiled for all sizes."""

    def faulty(*_: Any) -> Any:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(any_size, "_lengths", faulty)
    _, own = pair(one_layer)
    with pytest.raises(KeyError, match="a fault of ours"):
        answers(own, prompt(1, 3))


@pytest.mark.slow
def test_a_cache_that_is_full_grows(monkeypatch):
    monkeypatch.setattr("torch_migraphx.generation.caches.BLOCK", 64)
    model, own = pair(one_layer, target="ref")
    given = prompt(1, 61)
    mine = own.generate(**given, max_new_tokens=6, do_sample=False, pad_token_id=0, return_dict_in_generate=True)
    assert torch.equal(mine.sequences, answers(model, given, max_new_tokens=6))
    assert mine.past_key_values.layers[0]._key_buffer.shape[2] == 128


def test_a_step_writes_to_the_cache_in_place():
    model, own = pair(llama)
    given, cache = prompt(2, 5)["input_ids"], library.DynamicCache()
    with torch.no_grad():
        first = own(given, past_key_values=cache)
        held = [(x._key_buffer.data_ptr(), x.keys.clone()) for x in cache.layers]
        second = own(given[:, :1], past_key_values=cache)
        want = model(torch.cat([given, given[:, :1]], 1))
    torch.testing.assert_close(torch.cat([first.logits, second.logits], 1), want.logits, rtol=1e-4, atol=1e-5)
    assert [x._key_buffer.data_ptr() for x in cache.layers] == [address for address, _ in held]
    for layer, (_, before), theirs in zip(cache.layers, held, want.past_key_values.layers, strict=True):
        assert torch.equal(layer.keys[:, :, :5], before) and layer.get_seq_length() == 6
        torch.testing.assert_close(layer.values, theirs.values, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_weights_that_change_are_seen():
    model, own = pair(one_layer, target="ref")
    given = prompt(1, 4)
    assert torch.equal(answers(own, given), answers(model, given))
    with torch.no_grad():
        for m in (model, own):
            m.model.layers[0].mlp.down_proj.weight.mul_(-3)
            attention = m.model.layers[0].self_attn
            attention.v_proj.weight = torch.nn.Parameter(attention.v_proj.weight * 2)
    assert torch.equal(answers(own, given), answers(model, given))


@pytest.mark.slow
def test_weights_that_change_between_steps():
    """On cpu, where a step looks at them while it runs, and has written to its cache when it finds out."""
    model, own = pair(one_layer)
    caches = [library.DynamicCache(config=m.config) for m in (own, model)]

    def products(m: Any) -> torch.nn.Linear:
        return m.model.layers[0].self_attn.v_proj

    changes: list[Any] = [
        lambda m: None,
        lambda m: products(m).weight.mul_(2),
        lambda m: setattr(products(m), "weight", torch.nn.Parameter(products(m).weight * -1)),
        lambda m: setattr(products(m).weight, "data", products(m).weight * 0.5),
        lambda m: m.model.layers[0].self_attn.k_proj.weight.numpy().__imul__(3),
        lambda m: products(m).weight.add_(0.25),
    ]
    ids = prompt(1, 6)["input_ids"]
    with torch.no_grad():
        for n, change in enumerate(changes):
            for _ in range(3):
                pairs = zip((own, model), caches, strict=True)
                mine, want = (m(ids, past_key_values=c).logits for m, c in pairs)
                torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5, msg=lambda text, n=n: f"{n}: {text}")
                ids = want[:, -1:].argmax(-1)
            change(own)
            change(model)
    for mine, theirs in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(mine.values, theirs.values, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("own_objects")
def test_programs_that_are_forgotten_are_let_go():
    model, own = pair(one_layer, target="ref", max_specialisations=2)
    for batch in (1, 2, 3):
        given = prompt(batch, 5)
        assert torch.equal(answers(own, given, max_new_tokens=2), answers(model, given, max_new_tokens=2))
    assert own.forward.compiled == 6
    gc.collect()
    assert len(own.forward._programs) == 2


def test_what_a_step_does_not_compute_runs_in_torch(caplog):
    torch.manual_seed(0)
    model = llama().eval()
    own = generation.compile_generation(copy.deepcopy(model), target="ref")
    given = prompt(1, 4)["input_ids"]
    with torch.no_grad(), caplog.at_level(logging.WARNING, "torch_migraphx"):
        mine, theirs = (m(given, output_hidden_states=True).hidden_states for m in (own, model))
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert "output_hidden_states=True" in caplog.text
    strict = generation.compile_generation(own, fallback="error", target="ref")
    with pytest.raises(NotImplementedError, match="gradients may be asked for"):
        strict(given)
    with pytest.raises(TypeError, match="forward takes no input_ids"):
        generation.compile_generation(torch.nn.Linear(2, 2))


def test_growing_layers_keep_what_they_hold():
    layer = generation.GrowingLayer()
    rows = torch.arange(2 * 1 * 3 * 4.0).view(2, 1, 3, 4)
    layer.update(rows, -rows)
    keys, values = layer.update(rows[:, :, :1], rows[:, :, :1])
    assert torch.equal(keys, torch.cat([rows, rows[:, :, :1]], 2)) and torch.equal(values[:, :, :3], -rows)
    layer.reserve(5000)
    assert torch.equal(layer.keys, keys) and layer._key_buffer.shape[2] == 8192
    layer.crop(-2)
    layer.reorder_cache(torch.tensor([1, 1]))
    assert torch.equal(layer.keys, rows[[1, 1], :, :2]) and layer.get_seq_length() == 2
    layer.batch_repeat_interleave(2)
    layer.batch_select_indices(torch.tensor([0]))
    assert torch.equal(layer.values, -rows[[1], :, :2])
    layer.reset()
    assert layer.get_seq_length() == 0 and layer.keys.shape == (1, 1, 0, 4)


def test_caches_that_cannot_grow_in_place_say_why(monkeypatch):
    monkeypatch.setattr(torch, "Stream", object)  # torch's builds for GPUs make none where there is no GPU
    assert "offloaded" in generation.grow_in_place(library.DynamicCache(offloading=True), 2)
    window = sliding()
    cache = library.DynamicCache(config=window.config)
    with torch.no_grad():
        window(prompt(1, 8)["input_ids"], past_key_values=cache)
    assert "sliding window" in generation.grow_in_place(cache, 2)

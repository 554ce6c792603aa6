"""transformers' language models under torch.compile: caches that are written, grouped queries, torch.func inside."""

import logging
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import migraphx
from benchmarks.models import import_transformers
from tests.tolerances import assert_close

REF: dict[str, Any] = {"target": "ref"}
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def pieces(caplog):
    return [r.message for r in caplog.records if r.name == "torch_migraphx.fx.lower_graph"]


@pytest.mark.parametrize("backend", ["migraphx", "migraphx_aot"])
@pytest.mark.parametrize("write", ["index_copy_", "slice"])
def test_grouped_queries_beside_a_written_cache(write, backend, caplog):
    def step(q, k, cache, at):
        if write == "slice":
            cache[:, :, 2:3] = k
        else:
            cache.index_copy_(2, at, k)
        return F.scaled_dot_product_attention(q, cache, cache, enable_gqa=True)

    q, k, at = torch.randn(1, 4, 1, 8), torch.randn(1, 2, 1, 8), torch.tensor([2])
    own, twin = torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8)
    fast = torch.compile(step, backend=backend, options=REF)
    with torch.no_grad(), caplog.at_level(logging.INFO, "torch_migraphx"):
        for _ in range(2):
            assert_close(fast(q, k, own, at).numpy(), step(q, k, twin, at).numpy())
            assert torch.equal(own, twin)
    assert pieces(caplog) and all("all " in line for line in pieces(caplog))


def test_a_written_cache_is_written_in_place(monkeypatch):
    """On cpu the program writes its rows into the caller's cache: what lies elsewhere in it is not touched."""
    given: list[int] = []
    real = migraphx.program.run_at
    monkeypatch.setattr(
        migraphx.program, "run_at", lambda self, i, o, *rest: (given.extend({*i} & {*o}), real(self, i, o, *rest))[1]
    )

    def step(k, cache, at):
        cache.index_copy_(2, at, k)
        return cache.sum(dim=(0, 2))

    fast, cache = torch.compile(step, backend="migraphx"), torch.randn(1, 2, 6, 8)
    twin, k = cache.clone(), torch.randn(1, 2, 1, 8)
    with torch.no_grad():
        for at in (torch.tensor([3]), torch.tensor([0])):
            assert_close(fast(k, cache, at).numpy(), step(k, twin, at).numpy())
            assert torch.equal(cache, twin)
    assert given == [cache.data_ptr()] * 2


def test_gradients_of_grouped_queries():
    tensors = [torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8)]
    mine, theirs = ([t.clone().requires_grad_() for t in tensors] for _ in range(2))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    torch.compile(attend, backend="migraphx", options=REF)(*mine).square().sum().backward()
    attend(*theirs).square().sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("cache", "dynamic"), [("static", None), (None, True)])
def test_llama_generates_what_eager_does(cache, dynamic, caplog):
    pytest.importorskip("transformers")
    library = import_transformers()
    config = library.LlamaConfig(
        **SMALL, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, eos_token_id=None
    )
    model = library.LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 50, (2, 5))
    arguments = {"max_new_tokens": 3, "do_sample": False, "cache_implementation": cache, "disable_compile": True}
    want = model.generate(ids, **arguments)
    model.forward = torch.compile(model.forward, backend="migraphx", options=REF, dynamic=dynamic)
    with caplog.at_level(logging.INFO, "torch_migraphx"):
        assert torch.equal(model.generate(ids, **arguments), want)
    assert pieces(caplog) and all("run in the engine" in line for line in pieces(caplog))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_mamba(caplog):
    """Its scan is made of vmap; its layers meet tensors that belong to a transform. Dynamo traces each token."""
    pytest.importorskip("transformers")
    library = import_transformers()
    model = library.MambaForCausalLM(library.MambaConfig(**SMALL, state_size=4)).eval()
    ids = torch.randint(0, 50, (1, 3))
    fast = torch.compile(model, backend="migraphx", options=REF)
    with torch.no_grad(), caplog.at_level(logging.INFO, "torch_migraphx"):
        assert_close(fast(ids).logits.numpy(), model(ids).logits.numpy(), scale=16)
    assert pieces(caplog) and all("run in the engine" in line for line in pieces(caplog))

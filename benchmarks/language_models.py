"""The language models that `benchmarks.generation` times: classes of transformers, the same weights in each process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from transformers.initialization import no_init_weights

from benchmarks.models import import_transformers

SMALL = {
    "vocab_size": 8000, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 1024, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
GPT2 = {"vocab_size": 8000, "n_embd": 512, "n_layer": 4, "n_head": 8, "eos_token_id": None, "bos_token_id": None}
EXPERTS = {"num_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 688}
BILLION = {  # as Llama 3.2 1B
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 2048,
    "tie_word_embeddings": True, "eos_token_id": None, "bos_token_id": None,
}  # fmt: skip
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("Llama", SMALL),
    "qwen": ("Qwen3", {**SMALL, "head_dim": 64, "tie_word_embeddings": True}),
    "gpt2": ("GPT2", GPT2),
    "gpt2_124m": ("GPT2", {"eos_token_id": None, "bos_token_id": None}),
    "mistral": ("Mistral", {**SMALL, "sliding_window": 64}),
    "gemma": ("Gemma2", {**SMALL, "head_dim": 64, "sliding_window": 64}),
    "mixtral": ("Mixtral", {**SMALL, **EXPERTS, "intermediate_size": 688}),
    "qwen_moe": ("Qwen3Moe", {**SMALL, **EXPERTS, "head_dim": 64}),
    "llama1b": ("Llama", BILLION),
}
"""Of each model its family in transformers, and what its configuration is given."""
PERIOD = 4194301
"""Behind so many numbers, a prime, a weight repeats: a billion of them take long to draw. No two weights are equal."""
HEADS = {"GPT2": "GPT2LMHeadModel"}


def language_model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """A model in evaluation, its weights in `dtype`. They are drawn once, in place: there is no second copy."""
    family, given = MODELS[name]
    library = import_transformers()
    config = getattr(library, f"{family}Config")(**given)
    with no_init_weights(), _default_dtype(dtype):  # transformers' own draw takes long for a billion
        model = getattr(library, HEADS.get(family, f"{family}ForCausalLM"))(config)
    model.tie_weights()
    drawn = torch.empty(PERIOD).uniform_(-1, 1, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            flat, drawn = weight.view(-1), drawn.roll(1)  # equal layers would be packed, and read, as one
            for at in range(0, len(flat), PERIOD):
                flat[at : at + PERIOD] = drawn[: len(flat) - at]
            weight.mul_(0.035 if weight.dim() > 1 or name.endswith("bias") else 0.1)
            if weight.dim() == 1 and not name.endswith("bias"):  # of a norm
                weight.add_(1)
    return model.eval()


def weight_bytes(model: Any, int4: bool = False) -> int:
    """What a step for one token reads: all weights, but of a table of tokens that is no matrix of logits one row.

    With `int4` matrices take 4 bits and a float for every 32 numbers.
    """
    table = model.get_input_embeddings().weight
    tied = model.get_output_embeddings().weight is table
    read = [w for w in model.parameters() if tied or w is not table]
    return sum(w.numel() * 5 // 8 if int4 and w.dim() > 1 else w.nbytes for w in read)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

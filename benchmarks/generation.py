"""How fast language models write: `python -m benchmarks.generation --output FILE`.

A Llama of 4 layers (width 512, 8 heads, 4 of keys, vocabulary 8,000) with random weights and transformers' `generate`,
greedy. Engines run in processes of their own, in turn, `--rounds` times; a process generates once (`first_s`, all
compilation in it), once with a prompt of another length (`new_length_s`), then `--repeats` times each prompt. Figures
are medians over all rounds, and p90 of the time per token. Engines:

    eager           torch, the default cache, and `eager_static` the static one
    inductor        torch.compile(model.forward, dynamic=True), and `inductor_static` with the static cache
    openmgx         torch_migraphx.generation.compile_generation
    openmgx_static  torch.compile(model.forward, backend="migraphx") with the static cache
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import describe, measure_floors

SIZES = {
    "vocab_size": 8000, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 1024, "eos_token_id": None,
}  # fmt: skip
ENGINES = ("eager", "eager_static", "inductor", "inductor_static", "openmgx", "openmgx_static")
NEW = 37  # tokens of the prompt whose length no call has had before


def worker(engine: str, prompts: list[int], tokens: int, repeats: int) -> dict[str, Any]:
    """What one engine does in this process: seconds, and the tokens of each prompt."""
    import torch

    from benchmarks.models import import_transformers

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    library = import_transformers()
    torch.manual_seed(0)
    model: Any = library.LlamaForCausalLM(library.LlamaConfig(**SIZES)).eval()
    compiled(model, engine)
    cache = "static" if engine.endswith("_static") else None

    def generate(length: int) -> tuple[float, list[int]]:
        ids = torch.randint(0, SIZES["vocab_size"], (1, length), generator=torch.Generator().manual_seed(length))
        start = time.perf_counter()
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, pad_token_id=0,
            cache_implementation=cache, disable_compile=True,
        )  # fmt: skip
        return time.perf_counter() - start, made[0, length:].tolist()

    first, _ = generate(prompts[0])
    new, _ = generate(NEW)
    runs = {length: [generate(length) for _ in range(repeats + 1)][1:] for length in prompts}
    return {
        "first_s": first,
        "new_length_s": new,
        "seconds": {str(n): [s for s, _ in made] for n, made in runs.items()},
        "tokens": {str(n): made[0][1] for n, made in runs.items()},
    }


def compiled(model: Any, engine: str) -> None:
    """Give the model the forward of an engine."""
    import torch

    if engine == "openmgx":
        from torch_migraphx.generation import compile_generation

        compile_generation(model)
    elif not engine.startswith("eager"):
        backend = "migraphx" if engine.startswith("openmgx") else "inductor"
        dynamic = True if engine == "inductor" else None
        model.forward = torch.compile(model.forward, backend=backend, dynamic=dynamic)


def measured(engines: list[str], rounds: int, ask: Callable[[str], dict[str, Any]], tokens: int) -> dict[str, Any]:
    """Every engine's figures; its tokens are compared with the first engine's."""
    answers: dict[str, list[dict[str, Any]]] = {e: [] for e in engines}
    for _ in range(rounds):
        for engine in engines:
            answers[engine].append(ask(engine))
            print(engine, {k: v for k, v in answers[engine][-1].items() if k != "tokens"}, flush=True)
    want = answers[engines[0]][0]["tokens"]
    return {e: summary(made, want, tokens) for e, made in answers.items()}


def summary(made: list[dict[str, Any]], want: dict[str, list[int]], tokens: int) -> dict[str, Any]:
    """Medians of one engine's rounds."""
    prompts = {}
    for length in want:
        seconds = sorted(s for m in made for s in m["seconds"][length])
        prompts[length] = {
            "tokens_per_s": tokens / median(seconds),
            "ms_per_token": 1e3 * median(seconds) / tokens,
            "p90_ms_per_token": 1e3 * seconds[int(0.9 * (len(seconds) - 1))] / tokens,
        }
    return {
        "first_s": median(m["first_s"] for m in made),
        "new_length_s": median(m["new_length_s"] for m in made),
        "prompts": prompts,
        "tokens_equal": all(m["tokens"] == want for m in made),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--prompts", default="32,256")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    prompts = [int(n) for n in given.prompts.split(",")]
    if given.worker:
        print("\n" + json.dumps(worker(given.worker, prompts, given.tokens, given.repeats)))
        return

    def ask(engine: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "benchmarks.generation", *sys.argv[1:], "--worker", engine]
        environment = os.environ | {"OMP_NUM_THREADS": str(given.threads)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    result = {
        "machine": describe(),
        "threads": given.threads,
        "copy_gb_per_s": measure_floors(given.threads).bandwidth / 1e9,
        "command": " ".join(["python -m benchmarks.generation", *sys.argv[1:]]),
        "model": SIZES,
        "engines": measured(given.engines.split(","), given.rounds, ask, given.tokens),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()

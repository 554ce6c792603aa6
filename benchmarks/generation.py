"""How fast language models write: `python -m benchmarks.generation --models llama,gpt2,qwen --output FILE`.

Models of `benchmarks.language_models` and transformers' `generate`: greedy, or with `--sample` or `--beams`; `--batch`
sequences, with `--padded` of different lengths. Engines run in processes of their own, in turn, `--rounds` times; a
process generates once (`first_s`, all compilation in it), once with a prompt of another length (`new_length_s`), then
`--repeats` times each prompt. Figures are medians over all rounds; of the time per token also the least and p90.
`step_ms` is the time from one token to the next, without the prompt (not of a beam search), and `read_gb_per_s` the
bytes of the weights over it, beside which stand those of a copy, which counts what it reads and what it writes, and of
threads that only read. `compiled` counts programs: after the first generate, and in the end. Engines:

    eager           torch, the default cache, and `eager_static` the static one
    inductor        torch.compile(model.forward, dynamic=True), and `inductor_static` with the static cache
    openmgx         torch_migraphx.generation.compile_generation, and `openmgx_own_static` with the static cache
    openmgx_static  torch.compile(model.forward, backend="migraphx", dynamic=True) with the static cache, and
                    `openmgx_dynamic` with the default one

`--dtype bf16` converts the model; `int4` too, and its weights take 4 bits in engine `openmgx`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import ISAS, held_to
from benchmarks.machine import describe, measure_floors

DEFAULT = ("eager", "eager_static", "inductor", "inductor_static", "openmgx", "openmgx_static")
OWN = ("openmgx", "openmgx_own_static")  # by compile_generation
NEW = 37  # tokens of the prompt whose length no call has had before


@dataclass(frozen=True)
class Task:
    """What all engines do."""

    model: str
    dtype: str
    prompts: Sequence[int]
    tokens: int
    batch: int
    how: Mapping[str, Any]  # arguments of generate
    padded: bool
    repeats: int


class Clock:
    """A streamer of transformers: when each token came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is left over."""


def worker(engine: str, task: Task) -> dict[str, Any]:
    """What one engine does in this process: seconds, and the tokens of each prompt."""
    import torch

    from benchmarks.language_models import language_model, weight_bytes

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model: Any = language_model(task.model, torch.float32 if task.dtype == "fp32" else torch.bfloat16)
    count = compiled(model, engine, int4=task.dtype == "int4")
    cache = "static" if engine.endswith("_static") else None
    steps: list[float] = []

    def generate(length: int) -> tuple[float, list[list[int]]]:
        numbers = torch.Generator().manual_seed(length)
        ids = torch.randint(1, model.config.vocab_size, (task.batch, length), generator=numbers)
        mask = torch.ones_like(ids)
        for k in range(task.batch if task.padded else 0):
            mask[k, : k * length // (2 * task.batch)] = 0
        clock = None if "num_beams" in task.how or task.batch > 1 else Clock()  # transformers streams one sequence
        torch.manual_seed(0)
        start = time.perf_counter()
        made = model.generate(
            ids * mask, attention_mask=mask, max_new_tokens=task.tokens, pad_token_id=0, cache_implementation=cache,
            disable_compile=True, streamer=clock, **task.how,
        )  # fmt: skip
        end = time.perf_counter()
        if clock is not None:
            steps.extend(b - a for a, b in pairwise(clock.times[1:]))
        return end - start, made[:, length:].tolist()

    first, _ = generate(task.prompts[0])
    after = count()
    new, _ = generate(NEW)
    steps.clear()
    runs = {
        length: [generate(length) for _ in range(task.repeats + 1)][-max(task.repeats, 1) :] for length in task.prompts
    }
    step = median(steps) if steps else None
    return {
        "first_s": first,
        "new_length_s": new,
        "step_ms": step and 1e3 * step,
        "read_gb_per_s": step and weight_bytes(model, task.dtype == "int4" and engine in OWN) / step / 1e9,
        "compiled": (after, count()),
        "seconds": {str(n): [s for s, _ in made] for n, made in runs.items()},
        "tokens": {str(n): made[0][1] for n, made in runs.items()},
    }


def compiled(model: Any, engine: str, int4: bool) -> Callable[[], int]:
    """Give the model the forward of an engine; how many programs of ours were compiled so far."""
    import torch

    import migraphx

    counted = [0]
    compile_ = migraphx.program.compile

    def compile_one(*args: Any, **kwargs: Any) -> Any:
        counted[0] += 1
        return compile_(*args, **kwargs)

    migraphx.program.compile = compile_one
    if engine in OWN:
        from torch_migraphx.generation import compile_generation

        compile_generation(model, fallback="error", int4_weights=int4)
    elif not engine.startswith("eager"):
        backend = "migraphx" if engine.startswith("openmgx") else "inductor"
        dynamic = None if engine == "inductor_static" else True
        model.forward = torch.compile(model.forward, backend=backend, dynamic=dynamic)
    return lambda: counted[0]


def measured(engines: Sequence[str], rounds: int, ask: Callable[[str], dict[str, Any]], tokens: int) -> dict[str, Any]:
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

    def middle(name: str) -> float | None:
        return None if made[0][name] is None else median(m[name] for m in made)

    prompts = {}
    for length in want:
        seconds = sorted(s for m in made for s in m["seconds"][length])
        prompts[length] = {
            "tokens_per_s": tokens / median(seconds),
            "ms_per_token": 1e3 * median(seconds) / tokens,
            "least_ms_per_token": 1e3 * seconds[0] / tokens,
            "p90_ms_per_token": 1e3 * seconds[int(0.9 * (len(seconds) - 1))] / tokens,
        }
    return {
        "first_s": median(m["first_s"] for m in made),
        "new_length_s": median(m["new_length_s"] for m in made),
        "step_ms": middle("step_ms"),
        "read_gb_per_s": middle("read_gb_per_s"),
        "compiled": made[0]["compiled"],
        "prompts": prompts,
        "tokens_equal": all(m["tokens"] == want for m in made),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--models", default="llama")
    parser.add_argument("--engines", default=",".join(DEFAULT))
    parser.add_argument("--prompts", default="32,256")
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16", "int4"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--padded", action="store_true")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", choices=ISAS, default="native", help="instruction set that engines are held to")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", nargs=2, metavar=("MODEL", "ENGINE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print("\n" + json.dumps(worker(given.worker[1], task_of(given.worker[0], given))))
        return
    floors = measure_floors(given.threads)
    result = {
        "machine": describe(),
        "threads": given.threads,
        "copy_gb_per_s": floors.bandwidth / 1e9,
        "only_read_gb_per_s": floors.reads / 1e9,
        "command": " ".join(["python -m benchmarks.generation", *sys.argv[1:]]),
        "models": {name: compared(name, given) for name in given.models.split(",")},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")


def task_of(model: str, given: argparse.Namespace) -> Task:
    """What the command line asks for."""
    how: dict[str, Any] = {"do_sample": given.sample} | ({"num_beams": given.beams} if given.beams > 1 else {})
    prompts = [int(n) for n in given.prompts.split(",")]
    return Task(model, given.dtype, prompts, given.tokens, given.batch, how, given.padded, given.repeats)


def compared(model: str, given: argparse.Namespace) -> dict[str, Any]:
    """All engines' figures for one model."""

    def ask(engine: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "benchmarks.generation", *sys.argv[1:], "--worker", model, engine]
        environment = os.environ | held_to(given.isa) | {"OMP_NUM_THREADS": str(given.threads)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    return measured(given.engines.split(","), given.rounds, ask, given.tokens)


if __name__ == "__main__":
    main()

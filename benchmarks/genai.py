"""An ONNX decoder in ONNX Runtime genai's form: `python -m benchmarks.genai`, tokens/s of ours and of ONNX Runtime.

A Llama of 4 layers (width 512, 8 heads, 4 of keys, vocabulary 8,000), random weights: GroupQueryAttention with rotary
embeddings, SkipSimplifiedLayerNormalization, past and present keys and values in the same memory, bound once. Each
engine runs in a process of its own, in turn: a prompt, then greedy steps; medians over `--rounds` and `--repeats`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.machine import describe

WIDTH, LAYERS, HEADS, KV_HEADS, INNER, VOCABULARY, ROOM = 512, 4, 8, 4, 1376, 8000, 512
SIZE = WIDTH // HEADS
CACHES = [f"{n}_{k}" for k in range(LAYERS) for n in ("key", "value")]
ENGINES = ("onnxruntime", "openmgx")


def decoder(length: int | str) -> onnx.ModelProto:
    """The model for so many tokens at a time; inputs ids, seqlens_k, total and past_*, outputs logits and present_*."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []

    def weight(name: str, *lens: int, value: np.ndarray | None = None) -> str:
        made = (rng.standard_normal(lens) * 0.02).astype(np.float32) if value is None else value
        tensors.append(numpy_helper.from_array(made, name))
        return name

    def add(op: str, inputs: Sequence[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    angles = np.outer(np.arange(ROOM), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    cos = weight("cos", value=np.cos(angles).astype(np.float32))
    sin = weight("sin", value=np.sin(angles).astype(np.float32))
    hidden = add("Gather", [weight("table", VOCABULARY, WIDTH), "ids"], "embedded")
    ones = np.ones(WIDTH, np.float32)
    normed = add("SimplifiedLayerNormalization", [hidden, weight("norm", value=ones)], "normed", axis=-1, epsilon=1e-6)
    for k in range(LAYERS):
        lens = {"q": WIDTH, "k": KV_HEADS * SIZE, "v": KV_HEADS * SIZE}
        qkv = [add("MatMul", [normed, weight(f"w{n}{k}", WIDTH, m)], f"{n}{k}") for n, m in lens.items()]
        inputs = [*qkv, f"past_key_{k}", f"past_value_{k}", "seqlens_k", "total", cos, sin]
        seen = add(
            "GroupQueryAttention", inputs, f"seen{k}", f"present_key_{k}", f"present_value_{k}",
            domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1,
        )  # fmt: skip
        given = add("MatMul", [seen, weight(f"wo{k}", WIDTH, WIDTH)], f"o{k}")
        normed, hidden = _skip(nodes, hidden, given, weight(f"norm_a{k}", value=ones), f"a{k}")
        gate = add("MatMul", [normed, weight(f"wg{k}", WIDTH, INNER)], f"g{k}")
        up = add("MatMul", [normed, weight(f"wu{k}", WIDTH, INNER)], f"u{k}")
        silu = add("Mul", [gate, add("Sigmoid", [gate], f"s{k}")], f"silu{k}")
        given = add("MatMul", [add("Mul", [silu, up], f"m{k}"), weight(f"wd{k}", INNER, WIDTH)], f"d{k}")
        normed, hidden = _skip(nodes, hidden, given, weight(f"norm_b{k}", value=ones), f"b{k}")
    add("MatMul", [normed, weight("head", WIDTH, VOCABULARY)], "logits")
    return _finished(nodes, tensors, length)


def _skip(nodes: list[onnx.NodeProto], hidden: str, given: str, norm: str, name: str) -> tuple[str, str]:
    """The normed sum, and the sum."""
    outputs = [f"normed_{name}", "", "", f"sum_{name}"]
    nodes.append(
        helper.make_node(
            "SkipSimplifiedLayerNormalization", [hidden, given, norm], outputs, domain="com.microsoft", epsilon=1e-6
        )
    )
    return outputs[0], outputs[3]


def _finished(nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto], length: int | str) -> onnx.ModelProto:
    def info(name: str, dims: Sequence[int | str], type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, type, dims)

    cache = (1, KV_HEADS, ROOM, SIZE)
    inputs = [info("ids", (1, length), TensorProto.INT64), info("seqlens_k", (1,), TensorProto.INT32)]
    inputs += [info("total", (1,), TensorProto.INT32), *(info(f"past_{n}", cache) for n in CACHES)]
    outputs = [info("logits", (1, length, VOCABULARY)), *(info(f"present_{n}", cache) for n in CACHES)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


Step = Callable[[np.ndarray, int], np.ndarray]
"""The logits of the last of some tokens {1, n}, which follow so many others."""


def of_onnxruntime(path: str) -> Step:
    """Caches are bound once; ids and lengths at every step."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    caches = {n: onnxruntime.OrtValue.ortvalue_from_numpy(_empty_cache()) for n in CACHES}
    binding = session.io_binding()
    for name, value in caches.items():
        binding.bind_ortvalue_input(f"past_{name}", value)
        binding.bind_ortvalue_output(f"present_{name}", value)

    def step(ids: np.ndarray, past: int) -> np.ndarray:
        for name, value in _lengths(ids, past).items():
            binding.bind_cpu_input(name, value)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        return binding.get_outputs()[-1].numpy()[0, -1]

    return step


def of_openmgx(path: str) -> Step:
    """One program for any number of tokens, and one for a single one."""
    import migraphx

    programs: dict[bool, migraphx.program] = {}
    caches = {n: _empty_cache() for n in CACHES}
    bound = {f"past_{n}": c for n, c in caches.items()}
    bound |= {f"main:#output_{k}": caches[n] for k, n in enumerate(CACHES, 1)}

    def step(ids: np.ndarray, past: int) -> np.ndarray:
        single = ids.shape[1] == 1
        if single not in programs:
            dims = {"ids": [1, 1]} if single else {"ids": [1, ids.shape[1]]}
            programs[single] = migraphx.parse_onnx(path, map_input_dims=dims)
            programs[single].compile(migraphx.get_target("cpu"), offload_copy=False)
        logits = np.empty((1, ids.shape[1], VOCABULARY), np.float32)
        programs[single].run({**_lengths(ids, past), **bound, "main:#output_0": logits})
        return logits[0, -1]

    return step


def _empty_cache() -> np.ndarray:
    return np.zeros((1, KV_HEADS, ROOM, SIZE), np.float32)


def _lengths(ids: np.ndarray, past: int) -> dict[str, np.ndarray]:
    total = past + ids.shape[1]
    return {"ids": ids, "seqlens_k": np.array([total - 1], np.int32), "total": np.array([total], np.int32)}


def worker(engine: str, path: str, prompt: int, tokens: int, repeats: int) -> dict[str, Any]:
    """Seconds until the first token, milliseconds of each step, and the tokens."""
    start = time.perf_counter()
    step = {"onnxruntime": of_onnxruntime, "openmgx": of_openmgx}[engine](path)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, (1, prompt))

    def write() -> tuple[float, list[float], list[int]]:
        begin, times = time.perf_counter(), list[float]()
        made = [int(step(ids, 0).argmax())]
        first = time.perf_counter() - begin
        for k in range(tokens - 1):
            begin = time.perf_counter()
            made.append(int(step(np.array([[made[-1]]]), prompt + k).argmax()))
            times.append(time.perf_counter() - begin)
        return first, times, made

    write()
    ready = time.perf_counter() - start
    runs = [write() for _ in range(repeats)]
    steps = sorted(t for _, times, _ in runs for t in times)
    return {
        "ready_s": ready,
        "prompt_ms": 1e3 * median(first for first, _, _ in runs),
        "step_ms": 1e3 * median(steps),
        "p90_step_ms": 1e3 * steps[int(0.9 * (len(steps) - 1))],
        "tokens_per_s": 1 / median(steps),
        "tokens": runs[0][2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.genai", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "MODEL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        engine, model = given.worker
        print("\n" + json.dumps(worker(engine, model, given.prompt, given.tokens, given.repeats)))
        return
    answers: dict[str, list[dict[str, Any]]] = {e: [] for e in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decoder.onnx")
        path.write_bytes(decoder("tokens").SerializeToString())
        for engine in [*ENGINES] * given.rounds:
            command = [sys.executable, "-m", "benchmarks.genai", *sys.argv[1:], "--worker", engine, str(path)]
            environment = os.environ | {"OMP_NUM_THREADS": str(given.threads)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            answers[engine].append(json.loads(done.stdout.splitlines()[-1]))
    equal = all(a["tokens"] == answers[ENGINES[0]][0]["tokens"] for made in answers.values() for a in made)
    figures = {e: {n: median(a[n] for a in made) for n in made[0] if n != "tokens"} for e, made in answers.items()}
    print(json.dumps({"machine": describe(), "engines": figures, "tokens_equal": equal}, indent=1))


if __name__ == "__main__":
    main()

"""Recurrent layers beside ONNX Runtime: `python -m benchmarks.recurrent [LSTM GRU RNN]`, milliseconds on two threads.

Each engine runs all cases in a process of its own, in turn: a pool of threads that waits by spinning takes a core from
whoever runs next. The figure is the lower quartile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
SIZES = ((32, 128), (64, 256), (128, 512))
BATCHES = (1, 8, 32)
INPUTS, THREADS, SECONDS, ROUNDS = 128, 2, 0.3, 2


def model(kind: str, steps: int, batch: int, hidden: int) -> bytes:
    """One layer, forward, with weights as trained ones are scaled."""
    rng, wide = np.random.default_rng(0), GATES[kind] * hidden
    lens = {"w": (1, wide, INPUTS), "r": (1, wide, hidden), "b": (1, 2 * wide)}
    weights = [numpy_helper.from_array(rng.uniform(-1, 1, s).astype("f") / hidden**0.5, n) for n, s in lens.items()]
    more: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", *lens], ["y", "last"], hidden_size=hidden, **more)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, batch, INPUTS))
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output]
    graph = helper.make_graph([node], "recurrent", [x], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def openmgx(data: bytes, feed: dict[str, np.ndarray]) -> Callable[[], Any]:
    import migraphx  # each engine in a process that loads no other

    program = migraphx.parse_onnx_buffer(data)
    program.compile(migraphx.get_target("cpu"), num_threads=THREADS)
    return lambda: program.run(feed)


def onnxruntime(data: bytes, feed: dict[str, np.ndarray]) -> Callable[[], Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


ENGINES = {"openmgx": openmgx, "onnxruntime": onnxruntime}


def measure(engine: str, kinds: list[str]) -> list[float]:
    """Milliseconds of every case."""
    found = []
    for kind, batch, (steps, hidden) in product(kinds, BATCHES, SIZES):
        x = np.random.default_rng(1).standard_normal((steps, batch, INPUTS), np.float32)
        run = ENGINES[engine](model(kind, steps, batch, hidden), {"x": x})
        run()
        taken, end = [], time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
        found.append(float(np.percentile(taken, 25)) * 1e3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurrent", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(GATES)}; default: all")
    parser.add_argument("--engine", choices=ENGINES, help="measure this one alone, here")
    given = parser.parse_args()
    kinds = given.kinds or list(GATES)
    if given.engine:
        print(json.dumps(measure(given.engine, kinds)))
        return
    rounds: dict[str, list[list[float]]] = {engine: [] for engine in ENGINES}
    for _, (engine, of) in product(range(ROUNDS), rounds.items()):
        command = [sys.executable, "-m", "benchmarks.recurrent", *kinds, "--engine", engine]
        of.append(json.loads(subprocess.check_output(command)))
    best = {engine: np.min(of, 0) for engine, of in rounds.items()}
    print("kind  batch steps hidden  openmgx  onnxruntime  ratio")
    for n, (kind, batch, (steps, hidden)) in enumerate(product(kinds, BATCHES, SIZES)):
        ours, theirs = best["openmgx"][n], best["onnxruntime"][n]
        print(f"{kind:5} {batch:5} {steps:5} {hidden:6} {ours:8.3f} {theirs:12.3f} {theirs / ours:6.2f}")


if __name__ == "__main__":
    main()

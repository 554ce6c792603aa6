"""python -m benchmarks.scaling: how reading and compiling grow with the number of ONNX nodes, from an empty cache.

Each case runs in a process of its own. Columns are seconds of processor, the compiler's included, which other
programs disturb little: `parse`, then what `compile` does: `passes`, `lower`, `generate` (C++ text), `build` (the
compiler), `all`. `wall` is the seconds from the first to the last of them.
`--profile` prints where Python's own time goes.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

PROJECT = Path(__file__).resolve().parents[1]
STAGES = {"passes": "run_passes", "lower": "lower", "generate": "generate", "build": "build"}


class Net:
    """An ONNX graph that grows node by node; every weight is another."""

    def __init__(self, *lens: int) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(0)
        self.lens = lens

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *lens: int) -> str:
        return self.constant(self.rng.standard_normal(lens) / max(1, lens[-1]) ** 0.5)

    def model(self, output: str) -> bytes:
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.lens)
        result = helper.make_empty_tensor_value_info(output)
        graph = helper.make_graph(self.nodes, "scaling", [info], [result], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def chain(nodes: int) -> bytes:
    """One after another: arithmetic, a product, a softmax, a transposition, a reduction."""
    net, x = Net(8, 16), "x"
    while len(net.nodes) < nodes:
        x = net.add("MatMul", x, net.weight(16, 16))
        x = net.add("Add", x, net.weight(16))
        x = net.add("Sigmoid", net.add("Mul", x, net.weight(1)))
        x = net.add("Softmax", x, axis=1)
        x = net.add("Transpose", net.add("Tanh", x), perm=[1, 0])
        x = net.add("Sub", x, net.add("ReduceMean", x, axes=[1]))
        x = net.add("Transpose", net.add("Neg", x), perm=[1, 0])
    return net.model(x)


def pointwise(nodes: int) -> bytes:
    """Elementwise operators alone, which a compiler would like to make one kernel of."""
    net, x = Net(8, 16), "x"
    while len(net.nodes) < nodes:
        x = net.add("Tanh", net.add("Mul", net.add("Add", x, net.weight(16)), net.weight(16)))
    return net.model(x)


def different(nodes: int) -> bytes:
    """Products whose elementwise parts are nearly all different: as many kernels."""
    net, x = Net(8, 16), "x"
    words = ("Tanh", "Sigmoid", "Relu", "Exp", "Neg", "Abs", "Sqrt", "Softplus", "Erf", "Floor", "Sin", "Cos")
    while len(net.nodes) < nodes:
        x = net.add("MatMul", x, net.weight(16, 16))
        for word in net.rng.choice(words, 3):
            x = net.add(str(word), x)
        x = net.add("Softmax", x, axis=1)
    return net.model(x)


def wide(nodes: int) -> bytes:
    """Branches side by side on one input, joined at the end."""
    net, ends = Net(8, 16), []
    while len(net.nodes) < nodes - 1:
        x = net.add("Relu", net.add("Add", net.add("MatMul", "x", net.weight(16, 4)), net.weight(4)))
        ends.append(net.add("Softmax", x, axis=1))
    return net.model(net.add("Concat", *ends, axis=1))


def resnet(nodes: int) -> bytes:
    """Blocks of two convolutions with batch normalization round a shortcut."""
    net, x = Net(1, 16, 8, 8), "x"

    def unit(x: str) -> str:
        statistics = [net.weight(16), net.weight(16), net.weight(16), net.constant(net.rng.random(16) + 0.5)]
        y = net.add("Conv", x, net.weight(16, 16, 3, 3), pads=[1, 1, 1, 1])
        return net.add("BatchNormalization", y, *statistics)

    while len(net.nodes) < nodes:
        y = unit(net.add("Relu", unit(x)))
        x = net.add("Relu", net.add("Add", y, x))
    return net.model(x)


def transformer(nodes: int) -> bytes:
    """Layers as exporters write them: norms and GELU in parts, heads by Reshape and Transpose."""
    length, width, count = 16, 32, 4
    net, x = Net(1, length, width), "x"

    def norm(x: str) -> str:
        d = net.add("Sub", x, net.add("ReduceMean", x, axes=[-1]))
        v = net.add("ReduceMean", net.add("Pow", d, net.constant(2.0)), axes=[-1])
        d = net.add("Div", d, net.add("Sqrt", net.add("Add", v, net.constant(1e-5))))
        return net.add("Add", net.add("Mul", d, net.weight(width)), net.weight(width))

    def linear(x: str, k: int, n: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.weight(k, n)), net.weight(n))

    def head(x: str, order: list[int]) -> str:
        shape = net.constant([1, length, count, width // count], np.int64)
        return net.add("Transpose", net.add("Reshape", x, shape), perm=order)

    while len(net.nodes) < nodes:
        h = norm(x)
        q, k, v = (head(linear(h, width, width), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = net.add("Div", net.add("MatMul", q, k), net.constant((width / count) ** 0.5))
        y = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = linear(net.add("Reshape", y, net.constant([1, length, width], np.int64)), width, width)
        x = net.add("Add", x, y)
        h = linear(norm(x), width, 2 * width)
        erf = net.add("Add", net.add("Erf", net.add("Div", h, net.constant(2**0.5))), net.constant(1.0))
        x = net.add("Add", x, linear(net.add("Mul", net.add("Mul", h, erf), net.constant(0.5)), 2 * width, width))
    return net.model(x)


CASES: dict[str, Callable[[int], bytes]] = {
    f.__name__: f for f in (chain, pointwise, different, wide, resnet, transformer)
}


# ---- one case, in its own process ----


def timed(module: Any, spent: dict[str, float]) -> None:
    """Add what the target's stages take to `spent`."""

    def clocked(stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            start = processor()
            result = call(*args)
            spent[stage] = spent.get(stage, 0.0) + processor() - start
            return result

        return run

    for stage, name in STAGES.items():
        setattr(module, name, clocked(stage, getattr(module, name)))


def measure(case: str, nodes: int, profile: bool) -> dict[str, float]:
    """Read and compile once; seconds by stage."""
    import migraphx
    from migraphx.targets.cpu import target

    data = CASES[case](nodes)
    migraphx.parse_onnx_buffer(CASES[case](20))  # package onnx is imported before the clock starts
    spent: dict[str, float] = {}
    timed(target, spent)
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    start, cpu = time.perf_counter(), processor()
    program = migraphx.parse_onnx_buffer(data)
    parse = processor() - cpu
    program.compile(migraphx.get_target("cpu"))
    wall, total = time.perf_counter() - start, processor() - cpu
    profiler.disable()
    if profile:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    return {"parse": parse, **spent, "all": total, "wall": wall}


def processor() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    """Entry point; --step is for the processes that this one starts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated")
    parser.add_argument("--nodes", default="1000,2500,5000", help="comma-separated")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(measure(given.cases, int(given.nodes), given.profile)))
        return
    names = ["parse", *STAGES, "all", "wall"]
    print(f"| case | nodes | {' | '.join(names)} |\n| --- | ---: |{' ---: |' * len(names)}")
    for case in given.cases.split(","):
        for nodes in given.nodes.split(","):
            with tempfile.TemporaryDirectory(prefix="openmgx-scaling-") as cache:
                command = [sys.executable, "-m", "benchmarks.scaling", "--step", "--cases", case, "--nodes", nodes]
                command += ["--profile"] if given.profile else []
                environment = os.environ | {"OPENMGX_CACHE": cache}
                found = json.loads(subprocess.check_output(command, text=True, cwd=PROJECT, env=environment))
            print(f"| {case} | {nodes} | {' | '.join(f'{found[n]:.2f}' for n in names)} |", flush=True)


if __name__ == "__main__":
    main()

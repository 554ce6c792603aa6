"""Mixed precision by measurement: what quantizing each product alone costs, and which ones stay in floats."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

import torch_migraphx.dynamo.quantization.workflow as workflow
from torch_migraphx.dynamo.quantization.quantizer import PRODUCTS, MGXQuantizer, operands
from torch_migraphx.fx.lower import lower_to_mgx

KEPT = {"fp32": None, "fp16": torch.float16}
"""What products that are not quantized are computed in."""
decomposed = torch.ops.quantized_decomposed
QUANTIZE = (decomposed.quantize_per_tensor.default, decomposed.quantize_per_channel.default)
DEQUANTIZE = (decomposed.dequantize_per_tensor.default, decomposed.dequantize_per_channel.default)


@dataclass
class Layer:
    """One product of a quantized graph.

    `decibels`: the signal-to-noise ratio of the model's outputs when this product alone is quantized. `quantized`:
    whether it is in the end. Milliseconds in floats and in integers are those of the product alone.
    """

    name: str
    node: str
    decibels: float
    quantized: bool = True
    float_ms: float = math.nan
    int8_ms: float = math.nan


@dataclass
class Quantized:
    """What `quantize` gives: the model, its metric before and after, and its layers, the dearest first."""

    model: fx.GraphModule
    float_metric: float
    metric: float
    layers: list[Layer] = field(default_factory=list)

    def __str__(self) -> str:
        timed = any(not math.isnan(layer.int8_ms) for layer in self.layers)
        lines = [f"{'layer':40}{'alone, dB':>10}  {'type':6}" + (f"{'float ms':>10}{'int8 ms':>10}" if timed else "")]
        for layer in self.layers:
            speed = f"{layer.float_ms:10.3f}{layer.int8_ms:10.3f}" if timed else ""
            lines.append(f"{layer.name:40}{layer.decibels:10.1f}  {'int8' if layer.quantized else 'float':6}{speed}")
        kept = sum(not layer.quantized for layer in self.layers)
        lines.append(f"{kept} of {len(self.layers)} products stay in floats; metric {self.float_metric:.4g} in floats, "
                     f"{self.metric:.4g} now")  # fmt: skip
        return "\n".join(lines)


def quantize(
    model: nn.Module,
    data: Sequence[Any],
    metric: Callable[[nn.Module], float],
    budget: float,
    *,
    keep: str = "fp32",
    quantizer: MGXQuantizer | None = None,
    times: bool = False,
) -> Quantized:
    """Quantize `model` so that `metric` (higher is better) falls by at most `budget`; what loses most stays in floats.

    `data` holds the arguments of calls, tuples or single tensors: all calibrate, the first is exported with. `keep`
    says what is computed in for products that stay: fp32 or fp16. The order is that of measured sensitivity; of the
    number that has to stay, the least that meets the budget is searched by halving. With `times` every product
    is timed alone in the engine. ValueError where even the model in floats, as exported, is beyond the budget.
    """
    if keep not in KEPT:
        raise ValueError(f"keep is {' or '.join(KEPT)}; got {keep!r}")
    if not data:
        raise ValueError("quantize needs calibration data")
    calls = [x if isinstance(x, tuple) else (x,) for x in data]
    whole = calibrated(model, calls, quantizer or MGXQuantizer())
    layers = sorted(sensitivities(whole, calls[:4]), key=lambda layer: layer.decibels)
    before = metric(model.eval())

    def graph(count: int) -> fx.GraphModule:
        return without(whole, {layer.node for layer in layers[:count]}, KEPT[keep])

    def fits(count: int) -> bool:
        return before - metric(graph(count)) <= budget

    low, high = 0, len(layers)
    if fits(0):
        high = 0
    elif not fits(high):
        raise ValueError(f"the metric falls by more than {budget} with every product in {keep}")
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    for layer in layers[:high]:
        layer.quantized = False
    if times:
        measure(whole, layers, calls[0])
    result = graph(high)
    return Quantized(result, before, metric(result), layers)


def calibrated(model: nn.Module, calls: Sequence[tuple[Any, ...]], quantizer: MGXQuantizer) -> fx.GraphModule:
    """All that the quantizer names, quantized."""
    prepared = workflow.prepare_pt2e(workflow.export_for_quantization(model.eval(), calls[0]), quantizer)
    with torch.no_grad():
        for call in calls:
            prepared(*call)
    return workflow.convert_pt2e(prepared)


def products(gm: fx.GraphModule) -> list[fx.Node]:
    """The products whose input and weights are dequantized."""
    return [n for n in gm.graph.nodes if n.target in PRODUCTS and all(i.target in DEQUANTIZE for i in operands(n))]


def layer_name(n: fx.Node) -> str:
    """The module that a product comes from; the node's own name where that is not known."""
    modules = [path for path, _ in n.meta.get("nn_module_stack", {}).values()]
    return (modules[-1].removeprefix("L['self'].") if modules else "") or n.name


class _Some(fx.Interpreter):
    """Runs a quantized graph where the inputs of only some products are quantized."""

    def __init__(self, gm: fx.GraphModule, quantized: set[str]) -> None:
        super().__init__(gm, garbage_collect_values=False)
        own = {n for n in products(gm) if n.name in quantized}
        self.through = {i for n in own for i in n.all_input_nodes if i.target in DEQUANTIZE}

    def run_node(self, n: fx.Node) -> Any:
        if n.target in DEQUANTIZE and n not in self.through:
            source = n.args[0]
            assert isinstance(source, fx.Node)
            if source.target in QUANTIZE:
                return self.env[source.args[0]]  # type: ignore[index]
        return super().run_node(n)


def sensitivities(gm: fx.GraphModule, calls: Sequence[tuple[Any, ...]]) -> list[Layer]:
    """The signal-to-noise ratio of the outputs when one product alone is quantized, for each."""
    with torch.no_grad():
        wanted = [tree_leaves(run(gm, set(), call)) for call in calls]
        layers = []
        for n in products(gm):
            signal = noise = 0.0
            for call, want in zip(calls, wanted, strict=True):
                for w, got in zip(want, tree_leaves(run(gm, {n.name}, call)), strict=True):
                    if isinstance(w, torch.Tensor) and w.is_floating_point():
                        signal += float(w.double().square().sum())
                        noise += float((got - w).double().square().sum())
            decibels = 10 * math.log10(signal / noise) if signal and noise else math.inf
            layers.append(Layer(layer_name(n), n.name, decibels))
    return layers


def run(gm: fx.GraphModule, quantized: set[str], call: tuple[Any, ...]) -> Any:
    return gm.graph.process_outputs(
        _Some(gm, quantized).run(*gm.graph.process_inputs(*call), enable_io_processing=False)
    )


def without(gm: fx.GraphModule, nodes: set[str], dtype: torch.dtype | None) -> fx.GraphModule:
    """A copy in which some products read real numbers, and are computed in `dtype` where that is given."""
    gm = _copy(gm)
    for n in [n for n in products(gm) if n.name in nodes]:
        for dequantize in [i for i in n.all_input_nodes if i.target in DEQUANTIZE]:
            source = dequantize.args[0]
            if isinstance(source, fx.Node) and source.target in QUANTIZE:
                n.replace_input_with(dequantize, source.args[0])  # type: ignore[arg-type]
        if dtype is not None:
            _narrow(gm.graph, n, dtype)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _copy(gm: fx.GraphModule) -> fx.GraphModule:
    graph = fx.Graph()
    values: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, values))
    graph._codegen = gm.graph._codegen
    return fx.GraphModule(gm, graph, class_name=type(gm).__name__)


def _narrow(graph: fx.Graph, n: fx.Node, dtype: torch.dtype) -> None:
    """Compute one product in another type of floats."""
    with graph.inserting_before(n):
        for i in n.all_input_nodes:
            n.replace_input_with(i, graph.call_function(torch.ops.aten._to_copy.default, (i,), {"dtype": dtype}))
    with graph.inserting_after(n):
        wide = graph.call_function(torch.ops.aten._to_copy.default, (n,), {"dtype": torch.float32})
    n.replace_all_uses_with(wide, delete_user_cb=lambda user: user is not wide)


def measure(gm: fx.GraphModule, layers: Sequence[Layer], call: tuple[Any, ...], turns: int = 5) -> None:
    """Note what each product takes alone in the engine, in floats and in integers: the least of some turns."""
    interpreter = fx.Interpreter(gm, garbage_collect_values=False)
    with torch.no_grad():
        interpreter.run(*gm.graph.process_inputs(*call), enable_io_processing=False)
        for layer in layers:
            node = next(n for n in gm.graph.nodes if n.name == layer.node)
            alone = _alone(node, interpreter.env)
            x = interpreter.env[operands(node)[0].args[0].args[0]]  # what is quantized for it
            layer.int8_ms = _least(alone, x, turns)
            layer.float_ms = _least(without(alone, {n.name for n in products(alone)}, None), x, turns)


def _alone(node: fx.Node, values: dict[fx.Node, Any]) -> fx.GraphModule:
    """A graph of one product, from the real numbers that are quantized for it on."""
    root, graph = nn.Module(), fx.Graph()
    quantize = operands(node)[0].args[0]
    new: dict[fx.Node, fx.Node] = {quantize.args[0]: graph.placeholder("x")}

    def copied(n: fx.Node) -> fx.Node:
        if n not in new and n.op == "get_attr":
            name = f"constant_{len(new)}"
            root.register_buffer(name, values[n].detach())
            new[n] = graph.get_attr(name)
        elif n not in new:
            for i in n.all_input_nodes:
                copied(i)
            new[n] = graph.node_copy(n, new.__getitem__)
        return new[n]

    graph.output(copied(node))
    return fx.GraphModule(root, graph)


def _least(gm: fx.GraphModule, x: torch.Tensor, turns: int) -> float:
    """Milliseconds."""
    lowered = lower_to_mgx(gm, [x], suppress_accuracy_check=True)
    lowered(x)
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        lowered(x)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * 1e3

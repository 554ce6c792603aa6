"""The forms that torch itself gives a graph of Dynamo's: for reports; nothing is compiled of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from functorch.compile import default_partition
from torch import fx
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from torch_migraphx.fx.concrete import concrete, hint_of
from torch_migraphx.fx.graph_lines import graph_lines, weight_name
from torch_migraphx.log import get_logger
from torch_migraphx.random_state import same_random_state
from torch_migraphx.report.data import Line, Stage

logger = get_logger(__name__)
Table = Mapping[Any, Callable[..., Any]]
TORCH_IR = "What Dynamo captured of the Python code: calls of torch, weights as inputs."
JOINT = "Forward and backward in one graph of ATen, as AOTAutograd traces it where gradients are asked for."
INFERENCE = "AOTAutograd's graph where no gradients are asked for: functional, every type and shape known."
CORE = "ATen decomposed by torch's table into the core operators, a set of about 200."
PRIMS = "Decomposed to the end where torch can: promotion of types and broadcasting are operators of their own."
WRITING = (torch.ops.aten.constant_pad_nd.default,)
"""What torch's table decomposes into writes (`prims.copy_to`), which AOTAutograd refuses: padding, and so pooling."""


def stages_of(gm: fx.GraphModule, inputs: Sequence[Any]) -> list[Stage]:
    """Torch IR as Dynamo gave it; ATen, core ATen and Prims for these inputs.

    A stage that torch refuses says so in `missing`. Neither `gm` nor what Dynamo knows of it is changed.
    """
    stages = [Stage("Torch IR", TORCH_IR, graph_lines(gm.graph))]
    core = core_aten_decompositions()
    prims = {k: v for k, v in decomposition_table.items() if k not in WRITING}
    wanted: list[tuple[str, str, Table, bool]] = [
        ("ATen, joint", JOINT, {}, True),
        ("ATen, inference", INFERENCE, {}, False),
        ("Core ATen", CORE, core, False),
        ("Prims", PRIMS, prims, False),
    ]
    for name, about, table, gradients in wanted:
        try:
            with _disable_current_modes(), same_random_state(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what the stage says, or of what nobody runs
                stages.append(Stage(name, about, _traced(gm, inputs, table, gradients)))
        except Exception as error:  # AOTAutograd raises whatever its parts do, and a report is no reason to stop
            logger.debug("no stage %s", name, exc_info=True)
            why = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
            stages.append(Stage(name, about, missing=why))
    return stages


def _traced(gm: fx.GraphModule, inputs: Sequence[Any], table: Table, gradients: bool) -> tuple[Line, ...]:
    """The lines of AOTAutograd's graph: of the joint one with `gradients`, else of the one for inference."""
    known = concrete(gm, inputs, hint_of)
    placeholders = known.graph.find_nodes(op="placeholder")
    samples = [n.meta["val"] for n in placeholders]
    mode = next((x.fake_mode for x in samples if isinstance(x, FakeTensor)), None) or FakeTensorMode()
    found: list[tuple[Line, ...]] = []

    def seen(gm: fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        found.append(graph_lines(gm.graph))
        return make_boxed_func(gm.forward)

    def partitioned(joint: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        found.append(graph_lines(joint.graph))
        return default_partition(joint, *args, **kwargs)

    with tracing(TracingContext(mode)), mode, torch.set_grad_enabled(gradients):
        if gradients:
            samples = [_with_gradient(x, given) for x, given in zip(samples, inputs, strict=True)]
            if not any(isinstance(x, torch.Tensor) and x.requires_grad for x in samples):
                raise ValueError("no input and no weight needs a gradient")
    with tracing(TracingContext(mode)), torch.set_grad_enabled(gradients):
        compile_ = partial(aot_module_simplified, known, samples, decompositions=dict(table))
        compile_(fw_compiler=seen, bw_compiler=seen, inference_compiler=seen, partition_fn=partitioned)
    lines = found[0]
    return tuple(
        replace(line, text=f"{line.text}  # {weight_name(placeholders[k].name)}") if k < len(placeholders) else line
        for k, line in enumerate(lines)
    )


def _with_gradient(sample: Any, given: Any) -> Any:
    """`sample` as a leaf that needs a gradient where `given` does."""
    needs = isinstance(given, torch.Tensor) and given.requires_grad
    return sample.detach().requires_grad_() if needs else sample


def ends_at(gm: fx.GraphModule) -> Line | None:
    """Why Dynamo ended the graph before the end of the model, and where; None where it did not."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    why = next(iter(reason.reason.strip().splitlines()), "")
    frames = [f"{f.filename}:{f.lineno} in {f.name}" for f in reason.user_stack]
    return Line(why, tuple(frames[-1:]))

"""What is done to graphs of any kind: copies, values of their nodes, numbers written into them."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_arg
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
OF_DATA = (DynamicOutputShapeException, DataDependentOutputException)


@contextmanager
def no_collection() -> Iterator[None]:
    """Meanwhile no garbage is collected: a walk over all that torch has loaded takes longer than most compilations."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def copied(gm: fx.GraphModule) -> fx.GraphModule:
    """The same graph in a module of its own; weights are shared."""
    graph = fx.Graph()
    result = graph.graph_copy(gm.graph, {}, return_output_node=True)
    assert isinstance(result, tuple)
    graph.output(result[0])
    graph._codegen = copy.deepcopy(gm.graph._codegen)
    with _use_lazy_graph_module(True):  # most copies are read by an interpreter: their Python is written if they run
        return _make_graph_module(gm, graph, class_name=type(gm).__name__)


def attribute(gm: fx.GraphModule | None, n: fx.Node) -> Any:
    """What a get_attr node reads."""
    return reduce(getattr, str(n.target).split("."), gm)


def with_values(gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Give every node its fake value as `meta["val"]`, where one lacks it."""
    for n in gm.graph.nodes:
        if "val" not in n.meta and "example_value" in n.meta:
            n.meta["val"] = n.meta["example_value"]
    if all("val" in n.meta for n in gm.graph.nodes if n.op.startswith("call_")):
        return
    fake = next((x for x in inputs if isinstance(x, torch._subclasses.FakeTensor)), None)
    if fake is not None:
        _propagated(gm, fake.fake_mode, inputs)
    elif isinstance(_propagated(gm, fake_mode(), inputs), OF_DATA):
        symbols = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
        _propagated(gm, symbols, inputs)  # with a symbol for each length that data tells


def _propagated(gm: fx.GraphModule, mode: FakeTensorMode, inputs: Sequence[Any]) -> Exception | None:
    """Why not all nodes have their value now."""
    try:
        with torch.no_grad():
            FakeTensorProp(gm, mode).propagate(*inputs)
    except Exception as error:  # what depends on data has no fake value; those nodes run in torch
        logger.debug("shapes are not all known: %s", error)
        return error
    return None


def write_number(n: fx.Node, value: int | float) -> None:
    """Let all who read `n` have its value instead."""
    for user in list(n.users):
        user.args, user.kwargs = map_arg((user.args, user.kwargs), lambda a: value if a is n else a)


def take_outputs_apart(graph: fx.Graph) -> None:
    """Where a node of several values is returned as it is, return the values one by one."""
    output = graph.output_node()

    def parts(n: fx.Node, value: Any) -> Any:
        if not isinstance(value, tuple | list):
            return n
        made = []
        for k, v in enumerate(value):
            one = graph.call_function(getitem, (n, k))
            one.meta = {**{key: n.meta[key] for key in ("stack_trace",) if key in n.meta}, "val": v}
            made.append(parts(one, v))
        return tuple(made)

    with graph.inserting_before(output):
        output.args = map_arg(output.args, lambda n: parts(n, n.meta.get("val")))

"""A graph of Dynamo's in a file: its programs, with the weights, and what is written back after a run."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._guards import tracing
from torch.fx.node import base_types
from torch.utils._python_dispatch import _disable_current_modes

from torch_migraphx.dynamo.mutation.export import export_functional
from torch_migraphx.dynamo.mutation.plan import Binding, BindingKind, Mutation, MutationPlan, UserOutput
from torch_migraphx.dynamo.mutation.runtime import MutationCopybackWrapper
from torch_migraphx.dynamo.passes.alias_analysis import AliasSource, AliasSpec
from torch_migraphx.files import replacing
from torch_migraphx.fx.concrete import is_symbolic
from torch_migraphx.fx.graph_info import called, value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.lowered import LoweredModule, NotData, state_of
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options

logger = get_logger(__name__)
CONSTANT = (*base_types, type(None), type(...))


class SavedGraph(MutationCopybackWrapper):
    """A compiled graph with its weights: takes what is no weight, and gives a tuple.

    `fingerprint` tells graphs apart. `torch.save` writes data where all of it runs in the engine (see LoweredModule).
    """

    def __init__(self, compiled: nn.Module, plan: MutationPlan, state: nn.Module, fingerprint: str) -> None:
        super().__init__(compiled, plan, state)
        self.fingerprint = fingerprint

    def __reduce__(self) -> Any:
        assert isinstance(self.compiled, LoweredModule) and self.state_module is not None
        state = {
            "compiled": self.compiled,
            "plan": _plan_state(self.plan),
            "weights": dict(self.state_module.named_buffers()),
            "fingerprint": self.fingerprint,
        }
        return restored_graph, (state,)


def compiled_and_saved(
    gm: fx.GraphModule, inputs: Sequence[Any], weights: Collection[int], options: Options
) -> Callable[..., Any]:
    """Compile a graph, its inputs at the places `weights` compiled in, save it, and give a function of all its inputs.

    ValueError where sizes are symbols, of which a file holds none.
    """
    if is_symbolic(gm):
        raise ValueError("save_compiled: a file holds one set of sizes; say torch.compile(..., dynamic=False)")
    given = [x for k, x in enumerate(inputs) if k not in weights]
    with tracing(None), _disable_current_modes(), torch.no_grad():
        closed = _closed(gm, inputs, weights)
        export = export_functional(closed, given)
        written = {m.target for m in export.plan.mutations}
        kinds = [(b.kind, b in written) for b in export.plan.inputs]
        constants = {k for k, kind in enumerate(kinds) if kind == (BindingKind.MODULE_STATE, False)}
        made = lower(export.graph_module, export.example_inputs, options, constants)
    lowered, plan = _without_constants(made, export.plan)
    state = nn.Module()
    for name in {b.key for b in (*plan.inputs, *written) if b.kind is BindingKind.MODULE_STATE}:
        state.register_buffer(str(name), closed.get_buffer(str(name)))
    saved = SavedGraph(lowered, plan, state, fingerprint(gm))
    try:
        state_of(lowered)
    except NotData:
        logger.warning(
            "parts of the graph run in torch, so %s holds Python code: torch.load(..., weights_only=False) reads it, "
            "load_compiled refuses it", options.save_compiled,
        )  # fmt: skip
    with replacing(options.save_compiled) as file:
        torch.save(saved, file)
    return _of_all_inputs(saved, weights)


def loaded(gm: fx.GraphModule, weights: Collection[int], path: str) -> Callable[..., Any]:
    """A function of all inputs of a graph, from the file that was written for it.

    ValueError where the file is damaged or holds another graph, none, or Python code.
    """
    with open(path, "rb") as file, tracing(None), _disable_current_modes():
        try:
            saved = torch.load(file, weights_only=True)
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path} holds no graph that is data alone: {str(error).splitlines()[0]}") from error
        except Exception as error:  # a byte of a pickle decides what its reader does
            raise ValueError(f"{path} is damaged: {str(error).partition('. This is')[0]}") from error
    if not isinstance(saved, SavedGraph) or saved.fingerprint != fingerprint(gm):
        raise ValueError(
            f"{path} was saved for another graph: compile the model with save_compiled again; where graph breaks cut a "
            "model, the file holds its last graph alone, and fullgraph=True says where they are"
        )
    return _of_all_inputs(saved, weights)


def _of_all_inputs(saved: SavedGraph, weights: Collection[int]) -> Callable[..., Any]:
    fixed = frozenset(weights)

    def call(*args: Any) -> Any:
        return saved(*(x for k, x in enumerate(args) if k not in fixed))

    return call


def fingerprint(gm: fx.GraphModule) -> str:
    """What tells graphs apart: what they call, in which order, on what; the types and sizes of what they compute."""
    number = {n: f"%{k}" for k, n in enumerate(gm.graph.nodes)}
    lines = [
        ("" if n.op == "placeholder" else called(n), _spelled((n.args, n.kwargs), number), _spelled(value_of(n), {}))
        for n in gm.graph.nodes
    ]
    return hashlib.sha256(repr(lines).encode()).hexdigest()


def _spelled(value: Any, number: Mapping[Any, str]) -> str:
    """The same text in every process: of what has none, functions and modules, the type."""
    if isinstance(value, fx.Node):
        return number[value]
    if isinstance(value, Mapping):
        return _spelled(tuple(value.items()), number)
    if isinstance(value, tuple | list):
        return f"({', '.join(_spelled(v, number) for v in value)})"
    if isinstance(value, slice):
        return _spelled((slice, value.start, value.stop, value.step), number)
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return repr(value) if isinstance(value, CONSTANT) else type(value).__name__


def _closed(gm: fx.GraphModule, inputs: Sequence[Any], weights: Collection[int]) -> fx.GraphModule:
    """A copy in which weights are buffers, over the same memory."""
    gm = copied(gm)
    for k, n in enumerate([n for n in gm.graph.nodes if n.op == "placeholder"]):
        if k in weights:
            gm.register_buffer(f"weight_{k}", inputs[k].detach())
            with gm.graph.inserting_before(n):
                n.replace_all_uses_with(gm.graph.get_attr(f"weight_{k}"))
            gm.graph.erase_node(n)
    gm.recompile()
    return gm


def _without_constants(made: fx.GraphModule, plan: MutationPlan) -> tuple[LoweredModule, MutationPlan]:
    """The lowered graph without inputs that nobody reads, and the plan of how it is called."""
    kept = []
    for n, binding in zip(list(made.graph.find_nodes(op="placeholder")), plan.inputs, strict=True):
        if n.users:
            kept.append(binding)
        else:
            made.graph.erase_node(n)
    lowered = LoweredModule(made, made.graph, class_name="LoweredModule").eval()
    return lowered, MutationPlan(tuple(kept), plan.mutations, plan.outputs)


# ---- as data ----


def _plan_state(plan: MutationPlan) -> list[Any]:
    outputs = []
    for o in plan.outputs:
        view = o.alias and [o.alias.source_index, *map(list, (o.alias.source_shape, o.alias.source_stride))]
        view = view and o.alias and [*view, list(o.alias.shape), list(o.alias.stride), o.alias.relative_offset]
        outputs.append([o.output_index, view, o.alias_source and o.alias_source.key])
    return [[b.key for b in plan.inputs], [[m.output_index, m.target.key] for m in plan.mutations], outputs]


def restored_graph(state: dict[str, Any]) -> SavedGraph:
    """The graph of a file. ValueError, TypeError or KeyError where it is no such state; nothing in it is run."""
    inputs, mutations, outputs = state["plan"]
    plan = MutationPlan(
        tuple(map(_binding, inputs)),
        tuple(Mutation(_count(k), _binding(key)) for k, key in mutations),
        tuple(
            UserOutput(_count(k), view and _view(k, view), None if key is None else _binding(key))
            for k, view, key in outputs
        ),
    )
    module = nn.Module()
    for name, tensor in state["weights"].items():
        module.register_buffer(name, tensor)
    if not isinstance(state["compiled"], LoweredModule):
        raise ValueError("the file holds no lowered module")
    return SavedGraph(state["compiled"], plan, module, str(state["fingerprint"]))


def _count(x: Any) -> int:
    if type(x) is not int or x < 0:
        raise ValueError(f"{x!r} is no place")
    return x


def _binding(key: Any) -> Binding:
    return Binding.module_state(key) if isinstance(key, str) else Binding.user_input(_count(key))


def _view(k: int, view: Sequence[Any]) -> AliasSpec:
    source, *layouts, offset = view
    whole, whole_strides, sizes, strides = (tuple(map(int, x)) for x in layouts)
    return AliasSpec(k, AliasSource.INPUT, _count(source), whole, whole_strides, sizes, strides, int(offset))


torch.serialization.add_safe_globals([restored_graph])

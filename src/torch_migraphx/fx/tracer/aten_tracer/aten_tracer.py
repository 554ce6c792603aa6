"""From a module and sample inputs to a functional graph of ATen operators.

torch.export takes the graph; the only decompositions are those that make it functional, so that conv2d,
linear, layer_norm, scaled_dot_product_attention, gelu, softmax and embedding stay whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch._C._functorch import get_dynamic_layer_stack_depth, pop_dynamic_layer_stack_and_undo_to_depth
from torch.export import ExportedProgram, export
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map, tree_unflatten

from torch_migraphx.fx.functions import WithoutData
from torch_migraphx.fx.graph_info import STATIC_CHECKS, copy_origin, set_value
from torch_migraphx.fx.tracer.inference_copy import inference_copy
from torch_migraphx.fx.tracer.origin import error_origin
from torch_migraphx.fx.tracer.structure import Structure, plain
from torch_migraphx.log import get_logger

logger = get_logger(__name__)


class AtenTraceError(RuntimeError):
    """The model can't be exported; the message names the line of the model that is in the way."""


def trace(
    mod: nn.Module,
    sample_inputs: Sequence[Any],
    sample_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> fx.GraphModule:
    """Export `mod` to ATen, in inference form; `mod` itself is left as it is.

    The result takes the leaves (see torch.utils._pytree) of the inputs in order and gives what `mod` gives, in plain
    tuples, lists and dicts; `meta["structure"]` is the structure of `mod`'s own answer. Parameters, buffers and
    constants are get_attr nodes under their names in `mod`, and shared with it. Each node carries `meta["val"]`,
    `meta["tensor_meta"]` and `stack_trace`. With `dynamic_shapes`, torch.export's, sizes are symbols, whose ranges are
    `meta["ranges"]`. Raises AtenTraceError where the control flow depends on data or a buffer is changed.
    """
    if not isinstance(sample_inputs, tuple | list):
        raise TypeError(f"sample_inputs is a list of inputs, not a {type(sample_inputs).__name__}")
    try:
        # another attention's shapes would be guards: on a GPU torch pads its masks
        by_parts = sdpa_kernel(SDPBackend.MATH)
        with torch.no_grad(), warnings.catch_warnings(), _transforms_closed(), by_parts, WithoutData():
            warnings.simplefilter("ignore", FutureWarning)  # torch's own, of one of its parts about another
            args, kwargs = _all_different((tuple(sample_inputs), dict(sample_kwargs or {})))
            given = export(inference_copy(mod), args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
            exported = given.run_decompositions({})
    except Exception as error:  # the model's own code ran: whatever it raised is raised again, with its line
        origin = error_origin(error)
        where = f"\n  {origin}" if origin else ""
        raise AtenTraceError(f"{type(mod).__name__} can't be exported: {error}{where}") from error
    return _with_ranges(_Unlift(exported, type(mod).__name__).graph_module(), exported)


def _with_ranges(gm: fx.GraphModule, exported: ExportedProgram) -> fx.GraphModule:
    """Note the ranges of the symbols that the graph's inputs have; torch may know of symbols of other traces too."""
    own = free_symbols([n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"])
    gm.meta["ranges"] = {s: r for s, r in exported.range_constraints.items() if s in own}
    return gm


@contextmanager
def _transforms_closed() -> Iterator[None]:
    """An export that fails inside a transform of torch.func leaves it open, and all that follows would run in it."""
    depth = get_dynamic_layer_stack_depth()
    try:
        yield
    finally:
        pop_dynamic_layer_stack_and_undo_to_depth(depth)


def _all_different(inputs: Any) -> Any:
    """Inputs with a copy of each tensor that occurs again: torch.export would take both for one input."""
    seen: set[int] = set()

    def copied(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        again = id(x) in seen
        seen.add(id(x))
        return x.clone() if again else x

    return tree_map(copied, inputs)


def unlifted(exported: ExportedProgram, name: str) -> fx.GraphModule:
    """What `trace` gives, of a program that has been exported already."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return _with_ranges(_Unlift(exported.run_decompositions({}), name).graph_module(), exported)


class _Unlift:
    """Rewrites an exported graph, where weights are inputs, into one where they are attributes."""

    def __init__(self, exported: ExportedProgram, name: str) -> None:
        self._exported = exported
        self._name = name
        self._graph = fx.Graph()
        self._nodes: dict[fx.Node, fx.Node] = {}
        self._attributes: dict[str, Any] = {}
        self._weights: dict[fx.Node, str] = {}

    def graph_module(self) -> fx.GraphModule:
        old_nodes = list(self._exported.graph.nodes)
        placeholders = [n for n in old_nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, self._exported.graph_signature.input_specs, strict=True):
            self._input(node, spec)
        for node in old_nodes:
            if node.op not in ("placeholder", "output") and node.target not in STATIC_CHECKS:
                self._copy(node)
        structure = self._output(old_nodes[-1])
        self._graph.eliminate_dead_code()
        gm = fx.GraphModule(self._attributes, self._graph, class_name=self._name)
        gm.meta["structure"] = structure
        return gm.eval()

    def _input(self, node: fx.Node, spec: InputSpec) -> None:
        """A user's input becomes a placeholder; a weight is noted, and read where it is used first."""
        if spec.kind == InputKind.USER_INPUT:
            self._nodes[node] = self._graph.placeholder(node.name)
            self._describe(node, self._nodes[node])
            return
        kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        if spec.kind not in kinds or spec.target is None:
            raise AtenTraceError(f"{self._name}: a graph input of kind {spec.kind.name} is not supported")
        table = self._exported.state_dict if spec.target in self._exported.state_dict else self._exported.constants
        self._weights[node] = spec.target
        self._attributes[spec.target] = table[spec.target]

    def _copy(self, node: fx.Node) -> None:
        if node.op == "get_attr":  # a submodule of a higher-order operator
            name = str(node.target)
            self._attributes[name] = getattr(self._exported.graph_module, name)
        self._nodes[node] = self._graph.node_copy(node, self._new)
        self._describe(node, self._nodes[node])

    def _new(self, old: fx.Node) -> fx.Node:
        """The new graph's node for `old`; a weight gets its get_attr node here, just before its first use."""
        if old not in self._nodes:
            self._nodes[old] = self._graph.get_attr(self._weights[old])
            self._describe(old, self._nodes[old])
        return self._nodes[old]

    def _describe(self, old: fx.Node, new: fx.Node) -> None:
        new.meta = {}
        copy_origin(old, new)
        set_value(new, old.meta.get("val"))

    def _output(self, output: fx.Node) -> Structure:
        """Return what the model returns, and its structure."""
        specs = self._exported.graph_signature.output_specs
        values = list(self._user_outputs(zip(output.args[0], specs, strict=True)))  # type: ignore[arg-type]
        spec = self._exported.call_spec.out_spec
        assert spec is not None
        self._graph.output(plain(tree_unflatten(values, spec)))
        return Structure(spec)

    def _user_outputs(self, pairs: Iterator[tuple[Any, OutputSpec]]) -> Iterator[Any]:
        for value, spec in pairs:
            if spec.kind == OutputKind.USER_OUTPUT:
                constant = isinstance(spec.arg, ConstantArgument)
                yield value if constant or not isinstance(value, fx.Node) else self._new(value)
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                logger.warning("%s changes its input %r in place; the traced graph does not", self._name, spec.target)
            else:
                raise AtenTraceError(f"{self._name} changes {spec.target} in place ({spec.kind.name})")

"""The one road: a graph, its inputs and the options become a module. Every front end ends here."""

from __future__ import annotations

import copy
import logging
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_arg
from torch.fx.passes.split_module import split_module
from torch.utils._pytree import tree_leaves

import migraphx
from torch_migraphx.fx.border import first_not_held, not_held
from torch_migraphx.fx.builder import UnsupportedError, Value, type_name
from torch_migraphx.fx.converters.quantized import declare_torchao
from torch_migraphx.fx.decompose import GETITEM, decompose
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.graph_info import described, origin_of, refusal
from torch_migraphx.fx.graphs import copied, no_collection, with_values, write_number
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.partition import Piece, partition, piece_text
from torch_migraphx.log import get_logger
from torch_migraphx.options import PRECISIONS, Options
from torch_migraphx.random_state import same_random_state

logger = get_logger(__name__)
TARGET_REFUSES = (ValueError, NotImplementedError)
"""What a target raises for instructions that it has no kernel for."""
CONVERSION_REFUSES = (NotImplementedError, ValueError, IndexError)
"""What converters and shape rules raise on purpose; anything else is a bug, which the log shows."""


class FallbackError(UnsupportedError):
    """With `fallback="error"`: what would run in torch, and why, one line for each."""


class Unknown:
    """The value of a node that stays in torch: a number, or a tensor that the engine cannot hold."""

    def __init__(self, node: fx.Node, why: str = "") -> None:
        self.why = f"%{node.name} {why}" if why else f"%{node.name}, or its shape, depends on data"


class PieceRefused(Exception):
    """The target has no kernel for something in a piece."""

    def __init__(self, piece: int, error: Exception) -> None:
        super().__init__(str(error))
        self.piece, self.error = piece, error


class Survey(MGXInterpreter):
    """Converts what can be converted and notes in `refused` why the rest cannot.

    A refused node's value becomes a parameter, so that everything behind it is tried as well. Where nothing is refused
    the program is complete: it returns the values of `engine_outputs`.
    """

    def __init__(
        self, module: fx.GraphModule, inputs: Sequence[Any], constants: Mapping[str, torch.Tensor], verbose: bool
    ) -> None:
        super().__init__(module, inputs, verbose, constants)
        self.refused: dict[fx.Node, str] = {}
        self.words: dict[fx.Node, set[str]] = {}
        self.engine_outputs: list[fx.Node] = []

    def run(self, *args: Any, **kwargs: Any) -> migraphx.program:  # type: ignore[override]
        fx.Interpreter.run(self, *self.inputs, enable_io_processing=False)
        return self.program

    def outside(self, x: torch.Tensor, why: str) -> Unknown:
        return Unknown(self.node, why)

    def run_node(self, n: fx.Node) -> Any:
        if not n.op.startswith("call_"):
            return super().run_node(n)
        first = len(self.builder.words)
        try:
            unknown = [value for i in n.all_input_nodes if isinstance(value := self.env[i], Unknown)]
            if unknown:
                raise UnsupportedError(unknown[0].why)
            if n.op != "call_function":
                raise UnsupportedError(refusal(n))
            if why := first_not_held(n.meta.get("val")):
                raise UnsupportedError(f"what it gives {why}")
            return super().run_node(n)
        except CONVERSION_REFUSES as error:  # logged with the piece
            return self._refuse(n, str(error) or type(error).__name__)
        except Exception as error:  # a fault of ours must not stop a model: it is shown whole
            logger.warning("a bug in the conversion of %s; it runs in torch", described(n), exc_info=True)
            return self._refuse(n, f"{type(error).__name__}: {error}")
        finally:
            self.words[n] = set(self.builder.words[first:])

    def _refuse(self, n: fx.Node, why: str) -> Any:
        self.refused[n] = why
        if self.verbose_log:
            logger.info("%s is not converted: %s", described(n), why)
        return self._stand_in(n, n.meta.get("val"), n.name)

    def blamed(self, nodes: Iterable[fx.Node], target: str, error: Exception) -> dict[fx.Node, str]:
        """Those of `nodes` that became what the target names in its refusal; all where it names nothing.

        It names operators and, where it knows them, lines of the model.
        """
        text = str(error)
        named = set(re.findall(r"(\w+) -> \w+_type", text)) | set(re.findall(r"^(\w+):", text))
        found = {n: self.words[n] & named for n in nodes if self.words.get(n, set()) & named}
        here = {n: w for n, w in found.items() if origin_of(n) and origin_of(n) in text}
        if not found:
            return dict.fromkeys(nodes, f"target {target!r}: {text}")
        why = f"target {target!r} has no kernel for this "
        return {n: why + ", ".join(sorted(w)) for n, w in (here or found).items()}

    def _stand_in(self, n: fx.Node, val: Any, name: str) -> Any:
        if isinstance(val, tuple | list):
            return tuple(self._stand_in(n, v, f"{name}_{k}") for k, v in enumerate(val))
        if isinstance(val, torch.Tensor):
            if why := not_held(val):
                return Unknown(n, why)
            try:
                sizes = [int(s) for s in val.shape]
            except RuntimeError:
                return Unknown(n)
            shape = migraphx.shape(type_name(val.dtype), sizes)
            return self.main.add_parameter(f"refused:{name}", shape)
        by_data = isinstance(val, torch.SymInt | torch.SymFloat | torch.SymBool)
        return Unknown(n) if by_data or (val is None and n.users) else val

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        self.result = self.node.args[0]
        for n in dict.fromkeys(x for x in tree_leaves(self.result) if isinstance(x, fx.Node)):
            value = self.env[n]
            if isinstance(value, Value) and n.op.startswith("call_"):
                self.engine_outputs.append(n)
        if not self.refused and self.engine_outputs:
            self.give(self.engine_outputs)
        return args[0]


@no_collection()
@same_random_state()
def lower(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, constants: Collection[int] = ()
) -> fx.GraphModule:
    """A module that computes what `gm` does; `gm` itself is not changed.

    `inputs` are samples (real or fake tensors, numbers) for the placeholders. Those at the places `constants` are
    compiled in: the module still takes them, and does not read them. FallbackError where something would have to run
    in torch and the options say that this is an error.
    """
    if "torchao" in sys.modules:
        declare_torchao()
    gm = copied(gm)
    gm.graph.eliminate_dead_code()
    with_values(gm, inputs)
    _take_outputs_apart(gm.graph)
    decompose(gm)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    fixed = {n.name: x for k, (n, x) in enumerate(zip(placeholders, inputs, strict=True)) if k in constants}
    survey = Survey(gm, inputs, fixed, options.verbose_log)
    survey.run()
    if not survey.refused:
        try:
            return _whole(gm, survey, options)
        except TARGET_REFUSES as error:
            survey.refused.update(survey.blamed(survey.words, options.target, error))
    _write_numbers(gm, survey)
    return _in_pieces(gm, survey, options, fixed)


def _in_pieces(
    gm: fx.GraphModule, survey: Survey, options: Options, fixed: Mapping[str, torch.Tensor]
) -> fx.GraphModule:
    """Cut, and cut again where the target refuses a piece: what it refuses runs in torch."""
    while True:
        _keep_with_producer(gm.graph, survey.refused)
        pieces = partition(gm.graph, survey.refused, options.min_acc_module_size)
        result = gm
        try:
            if any(p.engine for p in pieces):
                result = _cut(gm, pieces, options, fixed)
            else:
                gm.recompile()
        except PieceRefused as refusal:
            nodes = pieces[refusal.piece].nodes
            survey.refused.update(survey.blamed(nodes, options.target, refusal.error))
            continue
        if options.fallback == "error":
            raise FallbackError(_listed(gm.graph, survey.refused))
        _log(_name(gm), pieces, survey.refused)
        return result


def _listed(graph: fx.Graph, refused: Mapping[fx.Node, str]) -> str:
    """Everything that would run in torch, with the reasons; what only has to stay with it is left out."""
    of = sum(n.op.startswith("call_") for n in graph.nodes)
    lines = [f"  {described(n)}: {refused[n]}" for n in graph.nodes if refused.get(n)]
    return f"{len(lines)} of {of} nodes would run in torch, and fallback='error' forbids it:\n" + "\n".join(lines)


def _name(gm: fx.GraphModule) -> str:
    """What a log line calls the model: its class, where the tracer knows it."""
    name = type(gm).__name__
    return "a compiled graph" if name == "GraphModule" else name


def _take_outputs_apart(graph: fx.Graph) -> None:
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


def _keep_with_producer(graph: fx.Graph, refused: dict[fx.Node, str]) -> None:
    """A node that gives several values and what takes them apart run in one place: only tensors cross."""
    for n in graph.nodes:
        if n.target not in GETITEM:
            continue
        producer = n.all_input_nodes[0]
        if isinstance(producer.meta.get("val"), tuple | list) and n in refused:
            refused.setdefault(producer, refused[n])
    for n in graph.nodes:
        if n.target in GETITEM:
            producer = n.all_input_nodes[0]
            if producer in refused and isinstance(producer.meta.get("val"), tuple | list):
                refused.setdefault(n, "")


def compiled(interpreter: MGXInterpreter, options: Options, name: str) -> MGXModule:
    """The module of a finished conversion."""
    quantize = PRECISIONS[options.lower_precision]
    if quantize is not None:
        if not hasattr(migraphx, quantize):
            raise NotImplementedError(f"lower_precision={options.lower_precision!r} needs migraphx.{quantize}")
        getattr(migraphx, quantize)(interpreter.program)
    if options.save_subgraph_programs:
        migraphx.save(interpreter.program, f"{name}.mxr")
    inputs, outputs = interpreter.get_input_names(), interpreter.get_output_names()
    return MGXModule(interpreter.program, inputs, outputs, options.target, **options.module_keywords())


def _whole(gm: fx.GraphModule, survey: Survey, options: Options) -> fx.GraphModule:
    """One engine piece: what it does not compute (inputs and weights that are returned, numbers) stays outside."""
    graph, new = fx.Graph(), {}
    root = nn.Module()
    for n in gm.graph.nodes:
        if n.op == "placeholder" or (n.op == "get_attr" and n in gm.graph.output_node().all_input_nodes):
            new[n] = graph.node_copy(n)
            if n.op == "get_attr":
                root.register_buffer(str(n.target).replace(".", "_"), survey.fetch_attr(n.target), persistent=False)
                new[n].target = str(n.target).replace(".", "_")
    if survey.engine_outputs:
        root.add_module("mgx_0", compiled(survey, options, "mgx_0"))
        names = set(survey.get_input_names())
        call = graph.call_module("mgx_0", tuple(new[n] for n in new if n.op == "placeholder" and n.target in names))
        single = len(survey.engine_outputs) == 1
        for k, n in enumerate(survey.engine_outputs):
            new[n] = call if single else graph.call_function(getitem, (call, k))
    count = sum(n.op.startswith("call_") for n in gm.graph.nodes)
    if count:
        logger.info("all %d nodes of %s run in the engine", count, _name(gm))
    graph.output(map_arg(survey.result, lambda n: new[n] if n in new else survey.env[n]))
    graph._codegen = copy.deepcopy(gm.graph._codegen)
    return fx.GraphModule(root, graph, class_name=type(gm).__name__)


def _write_numbers(gm: fx.GraphModule, survey: Survey) -> None:
    """Shapes are known: sizes that nodes compute are written into their users."""
    for n in list(gm.graph.nodes):
        value = survey.env.get(n)
        if n.op in ("placeholder", "call_function") and isinstance(value, int | float) and n not in survey.refused:
            write_number(n, value)
    gm.graph.eliminate_dead_code()


def _log(name: str, pieces: Sequence[Piece], refused: Mapping[fx.Node, str]) -> None:
    for k, piece in enumerate(pieces):
        place = "the engine" if piece.engine else "torch"
        text = piece_text(piece, lambda n: refused.get(n, ""))
        if not piece.engine and not any(n in refused for n in piece.nodes):
            text += ": too little for a piece of its own in the engine"
        level = logging.INFO if piece.engine else logging.WARNING
        logger.log(level, "piece %d of %d of %s runs in %s: %s", k + 1, len(pieces), name, place, text)


def _cut(
    gm: fx.GraphModule, pieces: Sequence[Piece], options: Options, fixed: Mapping[str, torch.Tensor]
) -> fx.GraphModule:
    """The graph as a sequence of calls, one for each piece; `gm` is not changed. Raises PieceRefused."""
    at = {n: k for k, piece in enumerate(pieces) for n in piece.nodes}
    codegen = copy.deepcopy(gm.graph._codegen)
    split = split_module(gm, None, at.__getitem__)  # type: ignore[arg-type]
    for call in [n for n in split.graph.nodes if n.op == "call_module"]:
        k = int(call.target.rpartition("_")[2])
        if not pieces[k].engine:
            continue
        sub = split.get_submodule(call.target)
        own = [n for n in sub.graph.nodes if n.op == "placeholder"]  # type: ignore[union-attr]
        known = {n.name: _constant(split, a, fixed) for n, a in zip(own, call.args, strict=True)}
        known = {name: value for name, value in known.items() if value is not None}
        samples = [known.get(n.name, n.meta.get("val")) for n in own]
        interpreter = MGXInterpreter(sub, samples, constants=known)  # type: ignore[arg-type]
        interpreter.run()
        try:
            setattr(split, call.target, compiled(interpreter, options, f"mgx_{k}"))
        except TARGET_REFUSES as error:
            raise PieceRefused(k, error) from error
        call.args = tuple(a for n, a in zip(own, call.args, strict=True) if n.name not in known)
    split.graph.eliminate_dead_code()
    split.graph._codegen = codegen
    return fx.GraphModule(split, split.graph, class_name=type(gm).__name__)  # without what nobody reads any more


def _constant(gm: fx.GraphModule, n: fx.Node, fixed: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """The tensor that a node always is: a weight, or an input that is compiled in."""
    if n.op == "get_attr":
        value = gm
        for name in str(n.target).split("."):
            value = getattr(value, name)
        return value if isinstance(value, torch.Tensor) else None
    return fixed.get(n.name)

"""The one road: a graph, its inputs and the options become a module. Every front end ends here."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_arg
from torch.fx.passes.split_module import split_module
from torch.utils._pytree import tree_leaves

import migraphx
from torch_migraphx.devices import Place, on_device_of
from torch_migraphx.fx.border import first_not_held, not_held
from torch_migraphx.fx.builder import Value
from torch_migraphx.fx.by_data import waits_for_data
from torch_migraphx.fx.converter import converter_of
from torch_migraphx.fx.converters.quantized import declare_torchao
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.dtypes import type_name
from torch_migraphx.fx.errors import FAULTS, REFUSES, LengthsByData, UnsupportedError
from torch_migraphx.fx.fold import fold_elsewhere
from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.graph_info import BORDER, described, refusal
from torch_migraphx.fx.graph_lines import compiled_graph, inputs_text
from torch_migraphx.fx.graphs import copied, no_collection, take_outputs_apart, with_values, write_number
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.one_node import GETITEM
from torch_migraphx.fx.partition import Piece, partition, piece_text
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.fx.tracer.acc_tracer.functionalize import storages
from torch_migraphx.log import get_logger, shown
from torch_migraphx.options import PRECISIONS, Options
from torch_migraphx.random_state import same_random_state

aten, prims = torch.ops.aten, torch.ops.prims

logger = get_logger(__name__)
NAME = "migraphx_name"
"""A node's key in `meta` for its name in the graph that was surveyed."""
Refusals = dict[fx.Node, migraphx.Refusal[fx.Node]]
BY_PLACES = (aten.as_strided.default, aten.as_strided_scatter.default, prims.as_strided.default, acc_ops.as_strided)
"""What asks where elements lie in memory."""


class FallbackError(UnsupportedError):
    """With `fallback="error"`: what would run in torch, and why, one line for each; `refusals` has the nodes."""

    def __init__(self, message: str, refusals: Sequence[migraphx.Refusal[fx.Node]] = ()) -> None:
        super().__init__(message)
        self.refusals = tuple(refusals)


class Unknown:
    """The value of a node that stays in torch: a number, or a tensor that the engine cannot hold."""

    def __init__(self, node: fx.Node, why: str = "") -> None:
        self.why = f"%{node.name} {why}" if why else f"%{node.name}, or its shape, depends on data"


class Survey(MGXInterpreter):
    """Converts what can be converted, and compiled for the target, and notes in `refused` why the rest cannot.

    A refused node's value becomes a parameter, so that everything behind it is tried as well. Where nothing is refused
    the program is complete: it returns the values of `engine_outputs`.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        constants: Mapping[str, torch.Tensor],
        options: Options,
        device: str,
    ) -> None:
        super().__init__(module, inputs, options.verbose_log, constants, device)
        self.target = migraphx.get_target(options.target)
        self.refused: Refusals = {}
        self.engine_outputs: list[fx.Node] = []
        self.waits = False  # for lengths that data tells

    def run(self, *args: Any, **kwargs: Any) -> migraphx.program:
        fx.Interpreter.run(self, *self.inputs, enable_io_processing=False)
        return self.program

    def outside(self, x: torch.Tensor, why: str) -> Unknown:
        return Unknown(self.node, why)

    def run_node(self, n: fx.Node) -> Any:
        if not n.op.startswith("call_"):
            return super().run_node(n)
        last = next(reversed(self.main), None)
        try:
            unknown = [value for i in n.all_input_nodes if isinstance(value := self.env[i], Unknown)]
            if unknown:
                raise UnsupportedError(unknown[0].why)
            if n.op == "call_method" or (n.op == "call_module" and converter_of(n) is None):
                raise UnsupportedError(refusal(n))
            if why := first_not_held(n.meta.get("val"), (self.device,)):
                raise UnsupportedError(f"what it gives {why}")
            result = super().run_node(n)
        except LengthsByData as error:
            self.waits = True
            return self._refuse(n, "converter", str(error))
        except REFUSES as error:  # logged with the piece
            return self._refuse(n, "converter", str(error) or type(error).__name__)
        except Exception as error:  # a fault of ours must not stop a model: it is shown whole
            logger.warning("a bug in the conversion of %s; it runs in torch", described(n), exc_info=True)
            return self._refuse(n, "converter", f"{type(error).__name__}: {error}")
        for made in takewhile(lambda i: i != last, reversed(self.main)):
            if no := migraphx.supports(self.target, made):
                return self._refuse(n, no.rule, f"{no.rule} refuses {made.name()}: {no.why}")
        return result

    def _refuse(self, n: fx.Node, rule: str, why: str) -> Any:
        why = "" if BORDER in n.meta else why
        self.refused[n] = migraphx.Refusal(n, rule, why)
        if self.verbose_log:
            logger.info("%s is not converted: %s", described(n), why)
        return self._stand_in(n, n.meta.get("val"), n.name)

    def _stand_in(self, n: fx.Node, val: Any, name: str) -> Any:
        if isinstance(val, tuple | list):
            return tuple(self._stand_in(n, v, f"{name}_{k}") for k, v in enumerate(val))
        if isinstance(val, torch.Tensor):
            if why := not_held(val, (self.device,)):
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
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    constants: Collection[int] = (),
    written: Mapping[int, int] | None = None,
) -> fx.GraphModule:
    """A module that computes what `gm` does; `gm` itself is not changed.

    `inputs` are samples (real or fake tensors, numbers) for the placeholders. Those at the places `constants` are
    compiled in: the module still takes them, and does not read them. `written`: outputs that may be written to the
    memory of an input, by place, and that input's place; the module then returns that tensor. FallbackError where
    something would have to run in torch and the options say that this is an error.
    """
    if "torchao" in sys.modules:
        declare_torchao()
    gm = copied(gm)
    gm.graph.eliminate_dead_code()
    with_values(gm, inputs)
    take_outputs_apart(gm.graph)
    decompose(gm)
    with shown(options.verbose_log), on_device_of(inputs):
        return _lowered(gm, inputs, options.beside(inputs), constants, written or {})


def _lowered(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    constants: Collection[int],
    written: Mapping[int, int],
) -> fx.GraphModule:
    """`lower`, of a graph that was prepared, for a target that is known."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    fixed = {n.name: x for k, (n, x) in enumerate(zip(placeholders, inputs, strict=True)) if k in constants}
    device = Place.of(options.target).device.type
    fold_elsewhere(gm, fixed, device)
    survey = Survey(gm, inputs, fixed, options, device)
    survey.run()
    if survey.waits and (waiting := waits_for_data(gm, inputs, options, constants)) is not None:
        survey.refused.clear()
        _report(gm, (), survey, waiting, options, constants)
        return waiting
    if not survey.refused:
        nodes = [n for n in gm.graph.nodes if n.op.startswith("call_")]
        whole: fx.GraphModule | None = None
        with _may_refuse(survey.refused, nodes, options):
            whole = _whole(gm, survey, options, written)
        if whole is not None:
            _report(gm, (), survey, whole, options, constants)
            return whole
    _write_numbers(gm, survey)
    _keep_with_producer(gm.graph, survey.refused)
    _keep_with_memory(gm.graph, survey.refused)
    _keep_with_reader(gm.graph, survey.refused)
    falls_back = any(r.why for r in survey.refused.values())
    pieces = partition(gm.graph, survey.refused, options.min_acc_module_size if falls_back else 0)
    if falls_back and options.fallback == "error":
        raise _fallback_error(gm.graph, survey.refused)
    result = _cut(gm, pieces, survey, options)
    _log(_name(gm), pieces, survey.refused)
    _report(gm, pieces, survey, result, options, constants)
    result.meta["refusals"] = [r._replace(instruction=described(n)) for n, r in survey.refused.items() if r.why]
    return result


def _report(
    gm: fx.GraphModule,
    pieces: Sequence[Piece],
    survey: Survey,
    result: fx.GraphModule,
    options: Options,
    constants: Collection[int],
) -> None:
    """Tell the report, where one is wanted, what became of the graph."""
    if options.recorder is not None:
        inputs = inputs_text(survey.inputs, constants)
        options.recorder.lowered(compiled_graph(gm, pieces, survey.refused, result, options, inputs))


@contextmanager
def _may_refuse(refused: Refusals, nodes: Iterable[fx.Node], options: Options) -> Iterator[None]:
    """Compile in this context: what the target refuses, and what is a fault of ours, is noted in `refused`.

    A target says up front which instructions it takes; what is left depends on the whole program: too many loops.
    """
    try:
        yield
    except migraphx.UnsupportedOperator as error:
        rule, why = f"target {options.target}", str(error)
    except FAULTS as error:
        if options.fallback == "error":
            raise
        logger.warning("a bug in the compilation of a piece; it runs in torch", exc_info=True)
        rule, why = "compilation", f"{type(error).__name__}: {error}"
    else:
        return
    refused |= {n: migraphx.Refusal(n, rule, why) for n in nodes}


def _fallback_error(graph: fx.Graph, refused: Refusals) -> FallbackError:
    """Everything that would run in torch, with the reasons; what only has to stay with it is left out."""
    of = sum(n.op.startswith("call_") for n in graph.nodes)
    found = [refused[n] for n in graph.nodes if n in refused and refused[n].why]
    lines = [f"  {described(r.instruction)}: {r.why}" for r in found]
    head = f"{len(lines)} of {of} nodes would run in torch, and fallback='error' forbids it:\n"
    return FallbackError(head + "\n".join(lines), found)


def _name(gm: fx.GraphModule) -> str:
    """What a log line calls the model: its class, where the tracer knows it."""
    name = type(gm).__name__
    return "a compiled graph" if name == "GraphModule" else name


def _keep_with_producer(graph: fx.Graph, refused: Refusals) -> None:
    """A node that gives several values and what takes them apart run in one place: only tensors cross."""
    for n in graph.nodes:
        if n.target not in GETITEM:
            continue
        producer = n.all_input_nodes[0]
        if isinstance(producer.meta.get("val"), tuple | list) and n in refused:
            refused.setdefault(producer, refused[n]._replace(instruction=producer))
    for n in graph.nodes:
        if n.target in GETITEM:
            producer = n.all_input_nodes[0]
            if producer in refused and isinstance(producer.meta.get("val"), tuple | list):
                refused.setdefault(n, migraphx.Refusal(n, "", ""))


def _keep_with_memory(graph: fx.Graph, refused: Refusals) -> None:
    """What reads elements by their places runs where that memory is made: the engine's results lie elsewhere."""
    for n in [n for n in refused if n.target in BY_PLACES]:
        read = storages(n.all_input_nodes[0])
        for other in graph.nodes:
            if other.op.startswith("call_") and storages(other) & read:
                refused.setdefault(other, migraphx.Refusal(other, "", ""))


def _keep_with_reader(graph: fx.Graph, refused: Refusals) -> None:
    """A tensor that is made of numbers alone, and read in torch only, is made there."""
    for n in reversed(graph.nodes):
        if n.op == "call_function" and not n.all_input_nodes and n.users and all(u in refused for u in n.users):
            refused.setdefault(n, migraphx.Refusal(n, "", ""))


def compiled(
    program: migraphx.program, inputs: Sequence[str], outputs: Sequence[str], options: Options, name: str
) -> MGXModule:
    """The module of a finished conversion, whose inputs and outputs have these names."""
    if options.int4_weights:
        migraphx.quantize_int4_weights(program)
    quantize = PRECISIONS[options.lower_precision]
    if quantize is not None:
        getattr(migraphx, quantize)(program)
    if options.save_subgraph_programs:
        migraphx.save(program, f"{name}.mxr")
    return MGXModule(
        program,
        inputs,
        outputs,
        exhaustive_tune=options.exhaustive_tune,
        target=options.target,
        **options.module_keywords(),
    )


def _whole(gm: fx.GraphModule, survey: Survey, options: Options, written: Mapping[int, int]) -> fx.GraphModule:
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
        inputs = survey.get_input_names()
        made = compiled(survey.program, inputs, survey.get_output_names(), options, "mgx_0")
        made.write_in_place(_pairs(gm, survey, written))
        root.add_module("mgx_0", made)
        names = set(inputs)
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


def _pairs(gm: fx.GraphModule, survey: Survey, written: Mapping[int, int]) -> dict[int, int]:
    """`written` as numbers of the program's outputs and inputs; what is no output or input of it is left out."""
    outputs = tree_leaves(gm.graph.output_node().args[0])
    names = [n.target for n in gm.graph.nodes if n.op == "placeholder"]
    computed, read = survey.engine_outputs, list(survey.get_input_names())
    return {
        computed.index(outputs[k]): read.index(names[n])
        for k, n in written.items()
        if outputs[k] in computed and names[n] in read
    }


def _write_numbers(gm: fx.GraphModule, survey: Survey) -> None:
    """Shapes are known: sizes that nodes compute are written into their users."""
    for n in list(gm.graph.nodes):
        value = survey.env.get(n)
        if n.op in ("placeholder", "call_function") and isinstance(value, int | float) and n not in survey.refused:
            write_number(n, value)
    gm.graph.eliminate_dead_code()


def _log(name: str, pieces: Sequence[Piece], refused: Refusals) -> None:
    for k, piece in enumerate(pieces):
        engine = piece.engine and not any(n in refused for n in piece.nodes)
        place = "the engine" if engine else "torch"
        text = piece_text(piece, lambda n: refused[n].why if n in refused else "")
        if not engine and not any(n in refused for n in piece.nodes):
            text += ": too little for a piece of its own in the engine"
        level = logging.INFO if engine or all(BORDER in n.meta for n in piece.nodes) else logging.WARNING
        logger.log(level, "piece %d of %d of %s runs in %s: %s", k + 1, len(pieces), name, place, text)


def _cut(gm: fx.GraphModule, pieces: Sequence[Piece], survey: Survey, options: Options) -> fx.GraphModule:
    """The graph as a sequence of calls, one for each piece; `gm` is not changed.

    The programs are parts of the survey's. A piece that the target refuses as a whole stays torch's.
    """
    if not any(p.engine for p in pieces):
        gm.recompile()
        return gm
    at = {n: k for k, piece in enumerate(pieces) for n in piece.nodes}
    values = {n.name: survey.env[n] for n in gm.graph.nodes if n in survey.env}
    for n in gm.graph.nodes:
        n.meta[NAME] = n.name  # the split gives other names, and keeps this
    codegen = copy.deepcopy(gm.graph._codegen)
    split = split_module(gm, None, at.__getitem__)  # type: ignore[arg-type]
    for call in [n for n in split.graph.nodes if n.op == "call_module"]:
        k = int(call.target.rpartition("_")[2])
        if pieces[k].engine:
            with _may_refuse(survey.refused, pieces[k].nodes, options):
                _compile_piece(split, call, values, survey, options)
    split.graph.eliminate_dead_code()
    split.graph._codegen = codegen
    return fx.GraphModule(split, split.graph, class_name=type(gm).__name__)  # without what nobody reads any more


def _compile_piece(
    split: fx.GraphModule, call: fx.Node, values: Mapping[str, Any], survey: Survey, options: Options
) -> None:
    """Let `call` call a program instead of a graph; `values`: what the nodes are in the survey's program."""
    graph = split.get_submodule(str(call.target)).graph
    assert isinstance(graph, fx.Graph)
    arguments = {n.meta[NAME]: a for n, a in zip(graph.find_nodes(op="placeholder"), call.args, strict=True)}
    inputs = {name: values[name] for name, a in arguments.items() if is_input(values[name])}
    outputs = [n.meta[NAME] for n in tree_leaves(graph.output_node().args[0])]
    program = migraphx.extract(survey.program, inputs, [values[name] for name in outputs])
    made = compiled(program, list(inputs), outputs, options, str(call.target).replace("submod", "mgx"))
    setattr(split, str(call.target), made)
    call.args = tuple(arguments[name] for name in inputs)


def is_input(value: Any) -> bool:
    """Whether a node's value is one that a program is given: a tensor that is not compiled in."""
    return isinstance(value, Value) and value.name() != "@literal"

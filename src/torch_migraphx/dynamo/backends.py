"""The backends of `torch.compile`: `migraphx`, `migraphx_aot`, `migraphx_pretraced`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from functorch.compile import default_partition
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import Source, TracingContext
from torch.utils._python_dispatch import _disable_current_modes

import migraphx
from torch_migraphx.dynamo.compilations import observes_compilations
from torch_migraphx.dynamo.draws import DrawsAhead
from torch_migraphx.dynamo.expected import expect_graph
from torch_migraphx.dynamo.float_inputs import specialized_attributes
from torch_migraphx.dynamo.module_guards import MergedGuards, guard_modules_by_version
from torch_migraphx.dynamo.passes.torch_ir import NeedsAot, drops_between_layers, to_acc
from torch_migraphx.dynamo.runner import OfPlaces, Runner
from torch_migraphx.dynamo.saved import compiled_and_saved, loaded
from torch_migraphx.dynamo.stages import ends_at, stages_of
from torch_migraphx.dynamo.strides import (
    in_memory_order,
    permuted_back,
    shared_memory,
    with_open_strides,
    with_strides,
)
from torch_migraphx.dynamo.weights_at_once import Fetch, weights_at_once
from torch_migraphx.fx.any_size import for_any_size, numbers_below_zero, or_each_size
from torch_migraphx.fx.border import not_held, opaque
from torch_migraphx.fx.concrete import concrete, is_symbolic
from torch_migraphx.fx.decompose import decompositions
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graph_info import described
from torch_migraphx.fx.lasting import Lasting
from torch_migraphx.fx.lower_graph import FallbackError, lower
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.log import get_logger
from torch_migraphx.options import Options, stated
from torch_migraphx.report.report import Report

logger = get_logger(__name__)


@observes_compilations
def migraphx_backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **other: Any
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's.

    Calls that need no gradient go straight to the engine, weights compiled in. Others go through AOTAutograd: the
    forward runs in the engine, the backward in torch.
    """
    chosen = _reported(gm, example_inputs, _options(options, other, example_inputs))
    if _untraceable(gm, example_inputs, chosen):
        return gm.forward
    if chosen.target == "cpu":
        expect_graph(gm)
    # with gradients they ask who requires them, which is in no dictionary
    guards = MergedGuards() if torch.is_grad_enabled() else guard_modules_by_version()
    with specialized_attributes(gm):
        if chosen.save_compiled or chosen.load_compiled:
            return _in_file(gm, example_inputs, chosen)
        if chosen.use_aot or needs_gradient(example_inputs):
            return _autograd(gm, example_inputs, chosen, backward_in_engine=False)
        try:
            direct = _direct(gm, example_inputs, chosen, guards.fetches)
            guards.writes_inputs = False  # what writes them needs AOTAutograd
            return direct
        except NeedsAot as reason:
            logger.info("through AOTAutograd: %s", reason)
            return _autograd(gm, example_inputs, chosen, backward_in_engine=False)


@observes_compilations
def migraphx_aot_backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **other: Any
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's through AOTAutograd, forward and backward."""
    chosen = _reported(gm, example_inputs, _options(options, other, example_inputs))
    if _untraceable(gm, example_inputs, chosen):
        return gm.forward
    with specialized_attributes(gm):
        if chosen.save_compiled or chosen.load_compiled:
            return _in_file(gm, example_inputs, chosen)
        return _autograd(gm, example_inputs, chosen, backward_in_engine=True)


def migraphx_pretraced_backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **other: Any
) -> Callable[..., Any]:
    """Compile a functional graph of ATen (or acc) operators that another tracer made, for inference."""
    chosen = _reported(gm, example_inputs, _options(options, other, example_inputs))
    return _runner(gm, example_inputs, chosen, _static_inputs(gm))


def _options(options: Mapping[str, Any] | None, other: Mapping[str, Any], inputs: Sequence[Any]) -> Options:
    if mode := other.get("mode"):  # transformers' CompileConfig always names one
        _say(f"torch.compile(mode={mode!r}) means nothing to backend 'migraphx', which has no modes", logger.info)
    other = {name: value for name, value in other.items() if name != "mode"}
    if other:
        raise TypeError(f"the migraphx backends take options={{...}}, not {', '.join(map(repr, other))}")
    given = dict(options or {})
    if isinstance(path := given.get("report"), str | os.PathLike):
        if path not in _reports or _reports[path][0] is not options:
            _reports[path] = options, Report.of(path)
        given["report"] = _reports[path][1]
    return Options.of(**given).beside(inputs)


_reports: dict[str | os.PathLike[str], tuple[Any, Any]] = {}
"""Of each page the options that asked for it, and its report: torch.compile gives the same options for each graph."""


def _reported(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Options:
    """The options for one graph of Dynamo's; with a report, it has the graph's stages now."""
    if not isinstance(options.recorder, Report):
        return options
    options.recorder.about("", {"options": stated(options)})
    return replace(options, report=options.recorder.graph(stages_of(gm, inputs), ends_at(gm)))


def needs_gradient(inputs: Sequence[Any]) -> bool:
    """Whether a call with these inputs may be asked for gradients."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


def _untraceable(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> bool:
    """Whether an input is of a kind that torch cannot trace: the graph runs in torch, which the log says."""
    for n, x in zip(_placeholders(gm), inputs, strict=True):
        if isinstance(x, torch.Tensor) and (why := opaque(x)):
            _falls_back(options, f"a graph runs in torch: {described(n)} {why}")
            return True
    return False


def _placeholders(gm: fx.GraphModule) -> list[fx.Node]:
    return [n for n in gm.graph.nodes if n.op == "placeholder"]


def _static_inputs(gm: fx.GraphModule) -> set[int]:
    """Which inputs Dynamo marked as parameters and buffers."""
    return {k for k, n in enumerate(_placeholders(gm)) if "_dynamo_static_input_type" in n.meta.get("tensor_dict", {})}


def _in_file(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """A graph that is compiled into a file, or loaded from one. ValueError where gradients may be asked for."""
    if needs_gradient(inputs):
        raise ValueError("save_compiled and load_compiled are for inference: call the model under torch.no_grad()")
    weights = _static_inputs(gm)
    if options.load_compiled:
        return loaded(gm, weights, options.load_compiled)
    return compiled_and_saved(gm, inputs, weights, options)


def _direct(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, fetches: Mapping[Source, Fetch]
) -> Callable[..., Any]:
    """Without AOTAutograd: Torch IR to acc operators to a program."""
    graph, orders = in_memory_order(gm)
    known = [to_acc(graph, inputs)]  # where it needs AOTAutograd it says so now: a call could not go there

    def normalized(again: fx.GraphModule, samples: Sequence[Any]) -> fx.GraphModule:
        return known.pop() if again is graph and known else to_acc(again, samples)

    whole = graph if is_symbolic(gm) else known.pop()
    runner = _runner(whole, inputs, options, _static_inputs(gm), normalized)
    return with_strides(gm, permuted_back(weights_at_once(gm, runner, fetches), orders))


def _runner(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    constants: set[int],
    normalized: Callable[[fx.GraphModule, Sequence[Any]], fx.GraphModule] = lambda gm, inputs: gm,
    patience: int = 3,
    returned: int | None = None,
    written: Mapping[int, int] | None = None,
) -> Runner:
    """Compiled now where the sizes are known and the weights are at hand, else at the first call.

    `returned`: as in `shared_memory`, for a graph of symbolic sizes; None: its outputs share no memory. `written`: as
    in `lower`.
    """
    symbolic = is_symbolic(gm)
    constants = {k for k in constants if isinstance(inputs[k], torch.Tensor) and not not_held(inputs[k])}
    weights = sorted(constants)
    traced = [inputs[k].shape for k in weights]
    made: weakref.WeakSet[fx.GraphModule] = weakref.WeakSet()  # for other sizes

    def build(args: Sequence[Any], fixed: frozenset[int]) -> Callable[..., Any]:
        def of_numbers(known: fx.GraphModule) -> Callable[..., Any]:
            graph, orders = in_memory_order(known)
            lowered = lower(normalized(graph, args), args, options, fixed, written)
            share_weights(lowered, made)
            made.add(lowered)
            return with_strides(known, permuted_back(lowered.forward, orders))

        with _disable_current_modes(), torch.no_grad():
            if not symbolic:
                if [args[k].shape for k in weights] != traced:  # Dynamo 2.11 does not trace anew
                    _falls_back(options, "a graph runs in torch: weights have other sizes than when it was traced")
                    return gm.forward
                return _at_once(lower(gm, args, options, fixed, written))
            if runner.any_size is not False:
                lasting = runner.lasting(args)
                every = or_each_size(
                    lambda: _for_any_size(gm, inputs, args, options, fixed, normalized, lasting, returned, written),
                    options,
                )
                runner.any_size = every is not None
                if every is not None:
                    return every
            known = concrete(gm, args)
            if returned is None:
                return of_numbers(known)
            return with_shared_memory(known, of_numbers, options, returned)

    names, most = [n.name for n in _placeholders(gm)], options.max_specialisations
    runner = Runner(build, names, constants, symbolic, patience, options.frozen, most)
    runner.by_value = numbers_below_zero(gm)
    at_hand = not any(isinstance(x, torch._subclasses.FakeTensor | torch.SymInt) for x in inputs)
    if at_hand and not symbolic:
        runner.prepare(inputs)
    return runner


def _for_any_size(
    gm: fx.GraphModule, inputs: Sequence[Any], args: Sequence[Any], options: Options, fixed: frozenset[int],
    normalized: Callable[[fx.GraphModule, Sequence[Any]], fx.GraphModule], lasting: Lasting, returned: int | None,
    written: Mapping[int, int] | None,
) -> Callable[..., Any] | None:  # fmt: skip
    """What runs a graph for all sizes, its outputs lying as `gm`'s; None where it takes a program for each."""
    shared = (gm, lambda function: function) if returned is None else shared_memory(gm, returned)
    if shared is None:
        raise UnsupportedError("its outputs share memory, which none of its values holds whole")
    whole, in_shared_memory = shared
    graph, orders = in_memory_order(whole)
    ahead = DrawsAhead(graph, options)
    samples, tried = [*inputs, *ahead.values], [*args, *ahead.tried(args)]
    kept = {k: n for k, n in (written or {}).items() if orders[k] is None}
    every = for_any_size(ahead.graph, samples, tried, options, fixed, normalized, lasting=lasting, written=kept)
    return every and in_shared_memory(with_open_strides(whole, permuted_back(ahead.before(every), orders)))


def _at_once(lowered: fx.GraphModule) -> Callable[..., Any]:
    """What calls a module that is one program at once, with the inputs that it takes; of others, their forward."""
    inputs = _placeholders(lowered)
    first = next(n for n in lowered.graph.nodes if n.op != "placeholder")
    outputs = lowered.graph.output_node().args[0]
    alone = first.op == "call_module" and isinstance(outputs, tuple) and outputs == (first,)
    program = lowered.get_submodule(str(first.target)) if alone else None
    if not isinstance(program, MGXModule) or not all(n in inputs for n in first.args):
        return lowered.forward

    def holding(held: Mapping[int, torch.Tensor]) -> Callable[[Any, Sequence[Any]], tuple[Any] | None] | None:
        run = program.holding(held)
        return run and _in_tuple(run)

    return OfPlaces(_in_tuple(program.run_unless_changed), tuple(map(inputs.index, first.args)), holding)


def _in_tuple(run: Callable[[Any, Sequence[Any]], Any]) -> Callable[[Any, Sequence[Any]], tuple[Any] | None]:
    def function(image: Any, args: Sequence[Any]) -> tuple[Any] | None:
        result = run(image, args)
        return None if result is None else (result,)

    return function


def share_weights(lowered: nn.Module, others: Iterable[nn.Module]) -> None:
    """Let the programs of a module that has just been compiled use the packed weights of others', where equal."""
    if hasattr(migraphx, "share_weights"):  # AMD's own migraphx shares none
        known = [program for other in others for program in _programs(other)]
        for program in _programs(lowered):
            migraphx.share_weights(program, known)


def _programs(lowered: nn.Module) -> list[migraphx.program]:
    return [m.program for m in lowered.modules() if isinstance(m, MGXModule) and m.program is not None]


# ---- through AOTAutograd ----


def _autograd(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, backward_in_engine: bool
) -> Callable[..., Any]:
    if n := drops_between_layers(gm):
        _falls_back(options, f"a graph runs in torch: {described(n)} has dropout between its layers")
        return gm.forward
    forward = partial(_forward, options=options)
    backward = partial(_backward_in_engine if backward_in_engine else _backward, options=options)
    compile_ = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=partial(_inference, options=options),
        decompositions=decompositions(),
        partition_fn=default_partition,
    )
    try:
        with _no_kernels_without_gradient(inputs):
            return compile_(gm, inputs)
    except (TorchDynamoException, FallbackError):  # by the former Dynamo steers
        raise
    except Exception as error:  # AOTAutograd traces less than Dynamo, and raises whatever its parts do
        why = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        _falls_back(options, f"a graph runs in torch: AOTAutograd cannot trace it: {why}")
        return gm.forward


@contextmanager
def _no_kernels_without_gradient(inputs: Sequence[Any]) -> Iterator[None]:
    """Where gradients are asked for: torch writes an lstm for oneDNN wherever its input needs none, weights or not."""
    enabled = torch._C._get_mkldnn_enabled()
    try:
        torch._C._set_mkldnn_enabled(enabled and not needs_gradient(inputs))
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _forward(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """A forward whose gradients are asked for. Weights are compiled in until they change: then it is training."""
    facts = _facts()
    if facts is None:
        return _with_aliases(gm, inputs, options, patience=0)
    facts.bw_donated_idxs = []  # no backward writes to what the forward saved: it may come again (`retain_graph`)
    return _with_aliases(gm, inputs, options, returned=facts.num_forward_returns, patience=0)


def _inference(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """A graph without gradients."""
    return _with_aliases(gm, inputs, options, written=_written_inputs())


def _with_aliases(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, returned: int | None = None, **how: Any
) -> Callable[..., Any]:
    """A graph of AOTAutograd's, whose outputs share memory as it says; `returned` (`shared_memory`): all by default.

    AOTAutograd makes most views of inputs and of outputs anew, where sizes are symbols by the offsets of the outputs.
    Parts that one operator makes (`unbind`), and views that an autograd.Function makes, it takes as they are.
    """
    weights = _unwritten_weights(gm)
    returned = len(gm.graph.output_node().args[0]) if returned is None else returned  # type: ignore[arg-type]

    def in_engine(whole: fx.GraphModule) -> Callable[..., Any]:
        runner = _runner(whole, inputs, options, weights, returned=returned if is_symbolic(gm) else None, **how)
        return with_strides(whole, runner)

    made = in_engine(gm) if is_symbolic(gm) else with_shared_memory(gm, in_engine, options, returned)
    return make_boxed_func(_of_traced_memory(gm, made, options))


def _of_traced_memory(gm: fx.GraphModule, function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """`function`, in whose place torch runs where inputs that overlap lie in more or less memory than when traced.

    Where the model writes one of them, AOTAutograd hands over their whole memory, of which the graph takes views. How
    much lies around them no guard asks.
    """
    views = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default)
    read = {n.args[0] for n in views}
    whole = {k: n.meta["val"].shape for k, n in enumerate(_placeholders(gm)) if n in read}
    if not whole or is_symbolic(gm):
        return function

    def call(*args: Any) -> Any:
        if all(args[k].shape == shape for k, shape in whole.items()):
            return function(*args)
        _falls_back(options, "a graph runs in torch: the memory of inputs that overlap is not as long as traced", _say)
        return gm.forward(*args)

    return call


def with_shared_memory(
    gm: fx.GraphModule, compiled: Callable[[fx.GraphModule], Callable[..., Any]], options: Options, returned: int
) -> Callable[..., Any]:
    """What `compiled` makes of `gm`, with outputs that share memory as those of `gm` do (`shared_memory`)."""
    shared = shared_memory(gm, returned)
    if shared is None:
        _falls_back(options, "a graph runs in torch: its outputs share memory, which none of its values holds whole")
        return gm.forward
    whole, sharing = shared
    return sharing(compiled(whole))


def _facts() -> ViewAndMutationMeta | None:
    """What AOTAutograd knows of the graph that is being compiled."""
    context = TracingContext.try_get()
    return context.fw_metadata if context is not None else None


def _unwritten_weights(gm: fx.GraphModule) -> set[int]:
    """Which inputs of AOTAutograd's graph are parameters and buffers that the model does not write."""
    facts = _facts()
    if facts is None:
        return set()
    written = {k for k, info in enumerate(facts.input_info) if info.mutates_data}
    return {k for k in facts.static_input_indices if k not in written and k < len(_placeholders(gm))}


def _written_inputs() -> dict[int, int]:
    """Which outputs of AOTAutograd's graph are inputs that the model writes, as they are afterwards, and which inputs.

    AOTAutograd copies each of these outputs into its input, unless it is that input already.
    """
    facts = _facts()
    if facts is None:
        return {}
    return {k: n for k, n in enumerate(facts.mutated_inp_runtime_indices) if facts.input_info[n].mutates_data}


def _backward_in_engine(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    return make_boxed_func(with_strides(gm, _runner(gm, inputs, options, set())))


def _backward(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    what = (
        "gradients are computed by torch: the backward of a graph compiled by 'migraphx' is not compiled "
        "(torch.no_grad() asks for none, backend='migraphx_aot' compiles it)"
    )
    _falls_back(options, what, _say)
    return make_boxed_func(gm.forward)


# ---- what does not run in the engine ----


def _falls_back(options: Options, what: str, say: Callable[[str], None] = logger.warning) -> None:
    """Log that something runs in torch; FallbackError where the options forbid it."""
    if options.recorder is not None:
        options.recorder.stays(what)
    if options.fallback == "error":
        raise FallbackError(what)
    say(what)


@cache
def _say(what: str, say: Callable[[str], None] = logger.warning) -> None:
    """Log a warning, or what `say` makes of it, once."""
    say(what)

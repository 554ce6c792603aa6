"""Weights of a graph of Dynamo's, fetched from their module at once.

Dynamo's code fetches each parameter and buffer by a path of its own, at each call: thousands of look-ups in
dictionaries that a run has pushed out of the caches. A ModuleGuard has just found all of these unchanged, so the
tensors are those of the last call. Here the code passes their module once, and None for each other tensor; what it
calls asks the guard, and where that remembers nothing goes the paths.

torch names no place for this: a GraphArg writes the code for an input, when a backend is done with its graph. Whoever
calls with tensors all the same is served, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import attrgetter, itemgetter
from types import MethodType
from typing import Any

import torch
from torch import fx
from torch._dynamo import source as sources
from torch._guards import ChainedSource, Source, TracingContext

from torch_migraphx.dynamo.runner import Fetched, Runner

logger = logging.getLogger(__name__)

FEWEST = 8  # weights of a module: fewer are fetched as they are

Step = Callable[[Any], Any]


class Fetch:
    """Gives the tensors at `sources` below a module: those that its guard has just asked about, or what lies there."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.remembered: Callable[[Any], Fetched | None] = lambda _: None

    def __call__(self, module: Any) -> Fetched:
        found = self.remembered(module)
        return found if found is not None else Fetched([reduce(_go, _steps(s) or (), module) for s in self.sources])


def _go(value: Any, step: Step) -> Any:
    return step(value)


def _steps(source: Any) -> tuple[Step, ...] | None:
    """From its root to a source, as Dynamo's code goes; None where that is more than attributes and items."""
    if not isinstance(source, ChainedSource):
        return ()
    before = _steps(source.base)
    if before is None or isinstance(source, sources.NNModuleSource):
        return before
    if isinstance(source, sources.AttrSource | sources.GenericAttrSource):
        return (*before, attrgetter(source.member))
    key = getattr(source, "index", None)
    is_item = type(source) in (sources.GetItemSource, sources.DictGetItemSource) and type(key) in (str, int)
    return (*before, itemgetter(key)) if is_item else None


def root_of(source: Source) -> Source:
    """The local or global variable that a source begins with."""
    while isinstance(source, ChainedSource):
        source = source.base
    return source


def weights_at_once(gm: fx.GraphModule, runner: Runner, fetches: Mapping[Source, Fetch]) -> Callable[..., Any]:
    """`runner` of a graph of Dynamo's, which is about to write the code that calls it.

    `fetches` are by modules whose guards remember them: one of them is filled, that with most weights.
    """
    if "dynamo_compile_id" not in gm.meta:  # a part of Dynamo's graph, which others call
        return runner
    inputs = [n.meta.get("grapharg") for n in gm.graph.nodes if n.op == "placeholder"]
    places: dict[Source, list[int]] = {root: [] for root in fetches}
    for k in sorted(runner.weights):
        source = getattr(inputs[k], "source", None)
        if source is not None and (root := root_of(source)) in places and _steps(source):
            places[root].append(k)
    root, found = max(places.items(), key=lambda item: len(item[1]), default=(None, []))
    if root is None or len(found) < max(FEWEST, len(runner.weights)) or _compiled_again():
        return runner
    if not all(_writes_itself(inputs[k]) for k in found):
        logger.info("Dynamo's code fetches weights one by one: its inputs are of another kind than is known here")
        return runner
    fetch = fetches[root]
    fetch.sources = [inputs[k].source for k in found]
    for k in found:
        inputs[k].reconstruct = MethodType(_module if k == found[0] else _none, inputs[k])
    return _taking_a_module(runner, fetch, found, len(inputs))


def _compiled_again() -> bool:
    """Whether the backend is called again for some sizes, with a call's arguments: mark_dynamic(specialize_on=)."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    return bool(getattr(mode.shape_env, "specializations", None)) if mode is not None else False


def _writes_itself(arg: Any) -> bool:
    return callable(getattr(type(arg), "reconstruct", None)) and getattr(arg, "pass_arg_as_tensor", None) is False


def _module(arg: Any, codegen: Any) -> None:
    """What Dynamo calls to write the code for the first weight: it loads the module."""
    codegen(root_of(arg.source))


def _none(_: Any, codegen: Any) -> None:
    codegen.append_output(codegen.create_load_const(None))


def _taking_a_module(runner: Runner, fetch: Fetch, places: Sequence[int], inputs: int) -> Callable[..., Any]:
    """`runner` with a module in the first of these places, and nothing in the others."""
    first, by_place = places[0], {k: inputs + at for at, k in enumerate(places)}
    order, absent = itemgetter(*[by_place.get(k, k) for k in range(inputs)]), frozenset(places)

    def call(*args: Any) -> Any:
        if isinstance(args[first], torch.Tensor):
            return runner(*args)
        fetched = fetch(args[first])
        results = runner.run_without(absent, args, fetched)
        if results is not None:
            return results
        return runner.run(order((*args, *fetched.tensors)), fetched)

    return call

"""`lower_to_mgx`: a model and sample inputs become a compiled module."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from torch_migraphx.fx.border import DEVICES, foreign, opaque
from torch_migraphx.fx.tools.accuracy import AccuracyError, difference, limit
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.aten_tracer import aten_tracer
from torch_migraphx.fx.tracer.inference_copy import inference_copy
from torch_migraphx.lower import lower
from torch_migraphx.options import Options

logger = logging.getLogger(__name__)


def lower_to_mgx(
    module: nn.Module,
    input: Sequence[Any],
    *,
    lower_precision: str = "fp32",
    min_acc_module_size: int = 10,
    use_aten: bool = False,
    verbose_log: bool = False,
    suppress_accuracy_check: bool = False,
    save_subgraph_programs: bool = False,
    tracer_base_cls: type[fx.Tracer] = fx.Tracer,
    leaf_modules: Collection[type[nn.Module]] = (),
    target: str = "cpu",
    exhaustive_tune: bool = False,
) -> fx.GraphModule:
    """Compile `module` in inference form for inputs of the shapes and types of the samples `input`.

    The module is neither changed nor moved; one in training mode is compiled as its `eval()` would run. Later changes
    of its weights are not seen. Unless suppressed, the result is compared with eager on the samples: AccuracyError
    names the output and its error. `use_aten` traces by torch.export instead of symbolically; a model that the
    symbolic tracer can't follow takes that road as well, and the log says why.
    """
    inputs = list(input) if isinstance(input, tuple | list) else [input]
    options = Options.of(
        lower_precision=str(getattr(lower_precision, "value", lower_precision)).lower(),
        min_acc_module_size=min_acc_module_size,
        verbose_log=verbose_log,
        save_subgraph_programs=save_subgraph_programs,
        target=target,
        exhaustive_tune=exhaustive_tune,
    )
    refuse_other_devices(module, inputs)
    traced = _trace(module, inputs, use_aten, tracer_base_cls, leaf_modules)
    lowered = lower(traced, inputs, options)
    lowered = with_output_class(lowered, traced.meta.get("output_class"))
    if not suppress_accuracy_check:
        check_accuracy(module, lowered, inputs, options)
    return lowered.eval()


def refuse_other_devices(module: nn.Module, inputs: Sequence[Any]) -> None:
    """Raise where none of the weights, or none of the inputs, is where the engine can read it."""
    for tensors in (tensors_of(module, ()), tensors_of(None, inputs)):
        elsewhere = {t.device.type for t in tensors}
        if not elsewhere or elsewhere & DEVICES:
            continue
        raise NotImplementedError(
            f"the model or its inputs are on {', '.join(sorted(elsewhere))}; this version compiles for the CPU: "
            "move them with .cpu()"
        )


def tensors_of(module: nn.Module | None, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The weights of `module`, and the tensors of `inputs`."""
    weights = [] if module is None else [*module.parameters(), *module.buffers()]
    return [*weights, *(x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor))]


def _trace(
    module: nn.Module,
    inputs: Sequence[Any],
    use_aten: bool,
    tracer_base_cls: type[fx.Tracer],
    leaf_modules: Collection[type[nn.Module]],
) -> fx.GraphModule:
    why = next(filter(None, map(opaque, tensors_of(module, inputs))), "")
    if why:
        return _in_torch(module, inputs, f"an input or a weight {why}")
    if not use_aten:
        try:
            return acc_tracer.trace(module, inputs, tracer_base_cls=tracer_base_cls, leaf_modules=leaf_modules)
        except acc_tracer.AccTraceError as error:
            logger.warning("%s; tracing by torch.export instead", str(error).replace("\n", " "))
    try:
        return aten_tracer.trace(module, inputs)
    except aten_tracer.AtenTraceError as error:
        # control flow on data is for torch.compile, which compiles what lies between
        if error.__cause__ is None or isinstance(error.__cause__, GuardOnDataDependentSymNode):
            raise
        return _in_torch(module, inputs, str(error))


def _in_torch(module: nn.Module, inputs: Sequence[Any], why: str) -> fx.GraphModule:
    """A graph of one call of all of `module`: of what torch cannot trace, nothing can be compiled."""
    graph = fx.Graph()
    call = graph.call_module("model", tuple(graph.placeholder(f"input_{k}") for k in range(len(inputs))))
    call.meta = {"val": None, "acc_unmapped": " ".join(why.split())}
    graph.output(call)
    root = nn.Module()
    root.add_module("model", inference_copy(module))
    return fx.GraphModule(root, graph, class_name=type(module).__name__)


def with_output_class(gm: fx.GraphModule, output_class: type | None) -> fx.GraphModule:
    """Return the model's own class where it is one derived from dict (transformers' ModelOutput)."""
    if output_class is None or output_class is dict or not issubclass(output_class, dict):
        return gm
    output = gm.graph.output_node()
    if isinstance(output.args[0], dict):
        with gm.graph.inserting_before(output):
            made = gm.graph.call_function(output_class, (), output.args[0])
        output.args = (made,)
        gm.recompile()
    return gm


def check_accuracy(module: nn.Module, lowered: nn.Module, inputs: Sequence[Any], options: Options) -> None:
    """AccuracyError where `lowered` and the eager model in inference form differ too much on `inputs`."""
    with torch.no_grad():
        with _state_kept(module):
            want = inference_copy(module)(*_fresh(inputs))
        with _state_kept(module):
            got = lowered(*_fresh(inputs))
    wanted, given = (tree_flatten_with_path(x)[0] for x in (want, got))
    if len(wanted) != len(given):
        raise AccuracyError(f"eager gives {len(wanted)} outputs, the compiled module {len(given)}")
    failures = []
    for (path, w), (_, g) in zip(wanted, given, strict=True):
        if not isinstance(w, torch.Tensor) or w.is_meta or foreign(w):  # only torch computes those
            continue
        most, error = limit(w.dtype, options.lower_precision), difference(g, w)
        if not error <= most:
            name = f"output {keystr(path)}" if path else "the output"
            failures.append(f"{name} is off by {error:.3g} of its largest element, at most {most:.3g} is allowed")
    if failures:
        raise AccuracyError("; ".join(failures) + " (suppress_accuracy_check=True skips this check)")


@contextmanager
def _state_kept(module: nn.Module) -> Iterator[None]:
    """Undo what a run writes to buffers: observers and caches do so in eval() too, and runs must find them alike."""
    kept = [(b, b.detach().clone()) for b in module.buffers() if not (b.is_inference() or b.is_meta or foreign(b))]
    try:
        yield
    finally:
        for b, value in kept:
            if not torch.equal(b, value):  # fake quantizers write what no version counts
                b.resize_(value.shape).copy_(value)


def _fresh(inputs: Sequence[Any]) -> list[Any]:
    """Copies, in case the model writes to its inputs."""
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs]

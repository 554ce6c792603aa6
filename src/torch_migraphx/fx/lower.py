"""`lower_to_mgx`: a model and sample inputs become a compiled module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from operator import getitem
from typing import Any, Unpack

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import (
    keystr,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

from torch_migraphx.devices import refuse_elsewhere
from torch_migraphx.fx.border import foreign, of_torchao, opaque
from torch_migraphx.fx.dynamic_shapes import Range, dynamic_form, for_export
from torch_migraphx.fx.graph_info import called, note_unmapped
from torch_migraphx.fx.leaf_modules import fetched
from torch_migraphx.fx.lower_graph import lower
from torch_migraphx.fx.lower_setting import LowerSetting
from torch_migraphx.fx.lowered import TENSOR, Inputs, LoweredModule, Outputs
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.tools.accuracy import AccuracyError, difference, limit
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.aten_tracer import aten_tracer
from torch_migraphx.fx.tracer.aten_tracer.aten_tracer import AtenTraceError
from torch_migraphx.fx.tracer.inference_copy import inference_copy
from torch_migraphx.fx.tracer.structure import Structure, known, leaf_names, plain
from torch_migraphx.fx.utils import LowerPrecision
from torch_migraphx.log import get_logger
from torch_migraphx.options import LoweringKeywords, Options
from torch_migraphx.random_state import same_random_state

logger = get_logger(__name__)
DECOMPOSITION = re.compile(r"(eigh|eig|svd)\b")
VALUES = {"eigh": 0, "eig": 0, "svd": 1}
"""Which result of a decomposition has its values; of the vectors in the others, v and -v are both right."""


def lower_to_mgx(
    module: nn.Module | Callable[..., Any] | ExportedProgram,
    input: Any = None,
    lower_precision: LowerPrecision | str = LowerPrecision.FP32,
    min_acc_module_size: int = 10,
    use_aten: bool = False,
    verbose_log: bool = False,
    suppress_accuracy_check: bool = False,
    save_subgraph_programs: bool = False,
    tracer_base_cls: type[fx.Tracer] = fx.Tracer,
    leaf_modules: Collection[type[nn.Module]] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    release_weights: bool = False,
    **options: Unpack[LoweringKeywords],
) -> LoweredModule:
    """Compile `module` in inference form for inputs of the shapes and types of the samples.

    `module` is a module, a function of tensors, a scripted one, or what torch.export gave; `input` is the list of its
    positional arguments (anything else is the only one), `kwargs` are those by keyword; both may hold lists and dicts.
    An exported program brings its own samples. What is called must be nested as the samples are; numbers among them are
    compiled in. The answer is nested as eager's.

    `dynamic_shapes` are those of torch.export: the dimensions, by arguments, that may be longer or shorter at a call.
    A dimension may also be `{"min": 1, "max": 8, "optimals": [1, 8]}`, each key optional, or a
    `migraphx.shape.dynamic_dimension`: optimal lengths are compiled at once; others are one program where target cpu
    runs all of the model, else each when it is met. A length outside its range is a ValueError.

    The module is neither changed nor moved; one in training mode is compiled as its `eval()` would run, modules that a
    function calls as they are. Later changes of weights are not seen. Unless suppressed, the result is compared with
    eager on the samples: AccuracyError names the output and its error. `use_aten` traces by torch.export instead of
    symbolically; a model that the symbolic tracer can't follow takes that road as well, and the log says why. With
    `release_weights` the weights are there once: the model's become meta tensors, so that it cannot run any more, and
    the result cannot be saved; ValueError where `module` is no nn.Module, or lengths are dynamic. `fallback="error"`:
    FallbackError lists what would run in torch. `options` are fields of Options; TypeError or ValueError for a wrong
    one. TypeError for what is no model, NotImplementedError for other devices, AtenTraceError for control flow on data.
    """
    if release_weights:
        _check_release(module, dynamic_shapes)
    call = Call.of(module, input, kwargs)
    chosen = Options.of_lowering(
        lower_precision=lower_precision,
        min_acc_module_size=min_acc_module_size,
        verbose_log=verbose_log,
        save_subgraph_programs=save_subgraph_programs,
        **options,
    ).beside(call.tensors or call.weights)
    refuse_elsewhere(chosen.target, call.groups)
    with same_random_state():
        if dynamic_shapes is not None:
            traced, given = _trace_dynamic(call, dynamic_shapes)
        else:
            traced, given = _trace(call, use_aten, tracer_base_cls, leaf_modules or ()), {}
        lowered = _lowered(call, traced, given, chosen)
        if not suppress_accuracy_check:
            check_accuracy(call, traced, lowered, chosen.coarsest)
    if release_weights:
        release(call.module, lowered)
    return lowered.eval()


@dataclass(frozen=True)
class Lowerer:
    """`lower_to_mgx` with its settings: `Lowerer.create(LowerSetting(min_acc_module_size=1))(model, inputs)`."""

    lower_setting: LowerSetting

    @classmethod
    def create(cls, lower_setting: LowerSetting) -> Lowerer:
        """A lowerer of these settings."""
        return cls(lower_setting)

    def __call__(self, module: nn.Module, inputs: Sequence[Any]) -> LoweredModule:
        """What `lower_to_mgx` returns, whose errors it has."""
        given = {f.name: getattr(self.lower_setting, f.name) for f in fields(self.lower_setting)}
        return lower_to_mgx(module, inputs, **given | (given.pop("options") or {}))


@dataclass(frozen=True)
class Call:
    """A model and the samples of one call of it."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    exported: ExportedProgram | None = None
    scripted: str = ""

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.scripted or ("ExportedProgram" if self.exported is not None else type(self.module).__name__)

    @classmethod
    def of(cls, module: Any, input: Any, kwargs: Mapping[str, Any] | None) -> Call:
        args = () if input is None else tuple(input) if isinstance(input, tuple | list) else (input,)
        given = dict(kwargs or {})
        if isinstance(module, ExportedProgram):
            if input is None and not given and module.example_inputs is not None:
                args, given = module.example_inputs
            return cls(module.module(), tuple(args), dict(given), module)
        if isinstance(module, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            return cls._of_torchscript(module, args, given)
        if not isinstance(module, nn.Module):
            module = _module_of(module)
        return cls(module, args, _in_order(module.forward, given))

    @classmethod
    def _of_torchscript(cls, module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Call:
        """Of a scripted or traced model, which torch converts to an exported program for these inputs."""
        modules = list(module.modules()) if isinstance(module, nn.Module) else []
        modes = [m.training for m in modules]
        converter = import_module("torch._export.converter").TS2EPConverter  # whose import takes a second
        try:
            for m in modules:
                m.training = False
            exported = converter(module, args, given or None).convert()
        except Exception as error:  # the converter is torch's own prototype, and raises whatever it meets
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise AtenTraceError(f"torch cannot convert the scripted model: {first}") from error
        finally:
            for m, mode in zip(modules, modes, strict=True):
                m.training = mode
        return cls(exported.module(), args, given, exported, getattr(module, "original_name", "ScriptModule"))

    @property
    def leaves(self) -> list[Any]:
        return tree_leaves((self.args, self.kwargs))

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [x for x in self.leaves if isinstance(x, torch.Tensor)]

    @property
    def weights(self) -> list[torch.Tensor]:
        return [*self.module.parameters(), *self.module.buffers()]

    @property
    def groups(self) -> list[dict[str, torch.Tensor]]:
        """The weights and the inputs, by the names that messages call them."""
        weights = [*self.module.named_parameters(), *self.module.named_buffers()]
        return [
            {f"weight {name!r}": x for name, x in weights},
            {f"input {k}": x for k, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)},
        ]

    def eager(self) -> nn.Module:
        """The module in inference form; an exported program is what it was exported as."""
        return self.module if self.exported is not None else inference_copy(self.module)

    @property
    def named(self) -> dict[str, Any]:
        """The arguments by the names of the parameters, in order."""
        positional = acc_tracer.input_names(self.module.forward, None, len(self.args), self.kwargs)
        return dict(zip(positional, self.args, strict=True)) | self.kwargs


def _module_of(function: Callable[..., Any]) -> nn.Module:
    """A module whose forward is a function."""
    if not callable(function):
        raise TypeError(f"a model is a module, a function or an ExportedProgram; got a {type(function).__name__}")
    name = getattr(function, "__name__", "")
    module = type(name if name.isidentifier() else "Function", (nn.Module,), {})()
    try:
        inspect.signature(function)
        module.forward = function
    except ValueError:  # torch's own functions have none
        module.forward = lambda *args, **kwargs: function(*args, **kwargs)
    return module.eval()


def _in_order(forward: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments in the order of the signature."""
    first = [name for name in inspect.signature(forward).parameters if name in kwargs]
    return {name: kwargs[name] for name in (*first, *(n for n in kwargs if n not in first))}


def _trace(
    call: Call,
    use_aten: bool,
    tracer_base_cls: type[fx.Tracer],
    leaf_modules: Collection[type[nn.Module]],
) -> fx.GraphModule:
    """A graph of the samples' leaves."""
    why = next(filter(None, map(opaque, [*call.weights, *call.tensors])), "")
    if why:
        return _in_torch(call, f"an input or a weight {why}")
    if call.exported is not None:
        return _trace_exported(call.exported, call)
    if not use_aten and not any(map(of_torchao, call.weights)):  # torch.export takes such weights apart
        try:
            traced = acc_tracer.trace_leaves(
                call.module,
                call.args,
                sample_kwargs=call.kwargs,
                tracer_base_cls=tracer_base_cls,
                leaf_modules=leaf_modules,
            )
            return traced if leaf_modules else _with_lengths(call, traced)
        except acc_tracer.AccTraceError as error:
            logger.warning("%s; tracing by torch.export instead", str(error).replace("\n", " "))
    try:
        return aten_tracer.trace(call.module, call.args, call.kwargs)
    except aten_tracer.AtenTraceError as error:
        # control flow on data is for torch.compile, which compiles what lies between
        if error.__cause__ is None or isinstance(error.__cause__, GuardOnDataDependentSymNode):
            raise
        return _in_torch(call, str(error))


def _with_lengths(call: Call, traced: fx.GraphModule) -> fx.GraphModule:
    """The graph, or where its lengths depend on data, torch.export's, which has symbols for them."""
    if all("val" in n.meta for n in traced.graph.nodes if n.op.startswith("call_")):
        return traced
    try:
        return aten_tracer.trace(call.module, call.args, call.kwargs)
    except AtenTraceError as error:
        logger.info("%s", error)
        return traced


def _in_torch(call: Call, why: str) -> fx.GraphModule:
    """A graph of one call of all of the module: of what torch cannot trace, nothing can be compiled."""
    graph = fx.Graph()
    leaves = [graph.placeholder(f"input_{k}") for k in range(len(call.leaves))]
    args, kwargs = tree_unflatten(leaves, tree_structure((call.args, call.kwargs)))
    node = graph.call_module("model", args, kwargs)
    node.meta = {"val": None}
    note_unmapped(node, " ".join(why.split()))
    graph.output(node)
    root = nn.Module()
    root.add_module("model", call.eager())
    gm = fx.GraphModule(root, graph, class_name=type(call.module).__name__)
    gm.meta["structure"] = Structure.of(node)
    return gm


def _trace_exported(exported: ExportedProgram, call: Call) -> fx.GraphModule:
    """The graph of an exported program, sizes that are symbols among them."""
    return aten_tracer.unlifted(exported, call.name)


def _trace_dynamic(call: Call, dynamic_shapes: Any) -> tuple[fx.GraphModule, dict[tuple[int, int], Range]]:
    """A graph whose sizes are symbols, and the ranges that the caller gave by (leaf, dimension).

    ValueError where every length is fixed.
    """
    if call.exported is not None:
        raise ValueError("dynamic_shapes: an exported or scripted program has the sizes that it was made with")
    wanted, ranges = for_export(dynamic_shapes)
    traced = aten_tracer.trace(call.module, call.args, call.kwargs, wanted)
    if not traced.meta["ranges"]:
        raise ValueError("dynamic_shapes: the model fixes every length, or none was said to be dynamic")
    number = {path: k for k, path in enumerate(_paths(call))}
    return traced, {(number[path[:-1]], path[-1]): r for path, r in _by_name(call, ranges).items()}


def _paths(call: Call) -> list[tuple[Any, ...]]:
    """The keys that lead to each leaf of the arguments, from the argument's name on."""
    found, _ = tree_flatten_with_path(call.named)
    return [tuple(getattr(key, "key", getattr(key, "idx", None)) for key in path) for path, _ in found]


def _by_name(call: Call, given: Mapping[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
    """Arguments that are given by place, by name."""
    names = list(call.named)
    return {(names[first] if isinstance(first, int) else first, *rest): v for (first, *rest), v in given.items()}


def _lowered(
    call: Call, traced: fx.GraphModule, given: Mapping[tuple[int, int], Range], options: Options
) -> LoweredModule:
    """The module of a traced model, which knows the names of its weights."""
    if ranges := traced.meta.get("ranges"):
        made = dynamic_form(traced, ranges, call.leaves, given, options)
    else:
        made = lower(traced, call.leaves, options)
    lowered = finished(made, call, traced.meta["structure"])
    lowered.note_weights(call.module, _addresses(traced))
    return lowered


def _addresses(gm: fx.GraphModule) -> set[int]:
    """Where the weights lie that a graph, or a module that it calls, reads."""
    read = {str(n.target) for n in gm.graph.nodes if n.op == "get_attr"}
    found = [fetched(gm, name) for name in read]
    called = [gm.get_submodule(str(n.target)) for n in gm.graph.nodes if n.op == "call_module"]
    found += [x for m in called for x in (*m.parameters(), *m.buffers())]
    return {x.data_ptr() for x in found if isinstance(x, torch.Tensor) and not foreign(x) and not x.is_meta}


def finished(gm: fx.GraphModule, call: Call, structure: Structure) -> LoweredModule:
    """A module that is called as the model is, and answers as it does, of a graph of leaves."""
    root = nn.Module()
    for name, part in (*gm.named_children(), *gm.named_parameters(recurse=False), *gm.named_buffers(recurse=False)):
        setattr(root, name, part)
    graph = fx.Graph()
    given = call.named
    placeholders = {name: graph.placeholder(name) for name in given}
    leaves: list[Any] = list(placeholders.values())
    if not all(isinstance(x, torch.Tensor) for x in given.values()):
        names = leaf_names(tree_flatten_with_path(given)[0])
        expected = [TENSOR if isinstance(x, torch.Tensor) else x for x in call.leaves]
        root.add_module("inputs", Inputs(Structure.of((call.args, call.kwargs)), names, expected))
        args, kwargs = tuple(leaves[: len(call.args)]), {name: placeholders[name] for name in call.kwargs}
        taken = graph.call_module("inputs", (args, kwargs))
        leaves = [graph.call_function(getitem, (taken, k)) for k in range(len(expected))]
    old = [n for n in gm.graph.nodes if n.op == "placeholder"]
    values = dict(zip(old, leaves, strict=True))
    result = graph.graph_copy(gm.graph, values)
    if tree_structure(plain(result)) != structure.spec:
        root.add_module("outputs", Outputs(structure))
        result = graph.call_module("outputs", (tree_leaves(plain(result)),))
    graph.output(result)
    lowered = LoweredModule(root, graph, class_name=type(gm).__name__)
    lowered.refusals = tuple(gm.meta.get("refusals", ()))
    return lowered


def _check_release(module: Any, dynamic_shapes: Any) -> None:
    """ValueError where weights cannot be released."""
    if dynamic_shapes is not None:
        raise ValueError("release_weights: with dynamic_shapes, other lengths are compiled later and need the weights")
    if not isinstance(module, nn.Module):
        raise ValueError(f"release_weights: a {type(module).__name__} is no nn.Module, whose weights could be released")


def release(model: nn.Module, lowered: nn.Module) -> None:
    """Give back the model's weights, but for those that parts of `lowered` in torch read; instructions go with them."""
    for module in lowered.modules():
        program = module.program if isinstance(module, MGXModule) else None
        if program is not None and hasattr(program, "release_instructions"):  # AMD's own has none
            program.release_instructions()
    kept = {id(x) for x in (*lowered.parameters(), *lowered.buffers())}
    for module in model.modules():
        own = {"recurse": False, "remove_duplicate": False}
        for name, x in [*module.named_parameters("", **own), *module.named_buffers("", **own)]:
            if id(x) not in kept:
                gone = x.detach().to("meta")
                setattr(module, name, nn.Parameter(gone, x.requires_grad) if isinstance(x, nn.Parameter) else gone)


def rounds(gm: fx.GraphModule) -> bool:
    """Whether a graph quantizes, so that sums in another order may become another code."""
    overloads = (n.target for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload))
    return any(o.namespace in ("quantized_decomposed", "torchao") or "fake_quantize" in str(o) for o in overloads)


def check_accuracy(call: Call, gm: fx.GraphModule, lowered: nn.Module, precision: str) -> None:
    """AccuracyError where `lowered` and the eager model in inference form differ too much on the samples.

    A warning for those outputs of the graph `gm` that depend on vectors of which libraries give one or the opposite.
    """
    with torch.no_grad():
        with same_random_state(), _state_kept(call.module):
            args, kwargs = _fresh((call.args, call.kwargs))
            want = call.eager()(*args, **kwargs)
        with _state_kept(call.module):
            args, kwargs = _fresh((call.args, call.kwargs))
            got = lowered(*args, **kwargs)
    wanted, given = (tree_flatten_with_path(known(x))[0] for x in (want, got))
    if len(wanted) != len(given):
        raise AccuracyError(f"eager gives {len(wanted)} outputs, the compiled module {len(given)}")
    precision = "int8" if rounds(gm) else precision
    failures: list[str] = []
    for (path, w), (_, g), of_vectors in zip(wanted, given, _of_vectors(gm, len(wanted)), strict=True):
        if not isinstance(w, torch.Tensor) or w.is_meta or foreign(w):  # only torch computes those
            continue
        most, error = limit(w.dtype, precision), difference(g, w)
        if not error <= most:
            name = f"output {keystr(path)}" if path else "the output"
            why = f"{name} is off by {error:.3g} of its largest element, at most {most:.3g} is allowed"
            if of_vectors:
                logger.warning("%s; vectors of eigenvalues and singular values may have another sign than eager's", why)
            else:
                failures.append(why)
    if failures:
        raise AccuracyError("; ".join(failures) + " (suppress_accuracy_check=True skips this check)")


def _of_vectors(gm: fx.GraphModule, outputs: int) -> list[bool]:
    """Whether each output depends on eigenvectors or singular vectors; their values have one sign."""
    found: set[fx.Node] = set()
    vectors = False
    for n in gm.graph.nodes:
        for x in n.all_input_nodes:
            kind = DECOMPOSITION.search(called(x))
            taken = n.kwargs.get("idx", n.args[-1] if n.args else None) if "getitem" in called(n) else None
            if x in found or (kind and taken != VALUES[kind[1]]):
                found.add(n)
        vectors |= bool(DECOMPOSITION.search(called(n)))
    leaves = tree_leaves(gm.graph.output_node().args[0])
    return [x in found for x in leaves] if len(leaves) == outputs else [vectors] * outputs


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


def _fresh(inputs: Any) -> Any:
    """Copies, in case the model writes to its inputs."""
    return tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, inputs)

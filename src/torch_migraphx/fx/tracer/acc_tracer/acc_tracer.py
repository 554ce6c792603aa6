"""From a module and sample inputs to a graph of acc operators with keyword arguments only.

The trace is symbolic in the data and concrete in shapes, types and devices: each node runs once on fake
tensors, which cost no compute and no memory.
"""

from __future__ import annotations

import inspect
import operator
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import (
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

from torch_migraphx.fx.border import fake_of
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import set_value
from torch_migraphx.fx.tracer.inference_copy import inference_copy
from torch_migraphx.fx.tracer.origin import current_origin, error_origin
from torch_migraphx.fx.tracer.structure import Structure, known, leaf_names, plain
from torch_migraphx.log import get_logger

# The operators register themselves when their module is imported.
from . import acc_ops
from .acc_normalizer import OpAndTarget, normalize
from .checks import ConditionalExceptionWrapper, check_of, remove
from .decompositions import DECOMPOSITIONS, helpers_that_take_proxies
from .functionalize import functionalize, mutated_by, tensor_versions
from .proxies import AccProxy, AccTraceError
from .quantized import (
    QUANTIZED,
    as_tensor,
    fake_quantized,
    is_frozen,
    is_reference,
    reference_weight,
    result_on_grid,
)
from .quantized_recurrent import QUANTIZED_RECURRENT
from .root_hooks import RootHooks, hooked, is_traced, with_hooks
from .upstream_form import nest_inputs, with_upstreams_operators

__all__ = [
    "AccRewritingTracer", "AccTraceError", "ConditionalExceptionWrapper", "acc_ops", "is_observer",
    "rewriter_base_trace", "trace", "trace_leaves",
]  # fmt: skip

logger = get_logger(__name__)

# What fake tensors can't answer; the node is kept and its shape is unknown.
_UNKNOWN = (
    DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, NotImplementedError
)  # fmt: skip

TRACED_AS = {**DECOMPOSITIONS, **QUANTIZED, **QUANTIZED_RECURRENT}
"""Functions, and methods by name, that are traced through instead of being operators of their own."""
AS_STRIDED = ("as_strided", torch.as_strided)
"""What asks where a tensor's elements lie in memory, of which acc operators say nothing."""
OBSERVERS = ("torch.ao.quantization.observer", "torch.ao.quantization.fake_quantize")

# fx patches nn.Module while it traces.
_trace_lock = threading.RLock()


class _Unknown(Exception):
    """The value of a node can't be told from the shapes."""


class AccRewritingTracer(fx.Tracer):
    """Traces into every module, apart from leaf modules and modules with hooks, with concrete shapes.

    `sample_inputs` stand for the leading arguments of forward, `sample_kwargs` for those of their names; the others
    take their defaults. Assertions and conditional raises that depend on data are left out, unless they are kept;
    `asked` are the nodes whose truth they would ask for.
    """

    proxy_buffer_attributes = True

    def __init__(
        self,
        sample_inputs: Sequence[Any] = (),
        leaf_modules: Collection[type] = (),
        sample_kwargs: Mapping[str, Any] | None = None,
        keep_assertions: bool = False,
        keep_exceptions: bool = False,
    ) -> None:
        super().__init__()
        self.keep_assertions, self.keep_exceptions = keep_assertions, keep_exceptions
        self.asked: list[fx.Node] = []
        self._unchecked: set[str] = set()
        self._decided = False
        self.samples: dict[str, Any] = {}
        self.fake_mode = fake_mode()
        self.structure: Structure | None = None
        self._paused = False
        self._replayed: fx.Node | None = None
        self._samples, self._kwargs = tuple(sample_inputs), dict(sample_kwargs or {})
        self._leaf_modules = tuple(leaf_modules)
        self._attribute_names: dict[int, str] = {}
        self._constants: dict[int, tuple[torch.Tensor, int, fx.Node]] = {}

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        """The graph of `root` before normalization; see torch.fx.Tracer.trace.

        Raises AccTraceError where what ran during the trace, and is now a constant, would differ at a call.
        """
        tensors = [*root.named_buffers(), *root.named_parameters()]
        self._attribute_names = {id(t): name for name, t in reversed(tensors)}
        self._constants = {}
        self._thread = threading.get_ident()
        random_state = torch.random.get_rng_state()
        graph = super().trace(root, concrete_args)
        if not torch.equal(random_state, torch.random.get_rng_state()):
            raise AccTraceError("forward draws random numbers that do not depend on its inputs; use torch.compile")
        if self._decided:
            raise AccTraceError("control flow depends on data, and the model catches the error; use torch.compile")
        for constant, version, node in self._constants.values():
            if not constant.is_inference() and constant._version != version:
                raise AccTraceError(f"forward changes {node.target} in place after it was read; use torch.compile")
        return graph

    # ---- what fx asks a tracer

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Leaf: the caller's leaf modules, scripted modules, observers, and modules whose hooks would be lost."""
        if isinstance(m, (torch.jit.ScriptModule, RootHooks, *self._leaf_modules)) or is_observer(m):
            return True
        hooks = [*m._forward_hooks.values(), *m._forward_pre_hooks.values()]
        return any(not is_traced(hook) for hook in hooks)

    @property
    def _idle(self) -> bool:
        """Whether what runs is not traced: a leaf, or another thread, which fx's patches of nn.Module reach too."""
        return self._paused or threading.get_ident() != self._thread

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a module; one outside the traced model runs as if nobody traced."""
        if self._idle or (self.submodule_paths is not None and m not in self.submodule_paths):
            return forward(*args, **kwargs)
        if is_observer(m) and is_frozen(m):
            return fake_quantized(m, *args, **kwargs)
        if is_reference(m):  # it checks that its scales are tensors; the traced module is a copy of the user's
            m.__dict__["get_weight"] = lambda: reference_weight(m)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """A parameter or buffer of the model as a proxy, the same at each access."""
        name = self._attribute_names.get(id(attr_val))
        if name is None or self._idle:
            return attr_val
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self.proxy(self.create_arg(attr_val))
        return parameter_proxy_cache[name]

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """One placeholder for each tensor or number of the sample inputs, named as forward's parameter."""
        graph = self.root.graph if isinstance(self.root, fx.GraphModule) else None
        forward = getattr(self.root, "forward", root_fn)  # the module's own, which may be an instance's
        positional = input_names(forward, graph, len(self._samples), self._kwargs)
        samples = dict(zip([*positional, *self._kwargs], [*self._samples, *self._kwargs.values()], strict=True))
        self.samples = samples
        found, _ = tree_flatten_with_path(samples)
        inputs = [self._input(name, leaf) for name, (_, leaf) in zip(leaf_names(found), found, strict=True)]
        spec = tree_structure((self._samples, self._kwargs))

        def run(*inputs):  # fx would print annotations as those of the graph
            if graph is not None:
                return self._result(_Replay(self).run(*inputs))
            args, kwargs = tree_unflatten(inputs, spec)
            return self._result(with_hooks(self.root, forward, args, kwargs))

        return run, inputs

    def _result(self, out: Any) -> Any:
        """What the model returns, in plain containers; several values of one node are taken apart."""
        out = known(tree_map(lambda x: as_tensor(_taken_apart(x)), out))
        self.structure = Structure(tree_structure(out))
        return plain(out)

    def _input(self, name: str, sample: Any) -> Any:
        """The proxy of one input; a sample that is no tensor is a constant of the trace."""
        node = self.create_node("placeholder", name, (), {})
        if not isinstance(sample, torch.Tensor):
            if not isinstance(sample, int | float | str | None):
                raise AccTraceError(f"input {name!r} is a {type(sample).__name__}, not a tensor or a number")
            return sample
        self._describe(node, sample, alone=True)
        return self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument in the graph; tensors become get_attr nodes, one for each tensor."""
        if not isinstance(a, torch.Tensor):
            return super().create_arg(a)
        if isinstance(a, torch._subclasses.FakeTensor):
            raise AccTraceError("forward reads what a hook of a leaf module kept; use torch.compile")
        if id(a) not in self._constants:
            name = self._attribute_names.get(id(a))
            node = self.create_node("get_attr", name, (), {}) if name else super().create_arg(a)
            assert isinstance(node, fx.Node)
            self._describe(node, a, alone=a.is_inference())  # it counts no versions, so no fake shows a change
            self._constants[id(a)] = (a, 0 if a.is_inference() else a._version, node)
        return self._constants[id(a)][-1]

    def constant_of(self, node: fx.Node) -> torch.Tensor | None:
        """The tensor of the model that a node stands for; None of others."""
        return next((tensor for tensor, _, own in self._constants.values() if own is node), None)

    def _as_numbers(self, x: Any) -> Any:
        """A tensor of the model, which decides shapes, as the numbers that it holds."""
        known = x if isinstance(x, torch.Tensor) else self.constant_of(x.node) if isinstance(x, fx.Proxy) else None
        return x if known is None else known.tolist()

    def _describe(self, node: fx.Node, x: torch.Tensor, alone: bool) -> None:
        """Give `node` a fake value for `x`, of memory of its own where it stands `alone`."""
        set_value(node, fake_of(x, self.fake_mode) if alone else self.fake_mode.from_tensor(x))

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """A node that knows its line in the user's source."""
        node = super().create_node(*args, **kwargs)
        origin = current_origin() if self._replayed is None else self._replayed.stack_trace
        if origin is not None:
            node.stack_trace = origin
        return node

    def proxy(self, node: fx.Node) -> AccProxy:
        """The proxy of a node, which knows its shape."""
        return AccProxy(node, self)

    def truth(self, node: fx.Node, frame: FrameType) -> bool | None:
        """The truth of a value that a check of the model asks for in `frame`; None where data decides anything else.

        The check is left out of the graph, or kept as torch._assert or a ConditionalExceptionWrapper.
        """
        check = None if self._idle else check_of(frame)
        if check is None:
            self._decided = True
            return None
        keep = self.keep_assertions if check.raised is None else self.keep_exceptions
        where = f"{frame.f_code.co_filename}:{check.statement.lineno}"
        if not keep:
            self.asked.append(node)
            if where not in self._unchecked:  # a layer's is met in every layer
                logger.warning("a check of the data is not compiled: %s", where)
            self._unchecked.add(where)
            return check.holds
        if not check.alone:
            raise AccTraceError(f"one part of a condition cannot be kept as a check of its own: {where}")
        wanted, unwanted = node, node
        if check.holds != (check.raised is None):
            wanted = unwanted = self.create_node("call_function", operator.not_, (node,), {})
        if check.raised is None:
            self.create_node("call_function", torch._assert, (wanted, check.message(frame)), {})
            return check.holds
        exc, message = check.exception(frame)
        name = f"_conditional_exception_wrapper_{exc.__name__}"
        self.root.add_module(name, ConditionalExceptionWrapper(exc))
        self.create_node("call_module", name, (unwanted, message), {})
        return check.holds

    def iter(self, obj: fx.Proxy) -> Any:
        """Iteration over what has no known length."""
        raise AccTraceError(f"{obj} is iterated over, and its length depends on data")

    # ---- values

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **named: Any) -> Any:
        """Record an operation; what depends on shapes and types only is answered and not recorded."""
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            raise AccTraceError("a symbolic trace does not keep autocast regions; use torch.compile")
        function: Any = target
        if function in AS_STRIDED and not is_row_major(_value_of([*args, *kwargs.values()][0])):
            raise AccTraceError("as_strided: acc operators say nothing of memory; use the ATen tracer or torch.compile")
        if target in (torch.autograd.grad, torch.autograd.backward, "backward"):
            raise AccTraceError("forward computes gradients; use torch.compile")
        if function in ("tensor_split", torch.tensor_split):
            args, kwargs = tree_map(self._as_numbers, (args, kwargs))
        if kind in ("call_function", "call_method"):
            decomposition = TRACED_AS.get(target)
            if decomposition is not None:
                return decomposition(*args, **kwargs)
            if kind == "call_function" and not _is_known(target):
                try:
                    return self._trace_through(target, args, kwargs)
                except Exception as error:  # a library's function may raise anything when it meets proxies
                    logger.info("%s stays one call: %s", target, error)
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **named)
        node = proxy.node
        try:
            before = {i: tensor_versions(i) for i in node.all_input_nodes}
            value = self._run_fake(node)
        except _Unknown:
            return proxy
        if mutated_by(node, before):
            node.meta["mutates"] = True
        elif _is_plain(value) and _is_pure(node):
            self.graph.erase_node(node)
            return value
        set_value(node, value)
        return result_on_grid(self.proxy(node), before)

    def _trace_through(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a function that torch.fx.wrap keeps whole; leaves no nodes behind where it raises.

        Libraries wrap what a trace without shapes can't follow; with shapes most of it can be followed.
        """
        last, decided = next(iter(reversed(self.graph.nodes)), None), self._decided
        try:
            return function(*args, **kwargs)
        except Exception:  # whatever it is, it is raised again
            self._decided = decided
            for node in reversed(self.graph.nodes):
                if node is last:
                    break
                if node.op != "get_attr":  # those are shared, and dropped at the end where nobody reads them
                    self.graph.erase_node(node)
            raise

    def _run_fake(self, node: fx.Node) -> Any:
        """The fake value of `node`. Raises _Unknown where it depends on data or on foreign code."""
        if any("val" not in i.meta for i in node.all_input_nodes):
            raise _Unknown
        args = map_arg(node.args, lambda n: n.meta["val"])
        kwargs = map_arg(node.kwargs, lambda n: n.meta["val"])
        try:
            with self.fake_mode:
                if node.op == "call_method":
                    return getattr(args[0], node.target)(*args[1:], **kwargs)  # type: ignore[arg-type]
                if node.op == "call_module":
                    self._paused = True  # a leaf is run, not traced
                    return self.root.get_submodule(node.target)(*args, **kwargs)  # type: ignore[arg-type]
                return node.target(*args, **kwargs)  # type: ignore[operator]
        except _UNKNOWN as error:
            raise _Unknown from error
        except Exception as error:  # eager's own error; foreign code may raise anything on fake tensors
            if node.op == "call_module" or not _is_pure(node):
                raise _Unknown from error
            raise
        finally:
            self._paused = False


class _Replay(fx.Interpreter):
    """Runs a graph that is traced again: what becomes of a node has the node's line in the user's source."""

    def __init__(self, tracer: AccRewritingTracer) -> None:
        assert isinstance(tracer.root, fx.GraphModule)
        super().__init__(tracer.root)
        self._tracer = tracer

    def run_node(self, n: fx.Node) -> Any:
        self._tracer._replayed = n
        return super().run_node(n)


def is_observer(m: nn.Module) -> bool:
    """Whether `m` is an observer or a fake quantizer of torch's, which read data and keep a state."""
    return any(c.__module__.startswith(OBSERVERS) for c in type(m).__mro__)


def _taken_apart(value: Any) -> Any:
    """A proxy of several tensors as a container of proxies, of the class that eager gives."""
    if not isinstance(value, AccProxy) or not isinstance(value.value, tuple | list):
        return value
    own: list[Any] = [value[k] for k in range(len(value.value))]  # type: ignore[index]
    for proxy in own:
        if isinstance(proxy, AccProxy):
            proxy.node.meta["taken_apart"] = True
    parts = [_taken_apart(x) for x in own]
    return tree_unflatten(parts, tree_structure(value.value, is_leaf=lambda x: x is not value.value))


def is_row_major(value: Any) -> bool:
    """Whether a tensor lies in memory in the order of its elements, from the start of the memory on."""
    return isinstance(value, torch.Tensor) and value.is_contiguous() and not value.storage_offset()


def _value_of(x: Any) -> Any:
    return x.value if isinstance(x, AccProxy) else x


def _is_plain(value: Any) -> bool:
    """Whether `value` holds no tensor."""
    return not any(isinstance(v, torch.Tensor) for v in tree_leaves(value))


def _is_pure(node: fx.Node) -> bool:
    """Whether fake tensors say all about the node: a method or a function of torch or Python."""
    return node.op == "call_method" or (node.op == "call_function" and _is_known(node.target))


def _is_known(function: Any) -> bool:
    """Whether a function is torch's or Python's own."""
    module = getattr(function, "__module__", None) or "torch"
    return module.split(".")[0] in ("torch", "_operator", "operator", "builtins", "math", "torch_migraphx")


def input_names(
    forward: Callable[..., Any], graph: fx.Graph | None, count: int, kwargs: Collection[str] = ()
) -> list[str]:
    """The names of the first `count` inputs of a graph, or of a function, which may end in *args.

    Raises AccTraceError where it takes less, or needs more than these and `kwargs`.
    """
    if graph is not None:
        return [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    names: list[str] = []
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
        elif parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            continue
        elif len(names) < count:
            names.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.name not in kwargs:
            raise AccTraceError(f"forward needs the input {parameter.name!r}; {count} sample inputs are given")
    if len(names) < count:
        raise AccTraceError(f"forward takes {len(names)} inputs; {count} sample inputs are given")
    return names


def trace(
    mod: nn.Module,
    sample_inputs: Sequence[Any],
    remove_assertions: bool = True,
    remove_exceptions: bool = True,
    use_acc_normalization: bool = True,
    ast_rewriter_allow_list: Collection[type] | None = None,
    leaf_module_list: Collection[type] | None = None,
    acc_normalization_block_list: Collection[OpAndTarget] | None = None,
    **options: Any,
) -> fx.GraphModule:
    """Trace `mod` to acc operators in the form that Torch-MIGraphX's tracer gives; `mod` itself is left as it is.

    As `trace_leaves`, which documents the arguments and `options`, with these differences. The result is called as
    `mod` is: a list, tuple or dict among the inputs is one placeholder. Operators that Torch-MIGraphX has in parts are
    these parts (`addmm`, `hardswish`, `log1p`, `square`, `stack`; `split` by several sizes and `tensor_split` as slices
    and `tuple_construct`). What returns all of an operator's results returns the node. `ast_rewriter_allow_list` is
    taken for upstream's sake: checks are found in any code.
    """
    gm, tracer = _trace_leaves(
        mod, sample_inputs, not remove_assertions, not remove_exceptions,
        use_acc_normalization=use_acc_normalization, leaf_module_list=leaf_module_list,
        acc_normalization_block_list=acc_normalization_block_list or (), **options,
    )  # fmt: skip
    with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
        if use_acc_normalization:
            with_upstreams_operators(gm.graph, tracer.fake_mode)
        nest_inputs(gm.graph, tracer.samples, acc_ops.getitem if use_acc_normalization else None)
    gm.recompile()
    return gm


def trace_leaves(mod: nn.Module, sample_inputs: Sequence[Any], **options: Any) -> fx.GraphModule:
    """Trace `mod` to acc operators, in inference form; `mod` itself is left as it is.

    The result takes the leaves (see torch.utils._pytree) of `sample_inputs` and `sample_kwargs` in order, and gives
    what `mod` gives in plain tuples, lists and dicts; `meta["structure"]` is the structure of `mod`'s own answer. Its
    nodes are placeholder, get_attr, call_function on acc operators with keyword arguments, and output; what has no acc
    operator stays a torch function or method, and leaf modules (`leaf_modules`, `leaf_module_list`, modules with
    hooks, the hooks of `mod` itself) stay call_module. Each node carries `meta["val"]` (fake tensor),
    `meta["tensor_meta"]` and `stack_trace`. Weights are shared. An assertion or a conditional raise that depends on
    data is left out, which the log says.

    `tracer_base_cls` may add leaf modules of its own; `acc_normalization_allowlist` limits normalization to
    these (op, target) pairs, `acc_normalization_block_list` keeps these out of it; with `use_acc_normalization=False`
    nothing is normalized. Raises AccTraceError, which names the line of the model, where control flow depends on data
    or an operation can't be made functional; TypeError for what is no module or no list of inputs.
    """
    return _trace_leaves(mod, sample_inputs, **options)[0]


def _trace_leaves(
    mod: nn.Module,
    sample_inputs: Sequence[Any],
    keep_assertions: bool = False,
    keep_exceptions: bool = False,
    *,
    use_acc_normalization: bool = True,
    leaf_module_list: Collection[type] | None = None,
    leaf_modules: Collection[type] | None = None,
    tracer_base_cls: type[fx.Tracer] = fx.Tracer,
    acc_normalization_allowlist: Collection[OpAndTarget] | None = None,
    acc_normalization_block_list: Collection[OpAndTarget] = (),
    sample_kwargs: Mapping[str, Any] | None = None,
) -> tuple[fx.GraphModule, AccRewritingTracer]:
    """What `trace_leaves` gives, and the tracer."""
    if not isinstance(mod, nn.Module):
        raise TypeError(f"trace takes a module, not a {type(mod).__name__}: call it in the forward of one")
    if not isinstance(sample_inputs, tuple | list):
        raise TypeError(f"sample_inputs is a list of inputs, not a {type(sample_inputs).__name__}")
    root = hooked(inference_copy(mod))
    tracer_cls = AccRewritingTracer
    if tracer_base_cls is not fx.Tracer:
        tracer_cls = _with_leaf_rule_of(tracer_base_cls)
    leaves = (*(leaf_module_list or ()), *(leaf_modules or ()))
    tracer = tracer_cls(sample_inputs, leaves, sample_kwargs, keep_assertions, keep_exceptions)
    try:
        with (  # a fake mode may be on
            _trace_lock, torch.inference_mode(False), torch.no_grad(), _disable_current_modes(),
            helpers_that_take_proxies(),
        ):  # fmt: skip
            graph = tracer.trace(root)
            remove(graph, tracer.asked, asserts=not keep_assertions)
            functionalize(graph)
            if use_acc_normalization:
                normalize(graph, tracer.fake_mode, acc_normalization_allowlist, acc_normalization_block_list, root)
    except Exception as error:  # the model's own code ran: whatever it raised is raised again, with its line
        raise _explained(mod, error) from error
    for node in reversed(graph.nodes):
        if not node.users and node.op == "get_attr":
            graph.erase_node(node)
    plain = fx.Graph()  # without this tracer, which pickle would call again, without sample inputs
    plain.output(plain.graph_copy(graph, {}))
    gm = fx.GraphModule(root, plain, class_name=type(mod).__name__)
    gm.meta["structure"] = tracer.structure
    return gm, tracer


def rewriter_base_trace(
    mod: nn.Module,
    ast_rewriter_allow_list: Collection[type] | None = None,
    leaf_module_list: Collection[type] | None = None,
) -> fx.GraphModule:
    """The graph of torch's own functions that `mod` calls, traced without samples, before any acc operator.

    `ast_rewriter_allow_list` is taken for upstream's sake: nothing is rewritten here.
    """
    leaves = tuple(leaf_module_list or ())

    class Functions(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, (torch.jit.ScriptModule, *leaves))

    root = inference_copy(mod)
    return fx.GraphModule(root, Functions().trace(root), class_name=type(mod).__name__)


def _with_leaf_rule_of(base: type[fx.Tracer]) -> type[AccRewritingTracer]:
    """The acc tracer with the leaf modules of `base` besides its own."""

    class WithLeafRule(AccRewritingTracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            own = super().is_leaf_module(m, module_qualified_name)
            return own or base.is_leaf_module(self, m, module_qualified_name)

    return WithLeafRule


def _explained(mod: nn.Module, error: Exception) -> AccTraceError:
    """`error` with the model's name and the line of the model that raised it."""
    origin = error_origin(error)
    where = f"\n  {origin}" if origin else ""
    return AccTraceError(f"{type(mod).__name__} can't be traced: {error}{where}")

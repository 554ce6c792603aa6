"""MGXInterpreter: a traced graph, acc or ATen, as a `migraphx.program`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

import migraphx
from torch_migraphx.devices import TYPES, type_of
from torch_migraphx.fx.border import not_held
from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens
from torch_migraphx.fx.concrete import concrete, is_symbolic, known
from torch_migraphx.fx.converter import converter_of, target_name
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.converters.shape import dense_order
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.dtypes import shape_of
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import described, is_python, origin_of, refusal, value_of
from torch_migraphx.fx.graphs import copied, take_outputs_apart, with_values
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import is_acc_op
from torch_migraphx.fx.tracer.structure import leaf_names
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
WORDS = {"placeholder": ["@param"], "get_attr": ["@literal"]}
CREATE = (acc_ops.full, acc_ops.arange)
"""Make a tensor from numbers alone."""


class UnsupportedNodes(UnsupportedError):
    """The graph has nodes without a converter; the message has one line for each."""


class ConversionError(UnsupportedError):
    """A converter refused its arguments, or its answer has not the shape and type that torch gives."""


def became(words: Sequence[str], result: Any) -> str:
    """What a node was converted to: operators in order, and the shape of each value."""
    values = [x for x in tree_leaves(result) if isinstance(x, Value)]
    if not values:
        return repr(result)
    shapes = ", ".join(str(x.shape()) for x in values)
    return f"{', '.join(words) or 'no instruction of its own'} -> {shapes}"


class MGXInterpreter(fx.Interpreter):
    """Runs a graph on instructions instead of tensors: the run builds `program`.

    `inputs` are samples for the placeholders (tensors or fake tensors; numbers for symbolic sizes; tuples, lists and
    dicts of them): the shapes and types of the tensors become the program's parameters. `constants` names placeholders
    whose tensors become literals instead.
    `device` is the type of torch's devices on which the program is to run (default: where the samples are).
    What has no converter is taken apart by torch's decompositions, where these can be converted; UnsupportedNodes lists
    the rest before conversion starts. Sizes that are symbols become the numbers that they are for the samples. A fake
    mode that is on, as in a compiler of AOTAutograd, does not matter.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        verbose_log: bool = False,
        constants: Mapping[str, torch.Tensor] | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.traced = module
        self.inputs = list(inputs)
        self.constants = dict(constants or {})
        self.verbose_log = verbose_log
        self.device = device or type_of(inputs)
        self.program = migraphx.program()
        self.main = self.program.get_main_module()
        self.builder = Builder(self.main, self.program)
        self._names: list[str] = []
        self._output_names: list[str] = []
        self._literals: dict[int, Value] = {}

    def unsupported_nodes(self) -> list[fx.Node]:
        """The nodes without a converter."""
        return [n for n in self.traced.graph.nodes if refusal(n)]

    def run(self, *args: Any, **kwargs: Any) -> migraphx.program:
        """Convert; returns `program`. UnsupportedNodes, and ConversionError where a converter refuses its arguments."""
        with _disable_current_modes(), torch.no_grad():
            if is_symbolic(self.traced):
                mode = fake_mode()
                self.inputs = [known(x, mode) for x in self.inputs]
                self._take(concrete(self.traced, self.inputs))
            calls = [n for n in self.traced.graph.nodes if n.op.startswith("call_")]
            if self.unsupported_nodes() or not all("val" in n.meta for n in calls):
                gm = copied(self.traced)
                with_values(gm, self.inputs)
                take_outputs_apart(gm.graph)
                decompose(gm)
                self._take(gm)
            missing = self.unsupported_nodes()
            if missing:
                lines = "\n".join(f"  {described(n)}: {refusal(n)}" for n in missing)
                raise UnsupportedNodes(f"{len(missing)} nodes have no converter:\n{lines}")
            super().run(*self.inputs, enable_io_processing=False)
        return self.program

    def _take(self, gm: fx.GraphModule) -> None:
        """Convert this graph, of the same inputs and outputs, instead."""
        super().__init__(gm, garbage_collect_values=False)
        self.traced = gm

    def get_input_names(self) -> list[str]:
        """The program's parameters, in the order of the placeholders."""
        return list(self._names)

    def get_output_names(self) -> list[str]:
        """The nodes that the program returns, in order."""
        return list(self._output_names)

    # ---- nodes ----

    def run_node(self, n: fx.Node) -> Any:
        self.node = self.builder.node = n
        origin = origin_of(n)
        if origin and hasattr(self.main, "set_origin"):  # AMD's own API has no origins
            self.main.set_origin(origin)
        first = len(self.builder.words)
        result = super().run_node(n)
        check_against_torch(n, result)
        if self.verbose_log and n.op != "output":
            words = WORDS.get(n.op) or self.builder.words[first:]
            logger.info("%s became %s", described(n), became(words, result))
        return result

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        sample = super().placeholder(target, args, kwargs)
        if isinstance(sample, tuple | list | dict):
            found, spec = tree_flatten_with_path({str(target): sample})
            parts = [self._input(name, x) for name, (_, x) in zip(leaf_names(found), found, strict=True)]
            return tree_unflatten(parts, spec)[str(target)]
        return self._input(str(target), sample)

    def _input(self, name: str, sample: Any) -> Any:
        """The parameter, or the literal, that stands for an input or for a leaf of one."""
        value = self.constants.get(self.node.name, sample)
        if not isinstance(value, torch.Tensor):
            return value
        constant = self.node.name in self.constants
        if why := not_held(value, TYPES if constant else (self.device,)):
            return self.outside(value, why)
        if constant:
            return self.constant(value)
        self._names.append(name)
        gaps = dense_order(sample.shape, sample.stride()) is None
        return self.main.add_parameter(name, shape_of(sample, standard=gaps))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = self.fetch_attr(target)
        if not isinstance(value, torch.Tensor):
            return value
        why = not_held(value)
        return self.outside(value, why) if why else self.constant(value)

    def outside(self, x: torch.Tensor, why: str) -> Any:
        """What stands for the input or weight `x`, which the engine cannot hold."""
        raise UnsupportedError(f"{described(self.node)}: it {why}")

    def constant(self, tensor: torch.Tensor) -> Value:
        """One literal for each tensor, however often it is read."""
        if id(tensor) not in self._literals:
            self._literals[id(tensor)] = self.builder.literal(tensor)
        return self._literals[id(tensor)]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        leaves = tree_leaves((args, kwargs))
        known = not any(isinstance(x, Value) for x in leaves)
        if target is operator.getitem and isinstance(args[0], tuple | list | torch.Size):
            return args[0][args[1]]
        of_numbers = is_python(target) or (is_acc_op(target) and all(map(is_number, leaves)))
        tensor = isinstance(self.node.meta.get("val"), torch.Tensor)  # torch.add(2, 2) is one
        if known and of_numbers and not tensor and target not in CREATE:
            return target(*args, **kwargs)
        found = CONVERTERS.get(target)
        if found is None:
            raise UnsupportedError(refusal(self.node) or f"{target_name(target)} has no converter")
        return found(self.builder, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        raise UnsupportedError(f"Tensor.{target}: the graph is not normalized to acc or ATen operators")

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = converter_of(self.node)
        if found is None:
            raise UnsupportedError(refusal(self.node))
        return found(self.builder, args, kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        nodes = [n for n in tree_leaves(self.node.args[0]) if n is not None]
        for n in nodes:
            values = tree_leaves(self.env[n]) if isinstance(n, fx.Node) else []
            if not values or not all(isinstance(v, Value) for v in values):
                raise UnsupportedError(f"the graph returns {n!r}, which is no tensor of the engine")
        self.give(nodes)
        return args[0]

    def give(self, nodes: Iterable[fx.Node]) -> None:
        """End the program, which returns these nodes' values; a node of several gives `name_0`, `name_1`, ..."""
        values: list[Value] = []
        for n in nodes:
            own = tree_leaves(self.env[n])
            one = isinstance(self.env[n], Value)
            self._output_names += [n.name] if one else [f"{n.name}_{k}" for k in range(len(own))]
            values += own
        self.main.add_return(values)


def is_number(x: Any) -> bool:
    size = hasattr(x, "__index__") and not isinstance(x, torch.Tensor)  # as numbers of lengths that are not known yet
    return x is None or size or isinstance(x, float | str | slice | torch.dtype | torch.device)


def _is_read(node: fx.Node, number: int) -> bool:
    """Whether anyone reads this one of a node's results; torch 2.11 declares wrong types of some that nobody does."""
    indices = [user.args[1] if user.target is operator.getitem else None for user in node.users]
    return any(not isinstance(k, int) or k < 0 or k == number for k in indices)


def check_against_torch(node: fx.Node, result: Any) -> None:
    """ConversionError where a converted value that is read has not the shape or type that the tracer recorded."""
    want = value_of(node)
    if isinstance(want, tuple | list) and isinstance(result, tuple | list):
        pairs = [pair for k, pair in enumerate(zip(result, want, strict=False)) if _is_read(node, k)]
    else:
        pairs = [(result, want)]
    for got, tensor in pairs:
        if not isinstance(got, Value) or not isinstance(tensor, torch.Tensor):
            continue
        sizes = tuple(tensor.shape)
        known = all(isinstance(n, int) for n in sizes)  # else symbolic: the concrete sizes are those of the samples
        same = lens(got) == sizes if known else len(lens(got)) == len(sizes)
        if not same or dtype_of(got) != tensor.dtype:
            raise ConversionError(
                f"{described(node)}: converted to {dtype_of(got)} {list(lens(got))}, "
                f"torch gives {tensor.dtype} {list(sizes)}"
            )

"""The builder that converters write on: it computes what is small and constant as it goes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.inference import infer_shape
from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.operation import Parameter, operation
from migraphx.ir.program import Program
from migraphx.ir.ramp import Ramp
from migraphx.ir.shape import DynamicDimension
from migraphx.ir.size import hint_of, is_open, whole
from migraphx.onnx.graph import Graph, Node, OnnxError, Strings
from migraphx.onnx.schema import schema_of
from migraphx.ops.open_values import (
    comparison,
    computed,
    is_open_array,
    open_literal,
    open_value,
    open_values,
    plain,
    ramp_of,
)
from migraphx.passes.constants import scalar_of

LARGEST = 2**28  # elements; what is larger is not computed while reading
SMALL = 1024  # elements; larger constants are left to the compiler, which keeps one copy
MOST_NUMBERS = 2**16  # in a list of axes, lengths, pads
VIEWS_KEPT = ("multibroadcast",)  # what rules look for; their value is known all the same

Scope = ChainMap[str, Any]
"""Names to instructions; also to lists of them (sequences), and to None (an empty optional)."""


@dataclass(frozen=True)
class Options:
    """What `parse_onnx` takes; and `constants`, the values of inputs that are known, by parameter."""

    default_dim_value: int | DynamicDimension = 1
    map_input_dims: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    dim_params: Mapping[str, int | DynamicDimension] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    skip_unknown_operators: bool = False
    max_loop_iterations: int | None = None
    limit_max_iterations: int | None = None
    use_debug_symbols: bool = False
    dynamic: bool = False  # lengths and values that are not known are left to the run
    strict: bool = False  # what is not as the standard has it is an error, even where it is plain what is meant
    largest_constant: int = LARGEST  # elements of what is computed while reading


class Runner(Protocol):
    """The importer, as the builder knows it."""

    def graph(self, b: OnnxBuilder, graph: Graph, inputs: Sequence[Any]) -> list[Any]: ...

    def outputs(self, b: OnnxBuilder, node: Node, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any: ...


@dataclass(frozen=True)
class OnnxBuilder(Builder):
    """A Builder that folds small constants, and knows the node that is being converted."""

    program: Program = field(default_factory=Program)
    options: Options = field(default_factory=Options)
    runner: Runner | None = None
    node: Node | None = None
    call: str = ""  # the calls of functions that led here
    inner: bool = False  # whether the node is of a graph in another node's attributes
    scope: Scope = field(default_factory=Scope)
    bindings: Mapping[str, Any] = field(default_factory=dict)  # attributes of the function that is expanded
    values: dict[Instruction, np.ndarray | None] = field(default_factory=dict)  # constants, as far as asked for
    deviations: dict[str, None] = field(default_factory=dict)  # what was read as what it means
    ramps: dict[Instruction, Any] = field(default_factory=dict)  # what is known of values that are made of sizes

    # ---- building ----

    def instruction(
        self, name: str, inputs: Sequence[Instruction], modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        if any(i in self.ramps for i in inputs):
            return self._of_ramps(name, inputs, modules, **attributes)
        known = open_values(inputs) or [v for i in inputs if (v := self._value(i)) is not None]
        if modules or not inputs or len(known) < len(inputs):
            return super().instruction(name, inputs, modules, **attributes)
        op = operation(name, **attributes)
        shape = infer_shape(op, [i.shape for i in inputs])
        value = computed(op, known, shape)
        if value is None:
            return super().instruction(name, inputs, modules, **attributes)
        if name not in VIEWS_KEPT:
            return self.sizes(value, shape.type) if is_open_array(value) else self.literal(value)
        made = super().instruction(name, inputs, modules, **attributes)
        self.values[made] = value
        return made

    def _of_ramps(
        self, name: str, inputs: Sequence[Instruction], modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        made, known = super().instruction(name, inputs, modules, **attributes), [self._ramp(i) for i in inputs]
        answer = comparison(made.op, known, [scalar_of(i) for i in inputs])
        if answer is not None:
            return self.multibroadcast(self.literal(np.array([answer])), out_lens=made.shape.lens)
        ramp = ramp_of(made.op, known, made.shape)
        if ramp is not None:
            self.ramps[made] = ramp
        return made

    def _ramp(self, x: Instruction) -> Any:
        """What is known of a value: also of one number, in every place."""
        number = None if x in self.ramps else scalar_of(x)
        return Ramp(x.shape.lens, (0,) * x.shape.ndim, number) if isinstance(number, int) else self.ramps.get(x)

    def counted(self, count: int, type: str) -> Instruction:
        """0, 1, 2 ... below `count`."""
        if not is_open(count):
            return self.literal(np.arange(count), type)
        most = max(SMALL, 2 * hint_of(count))
        if count >= most:
            raise ValueError(f"more than {most} numbers")
        made = self.slice(self.literal(np.arange(most), type), axes=(0,), starts=(0,), ends=(count,))
        self.ramps[made] = Ramp((count,), (1,))
        return made

    def triangle(self, rows: int, columns: int, k: int) -> Instruction:
        """Whether an element of a matrix lies on its diagonal `k` or below."""
        if not is_open((rows, columns)):
            return self.literal(np.tri(rows, columns, k, dtype=np.bool_))
        row, column = (self.unsqueeze(self.counted(n, "int64"), axes=(d,)) for n, d in ((rows, 1), (columns, 0)))
        beyond = self.add(row, self.multibroadcast(self.literal([[int(k) + 1]], "int64"), out_lens=(rows, 1)))
        column, beyond = (self.multibroadcast(v, out_lens=(rows, columns)) for v in (column, beyond))
        return self.cast(self.less(column, beyond), "bool")

    def sizes(self, values: Any, type: str = "int64") -> Instruction:
        """A constant of integers of which some may be sizes."""
        if not any(map(is_open, np.asarray(values, object).reshape(-1))):
            return self.literal(np.asarray(values), type)
        return self.module.add_open_literal(open_literal(values, type), self.origin)

    # ---- constants ----

    def _value(self, x: Instruction) -> np.ndarray | None:
        """A constant's value where it is known already; an array of objects where that is made of sizes."""
        known = open_value(x)
        return self.values.get(x) if known is None else known

    def constant(self, x: Instruction) -> np.ndarray | None:
        """Its value where it depends on no input of the model, else None."""
        if x.literal is not None:
            return x.literal
        known = self.values.get(x)
        if known is not None and is_open_array(known):
            return plain(known, x.shape.type)
        if x not in self.values:
            self.values[x] = None
            if x.inputs and not x.modules and x.op.pure and x.shape.elements <= self.options.largest_constant:
                args = [self.constant(i) for i in x.inputs]
                if all(a is not None for a in args):
                    self.values[x] = x.op.compute(*args)  # type: ignore[arg-type]
        return self.values[x]

    def known(self, x: Instruction, what: str) -> np.ndarray:
        """Its value; OnnxError where it depends on the model's inputs."""
        value = self.constant(x)
        if value is None:
            error = OnnxError(f"its {what} depends on the model's inputs; it must be known when the model is read")
            error.inputs, error.values = parameters(x), (x,)
            raise error
        return value

    def ints(self, x: Any, what: str) -> tuple[int, ...] | None:
        """Integers given by an attribute or by a constant input of one dimension; None where there are none."""
        if isinstance(x, Strings):
            raise OnnxError(f"its {what} is a tensor of strings")
        if isinstance(x, Instruction):
            if x.shape.ndim > 1:
                raise OnnxError(f"its {what} must have one dimension, has lens {x.shape.lens}")
            if not x.shape.ndim:
                self.deviates(f"its {what} must have one dimension, is one number")
            if x.shape.elements > MOST_NUMBERS:
                raise OnnxError(f"its {what} has {x.shape.elements} elements")
            known = self._value(x)
            return tuple(whole(v) for v in (self.known(x, what) if known is None else known).reshape(-1))
        return x if x is None else tuple(whole(v) for v in x)

    def number(self, x: Any, what: str) -> Any:
        """A number given by an attribute or by a constant input of one element; None where there is none."""
        if not isinstance(x, Instruction):
            return x
        known = self._value(x)
        value = self.known(x, what) if known is None else known
        if value.size != 1:
            raise OnnxError(f"its {what} must have one element, has shape {value.shape}")
        return value.reshape(-1).tolist()[0]

    # ---- the node ----

    def deviates(self, how: str) -> None:
        """The node is not as the standard has it, though it is plain what is meant; OnnxError where that is refused."""
        if self.options.strict:
            raise OnnxError(f"{how}, which strict=True refuses")
        self.deviations[f"node {self.node.label if self.node else '?'}: {how}"] = None

    def wants(self, output: int) -> bool:
        """Whether anything names that output of the node."""
        return self.node is not None and any(self.node.outputs[output : output + 1])

    def alike(self, output: int, given: int) -> bool:
        """Whether the model declares an output of the node with the dimensions of an input of it."""
        return self.node is not None and (output, given) in {tuple(pair) for pair in self.node.alike}

    @property
    def version(self) -> int:
        """The opset of the node's domain."""
        return self.node.version if self.node else 1

    def subgraph(self, graph: Graph, inputs: Sequence[Any] = (), into: OnnxBuilder | None = None) -> list[Any]:
        """Convert a graph of the node's attributes in place (or with another builder); its outputs."""
        assert self.runner is not None
        return self.runner.graph(replace(into or self, inner=True), graph, inputs)

    def standard(self, op: str, version: int, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of an operator that the standard defines by a function, in place of this node's."""
        assert self.runner is not None and self.node is not None
        schema = schema_of("", op, version)
        assert schema is not None
        names = tuple(f"x{k}" if v is not None else "" for k, v in enumerate(inputs))
        given = dict(attributes)
        node = replace(self.node, op=op, domain="", version=version, inputs=names, attributes=given)
        return self.runner.outputs(replace(self, node=node), node, inputs, {**schema.defaults, **given})


def expect(x: Instruction | None, what: str, *lens: int | None) -> None:
    """OnnxError where an input has other lens than these, of which None is any length; fine where it is left out."""
    if x is None:
        return
    found = x.shape.lens
    if len(found) != len(lens) or any(n not in (None, m) for n, m in zip(lens, found, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in lens)
        raise OnnxError(f"its {what} has lens {found}, must have ({wanted})")


def axis_in(axis: int, ndim: int) -> int:
    """`axis` counted from the front; OnnxError where it is none of `ndim` dimensions."""
    if not -ndim <= axis < ndim:
        raise OnnxError(f"axis {axis} is not in a rank of {ndim}")
    return axis % ndim


def axes_in(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Axes counted from the front; OnnxError where one is none of `ndim` dimensions, or is there twice."""
    found = tuple(axis_in(a, ndim) for a in axes)
    if len(set(found)) < len(found):
        raise OnnxError(f"axes {tuple(axes)} name a dimension twice")
    return found


def parameters(x: Instruction) -> frozenset[str]:
    """The names of the parameters that a value depends on."""
    seen, stack = {x}, [x]
    while stack:
        ins = stack.pop()
        new = {i for i in (*ins.inputs, *captured(ins)) if i not in seen}
        seen |= new
        stack.extend(new)
    return frozenset(i.op.parameter for i in seen if isinstance(i.op, Parameter))


@contextmanager
def located(where: str, detail: Callable[[], str]) -> Iterator[None]:
    """Errors of a conversion become OnnxError naming the place."""
    try:
        yield
    except OnnxError as error:
        raise error if getattr(error, "located", False) else _at(where, error, detail) from error.__cause__
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError, MemoryError) as error:
        raise _at(where, error, detail) from error


def _at(where: str, error: Exception, detail: Callable[[], str]) -> OnnxError:
    made = OnnxError(f"{where}: {error}{detail()}")
    made.located = True  # type: ignore[attr-defined]
    made.inputs = getattr(error, "inputs", made.inputs)
    made.values = getattr(error, "values", made.values)
    return made

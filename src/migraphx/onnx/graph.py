"""What an ONNX model says, in plain Python: the importer reads this and never sees a protobuf message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from migraphx.ir.operation import Unsupported

ELEMENT_TYPES: dict[int, str] = {
    1: "float",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "half",
    11: "double",
    12: "uint32",
    13: "uint64",
    16: "bf16",
    17: "fp8e4m3fn",
    18: "fp8e4m3fnuz",
    19: "fp8e5m2",
    20: "fp8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "fp4e2m1fn",
    24: "fp8e8m0fnu",
    25: "uint2",
    26: "int2",
}
"""ONNX's TensorProto.DataType -> MIGraphX's type."""

ELEMENT_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


class OnnxError(ValueError):
    """A model that cannot be read: names the file, and the node, tensor or input.

    `inputs` are those of the model whose values would have to be known when it is read.
    """

    inputs: frozenset[str] = frozenset()
    values: tuple[Any, ...] = ()  # the instructions that would have to be constants


class UnsupportedOperators(OnnxError, Unsupported):
    """Operators that nothing here converts: lists all of the model's."""

    def __init__(self, rows: Sequence[str]) -> None:
        super().__init__("operators that are not supported:\n  " + "\n  ".join(rows))


def element_type(number: int) -> str:
    """MIGraphX's type for ONNX's number; OnnxError where there is none (strings, complex numbers)."""
    if number not in ELEMENT_TYPES:
        raise OnnxError(f"element type {number} of ONNX is not supported")
    return ELEMENT_TYPES[number]


@dataclass(frozen=True, eq=False)
class Strings:
    """A tensor of strings. The engine computes with numbers: strings exist while the model is read, as values."""

    value: np.ndarray  # of str objects

    @classmethod
    def of(cls, values: Any) -> Strings:
        """From an array, or lists, of str or bytes."""
        array = np.asarray(values, object)
        text = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in array.reshape(-1).tolist()]
        made = np.empty(array.shape, object)
        made.reshape(-1)[:] = text
        return cls(made)


@dataclass(frozen=True, eq=False)
class Map:
    """A map: its keys, which are known while the model is read, and a value for each of them, {n}."""

    keys: tuple[str | int, ...]
    values: Any  # an instruction, or Strings


@dataclass(frozen=True)
class DeferredStrings:
    """Strings that depend on values of a run, and so do not exist here; `inputs` are the model's that decide."""

    inputs: frozenset[str]


@dataclass(frozen=True)
class Reference:
    """An attribute inside a function that takes the value of the function's own attribute `name`."""

    name: str


@dataclass(frozen=True)
class ValueInfo:
    """A typed name; a dimension is a number, a name, or None; `dims` is None where nothing is said.

    `form` is () for a tensor; else `optional`, `sequence`, or both, from the outside in; or `map`, of values of `type`.
    """

    name: str
    type: str
    dims: tuple[int | str | None, ...] | None
    form: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """One application of an operator. `attributes` are those written; `version` is its domain's opset.

    `deviations`: how the file's node differs from the standard's, of which this is the meaning.
    `alike`: outputs, by number, that the model declares with the dimensions of an input of the node, and that input.
    """

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    version: int
    source: str = ""  # the exporter's word on where it came from
    deviations: tuple[str, ...] = ()
    alike: tuple[tuple[int, int], ...] = ()

    @property
    def label(self) -> str:
        """Name (or first output) and type, as errors and origins print them."""
        return f"{self.name or next(filter(None, self.outputs), '?')} ({self.full_op})"

    @property
    def full_op(self) -> str:
        return f"{self.domain}.{self.op}" if self.domain else self.op


@dataclass
class Graph:
    """Nodes in an order in which each comes after its inputs (see `importer.ordered`)."""

    name: str
    nodes: list[Node]
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    infos: dict[str, ValueInfo] = field(default_factory=dict)  # of inputs that are tensors
    refused: dict[str, str] = field(default_factory=dict)  # inputs that are not, and why
    results: dict[str, ValueInfo] = field(default_factory=dict)  # what the model declares of outputs that are tensors


@dataclass(frozen=True)
class Function:
    """A composite defined by nodes; `defaults` of its attributes has None for what is required."""

    graph: Graph
    defaults: dict[str, Any]


@dataclass
class Model:
    """The main graph and the functions that it may call, by (domain, name)."""

    graph: Graph
    functions: dict[tuple[str, str], Function]

"""Loading ONNX files: protobuf messages become the plain classes of graph.py."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from migraphx.onnx.deviations import Written, intended
from migraphx.onnx.graph import (
    ELEMENT_NUMBERS,
    ELEMENT_TYPES,
    Function,
    Graph,
    Model,
    Node,
    OnnxError,
    Reference,
    ValueInfo,
    element_type,
)
from migraphx.onnx.schema import onnx_package, schema_of
from migraphx.onnx.wire import without_weights

STANDARD = ("", "ai.onnx")  # two names of one domain
EXTERNAL = 1  # TensorProto.DataLocation
STRING = 8  # TensorProto.DataType
PACKED = frozenset({"int4", "uint4", "int2", "uint2", "fp4e2m1fn"})  # several elements a byte in raw data


# ---- files ----


def read(filename: str | os.PathLike[str], external_data_path: str = "") -> Model:
    """The model of a file, whose weights are views of the mapped file where they are aligned.

    External data must lie in `external_data_path`, or in the model's folder.
    """
    path = Path(filename)
    try:
        return _read(_mapped(path), Path(external_data_path or path.parent))
    except OnnxError as error:
        raise OnnxError(f"{path}: {error}") from error


def read_buffer(data: bytes, external_data_path: str = "") -> Model:
    """The model of a serialized ModelProto; its weights are views of `data` where they are aligned."""
    return _read(memoryview(data), Path(external_data_path) if external_data_path else None)


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _read(data: memoryview, folder: Path | None) -> Model:
    onnx = onnx_package()
    try:
        skeleton, weights = without_weights(data)
        message = onnx.ModelProto.FromString(skeleton)
    except Exception as error:  # protobuf's DecodeError is not always importable
        raise OnnxError(f"not an ONNX model: {error}") from None
    if not message.HasField("graph") or not message.opset_import:
        raise OnnxError("not an ONNX model: it has no graph or no opset")
    return _Reader(message, weights, folder).model()


class Tensors:
    """Reads tensors; external files are mapped once and must lie inside `folder`."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder.resolve() if folder else None
        self.files: dict[str, memoryview] = {}

    def array(self, tensor: Any, raw: memoryview | None = None) -> np.ndarray:
        """A TensorProto's values; `raw` is its raw data where that was kept apart. Memory is shared."""
        lens = tuple(tensor.dims)
        where = f"tensor {tensor.name!r}"
        if raw is None and tensor.data_location == EXTERNAL:
            raw = self._external(tensor, where)
        elif raw is None and tensor.HasField("raw_data"):
            raw = memoryview(tensor.raw_data)
        try:
            type = ELEMENT_TYPES.get(tensor.data_type)
            if raw is None or type is None or type in PACKED:
                if raw is not None:
                    tensor.raw_data, tensor.data_location = bytes(raw), 0
                return onnx_package().numpy_helper.to_array(tensor)
            dtype = onnx_package().helper.tensor_dtype_to_np_dtype(tensor.data_type)
            size = math.prod(lens) * dtype.itemsize
            if raw.nbytes != size:
                raise OnnxError(f"{where} has {raw.nbytes} bytes of data, its shape {lens} needs {size}")
            return aligned(np.frombuffer(raw, dtype).reshape(lens))
        except (ValueError, TypeError, KeyError) as error:
            raise error if isinstance(error, OnnxError) else OnnxError(f"{where}: {error}") from error

    def _external(self, tensor: Any, where: str) -> memoryview:
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise OnnxError(f"{where} is in {location!r}: give external_data_path")
        path = (self.folder / location).resolve()
        if not location or not path.is_relative_to(self.folder):
            raise OnnxError(f"{where}: its external data {location!r} is not inside the model's folder")
        if location not in self.files:
            if not path.is_file():
                raise OnnxError(f"{where}: its external data {location!r} does not exist in {self.folder}")
            self.files[location] = _mapped(path)
        data = self.files[location]
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", data.nbytes - offset))
        except ValueError:
            raise OnnxError(f"{where}: the offset or length of its external data is no number") from None
        if min(offset, length) < 0 or offset + length > data.nbytes:
            raise OnnxError(f"{where}: bytes {offset} to {offset + length} are not in {location!r} ({data.nbytes})")
        return data[offset : offset + length]

    def dense(self, sparse: Any) -> np.ndarray:
        """A SparseTensorProto's values, zeros filled in."""
        out = np.zeros(tuple(sparse.dims), (values := self.array(sparse.values)).dtype)
        indices = self.array(sparse.indices)
        try:
            if indices.ndim == 1:
                out.reshape(-1)[indices] = values
            else:
                out[tuple(indices.T)] = values
        except IndexError as error:
            raise OnnxError(f"sparse tensor {sparse.values.name!r}: {error}") from None
        return out


def aligned(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy where its elements do not start at multiples of their size."""
    return array if array.flags.aligned else array.copy()


# ---- messages ----


class _Reader:
    """Turns the messages of one model (or of one function of the standard) into plain classes."""

    def __init__(self, message: Any, weights: Mapping[int, memoryview], folder: Path | None) -> None:
        self.onnx = onnx_package()
        self.message, self.weights = message, weights
        self.tensors = Tensors(folder)
        self.kinds = {number: name for name, number in self.onnx.AttributeProto.AttributeType.items()}
        self.own = {(_domain(f.domain), f.name) for f in message.functions} if message is not None else set()

    def model(self) -> Model:
        opsets = self.opsets(self.message.opset_import)
        functions = {(_domain(f.domain), f.name): self.function(f) for f in self.message.functions}
        return Model(self.graph(self.message.graph, opsets, self.weights), functions)

    def opsets(self, entries: Iterable[Any]) -> dict[str, int]:
        """Versions by domain; OnnxError for one that the installed package does not know."""
        found = {_domain(e.domain): int(e.version) for e in entries}
        odd = [f"{v} of domain {d!r}" for d, v in found.items() if not 0 < v < 2**31]
        if odd:
            raise OnnxError(f"there is no opset {odd[0]}")
        newest = self.onnx.defs.onnx_opset_version()
        if found.get("", 1) > newest:
            raise OnnxError(f"opset {found['']} is newer than the installed package onnx knows ({newest})")
        return found

    def graph(self, message: Any, opsets: dict[str, int], weights: Mapping[int, memoryview] | None = None) -> Graph:
        tensors = [*message.initializer, *(s.values for s in message.sparse_initializer)]
        names = (v.name for v in (*message.input, *message.output, *tensors))
        check_texts(f"graph {message.name!r}", message.name, *names)
        check_unique(f"graph {message.name!r}: input", (v.name for v in message.input))
        check_unique(f"graph {message.name!r}: initializer", (t.name for t in tensors))
        graph = Graph(message.name, [self.node(n, opsets) for n in message.node])
        for index, tensor in enumerate(message.initializer):
            graph.initializers[tensor.name] = self.tensors.array(tensor, (weights or {}).get(index))
        for sparse in message.sparse_initializer:
            graph.initializers[sparse.values.name] = self.tensors.dense(sparse)
        graph.inputs = [i.name for i in message.input]
        graph.outputs = [o.name for o in message.output]
        for info in message.input:
            try:
                graph.infos[info.name] = self.info(info)
            except OnnxError as error:
                graph.refused[info.name] = str(error)
        given = {n: i.dims for n, i in graph.infos.items() if _known(i.dims)}
        for info in message.output:
            with suppress(OnnxError):  # what is no tensor
                graph.results[info.name] = self.info(info)
        made = {n: i.dims for n, i in graph.results.items() if _known(i.dims)}
        graph.nodes = [_with_alike(n, given, made) for n in graph.nodes]
        return graph

    def info(self, message: Any) -> ValueInfo:
        form, given = [], message.type
        while (kind := given.WhichOneof("value")) in ("sequence_type", "optional_type"):
            form.append(kind.removesuffix("_type"))
            given = getattr(given, kind).elem_type
        if kind == "map_type" and not form:
            kind, given = "tensor_type", given.map_type.value_type
            form = ["map"] if given.WhichOneof("value") == "tensor_type" else ["map", "map"]
        if kind != "tensor_type" or form not in ([], ["sequence"], ["optional"], ["optional", "sequence"], ["map"]):
            inner = (kind or "value without a type").removesuffix("_type")
            raise OnnxError(f"is not a tensor but a {' of a '.join([*form, inner])}")
        tensor = given.tensor_type
        type = "string" if tensor.elem_type == STRING else element_type(tensor.elem_type)
        if "map" in form:
            return ValueInfo(message.name, type, (None,), ("map",))
        if not tensor.HasField("shape"):
            return ValueInfo(message.name, type, None, tuple(form))
        dims = (d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim)
        return ValueInfo(message.name, type, tuple(dims), tuple(form))

    def function(self, message: Any) -> Function:
        opsets = self.opsets(message.opset_import)
        graph = Graph(message.name, [self.node(n, opsets) for n in message.node])
        graph.inputs, graph.outputs = list(message.input), list(message.output)
        defaults: dict[str, Any] = dict.fromkeys(message.attribute)
        return Function(graph, defaults | {a.name: self.value(a, opsets) for a in message.attribute_proto})

    def node(self, message: Any, opsets: dict[str, int]) -> Node:
        names = (message.name, *message.input, *message.output, *(a.name for a in message.attribute))
        check_texts(f"node {message.name!r}", message.op_type, message.domain, *names)
        domain = _domain(message.domain)
        node = Node(
            message.op_type,
            domain,
            message.name,
            tuple(message.input),
            tuple(message.output),
            {},
            opsets.get(domain, 1),
            _source(message),
        )
        if not domain and domain not in opsets:
            raise OnnxError(f"node {node.label}: the model imports no opset of the standard")
        attributes = {a.name: self.value(a, opsets, node.label) for a in message.attribute}
        if (domain, node.op) in self.own:
            return replace(node, attributes=attributes)
        return self.intended(node, message, attributes, opsets)

    def intended(self, node: Node, message: Any, attributes: dict[str, Any], opsets: dict[str, int]) -> Node:
        """The node as the standard would have it; OnnxError where it is not plain what that is."""
        kinds = {a.name: self.kinds[a.type] for a in message.attribute}
        plain = {n: (kinds[n], v) for n, v in attributes.items() if not isinstance(v, Reference)}
        references = {n: v for n, v in attributes.items() if isinstance(v, Reference)}
        count = max((k + 1 for k, name in enumerate(node.inputs) if name), default=0)
        try:
            found = intended(
                Written(node.op, node.domain, node.version, count, plain), lambda domain: opsets.get(domain, 1)
            )
        except OnnxError as error:
            raise OnnxError(f"node {node.label}: {error}") from None
        given = {n: v for n, (_, v) in found.attributes.items()} | references
        return replace(node, domain=found.domain, version=found.version, attributes=given, deviations=found.deviations)

    def value(self, a: Any, opsets: dict[str, int], where: str = "") -> Any:
        """An attribute's value: a number, a string, an array, a graph, or a tuple of these."""
        if a.ref_attr_name:
            return Reference(a.ref_attr_name)
        kind = self.kinds[a.type]
        if kind == "GRAPH":
            return self.graph(a.g, opsets)
        if kind == "GRAPHS":
            return tuple(self.graph(g, opsets) for g in a.graphs)
        if kind == "TENSOR":
            return self.tensors.array(a.t)
        if kind == "TENSORS":
            return tuple(self.tensors.array(t) for t in a.tensors)
        if kind == "SPARSE_TENSOR":
            return self.tensors.dense(a.sparse_tensor)
        if kind == "TYPE_PROTO":
            return a.tp
        plain = {
            "FLOAT": "f",
            "INT": "i",
            "STRING": "s",
            "FLOATS": "floats",
            "INTS": "ints",
            "STRINGS": "strings",
        }
        if kind not in plain:
            raise OnnxError(f"node {where}: attribute {a.name!r} of kind {kind} is not supported")
        value = getattr(a, plain[kind])
        if kind == "STRING":
            return value.decode("utf-8", "replace")
        if kind == "STRINGS":
            return tuple(v.decode("utf-8", "replace") for v in value)
        return tuple(value) if kind in ("FLOATS", "INTS") else value


def check_texts(where: str, *texts: Any) -> None:
    """OnnxError where a name is no UTF-8, which protobuf hands out as bytes."""
    if any(isinstance(t, bytes) for t in texts):
        raise OnnxError(f"damaged: a name of {where} is no text")


def check_unique(where: str, names: Iterable[str]) -> None:
    """OnnxError where a name is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise OnnxError(f"{where} {name!r} is there twice")
        seen.add(name)


def _known(dims: tuple[int | str | None, ...] | None) -> bool:
    return dims is not None and None not in dims


def _with_alike(node: Node, given: Mapping[str, Any], made: Mapping[str, Any]) -> Node:
    """The node, knowing which outputs the model declares with the dimensions of which inputs of the node."""
    pairs = [
        (k, n)
        for k, output in enumerate(node.outputs)
        for n, name in enumerate(node.inputs)
        if output in made and made[output] == given.get(name)
    ]
    return replace(node, alike=tuple(pairs)) if pairs else node


def _domain(name: str) -> str:
    return "" if name in STANDARD else name


def _source(message: Any) -> str:
    """Where the exporter says the node came from: the last line of torch's stack trace."""
    properties = {p.key: p.value for p in message.metadata_props}
    trace = properties.get("pkg.torch.onnx.stack_trace", "").strip().splitlines()
    return trace[-2 if len(trace) > 1 else -1].strip() if trace else message.doc_string


# ---- functions of the standard ----


def standard_function(node: Node, types: list[tuple[str, tuple[int, ...]] | None]) -> Function | None:
    """The nodes by which the standard defines an operator on these inputs; None where it does not."""
    onnx = onnx_package()
    schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    versions = [v for v in schema.function_opset_versions if v <= node.version]
    if versions:
        body = schema.get_function_with_opset_version(versions[-1])
    else:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
        if not versions:
            return None
        message = onnx.NodeProto(op_type=node.op, domain=node.domain, input=node.inputs, output=node.outputs)
        for name, value in node.attributes.items():
            message.attribute.append(onnx.helper.make_attribute(name, value, attr_type=_kind(schema, name)))
        given = [_type_message(onnx, t) for t in types]
        body = schema.get_context_dependent_function_with_opset_version(
            versions[-1], message.SerializeToString(), [t.SerializeToString() for t in given]
        )
    if isinstance(body, bytes):
        body = onnx.FunctionProto.FromString(body)
    function = _Reader(None, {}, None).function(body)
    defaults = schema_of(node.domain, node.op, node.version)
    return Function(function.graph, dict.fromkeys(schema.attributes) | (defaults.defaults if defaults else {}))


def _kind(schema: Any, name: str) -> int:
    return schema.attributes[name].type.value


def _type_message(onnx: ModuleType, given: tuple[str, tuple[int, ...]] | None) -> Any:
    if given is None:
        return onnx.TypeProto()
    type, lens = given
    return onnx.helper.make_tensor_type_proto(ELEMENT_NUMBERS[type], lens)

"""The standard's backend interface (onnx.backend.base): `prepare`, `run_model`, `run_node`.

import migraphx.backend as backend
outputs = backend.prepare(onnx.load("model.onnx")).run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from migraphx.api.functions import TARGETS, get_target
from migraphx.api.program import program, published
from migraphx.ir.dtype import to_numpy
from migraphx.onnx.builder import Options
from migraphx.onnx.graph import Model, OnnxError, Strings, UnsupportedOperators
from migraphx.onnx.importer import Result, import_model, missing_operators
from migraphx.onnx.model import read_buffer
from migraphx.runtime.single_flight import SingleFlightLRU

MOST_KEPT = 32  # programs of one model


class MIGraphXRep(BackendRep):
    """A model that is compiled for the shapes of the inputs it is run on, once for each.

    Values of inputs on which a shape depends are compiled in, and strings, and only those: other values of them are
    another compilation. The last MOST_KEPT programs are kept.
    """

    def __init__(self, model: onnx.ModelProto, target: str) -> None:
        self.model: Model = read_buffer(model.SerializeToString())
        self.target = target
        constants = self.model.graph.initializers
        self.inputs = [i.name for i in model.graph.input if i.name not in constants]
        self.fixed: set[str] = set()  # parameters whose values are compiled in
        self.compiled: SingleFlightLRU[tuple, tuple[program, list[Result]]] = SingleFlightLRU(MOST_KEPT)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The model's outputs for its inputs, given in order or by name.

        A sequence is a list of arrays, a map a dict, an empty optional None.
        """
        if kwargs:
            raise TypeError(f"run takes no {', '.join(kwargs)}")
        given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(self.inputs, inputs, strict=True))
        if given.keys() != set(self.inputs):
            raise ValueError(f"the model's inputs are {self.inputs}, given {list(given)}")
        values = {n: flattened(n, self._typed(n, v)) for n, v in given.items()}
        arrays = {n: a for parts in values.values() for n, a in parts.items()}
        dims = {n: dims_of(v) for n, v in given.items()}
        compiled, results = self.program_for(dims, arrays)
        made = self.execute(compiled, {n: arrays[n] for n in compiled.get_parameter_names()})
        return tuple(gathered(r, made) for r in results)

    def _typed(self, name: str, value: Any) -> Any:
        """The numbers of a map as the model has them."""
        info = self.model.graph.infos.get(name)
        if not isinstance(value, Mapping) or info is None or info.type == "string":
            return value
        type = to_numpy(info.type).type
        return {key: type(number) for key, number in value.items()}

    def execute(self, compiled: program, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """The outputs of one of the compiled programs."""
        return [r.array for r in compiled.run(arrays)]

    def program_for(self, dims: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[program, list[Result]]:
        """Compile for these inputs, unless that is done; values are compiled in one after another as needed."""
        types = tuple((n, a.dtype.name, a.shape) for n, a in arrays.items())
        while True:
            constants = {n: a for n, a in arrays.items() if n in self.fixed}
            key = (types, *((n, content(a)) for n, a in constants.items()))
            try:
                return self.compiled.get(key, lambda constants=constants: self._compiled(dims, constants))
            except OnnxError as error:
                if not error.inputs - constants.keys():
                    raise
                self.fixed |= error.inputs

    def _compiled(self, dims: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> tuple[program, list[Result]]:
        imported = import_model(self.model, Options(map_input_dims=dims, constants=constants))
        made = published(imported.program)
        made.compile(get_target(self.target))
        return made, imported.results


def flattened(name: str, value: Any) -> dict[str, np.ndarray]:
    """The parameters that an input is: itself, one an item of a sequence, none for an empty optional."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        values = list(value.values())
        texts = any(isinstance(v, str) for v in values)
        keys = np.array([*value.keys(), None], object)[:-1]
        return {f"{name}.keys": keys, f"{name}.values": np.asarray(values, object if texts else None)}
    if isinstance(value, (list, tuple)):
        return {f"{name}[{k}]": np.asarray(v) for k, v in enumerate(value)}
    return {name: np.asarray(value)}


def content(array: np.ndarray) -> Any:
    """What tells arrays of one type and shape apart."""
    return tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()


def dims_of(value: Any) -> Any:
    """The lens of an array, those of every item of a sequence, of a map's values, None for an empty optional."""
    if isinstance(value, Mapping):
        return [len(value)]
    if isinstance(value, (list, tuple)):
        return [dims_of(v) for v in value]
    return None if value is None else np.shape(value)


def gathered(result: Result, made: Sequence[np.ndarray]) -> Any:
    """One output of the model from the outputs of the program."""
    if isinstance(result, list):
        return [gathered(r, made) for r in result]
    if isinstance(result, Strings):
        return result.value
    return None if result is None else made[result]


class MIGraphXBackend(Backend):
    """Runs models on target `cpu`; a subclass names another one, or another `rep`."""

    target = "cpu"
    rep = MIGraphXRep

    @classmethod
    def supports_device(cls, device: str) -> bool:
        kind = Device(device).type
        return kind == DeviceType.CPU if cls.target != "gpu" else kind == DeviceType.CUDA and "gpu" in TARGETS

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether all of the model's operators are supported."""
        if not cls.supports_device(device):
            return False
        try:
            return not missing_operators(read_buffer(model.SerializeToString()))
        except OnnxError:
            return False

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> MIGraphXRep:
        """A model that is ready to run; OnnxError lists the operators that are not supported."""
        if not cls.supports_device(device):
            raise ValueError(f"target {cls.target!r} does not run on device {device!r}")
        if kwargs:
            raise TypeError(f"prepare takes no {', '.join(kwargs)}")
        made = cls.rep(model, cls.target)
        if rows := missing_operators(made.model):
            raise UnsupportedOperators(rows)
        return made

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """One node of the standard's domain, of opset `opset_version` or the newest, on arrays."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(a) for a in inputs]
        names = [n for n in dict.fromkeys(node.input) if n]
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        graph = helper.make_graph([node], "node", infos, results)
        opset = helper.make_opsetid(node.domain, version)
        return cls.run_model(helper.make_model(graph, opset_imports=[opset]), arrays, device, **kwargs)


class RefBackend(MIGraphXBackend):
    """Runs models on target `ref`."""

    target = "ref"


prepare = MIGraphXBackend.prepare
run_model = MIGraphXBackend.run_model
run_node = MIGraphXBackend.run_node
supports_device = MIGraphXBackend.supports_device
is_compatible = MIGraphXBackend.is_compatible

"""cuDNN: convolutions, with a residual, a bias and ReLU where these are just what our epilogue says.

By the backend API: a graph of operations on tensors, the library's engines for it with their knobs, a plan that runs
one of them. The plan is chosen once, when the program is compiled, and kept as the engine's number and its knobs, which
mean the same to the same version of the library only. Source: cudnn_graph.h.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_bool, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cache
from threading import RLock
from typing import Any

from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.libraries.find import load
from migraphx.targets.gpu.library import Append, Unusable, declare, needed

TYPES = {"half": 2, "bf16": 9, "float": 0}  # cudnnDataType_t
FLOAT = 0  # the type of sums and of what lies between operations
CROSS_CORRELATION = 1  # cudnnConvolutionMode_t
ADD, RELU = 0, 100  # cudnnPointwiseMode_t
RANKED, SAFE = (
    3,
    2,
)  # cudnnBackendHeurMode_t: A, by a model of the device; FALLBACK, which knows more than TF32 for float
TENSOR_CORE = 0  # cudnnBackendNumericalNote_t: for operands of float it means TF32
INEXACT = {1, 2, 3, 4, 5, 6, 7, 8}  # operands or sums made narrower, FFT, another answer each time, Winograd
COMPILED_AT_RUN_TIME = 0  # cudnnBackendBehaviorNote_t: takes seconds, and another library
NOTES = 16  # of a kind, at most

# cudnnBackendAttributeType_t
HANDLE, DATA_TYPE, BOOLEAN, INT64, SINGLE, POINTER = 0, 1, 2, 3, 4, 6
CONV_MODE, HEURISTIC, KNOB, NUMERICAL, POINTWISE, DESCRIPTOR, BEHAVIOUR = 7, 8, 9, 11, 14, 15, 19
ELEMENTS: dict[int, Any] = {
    HANDLE: c_void_p, BOOLEAN: c_bool, INT64: c_int64, SINGLE: c_float, POINTER: c_void_p, DESCRIPTOR: c_void_p,
}  # fmt: skip


class Attribute(Enum):
    """What is set of a descriptor, or asked: cudnnBackendAttributeName_t, and the type of its elements."""

    POINTWISE_MODE = 0, POINTWISE
    POINTWISE_MATH_TYPE = 1, DATA_TYPE
    CONVOLUTION_SUMS_TYPE = 100, DATA_TYPE
    CONVOLUTION_MODE = 101, CONV_MODE
    CONVOLUTION_DILATIONS = 102, INT64
    CONVOLUTION_STRIDES = 103, INT64
    CONVOLUTION_PADDING_AFTER = 104, INT64
    CONVOLUTION_PADDING_BEFORE = 105, INT64
    CONVOLUTION_SPATIAL_DIMS = 106, INT64
    HEURISTIC_MODE = 200, HEURISTIC
    HEURISTIC_GRAPH = 201, DESCRIPTOR
    HEURISTIC_RESULTS = 202, DESCRIPTOR
    CONFIG_ENGINE = 300, DESCRIPTOR
    CONFIG_KNOBS = 302, DESCRIPTOR
    PLAN_HANDLE = 400, HANDLE
    PLAN_CONFIG = 401, DESCRIPTOR
    PLAN_WORKSPACE = 402, INT64
    KNOB_TYPE = 600, KNOB
    KNOB_VALUE = 601, INT64
    FORWARD_ALPHA = 700, SINGLE
    FORWARD_BETA = 701, SINGLE
    FORWARD_CONVOLUTION = 702, DESCRIPTOR
    FORWARD_W = 703, DESCRIPTOR
    FORWARD_X = 704, DESCRIPTOR
    FORWARD_Y = 705, DESCRIPTOR
    STEP_POINTWISE = 750, DESCRIPTOR
    STEP_X = 751, DESCRIPTOR
    STEP_B = 752, DESCRIPTOR
    STEP_Y = 753, DESCRIPTOR
    GRAPH_HANDLE = 800, HANDLE
    GRAPH_OPERATIONS = 801, DESCRIPTOR
    TENSOR_ALIGNMENT = 900, INT64
    TENSOR_TYPE = 901, DATA_TYPE
    TENSOR_LENS = 902, INT64
    TENSOR_STRIDES = 903, INT64
    TENSOR_NUMBER = 906, INT64
    TENSOR_VIRTUAL = 907, BOOLEAN
    PACK_NUMBERS = 1000, INT64
    PACK_POINTERS = 1001, POINTER
    PACK_WORKSPACE = 1003, POINTER
    ENGINE_GRAPH = 1300, DESCRIPTOR
    ENGINE_NUMBER = 1301, INT64
    ENGINE_NUMERICAL_NOTES = 1303, NUMERICAL
    ENGINE_BEHAVIOUR_NOTES = 1305, BEHAVIOUR


A = Attribute  # its name in the descriptors below


class Kind(IntEnum):
    """What a descriptor describes: cudnnBackendDescriptorType_t."""

    POINTWISE = 0
    CONVOLUTION = 1
    ENGINE = 2
    ENGINE_CONFIG = 3
    HEURISTIC = 4
    EXECUTION_PLAN = 5
    KNOB_CHOICE = 7
    OPERATION_CONVOLUTION_FORWARD = 10
    OPERATION_POINTWISE = 13
    OPERATION_GRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17


X, W, Y, BIAS, RESIDUAL, SUMS, ADDED, BIASED = range(1, 9)  # our tensors; the last three lie in registers
ALIGNED = 16  # bytes: where tensors begin
WORKSPACE = 64 << 20  # bytes: plans that need more are not taken
WANTED, ASKED = 6, 24  # plans of a convolution; engines that are looked at for them
KEPT = 512  # plans that programs may still ask for


@declare
@dataclass(frozen=True)
class ConvGraph:
    """y = relu(convolution of x and w + residual + bias), each but the convolution where it says so; sums in float.

    Pointers: x, w, the bias {channels} and the residual if there are any, the workspace, y. Lens are {N, C, spatial..}
    of x and y, {K, C / group, spatial..} of w; strides are in elements, those of a residual empty where there is none.
    `plan` is an engine's number and its knobs.
    """

    type: str
    x_lens: tuple[int, ...]
    x_strides: tuple[int, ...]
    w_lens: tuple[int, ...]
    w_strides: tuple[int, ...]
    y_lens: tuple[int, ...]
    y_strides: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    bias: bool = False
    residual: tuple[int, ...] = ()
    relu: bool = False
    plan: str = ""
    workspace: int = 0
    version: int = 0

    @property
    def tensors(self) -> list[int]:
        """Whose addresses a launch is given, but for the workspace."""
        return [X, W, *([BIAS] * self.bias), *([RESIDUAL] * bool(self.residual)), Y]

    def prepare(self, device: Accelerator) -> Append:
        with device.current():
            return needed(dnn(device.index), "cuDNN", self.version, "nvidia-cudnn-cu13").append(self)


Plans = Callable[[ConvGraph, int], list[ConvGraph]]
"""plans(graph, most): the library's ways to compute a graph without a plan, the best guess first."""


def plans_on(device: Accelerator) -> Plans | None:
    """The library's plans on a device: none where it is not installed."""
    if not device.chip.startswith("cuda:"):
        return None

    def plans(graph: ConvGraph, most: int) -> list[ConvGraph]:
        with device.current():  # the library is loaded when it is first asked
            library = dnn(device.index)
            return library.plans(graph, most) if library else []

    return plans


@cache
def dnn(index: int) -> Dnn | None:
    """The library on the device of this number, whose context is current; None where it is not installed."""
    found = load("cudnn") if load("cublasLt") else None  # which ends the process where it does not find that
    try:
        return Dnn(found) if found else None
    except (RuntimeError, AttributeError):
        return None


class Descriptor:
    """An object of the library's, which lives as long as what refers to it."""

    def __init__(self, library: ctypes.CDLL, kind: Kind, parts: Sequence[Descriptor] = ()) -> None:
        made = c_void_p()
        _check(library, "BackendCreateDescriptor", c_int(kind), byref(made))
        self.handle, self.parts = made, tuple(parts)
        weakref.finalize(self, library.cudnnBackendDestroyDescriptor, made).atexit = False


@dataclass(frozen=True)
class Plan:
    """A way to compute a graph that is ready to run; `text` says which, `workspace` what memory it needs."""

    descriptor: Descriptor
    text: str
    workspace: int


Value = tuple[Attribute, Sequence[Any]]
"""An attribute and its elements."""


class DnnError(RuntimeError):
    """A call of the library failed: says which, its status and the library's own words."""


def _check(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    status = getattr(library, f"cudnn{name}")(*arguments)
    if status:
        text = ctypes.create_string_buffer(512)
        library.cudnnGetLastErrorString(text, c_size_t(len(text)))
        raise DnnError(f"cudnn{name} failed with status {status}: {text.value.decode(errors='replace').strip()}")


class Dnn:
    """The dozen functions that we call. Methods stand inside a device's context."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self._lock = library, RLock()  # a handle serves one thread at a time
        library.cudnnGetVersion.restype = c_size_t
        self.version: int = library.cudnnGetVersion()
        self.handle = c_void_p()
        self._known: dict[ConvGraph, Plan] = {}
        self._open()

    def _open(self) -> None:
        """What graphs and plans are bound to: a handle on the current device."""
        self._call("Create", byref(self.handle))

    def _bound(self, attribute: Attribute) -> list[Value]:
        return [(attribute, [self.handle])]

    def _call(self, name: str, *arguments: Any) -> None:
        _check(self.library, name, *arguments)

    # ---- descriptors ----

    def _made(self, kind: Kind, *attributes: Value) -> Descriptor:
        """A descriptor with these attributes, finished."""
        parts = [v for attribute, values in attributes if attribute.value[1] == DESCRIPTOR for v in values]
        made = Descriptor(self.library, kind, parts)
        for attribute, values in attributes:
            number, type = attribute.value
            plain = [v.handle if isinstance(v, Descriptor) else v for v in values]
            array = (ELEMENTS.get(type, c_int) * len(plain))(*plain)
            self._call("BackendSetAttribute", made.handle, c_int(number), c_int(type), c_int64(len(plain)), array)
        self._call("BackendFinalize", made.handle)
        return made

    def _read(self, of: Descriptor, attribute: Attribute, most: int, into: Sequence[Descriptor] = ()) -> list[Any]:
        """An attribute's elements; descriptors are written into those that are given."""
        number, type = attribute.value
        count, element = c_int64(), ELEMENTS.get(type, c_int)
        array = (element * most)(*(d.handle for d in into)) if into else (element * most)()
        self._call(
            "BackendGetAttribute", of.handle, c_int(number), c_int(type), c_int64(most), byref(count), array
        )  # fmt: skip
        return list(into[: count.value]) if into else list(array[: count.value])

    def _tensor(self, number: int, type: int, lens: Sequence[int], strides: Sequence[int], virtual: bool) -> Descriptor:
        return self._made(
            Kind.TENSOR, (A.TENSOR_TYPE, [type]), (A.TENSOR_LENS, lens), (A.TENSOR_STRIDES, strides),
            (A.TENSOR_NUMBER, [number]), (A.TENSOR_ALIGNMENT, [ALIGNED]), (A.TENSOR_VIRTUAL, [virtual]),
        )  # fmt: skip

    def _convolution(self, graph: ConvGraph) -> Descriptor:
        axes = len(graph.stride)
        return self._made(
            Kind.CONVOLUTION, (A.CONVOLUTION_SUMS_TYPE, [FLOAT]), (A.CONVOLUTION_MODE, [CROSS_CORRELATION]),
            (A.CONVOLUTION_DILATIONS, graph.dilation), (A.CONVOLUTION_STRIDES, graph.stride),
            (A.CONVOLUTION_PADDING_AFTER, graph.after), (A.CONVOLUTION_PADDING_BEFORE, graph.before),
            (A.CONVOLUTION_SPATIAL_DIMS, [axes]),
        )  # fmt: skip

    def _graph(self, graph: ConvGraph) -> Descriptor:
        """The operations; a residual comes before the bias, as the library's own fused kernels have it."""
        type, lens, strides = TYPES[graph.type], graph.y_lens, graph.y_strides
        steps: list[tuple[int, int, Descriptor | None]] = []  # the sum's number, the mode, what is added
        if graph.residual:
            steps.append((ADDED, ADD, self._tensor(RESIDUAL, type, lens, graph.residual, False)))
        if graph.bias:
            channels, ones = lens[1], [1] * (len(lens) - 2)
            one_each = self._tensor(BIAS, type, [1, channels, *ones], [channels, 1, *(channels for _ in ones)], False)
            steps.append((BIASED, ADD, one_each))
        if graph.relu:
            steps.append((Y, RELU, None))
        last = len(steps)

        def between(number: int, at: int) -> Descriptor:
            return self._tensor(Y if at == last else number, type if at == last else FLOAT, lens, strides, at < last)

        value = between(SUMS, 0)
        x = self._tensor(X, type, graph.x_lens, graph.x_strides, False)
        w = self._tensor(W, type, graph.w_lens, graph.w_strides, False)
        operations = [
            self._made(
                Kind.OPERATION_CONVOLUTION_FORWARD, (A.FORWARD_ALPHA, [1.0]), (A.FORWARD_BETA, [0.0]),
                (A.FORWARD_CONVOLUTION, [self._convolution(graph)]),
                (A.FORWARD_W, [w]), (A.FORWARD_X, [x]), (A.FORWARD_Y, [value]),
            )
        ]  # fmt: skip
        for at, (number, mode, added) in enumerate(steps, 1):
            result = between(number, at)
            how = self._made(Kind.POINTWISE, (A.POINTWISE_MODE, [mode]), (A.POINTWISE_MATH_TYPE, [FLOAT]))
            ends: list[Value] = [(A.STEP_POINTWISE, [how]), (A.STEP_X, [value]), (A.STEP_Y, [result])]
            operations.append(self._made(Kind.OPERATION_POINTWISE, *ends, *([(A.STEP_B, [added])] if added else [])))
            value = result
        return self._made(Kind.OPERATION_GRAPH, (A.GRAPH_OPERATIONS, operations), *self._bound(A.GRAPH_HANDLE))

    # ---- plans ----

    def plans(self, graph: ConvGraph, most: int = WANTED) -> list[ConvGraph]:
        """What the library proposes and can run, the best guess first; none where it has nothing for the graph."""
        with self._lock:
            return self._proposed(graph, most)

    def _proposed(self, graph: ConvGraph, most: int) -> list[ConvGraph]:
        found: list[ConvGraph] = []
        try:
            operations = self._graph(graph)
            for config in self._configs(operations, SAFE if graph.type == "float" else RANKED):
                if len(found) == most:
                    break
                try:
                    plan = self._plan(config, self._text(config, graph.type))
                except DnnError:
                    continue  # this one cannot
                if plan is not None and plan.workspace <= WORKSPACE:
                    one = replace(graph, plan=plan.text, workspace=plan.workspace, version=self.version)
                    self._keep(one, plan)
                    found.append(one)
        except DnnError:
            return []
        return found

    def _configs(self, operations: Descriptor, mode: int) -> Iterator[Descriptor]:
        """Engines with their knobs, as the library ranks them."""
        asked: list[Value] = [(A.HEURISTIC_GRAPH, [operations]), (A.HEURISTIC_MODE, [mode])]
        ranked = self._made(Kind.HEURISTIC, *asked)
        into = [Descriptor(self.library, Kind.ENGINE_CONFIG, [ranked]) for _ in range(ASKED)]
        yield from self._read(ranked, A.HEURISTIC_RESULTS, ASKED, into)

    def _text(self, config: Descriptor, type: str) -> str | None:
        """An engine's number and knobs; None for one whose answers are not exact, or that is compiled first."""
        (engine,) = self._read(config, A.CONFIG_ENGINE, 1, [Descriptor(self.library, Kind.ENGINE)])
        notes = set(self._read(engine, A.ENGINE_NUMERICAL_NOTES, NOTES))
        behaviour = self._read(engine, A.ENGINE_BEHAVIOUR_NOTES, NOTES)
        if notes & INEXACT or (type == "float" and TENSOR_CORE in notes) or COMPILED_AT_RUN_TIME in behaviour:
            return None
        (number,) = self._read(engine, A.ENGINE_NUMBER, 1)
        into = [Descriptor(self.library, Kind.KNOB_CHOICE) for _ in range(64)]
        knobs = self._read(config, A.CONFIG_KNOBS, 64, into)
        values = [(self._read(k, A.KNOB_TYPE, 1)[0], self._read(k, A.KNOB_VALUE, 1)[0]) for k in knobs]
        return " ".join([str(number), *(f"{k}={v}" for k, v in sorted(values))])

    def _plan(self, config: Descriptor, text: str | None) -> Plan | None:
        if text is None:
            return None
        made = self._made(Kind.EXECUTION_PLAN, (A.PLAN_CONFIG, [config]), *self._bound(A.PLAN_HANDLE))
        (workspace,) = self._read(made, A.PLAN_WORKSPACE, 1)
        return Plan(made, text, workspace)

    def _keep(self, graph: ConvGraph, plan: Plan) -> None:
        while len(self._known) >= KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[graph] = plan

    def _planned(self, graph: ConvGraph) -> Plan:
        """The plan that a graph names."""
        if graph not in self._known:
            number, *knobs = graph.plan.split()
            pairs = [tuple(map(int, k.split("="))) for k in knobs]
            operations = self._graph(graph)
            engine = self._made(Kind.ENGINE, (A.ENGINE_GRAPH, [operations]), (A.ENGINE_NUMBER, [int(number)]))
            chosen = [
                self._made(Kind.KNOB_CHOICE, (A.KNOB_TYPE, [kind]), (A.KNOB_VALUE, [value])) for kind, value in pairs
            ]
            attributes: list[Value] = [(A.CONFIG_ENGINE, [engine])]
            config = self._made(Kind.ENGINE_CONFIG, *attributes, *([(A.CONFIG_KNOBS, chosen)] if chosen else []))
            plan = self._plan(config, graph.plan)
            assert plan is not None
            self._keep(graph, plan)
        return self._known[graph]

    def append(self, graph: ConvGraph) -> Append:
        """What appends the convolution to a stream."""
        with self._lock:
            plan, numbers = self._planned(graph), graph.tensors
        if plan.workspace > graph.workspace:
            raise Unusable(
                f"the program has {graph.workspace:,} bytes for cuDNN's plan, which takes {plan.workspace:,}"
            )

        def append(pointers: Sequence[int], stream: int) -> None:
            *reads, workspace, y = pointers
            pack = self._made(
                Kind.VARIANT_PACK, (A.PACK_NUMBERS, numbers), (A.PACK_POINTERS, [*reads, y]),
                (A.PACK_WORKSPACE, [workspace]),
            )  # fmt: skip
            with self._lock:  # a handle has one stream
                self._call("SetStream", self.handle, c_void_p(stream))
                self._call("BackendExecute", self.handle, plan.descriptor.handle, pack.handle)

        return append

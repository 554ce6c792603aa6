"""Tuples, and operators that choose which module runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation, RunModule, Value
from migraphx.ir.ranges import ranges
from migraphx.ir.shape import UNKNOWN, DynamicDimension, Shape

AnyModule = TypeVar("AnyModule", bound=ModuleArgument)


def form(s: Shape) -> tuple[str, tuple[int, ...], tuple[DynamicDimension, ...]]:
    """What an input and the module's parameter must have in common."""
    return s.type, s.lens, s.dyn_dims


class GetTupleElem(Operation, name="get_tuple_elem"):
    """Element `index` of a tuple."""

    arity = 1
    view = True
    takes_dynamic = True
    index: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        if x == UNKNOWN:
            return UNKNOWN
        self.require(0 <= self.index < len(x.sub_shapes), inputs, f"no element {self.index}")
        return x.sub_shapes[self.index]

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        return args[0][self.index]


class If(Operation, name="if"):
    """The outputs of the first module where the condition, one bool, is true, else of the second (ONNX If).

    Further inputs are the parameters of both modules, in order. The result is a tuple.
    """

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 2, inputs, "takes two modules")
        self.require(len(inputs) > 0, inputs, "takes a condition")
        condition, *rest = inputs
        self.require(condition.type == "bool" and condition.elements == 1, inputs, "takes one bool")
        for module in modules:
            takes = [form(p.shape) for p in module.parameters.values()]
            right = takes == [form(s) for s in rest]
            self.require(right, inputs, f"module {module.name!r} takes {takes}")
        first, second = ([s.as_standard() for s in m.output_shapes] for m in modules)
        self.require(first == second, inputs, "the modules' outputs differ in type or lens")
        return Shape.tuple_of(first)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        condition, *rest = args
        return tuple(run(modules[0 if bool(np.all(condition)) else 1], rest))


class Loop(Operation, name="loop"):
    """Run the module while its condition holds, at most `trips` and at most `max_iterations` times (ONNX Loop).

    Inputs: trips (one int64), the first condition (one bool), then the first values of what is carried. The module
    takes the trip's number, the condition and what is carried; it returns the next condition, what is carried on,
    and values to gather. The result is a tuple: what was carried last, then the gathered, {max_iterations, ...}
    each: row k is of trip k, or the k-th from the end where `scan_output_directions` has 1 for it. Rows of trips
    that were not made are 0.
    """

    max_iterations: int = 10
    scan_output_directions: tuple[int, ...] = ()

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 1, inputs, "takes one module")
        self.require(len(inputs) >= 2, inputs, "takes the number of trips and a condition")
        self.require(self.max_iterations >= 0, inputs, "max_iterations is negative")
        trips, condition, *state = inputs
        self.require(trips.type == "int64" and trips.elements == 1, inputs, "takes one int64 as number of trips")
        self.require(condition.type == "bool" and condition.elements == 1, inputs, "takes one bool as condition")
        takes = [form(p.shape) for p in modules[0].parameters.values()]
        carried = [form(s) for s in state]
        number = takes[:1] and takes[0][0] == "int64" and not sum(takes[0][1], start=-len(takes[0][1]))
        right = number and takes[1:] == [form(condition), *carried]
        self.require(bool(right), inputs, f"module {modules[0].name!r} takes {takes}")
        first, *given = (s.as_standard() for s in modules[0].output_shapes)
        self.require(first.type == "bool" and first.elements == 1, inputs, "the module must return a condition first")
        kept = [form(s) for s in given[: len(state)]]
        self.require(kept == carried, inputs, f"module {modules[0].name!r} carries on {kept}")
        scans = given[len(state) :]
        ways = len(self.scan_output_directions)
        self.require(ways in (0, len(scans)), inputs, f"gathers {len(scans)} values, has {ways} directions")
        gathered = [Shape.of_dims(s.type, [self.max_iterations, *ranges(s)]) for s in scans]
        return Shape.tuple_of([*given[: len(state)], *gathered])

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        trips, going, *state = args
        number, _, *carried = modules[0].parameters.values()
        shapes = modules[0].output_shapes[1 + len(carried) :]
        scans = [np.zeros((self.max_iterations, *s.lens), s.numpy_dtype) for s in shapes]
        for k in range(min(int(trips.reshape(-1)[0]), self.max_iterations)):
            if not np.all(going):
                break
            going, *made = run(modules[0], [np.full(number.shape.lens, k, np.int64), going, *state])
            state, rows = made[: len(state)], made[len(state) :]
            for n, row in enumerate(rows):
                scans[n][-1 - k if self.backwards(n) else k] = row
        return (*state, *scans)

    def backwards(self, n: int) -> bool:
        """Whether the n-th gathered value is gathered from the end."""
        return bool(self.scan_output_directions and self.scan_output_directions[n])


class ScanSlice(Operation, name="scan_slice"):
    """Row `index` of x along `axis`, which stays with length 1; `direction` 1 counts from the end (ONNX Scan).

    Inputs: x, and index, one int64. IndexError outside of the axis.
    """

    arity = 2
    can_fail = True
    data_movement = True
    gathers = True
    axis: int = 0
    direction: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        x, index = inputs
        self.require(0 <= self.axis < x.ndim, inputs, f"no axis {self.axis}")
        self.require(index.type == "int64" and index.elements == 1, inputs, "takes one int64 as index")
        return Shape(x.type, tuple(1 if d == self.axis else n for d, n in enumerate(x.lens)), x.strides)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, index = args
        at, n = int(index.reshape(-1)[0]), x.shape[self.axis]
        if not 0 <= at < n:
            raise IndexError(f"scan_slice: index outside of {n} rows: found {at}")
        return x.take([n - 1 - at if self.direction else at], self.axis)


class RunOnTarget(Operation, name="run_on_target"):
    """The outputs of its module, as a tuple; `target_id` names the target that is meant to run it."""

    target_id: int = 0

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 1, inputs, "takes one module")
        takes = [form(p.shape) for p in modules[0].parameters.values()]
        right = takes == [form(s) for s in inputs]
        self.require(right, inputs, f"module {modules[0].name!r} takes {takes}")
        return Shape.tuple_of(s.as_standard() for s in modules[0].output_shapes)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        return tuple(run(modules[0], args))


class SelectModule(Operation, name="select_module"):
    """The outputs of the first module that takes inputs of these types and lens, as a tuple.

    Inputs are the modules' parameters in the order of their names. `output_dyn_shapes` is the tuple's shape while
    the inputs' lens are not known.
    """

    takes_dynamic: ClassVar[bool] = True
    output_dyn_shapes: Shape = Shape.tuple_of(())

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        if any(s.dynamic for s in inputs):
            return self.output_dyn_shapes
        chosen = pick(inputs, modules)
        if chosen is None:
            self.refuse(inputs, f"none of its {len(modules)} modules takes these inputs")
        return Shape.tuple_of(s.as_standard() for s in chosen.output_shapes)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        shapes = [Shape(dtypes.from_numpy(a.dtype), a.shape) for a in args]
        chosen = pick(shapes, modules)
        if chosen is None:
            self.refuse(shapes, f"none of its {len(modules)} modules takes these inputs")
        by_name = dict(zip(sorted(chosen.parameters), args, strict=False))
        return tuple(run(chosen, [by_name[n] for n in chosen.parameters]))


def pick(inputs: Sequence[Shape], modules: Sequence[AnyModule]) -> AnyModule | None:
    """The first module whose parameters, by name, have the types and lens of the inputs."""
    given = [(s.type, s.lens) for s in inputs]
    for module in modules:
        wanted = [(p.shape.type, p.shape.lens) for _, p in sorted(module.parameters.items())]
        if wanted == given:
            return module
    return None


class Undefined(Operation, name="undefined"):
    """No value: stands for an optional input that is left out."""

    arity = 0

    def infer(self, *inputs: Shape) -> Shape:
        return Shape.tuple_of(())

    def compute(self, *args: np.ndarray) -> Value:
        return ()

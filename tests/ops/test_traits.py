"""Traits mean the same for every operator that declares them, and whoever should declare one does."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Module
from migraphx.ir.operation import OPERATIONS, Operation, operation, operators
from migraphx.ir.shape import Shape, permuted
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.ops.scalar import COSTS, VOCABULARY, Cost
from migraphx.targets.common.lowering import lower
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.emit.reduce import REDUCERS
from migraphx.targets.cpu.lower import CPU as LOWERINGS
from migraphx.targets.cpu.target import CpuTarget
from migraphx.targets.cpu.toolchain import Features
from tests.ir.samples import ATTRIBUTES, INPUTS, add_random, plain_operators, random_inputs
from tests.ops.one_operator import random

CPU = CpuTarget()
ELEMENTWISE = [n for n in plain_operators() if issubclass(OPERATIONS[n], Pointwise)]
SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan])


def sample(name: str) -> Operation:
    return operation(name, **ATTRIBUTES.get(name, {}))


def values(type: str) -> np.ndarray:
    if type == "bool":
        return np.array([False, True])
    return SPECIAL.astype(type) if type == "float" else np.arange(-5, 6, dtype=type)


def types_of(name: str) -> list[str]:
    accepts = OPERATIONS[name].accepts  # type: ignore[attr-defined]
    return [t for t in ("float", "int32", "bool") if t in accepts and (t == "float") == (t in dtypes.FLOATS)]


def always(holds: Callable[..., bool], *arguments: Any) -> bool:
    with np.errstate(all="ignore"):
        return all(holds(*given) for given in product(*arguments))


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if OPERATIONS[n].arity == 2])
def test_inputs_of_commutative_operators_may_change_places(name: str) -> None:
    op = operation(name)

    def same(type: str) -> bool:
        x, y = (v.reshape(-1) for v in np.meshgrid(values(type), values(type)))
        return np.array_equal(op.compute(x, y), op.compute(y, x), equal_nan=type == "float")

    assert op.commutative == always(same, types_of(name))


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if OPERATIONS[n].arity == 1])
def test_idempotent_operators_change_nothing_the_second_time(name: str) -> None:
    op = sample(name)

    def same(type: str) -> bool:
        once = op.compute(values(type))
        return once.dtype == type and np.array_equal(once, op.compute(once), equal_nan=type == "float")

    assert op.idempotent == always(same, types_of(name))


# ---- data movement ----

CHOICES = {
    "where": "chooses element by element, and is fused as what computes is",
    "scatter_none": "writes into what it moves",
    "scatternd_none": "writes into what it moves",
    "onehot": "makes what it gives from indices",
    "pad": "puts a value of its own round what it is given",
    "im2col": "puts zeros round the image where there is padding",
    "as_shape": "its attribute names the type of the memory that it reads",
    "load": "its attribute names the type of the memory that it reads",
    "bit_cast": "another type's elements, even where that is the same one",
    "capture": "marks the value that it is given",
}
"""Operators that give elements of their inputs and are no data movement: why."""


def changed(v: np.ndarray) -> np.ndarray:
    """A function of each element that keeps neither order nor sums."""
    return 3 - 2 * v * v


def floats_moved(op: Operation, rng: np.random.Generator) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Random inputs and, for each, the same with all floats changed; integers stay."""
    for k in range(60):
        shapes = INPUTS[op.name] if op.name in INPUTS else random_inputs(op, rng)
        if any(s.sub_shapes for s in shapes) or "float" not in {s.type for s in shapes}:
            continue
        x = [random(rng, s.lens, s.type) if s.type in dtypes.FLOATS else np.full(s.lens, k % 2).astype(s.numpy_dtype)
             for s in shapes]  # fmt: skip
        yield x, [changed(v) if v.dtype == np.float32 else v for v in x]


def moves(op: Operation) -> bool | None:
    """Whether a function of every element may be applied before or behind it; None where there is nothing to try."""
    tried = None
    for x, other in floats_moved(op, np.random.default_rng(list(op.name.encode()))):
        try:
            with np.errstate(all="ignore"):
                before, behind = op.compute(*other), op.compute(*x)
        except (IndexError, ValueError):
            continue
        if not isinstance(before, np.ndarray) or before.dtype != np.float32 or not before.size:
            continue
        tried = True
        if not np.array_equal(before, changed(behind), equal_nan=True):
            return False
    return tried


@pytest.mark.parametrize("name", [n for n in plain_operators() if OPERATIONS[n].compute is not Operation.compute])
def test_data_movement_gives_elements_of_its_inputs_whatever_they_are(name: str) -> None:
    op = sample(name)
    assert op.data_movement == bool(moves(op) and name not in CHOICES)


def test_views_move_data() -> None:
    """All but those that read memory as something else, and elements of tuples."""
    others = {n for n in plain_operators() if OPERATIONS[n].view and not OPERATIONS[n].data_movement}
    assert others == {"as_shape", "load", "bit_cast", "capture", "get_tuple_elem"}


@pytest.mark.parametrize("name", [n for n in plain_operators() if OPERATIONS[n].gathers])
def test_gathers_read_no_more_than_they_give(name: str) -> None:
    op, table = operation(name), Shape("float", (1000, 8))
    indices = Shape("int64", {"gathernd": (3, 1), "gather_elements": (3, 8), "scan_slice": (1,)}.get(name, (3,)))
    out = op.infer(table, indices)
    assert op.data_movement and op.bytes_accessed([table, indices], out) == indices.bytes + 2 * out.bytes


def test_views_access_nothing() -> None:
    x = Shape("float", (2, 3))
    assert operation("transpose", permutation=(1, 0)).bytes_accessed([x], Shape("float", (3, 2), (1, 3))) == 0
    assert operation("add").bytes_accessed([x, x], x) == 3 * 24


# ---- what computes ----

IMAGE, FILTERS = Shape("float", (1, 4, 6, 6)), Shape("float", (4, 4, 3, 3))
OPERANDS: dict[str, tuple[list[Shape], int]] = {
    "dot": ([Shape("float", (2, 3, 4)), Shape("float", (2, 4, 5))], 2 * 3 * 4 * 5),
    "quant_dot": ([Shape("int8", (3, 4)), Shape("int8", (4, 5))], 3 * 4 * 5),
    "dot_int4": ([Shape("float", (3, 8)), Shape("int8", (4, 5)), Shape("float", (2, 5))], 3 * 8 * 5),
    "convolution": ([IMAGE, FILTERS], 4 * 4 * 4 * 4 * 9),
    "quant_convolution": ([IMAGE.with_type("int8"), FILTERS.with_type("int8")], 4 * 4 * 4 * 4 * 9),
    "convolution_backwards": ([IMAGE, FILTERS], 6 * 6 * 4 * 4 * 9),
    "embedding_bag": (
        [Shape("float", (2, 5, 7)), Shape("int64", (2, 3, 4)), Shape("float", (2, 3, 4))],
        2 * 3 * 4 * 7,
    ),
    "attention": ([Shape("float", (2, 4, 5, 8)), *[Shape("float", (2, 2, 7, 8))] * 2], 2 * 2 * 4 * 5 * 7 * 8),
}
"""Inputs of every contraction, and the products that it sums, counted by hand."""


@pytest.mark.parametrize("name", operators(lambda op: op.contraction))
def test_contractions_count_multiply_adds(name: str) -> None:
    shapes, products = OPERANDS[name]
    module = Module()
    inputs = [module.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    assert module.add_instruction(operation(name), inputs).flops == 2 * products


def test_operators_that_take_an_epilogue_are_those_that_have_such_kernels() -> None:
    taking = operators(lambda op: op.takes_epilogue)
    assert set(taking) == LOWERINGS.contractions() and all(OPERATIONS[n].contraction for n in taking)


def test_reductions_have_axes_a_count_and_a_kernel() -> None:
    names = operators(lambda op: issubclass(op, Reduction))
    assert set(REDUCERS) == {OPERATIONS[n] for n in names}
    module = Module()
    for name in names:
        x = module.add_parameter(name, Shape("bool" if name in ("reduce_any", "reduce_all") else "float", (2, 3, 4)))
        ins = module.add_instruction(operation(name, axes=(0, -1)), [x])
        assert ins.shape.lens == (1, 3, 1) and ins.flops == 24


def test_what_depends_on_lengths_is_not_counted_before_they_are_known() -> None:
    module = Module()
    rows = module.add_instruction(operation("nonzero_exact"), [module.add_parameter("x", Shape("float", (2, 3)))])
    assert rows.shape.dynamic and module.add_instruction(operation("neg"), [rows]).flops == 0


@pytest.mark.parametrize("name", operators(lambda op: op.spatial))
def test_spatial_operators_keep_channels_innermost(name: str) -> None:
    image, *rest = OPERANDS.get(name, ([IMAGE], 0))[0]
    last = permuted(image.type, image.lens, (0, 2, 3, 1))
    assert sample(name).infer(last, *rest).permutation == (0, 2, 3, 1)


@pytest.mark.parametrize("name", sorted({*plain_operators()} & LOWERINGS.operators() - {"get_tuple_elem", "dot_int4"}))
def test_what_a_kernel_checks_can_fail(name: str) -> None:
    """That NumPy's answers raise for what can fail alone, tests/ops/test_every_operator.py says.

    Without elements of tuples and weights of 4 bits, which need another instruction or a constant before them.
    """
    module = Module()
    ins = add_random(module, name, np.random.default_rng(list(name.encode())))
    module.add_return([] if ins.shape.sub_shapes else [ins])
    emitter = CppEmitter(Features(lanes=8, bf16_words=False, amx=False))
    assert ins.op.can_fail or not lower(module, LOWERINGS, emitter).checks


# ---- the cost of words ----


def test_costs_are_of_words() -> None:
    assert COSTS.keys() <= VOCABULARY.keys()


@pytest.mark.parametrize(("name", "costs"), [
    ("relu", {Cost.ARITHMETIC}), ("leaky_relu", {Cost.ARITHMETIC, Cost.MASK}), ("recip", {Cost.DIVISION}),
    ("elu", {Cost.ARITHMETIC, Cost.MASK, Cost.FUNCTION}), ("convert", {Cost.MASK}), ("tanh", {Cost.FUNCTION}),
])  # fmt: skip
def test_an_operator_costs_what_the_words_of_its_body_do(name: str, costs: set[Cost]) -> None:
    op = sample(name)
    assert isinstance(op, Pointwise) and op.costs == costs

"""Random modules of every operator that takes no module argument."""

from typing import Any

import numpy as np

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import OPERATIONS, Operation, ShapeError, operation
from migraphx.ir.shape import Shape

# attributes with which an operator takes some of the shapes below; {}: its defaults do
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "transpose": {"permutation": (0, 2, 3, 1)},
    "multibroadcast": {"out_lens": (5, 2, 3, 4, 4)},
    "broadcast": {"axis": 1, "out_lens": (5, 2, 3, 4, 4)},
    "scalar": {"scalar_bcst_dims": (2, 3)},
    "unsqueeze": {"axes": (0, -1)},
    "slice": {"axes": (0, 2), "starts": (0, -3), "ends": (1, 99)},
    "step": {"axes": (3,), "steps": (2,)},
    "reshape": {"dims": (0, -1)},
    "layout": {"permutation": (0, 2, 3, 1)},
    "reverse": {"axes": (1, 2)},
    "pad": {"pads": (0, 0, 1, 1, 0, 0, 2, 2), "value": -np.inf},
    "convolution": {"padding": (1, 1), "stride": (2, 1)},
    "pooling": {"mode": "max", "lengths": (2, 2), "ceil_mode": True},
    "resize": {"scales": (1, 1, 2, 1.5), "mode": "linear"},
    "onehot": {"depth": 3},
    "convert": {"target_type": "half"},
    "bit_cast": {"target_type": "uint8"},
    "dimensions_of": {"end": 1},
    "elu": {"alpha": 0.1},
    "lrn": {"alpha": 1e-05},
    **{name: {"hidden_size": 2} for name in ("rnn", "gru", "lstm")},
    "allocate": {"shape": Shape("half", (2, 3))},
    "outline": {"shape": Shape("float", (2, 3))},
    "as_shape": {"shape": Shape("float", (3, 2), (1, 3))},
    "load": {"shape": Shape("int64", (2,)), "offset": 8},
    "fixed_pad": {"output_lens": (3, 3, 4)},
    "concat_past_present": {"kv_num_heads": 2},
    "gqa_rotary_embedding": {"num_heads": 3, "kv_num_heads": 2},
    "lu_permutation": {"rows": 3},
    "linalg_check": {"api": "linalg.inv"},
}
# inputs of operators for which random ones rarely do
INPUTS: dict[str, list[Shape]] = {
    "pack_int4": [Shape("int8", (2, 4))],
    "dot_int4": [Shape("float", (2, 4)), Shape("int8", (2, 3)), Shape("float", (2, 3))],
    "unpack_int4": [Shape("uint8", (2, 4))],
    "pack_fp4": [Shape("float", (2, 4))],
    "unpack_fp4": [Shape("fp4x2", (2, 4))],
    "im2col": [Shape("float", (1, 3, 4, 4)), Shape("float", (5, 3, 2, 2))],
    "nonmaxsuppression": [
        Shape("float", (1, 5, 4)), Shape("float", (1, 2, 5)), Shape("int64", (1,)), Shape(), Shape(),
    ],
    "embedding_bag": [Shape("float", (2, 5, 4)), Shape("int64", (2, 3, 2)), Shape("float", (2, 3, 2))],
    "roialign": [Shape("float", (2, 3, 4, 4)), Shape("float", (5, 4)), Shape("int64", (5,))],
    "det": [Shape("float", (2, 3, 3))],
    "lu_permutation": [Shape("int32", (2, 3))],
    "linalg_check": [Shape("int32", (2,))],
    "householder_product": [Shape("float", (2, 4, 3)), Shape("float", (2, 3))],
    **{
        name: [Shape("float", (5, 1, 3)), Shape("float", (1, rows, 3)), Shape("float", (1, rows, 2))]
        for name, rows in (("rnn", 2), ("gru", 6), ("lstm", 8))
    },
    "allocate": [],
    "as_shape": [Shape("float", (2, 3))],
    "load": [Shape("float", (2, 3))],
    "fixed_pad": [Shape("float", (2, 3, 4))],
    "concat_past_present": [Shape("float", (2, 2, 1, 4)), Shape("int32", (2,)), Shape("float", (2, 2, 5, 4))],
    "gqa_rotary_embedding": [
        Shape("float", (2, 7, 3, 6)), Shape("int32", (2,)), Shape("float", (5, 2)), Shape("float", (5, 2)),
    ],
    "multinomial": [Shape("float", (2, 3)), Shape("float", (2, 5))],
    "random_uniform": [Shape("uint64", (1,)), Shape("float", (2, 3))],
    "scan_slice": [Shape("float", (2, 3, 4, 4)), Shape("int64", (1,))],
    "get_tuple_elem": [Shape.tuple_of([Shape("float", (2, 3)), Shape("int64", (2, 3))])],
}  # fmt: skip
LENS = ((2, 3, 4, 4), (3, 3, 2, 2), (1,), (2, 2), (2,), (2, 3, 4), (5, 4), ())
TYPES = ("float", "int64", "bool", "int8")
SHAPES = [[Shape(type, lens) for lens in LENS] for type in TYPES]


def plain_operators() -> list[str]:
    """Those that a module can be built of without module arguments."""
    ours = {n: c for n, c in OPERATIONS.items() if c.__module__.startswith("migraphx.ops.")}
    return sorted(n for n, c in ours.items() if c.infer is not Operation.infer)


def add_random(module: Module, name: str, rng: np.random.Generator) -> Instruction:
    """Add the operator on random inputs among the module's instructions, new parameters and literals."""
    op = operation(name, **ATTRIBUTES.get(name, {}))
    shapes = INPUTS[name] if name in INPUTS else random_inputs(op, rng)
    return Builder(module).instruction(name, [given(module, s, rng) for s in shapes], **op.attributes())


def random_inputs(op: Operation, rng: np.random.Generator, tries: int = 4000) -> list[Shape]:
    """Shapes that the operator takes, found by trying."""
    for _ in range(tries):
        count = op.arity if op.arity is not None else int(rng.integers(1, 5))
        shapes = [SHAPES[rng.integers(len(TYPES))][rng.integers(len(LENS))] for _ in range(count)]
        if rng.random() < 0.2:
            shapes = shapes[:1] * count
        try:
            op.infer_with(shapes, ())
        except ShapeError:
            continue
        return shapes
    raise LookupError(f"no inputs found for {op.name}: give them in INPUTS")


def given(module: Module, shape: Shape, rng: np.random.Generator) -> Instruction:
    """An instruction of that shape: one that is there, else a parameter or a literal."""
    same = [i for i in module if i.shape == shape]
    if same and rng.random() < 0.7:
        return same[rng.integers(len(same))]
    if rng.random() < 0.5 and not shape.sub_shapes:
        return module.add_literal((rng.standard_normal(shape.lens) * 3).astype(shape.numpy_dtype))
    return module.add_parameter(f"x{len(module.parameters)}", shape)


def random_module(names: list[str], rng: np.random.Generator) -> Module:
    """One instruction of each name, and a return of what nothing uses."""
    module = Module()
    for name in names:
        add_random(module, name, rng)
    module.add_return([i for i in module if not i.users and not i.shape.sub_shapes])
    return module

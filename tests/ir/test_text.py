import re

import ml_dtypes
import numpy as np
import pytest

from migraphx.ir.dtype import NUMPY_TYPES
from migraphx.ir.module import Module
from migraphx.ir.operation import OPERATIONS, Operation
from migraphx.ir.program import Program
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.ir.text import (
    TextError,
    attribute_text,
    module_text,
    parse_module,
    parse_program,
    parse_shape,
    program_text,
)
from migraphx.ir.verify import verify, verify_program
from tests.ir.samples import add_random, plain_operators, random_module
from tests.tiers import few


class Sampled(Operation, name="sampled_attributes"):
    """An operator with an attribute of every kind."""

    flag: bool = False
    count: int = 0
    scale: float = 0.0
    word: str = ""
    lens: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        return Shape()


def same(a: Module, b: Module) -> bool:
    """Equal instructions in equal order, literals compared by value."""
    if len(a) != len(b):
        return False
    place = {ins: n for m in (a, b) for n, ins in enumerate(m)}
    for x, y in zip(a, b, strict=True):
        one, other = x.literal, y.literal
        equal = x.op == y.op if one is None or other is None else one.tobytes() == other.tobytes()
        inputs = [place[i] for i in x.inputs] == [place[i] for i in y.inputs]
        if not (equal and inputs and x.shape == y.shape):
            return False
    return True


# ---- round trips ----


@pytest.mark.parametrize("name", plain_operators())
def test_every_operator_is_read_back(name):
    module, rng = Module(), np.random.default_rng(list(name.encode()))
    for _ in range(3):
        add_random(module, name, rng)
    verify(module)
    text = module_text(module, full=True)
    assert same(parse_module(text), module)
    assert module_text(parse_module(text), full=True) == text


@pytest.mark.parametrize("seed", few(range(20), *range(5)))
def test_random_modules_are_read_back(seed):
    rng = np.random.default_rng(seed)
    module = random_module([str(n) for n in rng.choice(plain_operators(), 30)], rng)
    verify(module)
    text = module_text(module, full=True)
    again = parse_module(text)
    verify(again)
    assert same(again, module)
    short = module_text(module)  # literals are elided or rounded: the text alone is equal
    assert module_text(parse_module(short)) == short


@pytest.mark.parametrize("type", list(NUMPY_TYPES))
def test_literals_of_every_type(type):
    module, dtype = Module(), NUMPY_TYPES[type]
    values = np.array([0, 1, 1, 0, 2, 3], np.float32).astype(dtype)
    module.add_literal(values.reshape(2, 3))
    module.add_literal(values.reshape(2, 3).T)
    module.add_literal(np.broadcast_to(values[1:2], (4, 1)))
    module.add_literal(values[0])
    module.add_literal(values[:0])
    assert same(parse_module(module_text(module)), module)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1, 1 / 3])
def test_special_floats(value):
    module = Module()
    literal = module.add_literal(np.array([value], np.float32))
    (again,) = parse_module(module_text(module, full=True))
    assert literal.literal is not None and again.literal is not None
    assert again.literal.tobytes() == literal.literal.tobytes()


def test_wide_integers():
    module = Module()
    module.add_literal(np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]))
    module.add_literal(np.array([np.iinfo(np.uint64).max]))
    assert same(parse_module(module_text(module)), module)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"flag": True, "count": -3, "scale": 0.1},
        {"scale": float("inf")},
        {"scale": -0.0},
        {"scale": 1e30},
        {"word": "half_pixel"},
        {"word": 'with "quotes", {braces}, [brackets] and a \\ backslash'},
        {"word": "12"},
        {"word": "nan"},
        {"lens": (1, 2), "scales": (1.0, 0.5), "words": ("a b", "", "c]")},
        {"rows": ((1, 2), (), (3,))},
    ],
)
def test_attributes(attributes):
    module = Module()
    ins = module.add_instruction(OPERATIONS["sampled_attributes"](**attributes))
    (again,) = parse_module(module_text(module))
    assert again.op == ins.op
    assert module_text(parse_module(module_text(module))) == module_text(module)


def test_attribute_text_is_upstreams():
    assert [attribute_text(v) for v in (True, 3, 1.0, 0.5, (1, 2), (), "max")] == [
        "1", "3", "1", "0.5", "{1, 2}", "{}", "max",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "shape",
    [
        Shape("float", (3, 5), (0, 1)),
        Shape("bf16", (), ()),
        Shape("fp8e4m3fnuz", (0, 2)),
        Shape("half", dyn_dims=(DynamicDimension(1, 4, (2, 4)), DynamicDimension(3, 3))),
        Shape.tuple_of([Shape("float", (2,)), Shape.tuple_of([Shape("int8", (1,)), Shape()])]),
        Shape.tuple_of([]),
    ],
)
def test_shapes_are_read_back(shape):
    assert parse_shape(str(shape)) == shape


# ---- programs of several modules ----

TWO_MODULES = """
module: "main"
x = @param:x -> float_type, {3}, {1}
y = @param:y -> float_type, {3}, {1}
@2 = pointwise(x,y), [inner] -> float_type, {3}, {1}
@3 = @return(@2)

module: "inner"
inner:x1 = @param:x1 -> float_type, {1}, {0}
inner:x0 = @param:x0 -> float_type, {1}, {0}
inner:@2 = mul(inner:x0,inner:x1) -> float_type, {1}, {0}
inner:@3 = @return(inner:@2)
"""


class Run(Operation, name="run_around"):
    """Runs its module, which may use the instructions around it."""

    def infer_with(self, inputs, modules) -> Shape:
        return modules[0].outputs[0].shape


CAPTURING = """
module: "main"
x = @param:x -> float_type, {3}, {1}
@1 = neg(x) -> float_type, {3}, {1}
@2 = run_around, [outer] -> float_type, {3}, {1}

module: "outer"
outer:@0 = run_around, [nested] -> float_type, {3}, {1}

module: "nested"
nested:@0 = add(x,@1) -> float_type, {3}, {1}
"""


@pytest.mark.parametrize("text", [TWO_MODULES, CAPTURING])
def test_programs_are_read_back(text):
    program = parse_program(text)
    verify_program(program)
    assert program_text(program).strip() == text.strip()
    copy = program.clone()
    verify_program(copy)
    assert program_text(copy).strip() == text.strip()


def test_a_module_may_be_used_twice():
    program = parse_program(TWO_MODULES.replace("@3 = @return(@2)", "@3 = pointwise(y,x), [inner]"))
    assert len({m for ins in program.main for m in ins.modules}) == 1
    copy = program.clone()
    assert len({m for ins in copy.main for m in ins.modules} | {copy.modules["inner"]}) == 1


def test_origins_are_comments():
    module = Module()
    module.add_literal(np.ones(2, np.float32), origin="conv1.weight")
    text = module_text(module, origins=True)
    assert text.endswith("/* conv1.weight */")
    assert module_text(parse_module(text)) == module_text(module)


def test_empty_program():
    assert program_text(parse_program(program_text(Program()))) == program_text(Program())


# ---- bad text ----


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("what is this", "not of the form"),
        ("@1 = relu(@9) -> float_type, {3}, {1}", "unknown name '@9'"),
        ("@1 = rellu(x) -> float_type, {3}, {1}", "did you mean 'relu'"),
        ("@1 = relu[a=1](x) -> float_type, {3}, {1}", "unknown attribute 'a'"),
        ("@1 = relu(x) -> float_type, {4}, {1}", r"inferred float_type, \{3\}, \{1\}"),
        ("@1 = relu(x) -> float_type, {3, 1}", "not a shape"),
        ("@1 = relu(x,x) -> float_type, {3}, {1}", "takes 1 input"),
        ("@1 = transpose[permutation={0}(x) -> float_type, {3}, {1}", "IndexError|index|transpose"),
        ("@1 = convert[target_type=floatt](x) -> float_type, {3}, {1}", "floatt"),
        ("x = relu(x) -> float_type, {3}, {1}", "defined twice"),
        ("@1 = pointwise(x), [m] -> float_type, {3}, {1}", "unknown module 'm'"),
        ("@1 = @literal{1, 2} -> float_type, {3}, {1}", "reshape"),
        ("@1 = @literal{1, 1e39, inf} -> float_type, {3}, {1}", "out of the range of float"),
        ("@1 = @literal{1, 70000, nan} -> half_type, {3}, {1}", "out of the range of half"),
        ("@1 = @literal{1, 500, nan} -> fp8e4m3fn_type, {3}, {1}", "out of the range of fp8e4m3fn"),
        ("@1 = @literal{1, 300, 2} -> int8_type, {3}, {1}", "out of bounds"),
    ],
)
def test_a_bad_line_is_named(line, why):
    with pytest.raises(TextError, match=why) as error:
        parse_module(f"x = @param:x -> float_type, {{3}}, {{1}}\n{line}\n")
    assert re.escape(line.split(" -> ")[0])[:8] in re.escape(str(error.value))


def test_bf16_literals_print_as_numbers():
    module = Module()
    module.add_literal(np.array([1.5], ml_dtypes.bfloat16))
    assert module_text(module) == "@0 = @literal{1.5} -> bf16_type, {1}, {1}"

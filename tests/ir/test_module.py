import numpy as np
import pytest

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation, Parameter, ShapeError, operation
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.text import module_text, parse_module, parse_program, program_text
from migraphx.ir.verify import VerifyError, verify, verify_program
from migraphx.targets.ref.evaluate import evaluate
from tests.ir.samples import plain_operators, random_module
from tests.tolerances import assert_close

ABC = """
x = @param:x -> float_type, {3}, {1}
@1 = neg(x) -> float_type, {3}, {1}
@2 = abs(@1) -> float_type, {3}, {1}
@3 = add(@1,@2) -> float_type, {3}, {1}
@4 = @return(@3)
"""


class RunModule(Operation, name="run_module"):
    """Runs its module, which may use the instructions around it."""

    def infer_with(self, inputs, modules) -> Shape:
        return modules[0].outputs[0].shape

    def compute_with(self, args, modules, run):
        return run(modules[0], args)[0]


def names(module: Module) -> list[str]:
    return [i.name for i in module]


# ---- building ----


def test_literals_and_parameters_go_to_the_front():
    m = Module()
    b = Builder(m)
    x = m.add_parameter("x", Shape("float", (3,)))
    y = b.neg(x)
    one = b.literal(np.ones(3, np.float32))
    z = m.add_parameter("z", Shape("float", (3,)))
    assert list(m) == [z, one, x, y]
    assert list(m.parameters) == ["x", "z"]
    assert m.outputs == (y,) and m.last is y and len(m) == 4
    m.add_return([y, one])
    assert m.outputs == (y, one) and m.output_shapes == [y.shape, one.shape]


def test_insertion_before_an_instruction():
    m = parse_module(ABC)
    _, one, two, *_ = m
    new = m.add_instruction(operation("exp"), [one], before=two, origin="here")
    assert names(m) == ["@param", "neg", "exp", "abs", "add", "@return"]
    assert new.origin == "here" and new in one.users
    verify(m)


def test_a_return_stays_the_last():
    m = parse_module(ABC)
    new = Builder(m).exp(m.outputs[0])
    assert names(m) == ["@param", "neg", "abs", "add", "exp", "@return"]
    m.replace_return([new])
    verify(m)


def test_a_literal_is_not_copied_and_read_only():
    values = np.ones(3, np.float32)
    literal = Module().add_literal(values)
    assert literal.literal is not None and np.shares_memory(literal.literal, values)
    assert not literal.literal.flags.writeable and values.flags.writeable


def test_a_name_is_given_once():
    m = Module()
    m.add_parameter("x", Shape())
    with pytest.raises(ValueError, match="already has a parameter 'x'"):
        m.add_parameter("x", Shape())


def test_a_second_return_is_refused_and_replaced():
    m = parse_module(ABC)
    with pytest.raises(ValueError, match="already returns"):
        m.add_return([])
    one = next(i for i in m if i.name == "neg")
    m.replace_return([one])
    assert m.outputs == (one,) and names(m).count("@return") == 1
    verify(m)


def test_a_refused_instruction_leaves_the_module_as_it_was():
    m = parse_module(ABC)
    before = module_text(m)
    x = m.parameters["x"]
    with pytest.raises(ShapeError, match=r"from model\.py:3"):
        m.add_instruction(operation("transpose"), [x], origin="model.py:3")
    assert module_text(m) == before and len(x.users) == 1


def test_an_empty_module_has_no_outputs():
    assert Module().outputs == () and len(Module()) == 0 and list(reversed(Module())) == []


# ---- changing ----


def test_replace_moves_users_but_not_the_new_one():
    m = parse_module(ABC)
    _, one, two, _, _ = m
    new = m.add_instruction(operation("exp"), [one], before=two)
    m.replace(one, new)
    assert new.inputs == (one,) and list(one.users) == [new]
    assert two.inputs == (new,) and set(new.users) == {two, next(iter(two.users))}
    m.replace(new, new)
    verify(m)


def test_replace_where_an_input_is_used_twice():
    given = "x = @param:x -> float_type, {3}, {1}\n@1 = neg(x)\n@2 = add(@1,@1)\n@3 = @return(@2,@1)"
    m = parse_module(given)
    x, one, two, ret = m
    m.replace(one, x)
    assert two.inputs == (x, x) and ret.inputs == (two, x) and not one.users
    m.remove(one)
    verify(m)


def test_replace_operation():
    m = parse_module(ABC)
    x, _, two, *_ = m
    m.replace_operation(two, operation("mul"), [x, x])
    assert two.name == "mul" and two in x.users and names(m) == ["@param", "neg", "mul", "add", "@return"]
    verify(m)
    with pytest.raises(ShapeError):
        m.replace_operation(two, operation("mul"), [x])


def test_remove():
    m = parse_module(ABC)
    _, one, two, three, ret = m
    with pytest.raises(ValueError, match="neg still has 2 users"):
        m.remove(one)
    for ins in (ret, three, two):
        m.remove(ins)
    assert names(m) == ["@param", "neg"] and not one.users and two.owner is None
    verify(m)


def test_remove_and_insert_while_iterating():
    m = parse_module(ABC)
    seen = []
    for ins in m:
        seen.append(ins.name)
        if ins.name in ("neg", "abs"):
            new = m.add_instruction(operation("exp"), ins.inputs, before=ins)
            m.replace(ins, new)
            m.remove(ins)
    assert seen == ["@param", "neg", "abs", "add", "@return"]
    assert names(m) == ["@param", "exp", "exp", "add", "@return"]
    verify(m)


def test_move_and_sort():
    m = parse_module(ABC)
    before = module_text(m)
    _, one, _, three, _ = m
    m.move(three, one)
    assert names(m) == ["@param", "add", "neg", "abs", "@return"]
    with pytest.raises(VerifyError, match="comes later"):
        verify(m)
    m.move(one, one)
    m.sort()
    assert module_text(m) == before
    verify(m)


@pytest.mark.parametrize("seed", range(5))
def test_sort_of_random_modules(seed):
    rng = np.random.default_rng(seed)
    m = random_module([str(n) for n in rng.choice(plain_operators(), 30)], rng)
    before = module_text(m)
    m.sort()
    assert module_text(m) == before, "a sorted module stays as it is"
    order = list(m)[:-1]
    for _ in range(40):
        a, b = rng.choice(len(order), 2, replace=False)
        m.move(order[a], order[b])
    m.sort()
    assert len(m) == len(order) + 1 and m.last is not None and m.last.name == "@return"
    verify(m)


def test_clear():
    m = parse_module(ABC)
    instructions = list(m)
    m.clear()
    assert len(m) == 0 and m.last is None and not any(i.users or i.owner for i in instructions)


# ---- copies ----


def test_clone_shares_nothing_that_changes():
    m = parse_module(ABC)
    before = module_text(m)
    copy = m.clone()
    assert module_text(copy) == before and not set(copy) & set(m)
    verify(copy)
    copy.replace_return([copy.parameters["x"]])
    assert module_text(m) == before
    verify(m)


def test_clone_shares_literals():
    m = Module()
    literal = m.add_literal(np.ones(3, np.float32), origin="w")
    (copy,) = m.clone()
    assert copy.op is literal.op and copy.origin == "w"


@pytest.mark.parametrize("before", [False, True])
def test_inline(before):
    m, other = parse_module(ABC), parse_module(ABC.replace("neg", "exp"))
    literal = other.add_literal(np.full(3, 2, np.float32))
    total = Builder(other).mul(other.outputs[0], literal)
    other.replace_return([total, literal])
    text = module_text(other)
    _, one, two, three, _ = m
    outputs = m.inline(other, {"x": one}, before=two if before else None)
    assert [o.name for o in outputs] == ["mul", "@literal"] and all(o.owner is m for o in outputs)
    assert module_text(other) == text
    m.replace_return([three, outputs[0]])
    verify(m)
    value = np.array([1, -2, 3], np.float32)
    got, inlined = evaluate(m, {"x": value})
    np.testing.assert_array_equal(got, -value + np.abs(value))
    assert_close(inlined, 2 * (np.exp(-value) * 2))


CAPTURING = """
module: "main"
x = @param:x -> float_type, {3}, {1}
@1 = neg(x) -> float_type, {3}, {1}
@2 = run_module, [body] -> float_type, {3}, {1}
@3 = @return(@2)

module: "body"
body:@0 = abs(@1) -> float_type, {3}, {1}
"""


def test_what_inner_modules_use_moves_along():
    program = parse_program(CAPTURING)
    text, value = program_text(program), np.array([1, -2, 3], np.float32)
    copy = program.clone()
    verify_program(copy)
    assert program_text(copy) == text
    assert evaluate(copy.main, {"x": value})[0].tolist() == [1, 2, 3]
    assert not {i for m in reachable(copy.main) for i in m} & {i for m in reachable(program.main) for i in m}

    main = Module()
    y = main.add_parameter("y", Shape("float", (3,)))
    main.add_return(main.inline(program.main, {"x": y}))
    verify(main)
    assert evaluate(main, {"y": value})[0].tolist() == [1, 2, 3]

    _, one, run, _ = program.main
    program.main.move(run, one)
    with pytest.raises(VerifyError, match="comes later"):
        verify(program.main)
    program.main.sort()
    assert program_text(program) == text


# ---- programs ----


def test_program_modules():
    program = Program()
    assert program.fresh_module("m").name == "m0" and program.fresh_module("m").name == "m1"
    with pytest.raises(ValueError, match="already has a module 'm0'"):
        program.create_module("m0")
    program.drop_unused_modules()
    assert list(program.modules) == ["main"]
    program = parse_program(CAPTURING)
    program.create_module("unused")
    assert list(program.clone().modules) == ["main", "body", "unused"]
    program.drop_unused_modules()
    assert list(program.modules) == ["main", "body"]


# ---- verify ----


def broken_shape(m: Module, ins: Instruction) -> None:
    ins.shape = Shape("half", (3,))


def broken_users(m: Module, ins: Instruction) -> None:
    ins.inputs[0].users.pop(ins)


def broken_inputs(m: Module, ins: Instruction) -> None:
    ins.inputs = ()


def broken_owner(m: Module, ins: Instruction) -> None:
    m._unlink(ins.inputs[0])


def broken_order(m: Module, ins: Instruction) -> None:
    m.move(ins, next(iter(m)))


def broken_return(m: Module, ins: Instruction) -> None:
    m.append(Instruction(operation("exp"), [ins], ins.shape))


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        (broken_shape, "has shape"),
        (broken_users, "does not know this user"),
        (broken_inputs, "does not have it as an input"),
        (broken_owner, "is removed"),
        (broken_order, "comes later"),
        (broken_return, "follow the return"),
    ],
)
def test_verify_finds_what_is_broken(breaks, why):
    m = parse_module(ABC)
    breaks(m, next(i for i in m if i.name == "abs"))
    with pytest.raises(VerifyError, match=why) as error:
        verify(m)
    assert "module 'main', @" in str(error.value)


def test_append_takes_instructions_of_no_module():
    m = Module()
    x = m.append(Instruction(Parameter("x"), (), Shape("float", (2,))))
    y = m.append(Instruction(operation("exp"), [x], x.shape))
    assert list(m) == [x, y] and y in x.users and y.owner is m
    with pytest.raises(ValueError, match="exp is part of module 'main' already"):
        Module("other").append(y)

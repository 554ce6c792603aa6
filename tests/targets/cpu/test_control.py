"""Loops, branches and slices by a trip's number on cpu: against `ref`, all in one program."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import parse_program, program_text
from migraphx.ir.verify import verify_program
from migraphx.runtime.argument import Argument
from migraphx.runtime.options import CompileOptions
from migraphx.targets.ref.evaluate import evaluate
from migraphx.targets.registry import get_target
from tests.tolerances import assert_close

X, NUMBER, BOOL = Shape("float", (3, 4)), Shape("int64"), Shape("bool")
MOST = 6


class Loops:
    """A program of loops over a state s {3, 4} and a count; x, rows and the weights come from outside of them."""

    def __init__(self) -> None:
        self.program = Program()
        self.main = self.program.main
        self.b = Builder(self.main)
        self.x = self.main.add_parameter("x", X)
        self.trips = self.main.add_parameter("trips", NUMBER)
        self.limit = self.main.add_parameter("limit", Shape("float"))
        self.rows = self.main.add_parameter("rows", Shape("float", (MOST, 3, 4)))
        self.weights = self.b.literal(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) * 0.3)
        self.outputs: list[Instruction] = []

    def add(self, trips: int | None, condition: bool, directions: tuple[int, int]) -> None:
        """State and count to the end; the state, and twice the state, gathered."""
        b, body = self.b, self.program.fresh_module("body")
        number, going = body.add_parameter("number", NUMBER), body.add_parameter("going", BOOL)
        state, count = body.add_parameter("state", X), body.add_parameter("count", Shape("float"))
        inner = Builder(body)
        row = inner.squeeze(inner.scan_slice(self.rows, number, axis=0, direction=1), axes=(0,))
        fresh = inner.tanh(inner.add(inner.dot(state, self.weights), inner.mul(row, self.x)))
        more = inner.add(count, inner.convert(number, target_type="float"))
        body.add_return(
            [
                inner.less(more, self.limit) if condition else going,
                *(fresh, more, fresh, inner.add(fresh, fresh)),
            ]
        )
        given = [self.trips if trips is None else b.literal(np.array([trips])), b.literal(np.array([True]))]
        zero = b.literal(np.zeros(1, np.float32))
        made = b.loop(*given, self.x, zero, modules=[body], max_iterations=MOST, scan_output_directions=directions)
        self.outputs += b.outputs(made, 4)

    def branch(self) -> None:
        """A row that is picked where trips > 2, seen through a view, else x; run on whatever target."""
        b, modules = self.b, []
        for name in ("then", "otherwise"):
            module = self.program.fresh_module(name)
            inner = Builder(module)
            row = inner.squeeze(inner.scan_slice(self.rows, self.trips, axis=0), axes=(0,))
            module.add_return([row if name == "then" else self.x, inner.relu(self.x)])
            modules.append(module)
        test = b.greater(self.trips, b.literal(np.array([2])))
        self.outputs += b.outputs(b.instruction("if", [test], modules), 2)
        module = self.program.fresh_module("there")
        given = module.add_parameter("given", X)
        module.add_return([Builder(module).exp(given)])
        self.outputs += b.outputs(b.run_on_target(self.x, modules=[module], target_id=1), 1)


def all_loops() -> Loops:
    made = Loops()
    for trips, condition, directions in (
        (MOST, False, (0, 0)),
        (MOST, False, (1, 1)),
        (3, False, (0, 1)),
        (None, False, (1, 0)),
        (None, True, (0, 1)),
        (5, True, (1, 0)),
    ):
        made.add(trips, condition, directions)
    made.branch()
    made.main.add_return(made.outputs)
    return made


@pytest.fixture(scope="module")
def loops() -> Loops:
    return all_loops()


def test_text(loops: Loops):
    verify_program(loops.program)
    text = program_text(loops.program)
    assert program_text(parse_program(text)) == text
    assert program_text(loops.program.clone()) == text


def test_answers(loops: Loops, target: str = "cpu"):
    executable = get_target(target).compile(loops.program.clone(), CompileOptions())
    rng = np.random.default_rng(1)
    for trips, limit in ((4, 5.0), (0, 100.0), (5, 2.0), (1, -1.0)):
        given = {
            "x": rng.normal(size=X.lens).astype(np.float32),
            "trips": np.array([trips]),
            "limit": np.array([limit], np.float32),
            "rows": rng.normal(size=(MOST, *X.lens)).astype(np.float32),
        }
        want = evaluate(loops.main, given)
        outputs = [np.full(s.lens, 77, s.numpy_dtype) for s in executable.outputs]
        places = [Argument(s, o.ctypes.data) for s, o in zip(executable.outputs, outputs, strict=True)]
        inputs = [Argument(s, given[n].ctypes.data) for n, s in executable.parameters.items()]
        executable.run(inputs, places)
        for value, right in zip(outputs, want, strict=True):
            assert_close(value, right, scale=4)


def test_a_slice_outside_is_an_error(target: str = "cpu"):
    program = Program()
    rows, index = program.main.add_parameter("rows", X), program.main.add_parameter("index", NUMBER)
    program.main.add_return([Builder(program.main).scan_slice(rows, index, axis=1, direction=1)])
    executable = get_target(target).compile(program.clone(), CompileOptions())
    data, out = np.arange(12, dtype=np.float32).reshape(X.lens), np.zeros((3, 1), np.float32)
    for at in (1, 4):
        place = np.array([at])
        given = [Argument(X, data.ctypes.data), Argument(NUMBER, place.ctypes.data)]
        if at < 4:
            executable.run(given, [Argument(executable.outputs[0], out.ctypes.data)])
            assert_close(out, data[:, 2:3])
            continue
        with pytest.raises(IndexError, match="out of range for a length of 4: found 4"):
            executable.run(given, None)
        with pytest.raises(IndexError, match="found 4"):
            evaluate(program.main, {"rows": data, "index": place})

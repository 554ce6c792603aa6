"""Runs take one thread where that is faster than several that lose their cores, as long as it is."""

from typing import Any, cast

import numpy as np
import pytest

import migraphx
from migraphx.targets.cpu.crew import FIRST_OF_ONE, LONG, MOST, TRIAL, Crew, times_taken
from migraphx.targets.cpu.executable import CpuExecutable


class Machine:
    """Runs take so many nanoseconds, by ways; `taken` counts with each run of all threads."""

    def __init__(self) -> None:
        self.together, self.alone, self.losing = 100.0, 180.0, 0
        self.taken = 0
        self.crew = Crew(lambda: self.taken)

    def run(self, count: int = 1) -> list[bool]:
        """Whether each run was of one thread."""
        ways = []
        for _ in range(count):
            ways.append(self.crew.alone)
            self.taken += 0 if ways[-1] else self.losing
            self.crew.ran(ways[-1], self.alone if ways[-1] else self.together)
        return ways

    def repeat(self, count: int) -> list[bool]:
        """As `run`, as many at once as the crew lets."""
        ways: list[bool] = []
        while len(ways) < count:
            runs, alone = self.crew.runs_at_once, self.crew.alone
            ways += [alone] * runs
            self.taken += 0 if alone else self.losing * runs
            self.crew.ran(alone, runs * (self.alone if alone else self.together), runs)
        return ways

    def neighbours(self, together: float) -> None:
        self.together, self.losing = together, 1


def test_a_quiet_machine_takes_all_threads():
    machine = Machine()
    machine.run(10)
    machine.together = 250.0  # slow, and nobody took a core: another clock, another input
    assert not any(machine.run(500))


@pytest.mark.parametrize("run", [Machine.run, Machine.repeat])
def test_one_thread_where_it_is_faster_until_neighbours_go(run):
    machine = Machine()
    run(machine, 10)
    machine.neighbours(400.0)
    run(machine, 100)
    ways = run(machine, 1000)
    assert 0 < ways.count(False) <= 1.2 * 1000 * TRIAL / MOST  # looks now and then whether they have gone
    machine.together, machine.losing = 100.0, 0
    run(machine, MOST + 4 * TRIAL)
    assert not any(run(machine, 200))


def test_neighbours_that_go_soon_cost_few_runs_of_one_thread():
    machine = Machine()
    machine.run(10)
    machine.neighbours(400.0)
    while not machine.crew.alone or machine.crew._trial is not None:
        machine.run(1)
    machine.together, machine.losing = 100.0, 0
    assert machine.run(100).count(True) <= FIRST_OF_ONE + TRIAL


def test_all_threads_where_they_are_faster_all_the_same():
    machine = Machine()
    machine.run(10)
    machine.neighbours(170.0)
    assert 0 < machine.run(1000).count(True) <= 1.2 * 1000 * TRIAL / MOST
    machine.run(1000)
    machine.alone = 300.0
    assert 0 < machine.run(1000).count(True) <= 1000 / MOST  # one run says it


def test_long_runs_take_all_threads():
    machine = Machine()
    machine.together, machine.alone = 2 * LONG, 3 * LONG
    machine.run(10)
    machine.neighbours(4 * LONG)
    assert not any(machine.run(200))


def test_runs_of_the_other_way_beside_it_are_not_counted():
    machine = Machine()
    machine.run(10)
    machine.neighbours(400.0)
    machine.run(40)
    assert machine.crew.alone
    machine.crew.ran(False, 1.0)  # began before the change
    assert machine.crew.alone


def test_cores_taken_are_counted():
    assert times_taken() >= 0


@pytest.mark.parametrize("threads", [0, 2])
def test_answers_are_the_same_and_num_threads_is_obeyed(threads, monkeypatch):
    used: list[int] = []
    native = CpuExecutable._call_native
    monkeypatch.setattr(CpuExecutable, "_call_native", lambda self, *a: (used.append(a[2]), native(self, *a))[1])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    program, rng = migraphx.program(), np.random.default_rng(0)
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape(type="float_type", lens=[512, 512]))
    w = main.add_literal(rng.standard_normal((512, 512), np.float32))
    main.add_return([main.add_instruction(migraphx.op("dot"), [x, w])])
    program.compile(migraphx.get_target("cpu"), num_threads=threads)
    inputs = {"x": rng.standard_normal((512, 512), np.float32)}
    several = np.array(program.run(inputs)[0])
    cast(Any, program.executable)._crew.alone = True
    one = np.array(program.run(inputs)[0])
    assert np.array_equal(several, one) and used == [2, 2 if threads else 1]

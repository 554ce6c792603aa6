"""Targets that are wrong on purpose, and the programs to find them out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.common_subexpressions import common_subexpressions
from migraphx.passes.dead_code import dead_code
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.ref.target import RefExecutable, RefTarget


def spoil(module: Module, name: str) -> None:
    """Add one to every result of the operator `name`."""
    for ins in [i for i in module if i.name == name]:
        users = list(ins.users)
        b = Builder(module, before=users[0])
        wrong = b.add(ins, b.full(1.0, ins))
        module.replace(ins, wrong)
        wrong.owner.replace_operation(wrong, wrong.op, [ins, wrong.inputs[1]])  # type: ignore[union-attr]


def wrong_exp(module: Module) -> None:
    spoil(module, "exp")


class WrongPass(RefTarget):
    """Its third pass spoils exp."""

    passes: Sequence[Pass] = (dead_code, common_subexpressions, wrong_exp, dead_code)

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        run_passes(program, self.passes)
        return RefExecutable(program)


class WrongKernel(RefTarget):
    """Its passes are right; what it runs spoils tanh."""

    passes: Sequence[Pass] = (dead_code, common_subexpressions)

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        run_passes(program, self.passes)
        spoil(program.main, "tanh")
        return RefExecutable(program)


class WrongTogether(RefTarget):
    """Wrong only where a program holds a relu and a tanh."""

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        names = {i.name for i in program.main}
        if {"relu", "tanh"} <= names and len([i for i in program.main if i.name == "relu"]) == 2:
            spoil(program.main, "tanh")
        return RefExecutable(program)


def chain(*names: str) -> Program:
    """x -> each operator in turn; returns the last and the first."""
    p = Program()
    x: Instruction = p.main.add_parameter("x", Shape("float", (4, 5)))
    made = []
    for n, name in enumerate(names):
        x = getattr(Builder(p.main, origin=f"line {n}"), name)(x)
        made.append(x)
    p.main.add_return([made[-1], made[0]])
    return p


def numbers(lens: tuple[int, ...] = (4, 5), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens).astype(np.float32)

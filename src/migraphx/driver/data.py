"""Inputs for a run: generated, filled with zeros or ones, or loaded."""

from __future__ import annotations

from argparse import Namespace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import migraphx
from migraphx.api.argument import argument
from migraphx.api.inputs import random_inputs
from migraphx.api.program import OUTPUT_PREFIX, program
from migraphx.api.shape import shape
from migraphx.driver import dims
from migraphx.driver.model import Inputs
from migraphx.driver.result import UsageError
from migraphx.driver.terminal import note
from migraphx.ir.dtype import INTEGERS


def generate(made: program, args: Namespace) -> Inputs:
    """A value for every input, the same at every call; UsageError names an input that does not exist or fit.

    Integers that become indices are drawn from the range of what they index.
    """
    shapes = {n: s for n, s in made.get_parameter_shapes().items() if not n.startswith(OUTPUT_PREFIX)}
    lens = dims.lens("--input-dim", args.input_dim)
    static = {n: static_shape(n, s, lens.get(n), args.batch) for n, s in shapes.items()}
    if chosen := {n: list(s.lens()) for n, s in static.items() if shapes[n].dynamic() and n not in lens}:
        note(f"Open lengths are {args.batch}, by --batch (--input-dim chooses them): {chosen}")
    made_of: dict[str, Any] = {}
    for value, names in ((0, args.fill0), (1, args.fill1)):
        made_of |= {n: partial(migraphx.fill_argument, value=value) for n in names}
    made_of |= {n: partial(_loaded, Path(f)) for n, f in dims.one_each("--load-arg", args.load_arg, str).items()}
    for name in made_of:
        if name not in static:
            near = get_close_matches(name, static, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(static) or 'none'}"
            raise UsageError(f"the program has no input {name!r}; {hint}")
    given = {name: make(static[name]) for name, make in made_of.items()}
    return (random_inputs(made, static) if len(given) < len(static) else {}) | given


def drawn(args: Namespace, inputs: Inputs) -> list[str]:
    """The integer inputs whose values nobody chose."""
    chosen = {*args.fill0, *args.fill1, *dims.one_each("--load-arg", args.load_arg, str)}
    return [name for name, a in inputs.items() if a.shape.type in INTEGERS and name not in chosen]


def static_shape(name: str, s: shape, lens: list[int] | None, batch: int) -> shape:
    """A shape that can be filled: open dimensions have the lengths of `--input-dim`, or else the batch's."""
    if not s.dynamic():
        return s
    dims = s.dyn_dims()
    wanted = lens or [d.min if d.is_fixed() else batch for d in dims]
    if len(wanted) != len(dims):
        raise UsageError(f"--input-dim: input {name!r} has {len(dims)} dimensions, got {wanted}")
    for k, (n, d) in enumerate(zip(wanted, dims, strict=True)):
        if not d.min <= n <= d.max:
            raise UsageError(
                f"input {name!r}: dimension {k} must be in [{d.min}, {d.max}], is {n}; "
                f"choose it by --batch, or by --input-dim @{name} ..."
            )
    return shape(type=s.type(), lens=wanted)


def _loaded(path: Path, s: shape) -> argument:
    """A file's value; its shape is checked by the run, its type here."""
    value = argument(np.load(path, allow_pickle=False)) if path.suffix == ".npy" else argument.load(path)
    if value.get_shape().type() != s.type():
        raise ValueError(f"{path}: holds {value.get_shape()}, the input is {s}")
    return value

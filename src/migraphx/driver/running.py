"""Running a compiled program over and over."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import migraphx
from migraphx.api.argument import publish
from migraphx.api.program import program
from migraphx.driver.data import drawn
from migraphx.driver.model import Inputs
from migraphx.driver.result import RunError
from migraphx.driver.terminal import progress


@contextmanager
def data_at_fault(args: Namespace, inputs: Inputs) -> Iterator[None]:
    """An IndexError of a run is about the inputs' values; anywhere else it would be an error of ours."""
    try:
        yield
    except IndexError as error:
        names = drawn(args, inputs)
        hint = f"; {', '.join(names)}: random values; try --fill0 {names[0]}, or --load-arg" if names else ""
        raise RunError(f"{error}{hint}") from error


def prepared(made: program, inputs: Inputs) -> dict[str, Any]:
    """The inputs, where the program runs; compiled without `--enable-offload-copy`, the output buffers too.

    These only where all their sizes are known.
    """
    params = dict(inputs)
    buffers = {n: s for n, s in made.get_parameter_shapes().items() if n not in inputs}
    if not any(s.dynamic() or s.type_string() == "tuple_type" for s in buffers.values()):
        params |= {n: migraphx.fill_argument(s, 0) for n, s in buffers.items()}
    device = made.executable.device
    return {n: publish(migraphx.argument(a).to(device)) for n, a in params.items()}


def timed(made: program, params: dict[str, Any], iterations: int) -> list[float]:
    """Seconds of each of so many runs, after one that is not counted."""
    seconds = []
    with progress("running", iterations) as bar:
        made.run(params)
        for _ in range(iterations):
            start = time.perf_counter()
            made.run(params)
            seconds.append(time.perf_counter() - start)
            bar.advance()
    return seconds

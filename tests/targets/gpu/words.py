"""One scalar word, or any expression, on arrays in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.targets.gpu.emit.body import load_text, pointer_type, store_text
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.tiles import power_of_two
from migraphx.targets.gpu.kernel import Kernel
from tests.targets.gpu.interpreter import load


def word_kernel(text: str, types: Sequence[str], out: str, block: int) -> Kernel:
    """out[i] = text for the names x0, x1, ... of the inputs' elements."""
    lines = [f"x{k} = {load_text(f'p{k}', t, 'i', 'i < n')}" for k, t in enumerate(types)]
    lines.append(store_text("out", out, "i", f"({text})", "i < n"))
    head = ", ".join([*(f"p{k}" for k in range(len(types))), "out", "n", "BLOCK: tl.constexpr"])
    body = "".join(f"    {line}\n" for line in ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", *lines])
    pointers = [pointer_type(t) for t in (*types, out)]
    return Kernel("word", complete(f"@triton.jit\ndef word({head}):\n{body}"), (*pointers, "i32"), (("BLOCK", block),))


def evaluate(text: str, types: Sequence[str], inputs: Sequence[np.ndarray], out: str) -> np.ndarray:
    """The expression for every element of the inputs, as a type in memory."""
    n = inputs[0].size
    kernel = word_kernel(text, types, out, power_of_two(n))
    arrays = [np.ascontiguousarray(x) for x in inputs]
    result = np.frombuffer(bytearray(b"\xa5" * (n * dtypes.to_numpy(out).itemsize)), dtypes.to_numpy(out))
    pointers = [a.ctypes.data for a in (*arrays, result)]
    load(kernel).run((1, 1, 1), [*pointers, n])
    return result

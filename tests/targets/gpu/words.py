"""Scalar words, or any expressions, on arrays on a device of target gpu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.emit.body import load_text, pointer_type, store_text
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.kernel import Kernel

BLOCK = 256


def kernel_of(texts: Sequence[str], types: Sequence[str], outs: Sequence[str]) -> Kernel:
    """Each text, in the names x0, x1, ... of the inputs' elements, for every element, into an output of its own."""
    lines = ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"]
    lines += [f"x{k} = {load_text(f'p{k}', t, 'i', 'i < n')}" for k, t in enumerate(types)]
    for k, (text, out) in enumerate(zip(texts, outs, strict=True)):
        lines.append(store_text(f"out{k}", out, "i", f"({text})", "i < n"))
    names = [*(f"p{k}" for k in range(len(types))), *(f"out{k}" for k in range(len(outs)))]
    head = ", ".join([*names, "n", "BLOCK: tl.constexpr"])
    body = "".join(f"    {line}\n" for line in lines)
    pointers = [pointer_type(t) for t in (*types, *outs)]
    return Kernel(
        "words", complete(f"@triton.jit\ndef words({head}):\n{body}"), (*pointers, "i32"), (("BLOCK", BLOCK),)
    )


def evaluate(
    device: Accelerator, texts: Sequence[str], types: Sequence[str], inputs: Sequence[np.ndarray], outs: Sequence[str]
) -> list[np.ndarray]:
    """What the texts are for the elements of the inputs, as types in memory."""
    count = inputs[0].size
    results = [np.empty(count, dtypes.to_numpy(out)) for out in outs]
    arrays = [np.ascontiguousarray(x) for x in inputs]
    with device.current():
        owners = [device.allocate(a.nbytes) for a in (*arrays, *results)]
        pointers = [pointer for pointer, _ in owners]
        for pointer, a in zip(pointers, arrays, strict=False):
            device.write(pointer, a.ctypes.data, a.nbytes)
        (function,) = device.load([kernel_of(texts, types, outs)])
        stream = device.stream()
        device.synchronise()
        device.work(function, (-(-count // BLOCK), 1, 1), [*pointers, count]).launch(stream)
        device.synchronise()
        for pointer, a in zip(pointers[len(arrays) :], results, strict=True):
            device.read(a.ctypes.data, pointer, a.nbytes)
    return results

"""Operators that users declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation, RunModule, Value
from migraphx.ir.shape import Shape


class CustomOperation(Operation):
    """Base of users' operators: `cpp`, where given, is its C++ body on target cpu, and `includes` what that needs.

    The body computes elements `begin` to `end` of `out`; several threads run it on parts of their own. It sees the
    inputs as `in0`, `in1` ..., their lens as `in0_lens` ..., `out_lens`, all row-major, and the attributes by name.

    `triton`, where given, is its body on target gpu: statements in Triton's language that compute the elements `i` of
    `out`, a block of int64, where `inside`. It sees the inputs as pointers `in0`, `in1` ..., beside `out`, all else as
    the C++ body does. bool, types of 8 bits and fewer are bytes.
    """

    can_fail: ClassVar[bool] = True  # for all that is known: its `compute` may raise
    cpp: ClassVar[str] = ""
    triton: ClassVar[str] = ""
    includes: ClassVar[tuple[str, ...]] = ("cmath",)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        """The user's answer, which must be what the user's shape rule promised."""
        inputs = [Shape(dtypes.from_numpy(a.dtype), a.shape) for a in args]
        promised = self.infer_with(inputs, modules)
        value = np.asarray(self.compute(*args))
        if value.shape != promised.lens or value.dtype != promised.numpy_dtype:
            found = f"{value.dtype} of lens {list(value.shape)}"
            self.refuse(inputs, f"compute gave {found}, its shape rule says {promised}")
        return value

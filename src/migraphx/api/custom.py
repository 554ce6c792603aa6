"""`migraphx.custom_op`: operators that users declare."""

from __future__ import annotations

from typing import Any

from migraphx.api.shape import shape, wrap
from migraphx.ir.shape import Shape
from migraphx.ops.custom import CustomOperation


class custom_op(CustomOperation):
    """Base of an operator of one's own; subclassing declares it under `name`, for `migraphx.op(name, ...)`.

        class scaled(migraphx.custom_op, name="scaled"):
            "x * factor"
            factor: float = 2.0  # an attribute
            cpp = "for (int64_t i = begin; i < end; ++i) out[i] = in0[i] * factor;"

            def compute_shape(self, x):  # the shape rule, from migraphx.shape to migraphx.shape
                return migraphx.shape(type=x.type_string(), lens=x.lens())

            def compute(self, x):  # what it means, from arrays to one array
                return x * np.float32(self.factor)

    `compute` is what target ref runs; target cpu runs `cpp`, the body of a C++ function, target gpu `triton`, that of a
    Triton function: `tl.store(out + i, tl.load(in0 + i, inside) * factor, inside)` (migraphx.ops.custom says what they
    see). An operator that is not the same for the same inputs sets `pure = False`; one that refuses no value of its
    inputs may set `can_fail = False`, and may be computed once ahead of a loop then. Bodies round nothing away:
    what `cpp` does beyond its range is undefined, as in any C++.
    """

    def compute_shape(self, *inputs: Any) -> shape:
        """The result's shape, row-major; raise ValueError where the inputs do not suit."""
        raise NotImplementedError(f"{self.name}: a custom operator needs compute_shape")

    def infer(self, *inputs: Shape) -> Shape:
        """The engine's shape rule: `compute_shape` on public shapes. ShapeError where that gives no shape."""
        found = self.compute_shape(*map(wrap, inputs))
        if not isinstance(found, shape):
            self.refuse(inputs, f"compute_shape gave {found!r}, not a migraphx.shape")
        return found._impl.as_standard()

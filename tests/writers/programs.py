"""Programs that use everything a writer must handle."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import DynamicDimension, Shape


def rich() -> Program:
    """Literals small, large, strided and odd; strided inputs; nested modules that capture; attributes of every kind."""
    p = Program()
    main = p.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    turned = main.add_parameter("turned", Shape("float", (2, 3), (1, 2)))
    flag = main.add_parameter("flag", Shape("bool", (1,)))
    image = main.add_parameter("image", Shape("float", (1, 3, 8, 8)))
    b = Builder(main, origin='node "one"')
    odd = b.literal(np.array([[np.nan, np.inf, -0.0], [1e-45, 0.1, -np.inf]], np.float32))
    large = b.literal(np.arange(12, dtype=np.float32).reshape(4, 3).T)
    z = b.dot(b.add(b.add(x, odd), turned), large)
    then, other = p.create_module("then"), p.create_module("else")
    then.add_return([Builder(then).relu(z)])
    other.add_return([Builder(other).clip(z, *(Builder(other).full(v, z) for v in (0.0, 6.0)))])
    (chosen,) = b.outputs(b.instruction("if", [flag], [then, other]), 1)
    pooled = b.pooling(image, mode="max", lengths=(2, 2), stride=(2, 2))
    whole = b.convert(b.leaky_relu(pooled, alpha=0.3), target_type="int32")
    p.main.add_return([b.softmax(chosen, axis=1), whole, b.literal(np.array([1.5, 2]), "bf16")])
    return p


def dynamic() -> Program:
    """One parameter of a dynamic shape."""
    p = Program()
    p.main.add_parameter("x", Shape("half", dyn_dims=(DynamicDimension(1, 8, (2, 4)), DynamicDimension(3, 3))))
    return p

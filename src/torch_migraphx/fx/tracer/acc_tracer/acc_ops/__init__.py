"""The acc operators: one Python function each, keyword-only, that calls torch.

Every spelling of an operation in torch (module, function, method, operator, in-place form) is one acc
operator in a traced graph. The declarations are in `acc_ops/<family>.py`, beside their torch targets; this package
has all that they declare (`__init__.pyi`, written by `python -m tools.stubs`, says so to type checkers).
"""

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import acc_ops

from . import activation, image, math, nn, recurrent, reduce, shape  # noqa: F401  # declare the operators

globals().update(acc_ops())
__all__ = [*acc_ops()]  # pyright: ignore[reportUnsupportedDunderAll]

"""Graphs whose sizes are symbols, with the numbers that these are for some inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.functions import Max as sympy_Max

from torch_migraphx.fx.border import fake_of, foreign
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied, write_number


def is_symbolic(gm: fx.GraphModule) -> bool:
    """Whether a graph has inputs whose sizes are symbols, or that are symbols."""
    for n in gm.graph.nodes:
        if n.op != "placeholder":
            continue
        value = value_of(n)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return True
        if isinstance(value, torch.Tensor) and any(not isinstance(s, int) for s in _lengths(value)):
            return True
    return False


def _lengths(value: torch.Tensor) -> tuple[Any, ...]:
    return tuple(value.shape) if foreign(value) else (*value.shape, *value.stride())


class _Values(FakeTensorProp):
    """Notes numbers too, which torch 2.11 leaves out."""

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, int | float):
            n.meta["val"] = value
        return value


def number_of(x: Any) -> Any:
    """What a symbol is in the call that is traced. A guard makes sure that it is that in every call."""
    kinds = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
    return kinds[type(x)](x) if type(x) in kinds else x


def hint_of(x: Any) -> Any:
    """What a symbol is in the call that is traced, for who looks at this call alone: no guard comes of it."""
    return x.node.hint if isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool) else x


def expression_of(size: Any) -> Any:
    """What torch's symbols make a size of; a number is itself."""
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) else size


def memory_order(value: torch.Tensor) -> list[int] | None:
    """The dimensions longer than 1, from the outermost in memory to the innermost; None where they leave gaps.

    Sizes may be symbols: what the strides are of them is asked, and no guard comes of it; None where that does not say.
    """
    lens, steps = ([*map(hint_of, of)] for of in (value.shape, value.stride()))
    if None in (*lens, *steps):
        return None
    if 0 in lens:
        return []
    order = sorted((d for d, n in enumerate(value.shape) if expression_of(n) != 1), key=lambda d: -steps[d])
    step: Any = 1
    for d in reversed(order):
        if not same_size(value.stride(d), step):
            return None
        step *= expression_of(value.shape[d])
    return order


def same_size(a: Any, b: Any) -> bool:
    """Whether two numbers of elements or bytes are equal, where no length is 0: then no element is anywhere."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    a, b = (sympy.sympify(expression_of(x)).replace(sympy_Max, _of_some) for x in (a, b))
    return sympy.expand(a - b) == 0


def _of_some(*lengths: Any) -> Any:
    """max(1, n) is n where there are some."""
    return next((n for n in lengths if n != 1), 1) if len(lengths) == 2 and 1 in lengths else sympy_Max(*lengths)


def known(x: Any, mode: FakeTensorMode, number: Callable[[Any], Any] = number_of) -> Any:
    """An input as a graph of numbers has it: a fake tensor of known sizes, or a number."""
    if isinstance(x, torch.SymInt) and x.node.is_nested_int():
        return x
    if isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool):
        return number(x)
    if isinstance(x, torch.Tensor) and not foreign(x) and any(not isinstance(s, int) for s in _lengths(x)):
        sizes, strides = map(number, x.shape), map(number, x.stride())
        with mode:
            return torch.empty_strided(tuple(sizes), tuple(strides), dtype=x.dtype, device=x.device)
    return fake_of(x, mode)


def concrete(gm: fx.GraphModule, inputs: Sequence[Any], number: Callable[[Any], Any] = number_of) -> fx.GraphModule:
    """A copy in which every size is the number that it is for these inputs; `number` says it of a symbol."""
    gm = copied(gm)
    for n in gm.graph.nodes:
        for key in ("val", "example_value", "tensor_meta"):
            n.meta.pop(key, None)
    mode = fake_mode()
    with torch.no_grad():
        inputs = [known(x, mode, number) for x in inputs]
        _Values(gm, mode).propagate_dont_convert_inputs(*inputs)
    for n, x in zip([n for n in gm.graph.nodes if n.op == "placeholder"], inputs, strict=True):
        n.meta.setdefault("val", x)
    for n in list(gm.graph.nodes):
        value = n.meta.get("val")
        if n.op in ("placeholder", "call_function", "call_method") and isinstance(value, int | float):
            write_number(n, value)
    for n in reversed(gm.graph.nodes):  # other dead code may change tensors
        tensors = any(isinstance(t, torch.Tensor) for t in tree_leaves(n.meta.get("val")))
        if n.op in ("call_function", "call_method") and not n.users and not tensors:
            gm.graph.erase_node(n)
    return gm

"""Proxies that know the shape and type of what they stand for, so that only data is symbolic."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch.fx.proxy import Attribute, Proxy, TraceError
from torch.utils._pytree import tree_leaves


class AccTraceError(TraceError):
    """The model can't be traced symbolically; the message names the line of the model that is in the way."""


def _data_dependent(use: str) -> NoReturn:
    raise AccTraceError(
        f"{use} depends on the data of a tensor, which a symbolic trace does not have; "
        "use the ATen tracer (use_aten=True) or torch.compile"
    )


class AccProxy(Proxy):
    """A node whose fake value, where it is known, answers every question about shape and type.

    Code that asks for x.shape, x.dtype, x.dim(), len(x) gets plain Python values, so control flow on them is
    specialised to the sample inputs. Asking for data raises AccTraceError.

    It does not pose as a torch.Tensor: torch's C++ would take it for one and read memory that is not there.
    """

    @property
    def value(self) -> Any:
        """The fake value of the node; None where it is not known."""
        return self.node.meta.get("val")

    @property
    def is_quantized(self) -> bool:
        """Whether the node stands for one of torch's quantized tensors (see quantized.py)."""
        return "grid" in self.node.meta

    def __getattr__(self, k: str) -> Any:
        value = self.value
        if value is None:
            return Attribute(self, k)
        attribute = getattr(value, k)  # an attribute that does not exist is an AttributeError, as in eager
        if isinstance(value, tuple):
            # The fields of torch.return_types, such as .values and .indices.
            for i, item in enumerate(value):
                if item is attribute:
                    return self[i]  # type: ignore[index]
        if callable(attribute):
            return Attribute(self, k)
        return self.tracer.create_proxy("call_function", getattr, (self, k), {})

    def __iter__(self) -> Iterator[Any]:
        if self.value is None:
            return super().__iter__()
        return iter([self[i] for i in range(len(self.value))])  # type: ignore[index]

    def __len__(self) -> int:
        if self.value is None:
            _data_dependent("a length")
        return len(self.value)

    def __bool__(self) -> bool:
        if isinstance(self.value, tuple | list):
            return bool(self.value)
        tracer: Any = self.tracer
        truth = tracer.truth(self.node, sys._getframe(1)) if hasattr(tracer, "truth") else None
        if truth is None:
            _data_dependent("control flow")
        return truth

    def __int__(self) -> int:
        return int(self._one_number("an int"))

    def __float__(self) -> float:
        return float(self._one_number("a float"))

    def _one_number(self, use: str) -> torch.Tensor:
        """The tensor of a buffer or a weight, which are compiled in, if it has one element."""
        known: Any = getattr(self.tracer, "constant_of", lambda node: None)(self.node)
        if known is None or known.numel() != 1:
            _data_dependent(use)
        return known

    def __setitem__(self, idx: Any, value: Any) -> None:
        """x[idx] = value, where idx is no data: recorded as one in-place selection by a constant mask."""
        known = isinstance(self.value, torch.Tensor)
        if not known or any(isinstance(i, Proxy) for i in tree_leaves(idx)):
            _data_dependent("the place of an assignment")
        shape, device = self.value.shape, self.value.device
        mask = torch.zeros(shape, dtype=torch.bool, device=device)
        mask[idx] = True
        if not isinstance(value, torch.Tensor | Proxy):
            self.masked_fill_(mask, value)
            return
        region = mask[idx]
        source = torch.zeros(shape, dtype=torch.int64, device=device)
        source[idx] = torch.arange(region.numel(), device=device).reshape(region.shape)
        flat: Any = value.expand(region.shape).reshape(-1)
        placed = torch.index_select(flat, 0, source.reshape(-1)).reshape(shape)
        this: Any = self
        self.copy_(torch.where(mask, placed, this))


def _define_in_place(name: str) -> None:
    """x += y and the like, which fx would record as x + y, so that who else holds x would miss the change."""
    target: Callable[..., Any] = getattr(operator, name)

    def in_place(self: AccProxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, other), {})

    setattr(AccProxy, f"__{name}__", in_place)


for _name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"):
    _define_in_place(_name)

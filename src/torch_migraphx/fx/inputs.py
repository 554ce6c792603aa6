"""The inputs of a program: what each must be, and where tensors that are given for them lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards

import migraphx
from torch_migraphx.devices import Place
from torch_migraphx.fx.border import has_own_operators, not_held
from torch_migraphx.fx.dtypes import DTYPES


def no_gradient(what: str) -> RuntimeError:
    """The error where an input requires a gradient."""
    return RuntimeError(
        f"{what} requires a gradient, which a compiled program does not compute: call it under torch.no_grad(), "
        "or use torch.compile(model, backend='migraphx')"
    )


class Input:
    """What one input must be, and how it is handed over."""

    __slots__ = ("dtype", "holds", "name", "place", "size", "strides")

    def __init__(self, name: str, shape: migraphx.shape, place: Place) -> None:
        self.name, self.place, self.holds = name, place, place.holds
        self.size = torch.Size(shape.lens())
        self.strides = None if shape.standard() else tuple(shape.strides())
        self.dtype = DTYPES[shape.type_string().removesuffix("_type")]

    def fits(self, x: Any) -> bool:
        return (
            isinstance(x, torch.Tensor)
            and x.dtype is self.dtype
            and x.shape == self.size
            and self.holds(x)
            and x.layout is torch.strided
            and not has_own_operators(x)
        )

    def likens(self, x: Any) -> bool:
        """Whether a tensor, fake or not, has the sizes and the type of one that fits, on such a device."""
        return (
            isinstance(x, torch.Tensor)
            and x.dtype is self.dtype
            and x.shape == self.size
            and x.device.type == self.place.device.type
        )

    def laid_out(self, x: torch.Tensor) -> torch.Tensor:
        """`x`, or a copy, with the strides that the program reads; RuntimeError where those share elements."""
        x = x.resolve_neg()
        if self.strides is None:
            return x.contiguous()
        if x.stride() == self.strides:
            return x
        return self.place.maker(self.size, self.strides, self.dtype)().copy_(x)

    def refuse(self, x: Any, at: int) -> None:
        """Raise for an input that does not fit, saying what it is and what it must be."""
        want = f"{self.dtype} {list(self.size)} on {self.place}, in memory"
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"input {at} ({self.name!r}) must be a tensor, {want}; got a {type(x).__name__}")
        why = not_held(x, (self.place.device.type,))
        got = f"{x.dtype} {list(x.shape)} on {x.device}" + (f", which {why}" if why else "")
        error = TypeError if x.dtype is not self.dtype else ValueError
        raise error(f"input {at} ({self.name!r}) must be {want}; got {got}")


class Alike:
    """Tells in microseconds whether tensors are as others that were looked at one by one: type, device, strides.

    `moved`: those of them that must be laid out otherwise, by their places.
    """

    def __init__(self, inputs: Sequence[torch.Tensor], moved: Mapping[int, Input]) -> None:
        self._guards = TensorGuards(*inputs, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        self._gradients = any(x.requires_grad for x in inputs)
        self._moved = moved

    def addresses(self, inputs: Sequence[torch.Tensor], alive: list[torch.Tensor]) -> list[int] | None:
        """Where the tensors lie, or the copies that `alive` gets; None where they must be looked at."""
        if not self._guards.check(*inputs) or (self._gradients and torch.is_grad_enabled()):
            return None
        found = list(map(torch.Tensor.data_ptr, inputs))
        if not all(found):
            return None
        for at, spec in self._moved.items():
            alive.append(spec.laid_out(inputs[at]))
            found[at] = alive[-1].data_ptr()
        return found


class Inputs:
    """Some inputs of a program, by their numbers among all of them."""

    def __init__(self, inputs: Mapping[int, Input]) -> None:
        self._inputs = dict(inputs)
        self.last: Alike | None = None
        """Tells whether others are as those that were looked at last."""

    def looked_at(self, tensors: Sequence[torch.Tensor], alive: list[torch.Tensor]) -> list[int]:
        """Where tensors that fit lie, or the copies, which `alive` gets, of those with other strides than are read.

        TypeError, ValueError or RuntimeError for one that does not fit.
        """
        moved: dict[int, Input] = {}
        addresses: list[int] = []
        grad = torch.is_grad_enabled()
        for at, ((number, spec), x) in enumerate(zip(self._inputs.items(), tensors, strict=True)):
            if not spec.fits(x):
                spec.refuse(x, number)
            if grad and x.requires_grad:
                raise no_gradient(f"input {number} ({spec.name!r})")
            if spec.strides or not x.is_contiguous() or x.is_neg():
                laid_out = spec.laid_out(x)
                if laid_out is not x:
                    x, moved[at] = laid_out, spec
                    alive.append(x)
            address = x.data_ptr()
            if not address and x.numel():  # freed, or never there
                spec.refuse(x, number)
            addresses.append(address)
        if tensors:
            self.last = Alike(tensors, moved)
        return addresses

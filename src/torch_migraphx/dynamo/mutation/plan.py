"""How a functional graph is called in place of one that writes: what it is given, what is written back and returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any

from torch import nn

from torch_migraphx.dynamo.passes.alias_analysis import AliasSpec


class BindingKind(Enum):
    """Where a tensor that the functional graph reads comes from."""

    USER_INPUT = "user_input"
    MODULE_STATE = "module_state"


@dataclass(frozen=True)
class Binding:
    """A tensor of a call: the input at the place `key`, or the module's parameter or buffer of the name `key`."""

    kind: BindingKind
    key: int | str

    @classmethod
    def user_input(cls, index: int) -> Binding:
        """The input at this place."""
        return cls(BindingKind.USER_INPUT, index)

    @classmethod
    def module_state(cls, name: str) -> Binding:
        """The parameter or buffer of this name."""
        return cls(BindingKind.MODULE_STATE, name)

    def resolve(self, inputs: Sequence[Any], state_module: nn.Module | None = None) -> Any:
        """The tensor itself. RuntimeError for a weight of no module."""
        if isinstance(self.key, int):
            return inputs[self.key]
        if state_module is None:
            raise RuntimeError(f"{self.key!r} is a tensor of a module, which is not given")
        return attrgetter(self.key)(state_module)


@dataclass(frozen=True)
class Mutation:
    """What the functional graph gives at `output_index` is written to `target`."""

    output_index: int
    target: Binding


@dataclass(frozen=True)
class UserOutput:
    """What the caller gets: the value at `output_index`, or a view of the tensor `alias_source`, which was written."""

    output_index: int
    alias: AliasSpec | None = None
    alias_source: Binding | None = None


@dataclass(frozen=True)
class MutationPlan:
    """What the functional graph is given, what of its outputs is written back, and what the caller gets, in order."""

    inputs: tuple[Binding, ...]
    mutations: tuple[Mutation, ...]
    outputs: tuple[UserOutput, ...]

    @property
    def is_identity(self) -> bool:
        """Whether the functional graph takes and gives just what the caller gives and gets."""
        return (
            not self.mutations
            and all(b == Binding.user_input(k) for k, b in enumerate(self.inputs))
            and all(o.alias is None and o.output_index == k for k, o in enumerate(self.outputs))
        )

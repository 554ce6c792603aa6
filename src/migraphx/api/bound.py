"""Arguments that a run was given, so that the next run on the same objects checks nothing again."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migraphx.api.argument import argument
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import HOST
from migraphx.runtime.executable import Executable


@dataclass(frozen=True)
class Bound:
    """Inputs and outputs of one run that passed all checks, by name, and where they lie.

    An argument's shape and memory are those that it was made with, so the same object passes again. It is not kept
    alive: the program would hold its caller's memory.
    """

    given: Sequence[tuple[str, weakref.ref[argument]]]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def found(self, params: Mapping[str, Any]) -> list[argument] | None:
        """The outputs, where `params` are the same objects under the same names, and may be written; else None."""
        if type(params) is not dict or len(params) != len(self.given):
            return None
        same: list[argument] = []
        for name, ref in self.given:
            value = ref()
            if value is None or params.get(name) is not value:
                return None
            same.append(value)
        outputs = same[len(self.inputs) :]
        return outputs if all(a.writeable for a in outputs) else None


def bound(
    executable: Executable, params: Mapping[str, Any], inputs: Sequence[Argument], outputs: Mapping[str, Argument]
) -> Bound | None:
    """What to remember of a run; None where something is copied at each run, or has to be looked at again.

    `inputs` in the order of the parameters, and `outputs` by name, are what the run reads and writes.
    """
    places = [*zip(executable.parameters, inputs, strict=True), *outputs.items()]
    shapes = [*executable.parameters.values(), *executable.outputs]
    if executable.device is not HOST or any(s.dynamic for s in shapes):
        return None
    given = [(name, weakref.ref(a)) for name, a in places if isinstance(a, argument) and params[name] is a]
    if len(given) < len(places):
        return None
    return Bound(given, [a.pointer for a in inputs], [a.pointer for a in outputs.values()])

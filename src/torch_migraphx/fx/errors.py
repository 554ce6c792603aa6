"""What the engine does not take, as exceptions: a node then runs in torch, or lowering ends with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import migraphx


class UnsupportedError(NotImplementedError):
    """The engine has no form for this operation or these arguments; it can run in torch."""


class LengthsByData(UnsupportedError):
    """How long a result is depends on data; where that can be waited for, `found` are the instructions that tell it."""

    def __init__(self, found: Sequence[migraphx.instruction_ref] = ()) -> None:
        super().__init__("how long its result is depends on the data")
        self.found = list(found)


REFUSES = (NotImplementedError, migraphx.OperatorError, migraphx.UnsupportedOperator, IndexError)
"""What converters, shape rules and targets raise on purpose."""
FAULTS = (ValueError, TypeError, LookupError, AttributeError, AssertionError, NotImplementedError)
"""What a fault of the engine's raises while it compiles; a missing compiler or a full disk is none, and an error."""

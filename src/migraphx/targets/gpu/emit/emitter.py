"""What the shared lowerings ask of target gpu."""

from __future__ import annotations

from dataclasses import dataclass

from migraphx.targets.gpu.emit.indexing import gather_call
from migraphx.targets.gpu.emit.pointwise import copy_call, pointwise_call


@dataclass(frozen=True)
class TritonEmitter:
    """The Emitter of target gpu."""

    copy = staticmethod(copy_call)
    pointwise = staticmethod(pointwise_call)
    gather = staticmethod(gather_call)

"""What the shared lowerings ask of target cpu."""

from __future__ import annotations

from dataclasses import dataclass, field

from migraphx.targets.common.views import Buffer
from migraphx.targets.cpu.choices import Choices
from migraphx.targets.cpu.emit.contract import Bands, Convolution
from migraphx.targets.cpu.emit.indexing import gather_call
from migraphx.targets.cpu.emit.pointwise import copy_call, pointwise_call
from migraphx.targets.cpu.toolchain import Features


@dataclass(frozen=True)
class CppEmitter:
    """The Emitter of target cpu, for one instruction set; `choices` answer where a lowering has several ways."""

    features: Features
    choices: Choices = field(default_factory=Choices)
    convolutions: dict[Buffer, Convolution] = field(default_factory=dict[Buffer, Convolution])
    bands: dict[Buffer, Bands] = field(default_factory=dict[Buffer, Bands])
    """By what they write: those that may become one call with what reads it."""

    copy = staticmethod(copy_call)
    pointwise = staticmethod(pointwise_call)
    gather = staticmethod(gather_call)

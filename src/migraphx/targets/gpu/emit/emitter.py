"""What the shared lowerings ask of target gpu."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Module
from migraphx.targets.common.lowering import UnsupportedOperator
from migraphx.targets.common.views import View
from migraphx.targets.gpu.kernel import GpuCall


class TritonEmitter:
    """The Emitter of target gpu."""

    def copy(self, read: View, write: View, origin: str = "") -> GpuCall:
        raise UnsupportedOperator("copy")

    def pointwise(self, module: Module, reads: Sequence[View], write: View, origin: str = "") -> GpuCall:
        raise UnsupportedOperator("pointwise")

    def gather(
        self, data: View, index: View, write: View, status: View, axis: int, check: int, origin: str = ""
    ) -> GpuCall:
        raise UnsupportedOperator("gather")

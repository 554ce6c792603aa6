"""The registry that the lowerings of target gpu declare themselves in."""

from __future__ import annotations

from migraphx.targets.common.lower import NEUTRAL
from migraphx.targets.common.lowerings import Lowerings

GPU = Lowerings("gpu", NEUTRAL, body="triton")

"""The registry that the lowerings of target cpu declare themselves in."""

from __future__ import annotations

from migraphx.targets.common.lower import NEUTRAL
from migraphx.targets.common.lowerings import Lowerings

CPU = Lowerings("cpu", NEUTRAL, body="cpp")

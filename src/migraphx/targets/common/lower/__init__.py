"""The lowerings that all targets share: views and copies, control flow, what a target's kernels compute whole.

Importing this package fills NEUTRAL.
"""

from migraphx.targets.common.lower import control, views, whole
from migraphx.targets.common.lowerings import NEUTRAL

__all__ = ["NEUTRAL", "control", "views", "whole"]

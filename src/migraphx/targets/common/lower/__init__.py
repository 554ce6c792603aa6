"""The lowerings that all targets share: views and copies, two numbers a byte, control flow, what is computed whole.

Importing this package fills NEUTRAL.
"""

from migraphx.targets.common.lower import control, packing, views, whole, windows
from migraphx.targets.common.lowerings import NEUTRAL

__all__ = ["NEUTRAL", "control", "packing", "views", "whole", "windows"]

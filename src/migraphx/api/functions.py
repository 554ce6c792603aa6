"""Targets by name, and passes by name."""

from __future__ import annotations

from migraphx.targets.registry import TARGETS, get_target

__all__ = ["TARGETS", "get_target"]

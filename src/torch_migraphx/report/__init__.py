"""What became of a model: its stages, its kernels, what runs in torch and why, as text and as a page."""

from torch_migraphx.report.report import Report

__all__ = ["Report"]

"""Calls and kernel texts: bodies read as Triton, pointwise and reduction kernels."""

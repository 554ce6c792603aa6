"""Weights as the kernels read them, in panels of NR = `nr` columns: one file a family, as in `kernels/`."""

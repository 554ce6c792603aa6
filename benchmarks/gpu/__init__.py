"""What target gpu's kernels reach on a device."""

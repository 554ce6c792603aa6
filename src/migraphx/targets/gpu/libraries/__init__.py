"""Libraries that compute what kernels of ours could: optional, called through ctypes, chosen by measurement."""

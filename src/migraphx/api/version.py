"""`migraphx.__version__`, in a module of its own: it takes 18 ms to find, which only those who ask should wait for."""

from migraphx.mxr.upstream import own_version

__version__ = own_version()

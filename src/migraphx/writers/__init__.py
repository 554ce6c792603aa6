"""Programs as text for other programs: pictures, JSON, and code that builds them again."""

from migraphx.mxr.upstream import to_json
from migraphx.writers.cpp import to_cpp
from migraphx.writers.graphviz import to_graphviz
from migraphx.writers.netron import to_netron
from migraphx.writers.python import to_python

__all__ = ["to_cpp", "to_graphviz", "to_json", "to_netron", "to_python"]

"""Reading ONNX models: `importer` walks a model's graph, `registry` finds the converter of each node.

Importing this package declares the converters of all operators.
"""

from migraphx.onnx import converters, unknown

__all__ = ["converters", "unknown"]

"""One ONNX file, any batch size from 1 to 64: the engine compiles for the lengths that arrive.

python -m examples.onnx_lengths
"""

import time

import numpy as np
import onnx
from onnx import numpy_helper

import migraphx

NET = """
<ir_version: 10, opset_import: ["": 20]>
net (float[batch, 16] x, float[16, 32] w) => (float[batch, 32] p)
{
    y = MatMul(x, w)
    z = Relu(y)
    p = Softmax(z)
}
"""


def main() -> None:
    """Run four batch sizes, and some of them again."""
    model = onnx.parser.parse_model(NET)
    weights = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    batch = migraphx.shape.dynamic_dimension(1, 64, {8})
    program = migraphx.parse_onnx_buffer(model.SerializeToString(), dim_params={"batch": batch})
    program.compile(migraphx.get_target("cpu"))
    for size in (8, 1, 5, 8, 5):
        x = np.ones((size, 16), np.float32)
        start = time.perf_counter()
        (p,) = program.run({"x": x})
        took = (time.perf_counter() - start) * 1e3
        print(f"batch {size}: {np.asarray(p).shape}, rows sum to {np.asarray(p).sum(1).mean():.3f}, {took:.2f} ms")


if __name__ == "__main__":
    main()

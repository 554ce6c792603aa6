"""Compile once, answer in another process: a saved program starts without a compiler and without torch.

python -m examples.saved_program
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import migraphx

LOAD = """
import sys, time
start = time.perf_counter()
import numpy as np
import migraphx
program = migraphx.load(sys.argv[1], trust_code=True)
(y,) = program.run({"x": np.ones((4, 16), np.float32)})
print(f"second process: {np.asarray(y).sum():.4f}; torch imported: {'torch' in sys.modules}", file=sys.stdout)
print(f"first answer {time.perf_counter() - start:.2f} s after Python's start", file=sys.stderr)
"""


def main() -> None:
    """Compile, save, and load in a new process."""
    program = migraphx.program()
    module = program.get_main_module()
    x = module.add_parameter("x", migraphx.shape(type="float", lens=[4, 16]))
    w = module.add_literal(np.random.default_rng(0).standard_normal((16, 10)).astype(np.float32))
    module.add_return([module.add_instruction(migraphx.op("dot"), [x, w])])
    start = time.perf_counter()
    program.compile(migraphx.get_target("cpu"))
    print(f"compiled in {time.perf_counter() - start:.2f} s")
    (y,) = program.run({"x": np.ones((4, 16), np.float32)})
    print(f"this process:   {np.asarray(y).sum():.4f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.mxr"
        migraphx.save(program, path, code=True)
        print(f"saved {path.stat().st_size} bytes", flush=True)
        subprocess.run([sys.executable, "-c", LOAD, str(path)], check=True)


if __name__ == "__main__":
    main()

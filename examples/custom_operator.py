"""An operator of your own: its shape rule, its meaning in NumPy, and its C++ for target cpu.

python -m examples.custom_operator
"""

from typing import Any

import numpy as np

import migraphx


class mish(migraphx.custom_op, name="mish"):  # noqa: N801  # operators are named as they are printed
    """x * tanh(log(1 + exp(x)))"""

    cpp = "for (int64_t i = begin; i < end; ++i) out[i] = in0[i] * std::tanh(std::log1p(std::exp(in0[i])));"

    def compute_shape(self, x: migraphx.shape) -> migraphx.shape:
        """One output, like the input."""
        return migraphx.shape(type=x.type_string(), lens=x.lens())

    def compute(self, x: np.ndarray) -> Any:
        """What it means: target ref computes this, and cpu is verified against it."""
        return x * np.tanh(np.log1p(np.exp(x)))


def main() -> None:
    """Build a program with it, verify it on cpu, run it."""
    program = migraphx.program()
    module = program.get_main_module()
    x = module.add_parameter("x", migraphx.shape(type="float", lens=[4, 8]))
    module.add_return([module.add_instruction(migraphx.op("mish"), [x])])
    inputs = {"x": np.linspace(-3, 3, 32, dtype=np.float32).reshape(4, 8)}
    checked = migraphx.verify_program(program, "cpu", inputs)
    print(program, f"cpu agrees with ref: {checked.passed}", sep="\n")
    program.compile(migraphx.get_target("cpu"))
    print(np.asarray(program.run(inputs)[0])[0].round(3))


if __name__ == "__main__":
    main()

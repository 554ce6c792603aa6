"""vec.hpp: the first lanes of a vector alone are loaded and stored, for every width and type of lanes."""

import numpy as np
import pytest

from tests.targets.cpu.kernels.harness import ISAS, compile_snippet, pointer

TYPES = {"float": np.float32, "double": np.float64, "int64_t": np.int64, "int32_t": np.int32, "uint16_t": np.uint16,
         "int8_t": np.int8}  # fmt: skip
LANES = (1, 4, 8, 16, 32)
SOURCE = '#include "vec.hpp"\nusing namespace mgx;\n' + "".join(
    f"""extern "C" void store_{type}_{n}(const {type}* x, {type}* y, int n) {{ store_n(y, load<{n}>(x), n); }}
extern "C" void load_{type}_{n}(const {type}* x, {type}* y, int n) {{ store(y, load_n<{n}>(x, n, {type}(7))); }}
"""
    for type in TYPES
    for n in LANES
)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type", TYPES)
def test_first_lanes(type: str, isa: str) -> None:
    library = compile_snippet(SOURCE, isa)
    for lanes in LANES:
        x = np.arange(1, lanes + 1, dtype=TYPES[type])
        for n in range(lanes + 1):
            y = np.zeros(lanes + 2, TYPES[type])
            library[f"store_{type}_{lanes}"](pointer(x), pointer(y[1:]), n)
            np.testing.assert_array_equal(y, [0, *x[:n], *[0] * (lanes - n), 0])
            y = np.zeros(lanes, TYPES[type])
            library[f"load_{type}_{lanes}"](pointer(x), pointer(y), n)
            np.testing.assert_array_equal(y, [*x[:n], *[7] * (lanes - n)])

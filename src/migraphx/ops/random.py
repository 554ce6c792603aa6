"""Random numbers: the Mersenne twister, so that equal seeds give equal numbers on every target."""

from __future__ import annotations

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape


class RandomSeed(Operation, name="random_seed"):
    """Another seed each time it runs."""

    arity = 0
    pure = False
    dtype: str = "uint64"

    def infer(self, *inputs: Shape) -> Shape:
        self.require(self.dtype in dtypes.INTEGERS, inputs, "dtype must be an integer type")
        return Shape(self.dtype, (1,))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.random.default_rng().integers(0, 2**31, 1).astype(dtypes.to_numpy(self.dtype))


class RandomUniform(Operation, name="random_uniform"):
    """Numbers in [0, 1) with the type and lens of the second input; the first one is the seed (ONNX RandomUniform).

    MT19937 from the seed's lower 32 bits, 53 bits a number, in row-major order: as NumPy's RandomState.
    """

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        seed, x = inputs
        self.require(seed.type in dtypes.INTEGERS and seed.elements == 1, inputs, "the seed must be one integer")
        self.require(x.type in dtypes.FLOATS, inputs, "gives floats")
        return x.as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        seed, x = args
        generator = np.random.RandomState(int(seed.reshape(-1)[0]) % 2**32)
        return generator.random_sample(x.shape).astype(x.dtype)


class Multinomial(Operation, name="multinomial"):
    """The first class whose cumulative weight exceeds a number's share of the total (ONNX Multinomial).

    Inputs: cumulative weights {N, classes} and numbers in [0, 1) {N, samples}.
    """

    arity = 2
    dtype: str = "int32"

    def infer(self, *inputs: Shape) -> Shape:
        sums, numbers = inputs
        right = sums.ndim == numbers.ndim == 2 and sums.lens[0] == numbers.lens[0] and sums.elements > 0
        self.require(right, inputs, "needs cumulative weights {N, classes} and numbers {N, samples}")
        self.require({sums.type, numbers.type} <= dtypes.FLOATS, inputs, "takes floats")
        self.require(self.dtype in ("int32", "int64"), inputs, "dtype must be int32 or int64")
        return Shape(self.dtype, numbers.lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        sums, numbers = (a.astype(np.float64) for a in args)
        rows: list[np.ndarray] = [np.searchsorted(s, u * s[-1], "right") for s, u in zip(sums, numbers, strict=True)]
        return np.minimum(np.stack(rows), sums.shape[1] - 1).astype(dtypes.to_numpy(self.dtype))

"""Every code of every type of 8 bits and fewer, and floats of all magnitudes as such types: `cpu` against ml_dtypes."""

import numpy as np
import pytest

import migraphx
from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.ops.quantize import bits

TYPES = [t for t in dtypes.NUMPY_TYPES if t in dtypes.NARROW_FLOATS - {"half", "bf16"} | dtypes.NARROW_INTEGERS.keys()]


def floats() -> np.ndarray:
    rng = np.random.default_rng(0)
    random = rng.standard_normal(1000) * 10 ** rng.uniform(-6, 6, 1000)
    powers = 2.0 ** np.arange(-127, 128)
    odd = [0, -0.0, np.inf, -np.inf, np.nan]
    halfway = rng.integers(-300, 300, 1000) / 16
    return np.concatenate([random, powers, -powers, 1.5 * powers[:-1], odd, halfway]).astype(np.float32)


@pytest.mark.slow
def test_every_code_and_rounding():
    program = migraphx.program()
    main = program.graph.main
    b = Builder(main)
    inputs = {"float": floats(), "int": np.arange(-300, 300, dtype=np.int32)}
    from_float, from_int = (main.add_parameter(n, Shape.of(a)) for n, a in inputs.items())
    outputs, wanted = [], []
    for type in TYPES:
        dtype = dtypes.to_numpy(type)
        codes = inputs[type] = np.arange(2 ** bits(type)).astype(np.uint8).view(dtype)
        outputs.append(b.convert(main.add_parameter(type, Shape.of(codes)), target_type="float"))
        wanted.append(codes.astype(np.float32))
        source, numbers = (from_float, "float") if type in dtypes.FLOATS else (from_int, "int")
        outputs.append(b.convert(source, target_type=type))
        with np.errstate(all="ignore"):
            wanted.append(inputs[numbers].astype(dtype))
    main.add_return(outputs)
    program.compile(migraphx.get_target("cpu"))
    for got, want in zip(map(np.array, program.run(inputs)), wanted, strict=True):
        assert got.dtype == want.dtype
        if want.dtype == np.float32:
            np.testing.assert_array_equal(got, want)
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
        else:
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def test_two_numbers_a_byte():
    rng = np.random.default_rng(1)
    signed, unsigned = rng.integers(-128, 128, (8, 6)).astype(np.int8), rng.integers(0, 256, (8, 6)).astype(np.uint8)
    real, pairs = (rng.standard_normal((6, 8)) * 3).astype(np.float32), rng.integers(0, 256, (2, 6), np.uint8)
    results = []
    for target in ("ref", "cpu"):
        program = migraphx.program()
        main = program.graph.main
        b = Builder(main)
        inputs = {"s": signed, "u": unsigned, "r": real}
        s, u, r = (main.add_parameter(n, Shape.of(a)) for n, a in inputs.items())
        packs = (b.pack_int4(s, axis=0), b.pack_int4(u, axis=1), b.unpack_int4(s, axis=0), b.unpack_int4(u, axis=-1))
        same = b.bit_cast(b.add(r, r), target_type="int32")
        fp4 = b.pack_fp4(r, axis=1)
        moved = b.concat(b.transpose(fp4, permutation=(1, 0)), main.add_parameter("f", Shape("fp4x2", (2, 6))), axis=0)
        more = (fp4, b.unpack_fp4(u, axis=0), moved, b.unpack_fp4(b.contiguous(moved), axis=1))
        main.add_return([*packs, *more, same])
        program.compile(migraphx.get_target(target))
        results.append([np.array(a) for a in program.run(inputs | {"f": pairs})])
    for got, want in zip(*results, strict=True):
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.mark.slow
def test_pooling():
    """Computed as wider numbers, in windows that pad and that do not."""
    program = migraphx.program()
    b = Builder(program.graph.main)
    rng = np.random.default_rng(1)
    inputs, outputs = {}, []
    for type in TYPES:
        inputs[type] = rng.integers(0, 2, (1, 3, 5, 5)).astype(np.float32).astype(dtypes.to_numpy(type))
        x = b.module.add_parameter(type, Shape.of(inputs[type]))
        outputs.append(b.pooling(x, mode="max", lengths=(2, 2)))
        if type in dtypes.FLOATS:
            outputs.append(b.pooling(x, mode="average", lengths=(2, 2), padding=(1, 1)))
    b.module.add_return(outputs)
    oracle = program.clone()
    oracle.compile(migraphx.get_target("ref"))
    program.compile(migraphx.get_target("cpu"))
    for got, want in zip(program.run(inputs), oracle.run(inputs), strict=True):
        np.testing.assert_array_equal(np.array(got).astype(np.float32), np.array(want).astype(np.float32))

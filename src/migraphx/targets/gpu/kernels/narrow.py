"""Types narrower than those that are computed with: how elements are read, and written back.

TYPE is MIGraphX's name. half, bf16, fp8 of all kinds and fp4 become float; 4-bit and 2-bit integers, one a byte, become
int8 or uint8; bool is a byte. Rounding is to nearest, ties to even (fp8e8m0fnu: ties up): what is too large becomes
infinity in fp8e5m2, the largest number in fp4e2m1fn, NaN in the others. Codes of 8 bits and fewer are taken apart by
hand: not every chip converts every type, and none has these rules. fp8e4m3fn is converted by chips that do.
"""

import triton
import triton.language as tl

NATIVE_FP8: tl.constexpr = tl.constexpr(False)  # whether the chip converts fp8e4m3fn: compile.py knows


@triton.jit
def float_of(bits):
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def bits_of(a):
    return a.to(tl.uint32, bitcast=True)


@triton.jit
def read_code(raw, E: tl.constexpr, M: tl.constexpr, BIAS: tl.constexpr, NOT: tl.constexpr):
    """The float of a code of E bits of exponent and M of mantissa. NOT says which codes are no numbers: `ieee` those of
    the largest exponent, `ones` those of all ones, `zero` minus zero, `none` none.
    """
    u = raw.to(tl.uint32)
    magnitude = u & ((1 << (E + M)) - 1)
    scaled = float_of(magnitude << (23 - M)) * (2.0 ** (127 - BIAS))
    bits = bits_of(scaled) | ((u & (1 << (E + M))) << (31 - E - M))
    if NOT == "ieee":
        bits = tl.where(magnitude >= ((1 << E) - 1) << M, bits | 0x7F800000, bits)
    elif NOT == "ones":
        bits = tl.where(magnitude == (1 << (E + M)) - 1, bits | 0x7FC00000, bits)
    elif NOT == "zero":
        bits = tl.where(u == 1 << (E + M), 0x7FC00000, bits)
    return float_of(bits)


@triton.jit
def write_code(x, E: tl.constexpr, M: tl.constexpr, BIAS: tl.constexpr, NOT: tl.constexpr):
    """The code of a float, as read_code reads it."""
    mask: tl.constexpr = (1 << (E + M)) - 1
    infinity: tl.constexpr = ((1 << E) - 1) << M
    if NOT == "ieee":
        largest: tl.constexpr = infinity - 1
        nan: tl.constexpr = infinity | (1 << (M - 1))
        too_large: tl.constexpr = infinity
    elif NOT == "ones":
        largest: tl.constexpr = mask - 1
        nan: tl.constexpr = mask
        too_large: tl.constexpr = mask
    elif NOT == "zero":
        largest: tl.constexpr = mask
        nan: tl.constexpr = mask + 1
        too_large: tl.constexpr = mask + 1
    else:
        largest: tl.constexpr = mask
        nan: tl.constexpr = mask + 1
        too_large: tl.constexpr = mask
    bits = bits_of(x)
    a = bits & 0x7FFFFFFF
    sign = (bits >> 31) << (E + M)
    step: tl.constexpr = 2.0 ** (24 - BIAS - M)  # the least bit of this float is that of a denormal code
    rounded = (a + ((1 << (22 - M)) - 1) + ((a >> (23 - M)) & 1)) >> (23 - M)
    small = bits_of(float_of(a) + step) - bits_of(tl.full([], step, tl.float32))
    code = tl.where(float_of(a) < 2.0 ** (1 - BIAS), small, rounded - ((127 - BIAS) << M))
    code = tl.where(code > largest, too_large, code)
    code = tl.where(a > 0x7F800000, nan, code)
    if NOT == "zero":
        code = tl.where((code == 0) | (code == mask + 1), code, code | sign)
    else:
        code = code | sign
    return code.to(tl.uint8)


@triton.jit
def read_e4m3(raw):
    if NATIVE_FP8:
        return raw.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    else:
        return read_code(raw, 4, 3, 7, "ones")


@triton.jit
def write_e4m3(x):
    """The chip saturates what rounds to more than the largest number."""
    if NATIVE_FP8:
        return tl.where(tl.abs(x) > 464.0, float("nan"), x).to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        return write_code(x, 4, 3, 7, "ones")


@triton.jit
def saturated_e4m3(x):
    """The code of a float, the largest numbers' for what is larger."""
    if NATIVE_FP8:
        return x.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        return write_e4m3(tl.where(x > 448.0, 448.0, tl.where(x < -448.0, -448.0, x)))


@triton.jit
def read_exponent(raw):
    """fp8e8m0fnu: powers of two; the smallest is a denormal float, 255 is NaN."""
    u = raw.to(tl.uint32)
    bits = tl.where(u == 0, 0x00400000, u << 23)
    return float_of(tl.where(u == 255, 0x7FC00000, bits))


@triton.jit
def write_exponent(x):
    u = bits_of(x)
    code = tl.where(u < 0x00600000, 0, (u + 0x00400000) >> 23)
    code = tl.where((u == 0) | (u >= 0x7F800000) | (code > 254), 255, code)
    return code.to(tl.uint8)


@triton.jit
def widen(raw, TYPE: tl.constexpr):
    """An element as it lies in memory, in the type that is computed with."""
    if TYPE == "half" or TYPE == "bf16":
        return raw.to(tl.float32)
    elif TYPE == "bool":
        return raw != 0
    elif TYPE == "fp8e4m3fn":
        return read_e4m3(raw)
    elif TYPE == "fp8e4m3fnuz":
        return read_code(raw, 4, 3, 8, "zero")
    elif TYPE == "fp8e5m2":
        return read_code(raw, 5, 2, 15, "ieee")
    elif TYPE == "fp8e5m2fnuz":
        return read_code(raw, 5, 2, 16, "zero")
    elif TYPE == "fp4e2m1fn":
        return read_code(raw, 2, 1, 1, "none")
    elif TYPE == "fp8e8m0fnu":
        return read_exponent(raw)
    elif TYPE == "int4":
        return (raw << 4) >> 4
    elif TYPE == "int2":
        return (raw << 6) >> 6
    elif TYPE == "uint4":
        return raw & 15
    elif TYPE == "uint2":
        return raw & 3
    else:
        return raw


@triton.jit
def narrow(value, TYPE: tl.constexpr):
    """A computed value as it lies in memory."""
    if TYPE == "half":
        return value.to(tl.float16)
    elif TYPE == "bf16":
        return value.to(tl.bfloat16)
    elif TYPE == "bool":
        return value.to(tl.uint8)
    elif TYPE == "fp8e4m3fn":
        return write_e4m3(value)
    elif TYPE == "fp8e4m3fnuz":
        return write_code(value, 4, 3, 8, "zero")
    elif TYPE == "fp8e5m2":
        return write_code(value, 5, 2, 15, "ieee")
    elif TYPE == "fp8e5m2fnuz":
        return write_code(value, 5, 2, 16, "zero")
    elif TYPE == "fp4e2m1fn":
        return write_code(value, 2, 1, 1, "none")
    elif TYPE == "fp8e8m0fnu":
        return write_exponent(value)
    elif TYPE == "int4" or TYPE == "uint4":
        return value & 15
    elif TYPE == "int2" or TYPE == "uint2":
        return value & 3
    else:
        return value


@triton.jit
def convert(a, TYPE: tl.constexpr):
    """The word `cast`: a as another type, in which it is computed on. Narrow floats stay float, rounded."""
    if TYPE == "bool":
        return as_bool(a)
    elif TYPE == "half" or TYPE == "bf16" or TYPE == "double" or TYPE == "float":
        return to_float(a, TYPE)
    elif TYPE == "int4" or TYPE == "int2":
        return widen(narrow(to_integer(a, tl.int8), TYPE), TYPE)
    elif TYPE == "uint4" or TYPE == "uint2":
        return widen(narrow(to_integer(a, tl.uint8), TYPE), TYPE)
    elif TYPE == "int8":
        return to_integer(a, tl.int8)
    elif TYPE == "uint8":
        return to_integer(a, tl.uint8)
    elif TYPE == "int16":
        return to_integer(a, tl.int16)
    elif TYPE == "uint16":
        return to_integer(a, tl.uint16)
    elif TYPE == "int32":
        return to_integer(a, tl.int32)
    elif TYPE == "uint32":
        return to_integer(a, tl.uint32)
    elif TYPE == "int64":
        return to_integer(a, tl.int64)
    elif TYPE == "uint64":
        return to_integer(a, tl.uint64)
    else:
        return widen(narrow(a.to(tl.float32), TYPE), TYPE)


@triton.jit
def to_float(a, TYPE: tl.constexpr):
    if TYPE == "half":
        return a.to(tl.float16).to(tl.float32)
    elif TYPE == "bf16":
        return a.to(tl.float32).to(tl.bfloat16).to(tl.float32)
    elif TYPE == "float":
        if a.dtype == tl.int8:
            return byte_to_float(a ^ -128, 128.0)
        elif a.dtype == tl.uint8:
            return byte_to_float(a, 0.0)
        else:
            return a.to(tl.float32)
    else:
        return a.to(tl.float64)


@triton.jit
def byte_to_float(a, LESS: tl.constexpr):
    """A byte without a sign, less a whole number: the last bits of 2^23 + a. A conversion takes as long as 8 sums."""
    return float_of(a.to(tl.uint8, bitcast=True).to(tl.uint32) | 0x4B000000) - (8388608.0 + LESS)


@triton.jit
def to_integer(a, TO: tl.constexpr):
    """Floats truncate, by way of a signed type that is wide enough: negative ones wrap where TO is unsigned."""
    if a.dtype.is_floating() and TO != tl.uint64:
        if TO.primitive_bitwidth < 32 or TO == tl.int32:
            return a.to(tl.int32).to(TO)
        else:
            return a.to(tl.int64).to(TO)
    else:
        return a.to(TO)

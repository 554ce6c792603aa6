"""The words of pointwise bodies (ops/scalar.py) that Triton's language does not have as they are meant.

Floats are float or double; their functions are in functions.py.
"""

import triton
import triton.language as tl


@triton.jit
def number(value: tl.constexpr, like):
    """A constant of the type of `like`."""
    return tl.full([], value, like.dtype)


# ---- bits -----------------------------------------------------------------------------------------------------------


@triton.jit
def negative(a):
    """Whether the sign bit of a float is set."""
    if a.dtype == tl.float64:
        return a.to(tl.int64, bitcast=True) < 0
    else:
        return a.to(tl.int32, bitcast=True) < 0


@triton.jit
def scalar_neg(a):
    """-a; Triton's own is 0 - a, which loses -0."""
    if a.dtype == tl.float64:
        return (a.to(tl.uint64, bitcast=True) ^ 0x8000000000000000).to(tl.float64, bitcast=True)
    elif a.dtype == tl.float32:
        return (a.to(tl.uint32, bitcast=True) ^ 0x80000000).to(tl.float32, bitcast=True)
    else:
        return -a


@triton.jit
def with_sign(a, like):
    """|a| with the sign of `like`."""
    return tl.where(negative(like), scalar_neg(tl.abs(a)), tl.abs(a))


@triton.jit
def power_of_two(n, like):
    """2^n as a float like `like`; n: integers from -126 to 127 (double: -1022 to 1023)."""
    if like.dtype == tl.float64:
        return ((n.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        return ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


# ---- arithmetic -----------------------------------------------------------------------------------------------------


@triton.jit
def scalar_div(a, b):
    """a / b; integers truncate, x / 0 is 0, lowest / -1 wraps."""
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    elif a.dtype == tl.float64:
        return a / b
    elif a.dtype.is_int_signed():
        quotient = a // tl.where((b == 0) | (b == -1), 1, b)
        return tl.where(b == 0, 0, tl.where(b == -1, -a, quotient))
    else:
        return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b))


@triton.jit
def parts_of(a):
    """The mantissa and the exponent of |a|, a double: |a| is mantissa * 2^(exponent - 1075)."""
    bits = a.to(tl.int64, bitcast=True) & 0x7FFFFFFFFFFFFFFF
    field = bits >> 52
    mantissa = bits & 0xFFFFFFFFFFFFF
    return tl.where(field == 0, mantissa, mantissa | 0x10000000000000), tl.where(field == 0, 1, field)


@triton.jit
def double_fmod(a, b, STEPS: tl.constexpr):
    """The remainder of doubles, exact: ten bits of the quotient a step."""
    x, x_exponent = parts_of(a)
    y, y_exponent = parts_of(b)
    right = (tl.abs(a) < float("inf")) & (b == b) & (b != 0)
    y = tl.where(y == 0, 1, y)
    left = tl.maximum(x_exponent - y_exponent, 0)
    rest = x % y
    for _ in range(STEPS):
        bits = tl.minimum(left, 10)
        rest = (rest << bits) % y
        left -= bits
    exponent = y_exponent - 1075
    coarse = tl.maximum(exponent, -1000)
    scaled = rest.to(tl.float64) * power_of_two(coarse, a) * power_of_two(exponent - coarse, a)
    found = tl.where(x_exponent < y_exponent, tl.abs(a), scaled)
    return tl.where(right, with_sign(found, a), float("nan"))


@triton.jit
def scalar_fmod(a, b):
    """The remainder with the sign of a; integers: x fmod 0 is 0."""
    if a.dtype == tl.float64:
        return double_fmod(a, b, 211)
    elif a.dtype == tl.float32:
        return double_fmod(a.to(tl.float64), b.to(tl.float64), 28).to(tl.float32)
    elif a.dtype.is_int_signed():
        return tl.where((b == 0) | (b == -1), 0, a % tl.where((b == 0) | (b == -1), 1, b))
    else:
        return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b))


@triton.jit
def scalar_mod(a, b):
    """The remainder with the sign of b; integers: x mod 0 is 0."""
    rest = scalar_fmod(a, b)
    if a.dtype.is_floating() or a.dtype.is_int_signed():
        return tl.where((rest != 0) & (b != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    else:
        return rest


@triton.jit
def integer_power(a, b):
    """a ** b by squares; wraps. A negative exponent gives the truncated quotient, 0 for 0."""
    if a.dtype.is_int_signed():
        exponent = tl.where(b < 0, 0, b) + 0 * a
    else:
        exponent = b + 0 * a
    base = a + 0 * b
    result = 0 * exponent + 1
    for _ in range(a.dtype.primitive_bitwidth):
        result = tl.where((exponent & 1) != 0, result * base, result)
        base = base * base
        exponent = exponent >> 1
    if a.dtype.is_int_signed():
        inverse = tl.where(a == 1, 1, tl.where(a == -1, tl.where((b & 1) != 0, -1, 1), 0))
        return tl.where(b < 0, inverse.to(a.dtype), result)
    else:
        return result


@triton.jit
def double_power(a, b):
    """|a| ** b of doubles: exp2(b log2 |a|), the whole parts of the logarithm and of b's product with it apart."""
    magnitude = tl.abs(a)
    tiny = magnitude < 2.2250738585072014e-308
    bits = tl.where(tiny, magnitude * 18014398509481984.0, magnitude).to(tl.int64, bitcast=True)
    exponent = (bits >> 52) - tl.where(tiny, 1077, 1023)
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
    above = mantissa > 1.4142135623730951
    mantissa = tl.where(above, 0.5 * mantissa, mantissa)
    whole = tl.where(above, exponent + 1, exponent).to(tl.float64)
    finite = (magnitude > 0) & (magnitude < float("inf")) & (tl.abs(b) < 1e300)
    high = (b.to(tl.int64, bitcast=True) & -134217728).to(tl.float64, bitcast=True)
    first = high * whole
    second = (b - high) * whole + b * tl.log2(mantissa)
    steps = tl.floor(first + second + 0.5)
    steps = tl.where(finite & (tl.abs(steps) < 2200), steps, 0)
    fraction = tl.exp2((first - steps) + second)
    half = tl.floor(steps * 0.5)
    scaled = fraction * power_of_two(tl.maximum(half, -1022).to(tl.int64), a)
    scaled = scaled * power_of_two(tl.maximum(steps - half, -1022).to(tl.int64), a)
    return tl.where(finite, scaled, tl.exp2(b * tl.log2(magnitude)))


@triton.jit
def scalar_pow(a, b):
    """a ** b, as C's pow."""
    if a.dtype.is_floating():
        if a.dtype == tl.float64:
            size = double_power(a, b)
        else:
            size = tl.exp2(b.to(tl.float64) * tl.log2(tl.abs(a).to(tl.float64))).to(tl.float32)
        whole = tl.floor(b) == b
        odd = whole & (tl.floor(b * 0.5) * 2.0 != b)
        size = tl.where(tl.abs(a) == 1.0, 1.0, size)
        size = tl.where(tl.abs(a) == 1.0, tl.where(b == b, size, b), size)
        result = tl.where(negative(a) & odd, scalar_neg(size), size)
        result = tl.where((a < 0) & (a > float("-inf")) & (whole == 0), float("nan"), result)
        return tl.where((b == 0) | (a == 1.0), 1.0, result)
    else:
        return integer_power(a, b)


@triton.jit
def scalar_max(a, b):
    """The larger; NaN if either is NaN."""
    if a.dtype == tl.int1:
        return a | b
    else:
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def scalar_min(a, b):
    """The smaller; NaN if either is NaN."""
    if a.dtype == tl.int1:
        return a & b
    else:
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def scalar_abs(a):
    if a.dtype.is_floating():
        return tl.abs(a)
    elif a.dtype.is_int_signed():
        return tl.where(a < 0, -a, a)
    else:
        return a


@triton.jit
def scalar_sign(a):
    """-1, 0 or 1; NaN gives NaN."""
    if a.dtype.is_floating():
        return tl.where(a > 0, 1.0, tl.where(a < 0, -1.0, tl.where(a == 0, 0.0, a)))
    elif a.dtype.is_int_signed():
        return tl.where(a > 0, 1, tl.where(a < 0, -1, 0)).to(a.dtype)
    else:
        return tl.where(a > 0, 1, 0).to(a.dtype)


# ---- whole numbers, bits, bools -------------------------------------------------------------------------------------


@triton.jit
def scalar_floor(a):
    """The device's takes denormal floats as 0."""
    if a.dtype.is_floating():
        whole = tl.floor(a)
        return tl.where(whole > a, whole - 1.0, whole)
    else:
        return a


@triton.jit
def scalar_ceil(a):
    if a.dtype.is_floating():
        whole = tl.ceil(a)
        return tl.where(whole < a, whole + 1.0, whole)
    else:
        return a


@triton.jit
def scalar_trunc(a):
    if a.dtype.is_floating():
        return tl.where(a < 0, tl.ceil(a), tl.floor(a))
    else:
        return a


@triton.jit
def scalar_nearbyint(a):
    """To the nearest whole number, ties to even: adding 2^23 (double: 2^52) leaves no fraction."""
    x = tl.abs(a)
    if a.dtype == tl.float64:
        return tl.where(x < 4503599627370496.0, with_sign((x + 4503599627370496.0) - 4503599627370496.0, a), a)
    else:
        return tl.where(x < 8388608.0, with_sign((x + 8388608.0) - 8388608.0, a), a)


@triton.jit
def nearest(a):
    """The whole number nearest to a float below 2^22, ties to even, as int32: the last bits of a + 1.5 * 2^23."""
    return (a + 12582912.0).to(tl.int32, bitcast=True) - 0x4B400000


@triton.jit
def as_bool(a):
    """Whether a is other than 0; NaN is."""
    if a.dtype == tl.int1:
        return a
    else:
        return a != 0


@triton.jit
def scalar_shift_left(a, b):
    """a << b; 0 where b is negative or at least the width of the type."""
    inside = (b >= 0) & (b < a.dtype.primitive_bitwidth)
    return tl.where(inside, a << tl.where(inside, b, 0), 0)


@triton.jit
def scalar_shift_right(a, b):
    """a >> b; the sign, or 0, where b is negative or at least the width of the type."""
    inside = (b >= 0) & (b < a.dtype.primitive_bitwidth)
    if a.dtype.is_int_signed():
        return tl.where(inside, a >> tl.where(inside, b, 0), tl.where(a < 0, -1, 0).to(a.dtype))
    else:
        return tl.where(inside, a >> tl.where(inside, b, 0), 0)


# ---- in a few instructions, for results that are rounded to 16 bits --------------------------------------------------


@triton.jit
def fast_div(a, b):
    if a.dtype.is_floating():
        return a / b
    else:
        return scalar_div(a, b)


@triton.jit
def fast_exp(a):
    """Two instructions; `tl.exp` takes five, for results that are denormal floats, which become 0 here."""
    return tl.exp2(a * 1.4426950408889634)


@triton.jit
def fast_sigmoid(a):
    """A reciprocal root, squared, is two instructions; a quotient takes five."""
    root = tl.rsqrt(1.0 + tl.exp2(a * -1.4426950408889634))
    return root * root


@triton.jit
def fast_erf(a):
    """A polynomial to 3e-5 up to 3.025, where it is 1; no exponential, which takes as long as eight multiplications."""
    a = tl.minimum(tl.maximum(a, -3.025, propagate_nan=tl.PropagateNan.ALL), 3.025, propagate_nan=tl.PropagateNan.ALL)
    z = a * a
    p = -1.8697852e-06 + z * 3.8649081e-08
    p = -5.0251499e-04 + z * (3.9959080e-05 + z * p)
    p = -2.5011336e-02 + z * (4.1981712e-03 + z * p)
    p = -3.7524772e-01 + z * (1.1096148e-01 + z * p)
    return a * (1.1282575 + z * p)


@triton.jit
def fast_cdf(x):
    """Of the normal distribution, to 1.3e-5, and times x, the exact GELU, to 6e-5; of NaN some number.

    Where the polynomial is no approximation any more it lies beyond 0 and 1. The last addition saturates by itself: no
    comparisons, which take twice as long as multiplications.
    """
    z = x * x
    p = -5.0416196e-09 + z * 5.1684227e-11
    p = -5.4947138e-06 + z * (2.1708689e-07 + z * p)
    p = -1.1028274e-03 + z * (9.2259408e-05 + z * p)
    p = -6.6327442e-02 + z * (9.8011075e-03 + z * p)
    return tl.minimum(tl.maximum(0.5 + x * (0.39889674 + z * p), 0.0), 1.0)


@triton.jit
def multiply(a, b):
    return a * b

"""The words of pointwise bodies (ops/scalar.py) that Triton's language does not have as they are meant.

Floats are float or double. Functions are as exact as the table of the words asks: they are made of exp, log, sqrt, sin,
cos and erf, which Triton has on every device and in its interpreter. No step relies on fused multiplications.
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


# ---- exponentials and logarithms ------------------------------------------------------------------------------------


@triton.jit
def scalar_sqrt(a):
    if a.dtype == tl.float64:
        return tl.sqrt(a)
    else:
        return tl.sqrt_rn(a)


@triton.jit
def scalar_recip(a):
    return scalar_div(number(1.0, a), a)


@triton.jit
def scalar_rsqrt(a):
    return scalar_recip(scalar_sqrt(a))


@triton.jit
def scalar_exp(a):
    """e^a. Of floats: 2^n e^r with |r| <= log(2) / 2; n log(2) is subtracted in two parts, the first exact.

    What is added to 1.5 * 2^23 is rounded, and the sum's last bits are n: no conversions, which are slow.
    """
    if a.dtype == tl.float64:
        return tl.exp(a)
    else:
        x = tl.maximum(a, -105.0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, 90.0, propagate_nan=tl.PropagateNan.ALL)
        rounded = x * 1.4426950408889634 + 12582912.0
        n = rounded - 12582912.0
        r = (x - n * 0.693359375) + n * 2.12194440e-4
        whole = rounded.to(tl.int32, bitcast=True) - 0x4B400000
        half = whole >> 1
        return tl.exp2(r * 1.4426950408889634) * power_of_two(half, a) * power_of_two(whole - half, a)


@triton.jit
def scalar_log(a):
    """The device's logarithm takes denormal floats as 0."""
    if a.dtype == tl.float64:
        return tl.log(a)
    else:
        tiny = tl.abs(a) < 1.1754944e-38
        return tl.log(tl.where(tiny, a * 8388608.0, a)) - tl.where(tiny, 15.942385, 0.0)


@triton.jit
def scalar_log2(a):
    if a.dtype == tl.float64:
        return tl.log2(a)
    else:
        tiny = tl.abs(a) < 1.1754944e-38
        return tl.log2(tl.where(tiny, a * 8388608.0, a)) - tl.where(tiny, 23.0, 0.0)


@triton.jit
def scalar_expm1(a):
    """e^a - 1 (Kahan): the error of u = e^a cancels in (u - 1) / log(u)."""
    u = scalar_exp(a)
    less = u - 1.0
    found = less * scalar_div(a, tl.log(u))
    found = tl.where(u == float("inf"), u, tl.where(less == -1.0, -1.0, found))
    return tl.where(u == 1.0, a, found)


@triton.jit
def scalar_log1p(a):
    """log(1 + a) (Kahan): what the sum u = 1 + a lost is made good by a / (u - 1)."""
    u = 1.0 + a
    found = tl.log(u) * scalar_div(a, u - 1.0)
    return tl.where(u == 1.0, a, tl.where(u == float("inf"), u, found))


@triton.jit
def scalar_sigmoid(a):
    """Through e^-|a|, which does not overflow."""
    e = scalar_exp(scalar_neg(tl.abs(a)))
    return scalar_div(tl.where(a < 0, e, 1.0), 1.0 + e)


# ---- hyperbolic and trigonometric -----------------------------------------------------------------------------------


@triton.jit
def scalar_tanh(a):
    """Near 0 of floats a polynomial, as 1 - 2 / (e^2x + 1) would lose what is left there."""
    if a.dtype == tl.float64:
        t = scalar_expm1(-2.0 * tl.abs(a))
        return with_sign(scalar_div(t, 2.0 + t), a)
    else:
        z = a * a
        near = 1.0 + z * (-0.33333284 + z * (0.13331705 + z * (-0.05376992 + z * (0.02075748 - z * 0.00585643))))
        far = 1.0 - 2.0 / (1.0 + tl.exp2(2.8853900817779268 * tl.abs(a)))
        return tl.where(z < 0.36, a * near, with_sign(far, a))


@triton.jit
def scalar_sinh(a):
    x = tl.abs(a)
    t = scalar_expm1(tl.minimum(x, 40.0, propagate_nan=tl.PropagateNan.ALL))
    near = 0.5 * (t + scalar_div(t, t + 1.0))
    w = scalar_exp(0.5 * x)
    return with_sign(tl.where(x > 20.0, (0.5 * w) * w, near), a)


@triton.jit
def scalar_cosh(a):
    w = scalar_exp(0.5 * tl.abs(a))
    return (0.5 * w) * w + scalar_div(scalar_div(number(0.5, a), w), w)


@triton.jit
def scalar_asinh(a):
    x = tl.abs(a)
    s = tl.minimum(x, 1e9, propagate_nan=tl.PropagateNan.ALL)
    near = scalar_log1p(s + scalar_div(s * s, 1.0 + scalar_sqrt(s * s + 1.0)))
    return with_sign(tl.where(x > 1e9, tl.log(x) + 0.6931471805599453, near), a)


@triton.jit
def scalar_acosh(a):
    t = tl.minimum(a, 1e9, propagate_nan=tl.PropagateNan.ALL) - 1.0
    near = scalar_log1p(t + scalar_sqrt(2.0 * t + t * t))
    return tl.where(a < 1.0, float("nan"), tl.where(a > 1e9, tl.log(a) + 0.6931471805599453, near))


@triton.jit
def scalar_atanh(a):
    x = tl.abs(a)
    return with_sign(0.5 * scalar_log1p(scalar_div(2.0 * x, 1.0 - x)), a)


@triton.jit
def scalar_sin(a):
    """The device's sine takes denormal floats as 0."""
    if a.dtype == tl.float64:
        return tl.sin(a)
    else:
        return tl.where(tl.abs(a) < 2e-4, a, tl.sin(a))


@triton.jit
def scalar_cos(a):
    return tl.cos(a)


@triton.jit
def scalar_tan(a):
    return scalar_div(scalar_sin(a), tl.cos(a))


@triton.jit
def scalar_erf(a):
    """The device's takes denormal floats as 0."""
    if a.dtype == tl.float64:
        return tl.erf(a)
    else:
        return tl.where(tl.abs(a) < 1e-5, a * 1.1283792, tl.erf(a))


@triton.jit
def scalar_atan(a):
    """fdlibm's: the angle less that of 0, 1/2, 1, 3/2 or infinity, by a polynomial."""
    x = tl.abs(a)
    above = tl.where(x < 0.6875, 2.0 * x - 1.0, tl.where(x < 1.1875, x - 1.0, tl.where(x < 2.4375, x - 1.5, -1.0)))
    below = tl.where(x < 0.6875, 2.0 + x, tl.where(x < 1.1875, x + 1.0, tl.where(x < 2.4375, 1.0 + 1.5 * x, x)))
    near = x < 0.4375
    t = scalar_div(tl.where(near, x, above), tl.where(near, 1.0, below))
    z = t * t
    w = z * z
    odd = 4.97687799461593236017e-02 + w * 1.62858201153657823623e-02
    odd = 6.66107313738753120669e-02 + w * odd
    odd = 9.09088713343650656196e-02 + w * odd
    odd = 1.42857142725034663711e-01 + w * odd
    odd = 3.33333333333329318027e-01 + w * odd
    even = -5.83357013379057348645e-02 + w * -3.65315727442169155270e-02
    even = -7.69187620504482999495e-02 + w * even
    even = -1.11111104054623557880e-01 + w * even
    even = -1.99999999998764832476e-01 + w * even
    bent = t * (z * odd + w * even)
    high = tl.where(x < 2.4375, number(9.82793723247329054082e-01, a), number(1.57079632679489655800, a))
    high = tl.where(x < 1.1875, number(7.85398163397448278999e-01, a), high)
    high = tl.where(x < 0.6875, number(4.63647609000806093515e-01, a), high)
    low = tl.where(x < 2.4375, number(1.39033110312309984516e-17, a), number(6.12323399573676603587e-17, a))
    low = tl.where(x < 1.1875, number(3.06161699786838301793e-17, a), low)
    low = tl.where(x < 0.6875, number(2.26987774529616870924e-17, a), low)
    found = tl.where(near, t - bent, high - ((bent - low) - t))
    return with_sign(found, a)


@triton.jit
def scalar_asin(a):
    return with_sign(scalar_atan(scalar_div(tl.abs(a), scalar_sqrt((1.0 - a) * (1.0 + a)))), a)


@triton.jit
def scalar_acos(a):
    return 2.0 * scalar_atan(scalar_sqrt(scalar_div(1.0 - a, 1.0 + a)))


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
def fast_sigmoid(a):
    return 1.0 / (1.0 + tl.exp(-a))


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

"""Functions of real numbers among the words of pointwise bodies, as kernels/scalar.py has the others.

They are as exact as the table of the words asks: made of exp, log, sqrt, sin, cos and erf, which Triton has on every
device and in its interpreter. No step relies on fused multiplications.
"""

import triton
import triton.language as tl

from migraphx.targets.gpu.kernels.scalar import number, power_of_two, scalar_div, scalar_neg, with_sign

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

// The words of pointwise bodies on vectors. V is any vec<T, N>; scalars go as vec<T, 1>.
//
// For float every word below is within 2 ulp of the exact value over the whole range, denormal results
// included (most within 1); NaN, inf and -0 as in C99. double uses libm lane by lane. half and bf16 have no
// words: load_f them, compute in float. Float-only words do not exist for integers: cast first.
//
//   V exp(V) expm1(V) log(V) log2(V) log1p(V) pow(V, V) sqrt(V) rsqrt(V) recip(V)            float, double
//   V sin(V) cos(V) tan(V) asin(V) acos(V) atan(V) sinh(V) cosh(V) tanh(V) asinh(V) acosh(V) atanh(V) erf(V)
//   V sigmoid(V)    1 / (1 + e^-x)     V one_plus_erf(V) one_plus_tanh(V)    to an absolute 5e-7
//   V times_sigmoid(V a, V x)          a / (1 + e^-x), to 2e-7 of a
//   V floor(V) ceil(V) trunc(V) nearbyint(V) (half to even) round(V) (half away from 0)   any T
//   V abs(V) sign(V) (NaN for NaN)                                                        any T
//   V max(V, V) min(V, V)   NaN if either is NaN                                          any T
//   V div(V, V)    float: /; integers truncate toward zero, x / 0 is 0, MIN / -1 is MIN    any T
//   V fmod(V, V)   sign of the dividend (C);  integers: x % 0 is 0                         any T
//   V mod(V, V)    sign of the divisor (Python, torch.remainder; a zero keeps fmod's sign) any T
//   V ipow(V, V)   integers (pow is ipow there): wraps; negative exponent: 1/x truncated   integers
//   V where(M, V, V)  is select of vec.hpp with M = vec<bool, N>
//   B eq ne lt le gt ge (V, V)    B isnan(V) isinf(V) isfinite(V)     B = vec<bool, N>, lanes 0 or 1
//   B logical_and/or/xor(V, W)  B logical_not(V)                      any T; non-zero (NaN too) is true
//   V bit_and bit_or bit_xor shl shr (V, V)  V bit_not(V)             integers; bool's bit_not is logical
//                  a shift by >= the width gives 0 (shr of a negative number: -1), by < 0 too
// + - * and unary minus are the compiler's operators (on integers they wrap).
#pragma once

#include "erf.hpp"
#include "narrow.hpp"

namespace mgx {

template <class V> inline constexpr bool is_f32 = same_v<lane_t<V>, float>;
template <class V> inline constexpr bool is_fp = same_v<lane_t<V>, float> || same_v<lane_t<V>, double>;
template <class V> using int_vec = vec<typename int_of<sizeof(lane_t<V>)>::type, lanes_v<V>>;
template <class V> using bool_vec = vec<bool, lanes_v<V>>;

// A comparison result (0/-1 lanes) as a bool vector, and constants of V.
template <class M> MGX_INLINE bool_vec<M> truth(M m) {
    return bit_cast<bool_vec<M>>(cast<int8_t>(m)) & uint8_t(1);
}
template <class V> MGX_INLINE V fill(lane_t<V> x) { return splat<lane_t<V>, lanes_v<V>>(x); }

// f on each lane: the compiler makes one instruction of it where the machine has one.
template <class V, class F> MGX_INLINE V each(F f, V a) {
    lane_t<V> x[lanes_v<V>];
    store(x, a);
    for (auto& v : x) v = f(v);
    return load<lanes_v<V>>(x);
}
template <class V, class F> MGX_INLINE V each(F f, V a, V b) {
    for (int i = 0; i < lanes_v<V>; ++i) a[i] = f(a[i], b[i]);
    return a;
}

template <class V> MGX_INLINE bool any(V m) {
    return fold(m, [](auto a, auto b) { return a | b; }) != 0;
}

// c0 + c1 x + c2 x^2 + ...
template <class V, class C> MGX_INLINE V poly(V, C c) { return fill<V>(c); }
template <class V, class C, class... R> MGX_INLINE V poly(V x, C c, R... rest) {
    return poly(x, rest...) * x + fill<V>(c);
}

// ---- comparison, logic, bits ------------------------------------------------------------------------------

template <class V> MGX_INLINE bool_vec<V> eq(V a, V b) { return truth(a == b); }
template <class V> MGX_INLINE bool_vec<V> ne(V a, V b) { return truth(a != b); }
template <class V> MGX_INLINE bool_vec<V> lt(V a, V b) { return truth(a < b); }
template <class V> MGX_INLINE bool_vec<V> le(V a, V b) { return truth(a <= b); }
template <class V> MGX_INLINE bool_vec<V> gt(V a, V b) { return truth(a > b); }
template <class V> MGX_INLINE bool_vec<V> ge(V a, V b) { return truth(a >= b); }
template <class V, class W> MGX_INLINE bool_vec<V> logical_and(V a, W b) {
    return truth(a != 0) & truth(b != 0);
}
template <class V, class W> MGX_INLINE bool_vec<V> logical_or(V a, W b) {
    return truth(a != 0) | truth(b != 0);
}
template <class V, class W> MGX_INLINE bool_vec<V> logical_xor(V a, W b) {
    return truth(a != 0) ^ truth(b != 0);
}
template <class V> MGX_INLINE bool_vec<V> logical_not(V a) { return truth(a == 0); }
template <class V, class M> MGX_INLINE V where(M m, V a, V b) { return select(m, a, b); }

template <class V> MGX_INLINE V bit_and(V a, V b) { return a & b; }
template <class V> MGX_INLINE V bit_or(V a, V b) { return a | b; }
template <class V> MGX_INLINE V bit_xor(V a, V b) { return a ^ b; }
template <class V> MGX_INLINE V bit_not(V a) { return ~a; }
template <class V> MGX_INLINE auto out_of_width(V s) {
    const lane_t<V> bits = sizeof(lane_t<V>) * 8;
    return (s >= bits) | (s < lane_t<V>(0));
}
template <class V> MGX_INLINE V shl(V a, V s) {
    const V zero{}, safe = out_of_width(s) ? zero : s;
    return out_of_width(s) ? zero : a << safe;
}
template <class V> MGX_INLINE V shr(V a, V s) {
    const V zero{}, safe = out_of_width(s) ? zero : s;
    const V gone = (a < zero) ? ~zero : zero;
    return out_of_width(s) ? gone : a >> safe;
}

// ---- sign, rounding, extremes -----------------------------------------------------------------------------

template <class V> MGX_INLINE V copysign(V magnitude, V sign) {
    using I = int_vec<V>;
    const I top = bit_cast<I>(fill<V>(-0.0));
    return bit_cast<V>((bit_cast<I>(magnitude) & ~top) | (bit_cast<I>(sign) & top));
}
template <class V> MGX_INLINE V abs(V x) {
    if constexpr (is_fp<V>)
        return bit_cast<V>(bit_cast<int_vec<V>>(x) & ~bit_cast<int_vec<V>>(fill<V>(-0.0)));
    else
        return (x < 0) ? -x : x;
}
template <class V> MGX_INLINE V sign(V x) {
    const V zero{}, one = fill<V>(1), minus = fill<V>(lane_t<V>(-1));
    return (x > zero) ? one : (x < zero) ? minus : x + zero;  // NaN stays NaN, -0 becomes 0
}
// Written as comparisons, of which a compiler makes two where b is constant; the instruction, which gives a where
// either is NaN, is one, but none derives it.
#if defined(__AVX__)
#define MGX_ONE_INSTRUCTION(name, V, a, b)                  \
    if constexpr (same_v<V, vec<float>>) {                  \
        V r;                                                \
        asm(name " %1, %2, %0" : "=v"(r) : "v"(a), "v"(b)); \
        return (b != b) ? b : r;                            \
    }
#else
#define MGX_ONE_INSTRUCTION(name, V, a, b)
#endif
template <class V> MGX_INLINE V max(V a, V b) {
    MGX_ONE_INSTRUCTION("vmaxps", V, a, b)
    const V r = (a <= b) ? b : a;
    return (b != b) ? b : r;
}
template <class V> MGX_INLINE V min(V a, V b) {
    MGX_ONE_INSTRUCTION("vminps", V, a, b)
    const V r = (a >= b) ? b : a;
    return (b != b) ? b : r;
}
#undef MGX_ONE_INSTRUCTION
template <class V> MGX_INLINE bool_vec<V> isnan(V x) { return truth(x != x); }
template <class V> MGX_INLINE bool_vec<V> isinf(V x) { return truth(abs(x) == fill<V>(__builtin_inf())); }
template <class V> MGX_INLINE bool_vec<V> isfinite(V x) { return truth(abs(x) < fill<V>(__builtin_inf())); }

// Adding 2^23 (2^52) pushes the fraction out, rounding half to even; larger numbers are whole already.
template <class V> MGX_INLINE V nearbyint(V x) {
#if defined(__AVX512F__) || defined(__AVX__)
    if constexpr (same_v<V, vec<float>>) {
        V r;
#if defined(__AVX512F__)
        asm("vrndscaleps $8, %1, %0" : "=v"(r) : "v"(x));
#else
        asm("vroundps $8, %1, %0" : "=x"(r) : "x"(x));
#endif
        return r;
    }
#endif
    if constexpr (is_fp<V>) {
        const V big = fill<V>(is_f32<V> ? 8388608.0 : 4503599627370496.0), t = abs(x);
        return copysign((t < big) ? (t + big) - big : t, x);  // clang 22 gets a select of the copysign wrong
    }
    return x;
}
template <class V> MGX_INLINE V floor(V x) {
    const V r = nearbyint(x);
    return (r > x) ? r - fill<V>(1) : r;
}
template <class V> MGX_INLINE V ceil(V x) {
    if constexpr (is_fp<V>) {
        const V r = nearbyint(x);
        return copysign((r < x) ? r + fill<V>(1) : r, x);
    }
    return x;
}
template <class V> MGX_INLINE V trunc(V x) {
    if constexpr (is_fp<V>) return copysign(floor(abs(x)), x);
    return x;
}
template <class V> MGX_INLINE V round(V x) {
    if constexpr (is_fp<V>) {
        const V t = trunc(x), up = t + copysign(fill<V>(1), x);
        return (abs(x - t) >= fill<V>(0.5)) ? up : t;
    }
    return x;
}

// ---- division, remainders ---------------------------------------------------------------------------------

template <class V> MGX_INLINE V div(V a, V b) {
    using T = lane_t<V>;
    if constexpr (is_fp<V>) {
        return a / b;
    } else {
        const auto none = b == V{};  // not lane by lane: of x / x g++ 12 then makes x != 0, and of that -1 (-O3)
        const V by = select(none, splat<T, lanes_v<V>>(1), b), q = each([](T x, T y) {
            if constexpr (T(-1) < 0)
                if (y == T(-1)) return T(0 - static_cast<uint64_t>(x));
            return T(x / y);
        }, a, by);
        return select(none, V{}, q);
    }
}
template <class V> MGX_INLINE V fmod(V a, V b) {
    using T = lane_t<V>;
    if constexpr (is_f32<V>)
        return each([](T x, T y) { return __builtin_fmodf(x, y); }, a, b);
    else if constexpr (is_fp<V>)
        return each([](T x, T y) { return __builtin_fmod(x, y); }, a, b);
    else
        return each([](T x, T y) { return y == 0 || (T(-1) < 0 && y == T(-1)) ? T(0) : T(x % y); }, a, b);
}
template <class V> MGX_INLINE V mod(V a, V b) {
    const V r = fmod(a, b), zero{};
    return ((r != zero) & ((r < zero) != (b < zero))) ? r + b : r;
}
template <class V> MGX_INLINE V ipow(V a, V b) {
    using T = lane_t<V>;
    return each([](T x, T n) {
        if (n < 0) return x == 1 ? T(1) : x == T(-1) ? T(n % 2 ? -1 : 1) : T(0);
        uint64_t r = 1, base = static_cast<uint64_t>(x);
        for (; n > 0; n = T(n / 2), base *= base)
            if (n % 2) r *= base;
        return T(r);
    }, a, b);
}

// ---- roots ------------------------------------------------------------------------------------------------

template <class V> MGX_INLINE V sqrt(V x) {
#if defined(__AVX__)
    if constexpr (sizeof(V) == sizeof(float) * LANES) {  // GCC would use half registers
        if constexpr (is_f32<V>) asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
        else asm("vsqrtpd %1, %0" : "=v"(x) : "v"(x));
        return x;
    }
#endif
    if constexpr (is_f32<V>)
        return each([](float v) { return __builtin_sqrtf(v); }, x);
    else
        return each([](double v) { return __builtin_sqrt(v); }, x);
}
template <class V> MGX_INLINE V rsqrt(V x) { return fill<V>(1) / sqrt(x); }
template <class V> MGX_INLINE V recip(V x) { return fill<V>(1) / x; }

// ---- exponentials in float --------------------------------------------------------------------------------

inline constexpr float LN2_HIGH = 0.693145751953125f;  // 15 bits: n * LN2_HIGH is exact
inline constexpr float LN2_LOW = 1.42860676533018e-6f;
inline constexpr float TO_INT = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits

template <class V> MGX_INLINE V clamp(V x, lane_t<V> low, lane_t<V> high) {  // NaN stays
    return mgx::min(mgx::max(x, fill<V>(low)), fill<V>(high));
}
template <class V> MGX_INLINE V pow2(int_vec<V> n) { return bit_cast<V>((n + 127) << 23); }

// x = n ln2 + r with |r| <= ln2 / 2, for |x| < 2^15.
template <class V> struct Reduced {
    V r, whole;  // whole: n as a float
    int_vec<V> n;
};
template <class V> MGX_INLINE Reduced<V> reduce_ln2(V x) {
    const V shifted = x * 1.44269504f + TO_INT, n = shifted - TO_INT;
    return {(x - n * LN2_HIGH) - n * LN2_LOW, n, bit_cast<int_vec<V>>(shifted) - 0x4B400000};
}
template <class V> MGX_INLINE V exp_small(V r) {  // e^r - 1, to a unit of 1: |r| <= ln2 / 2
    const V p = poly(r, 4.9999994e-01f, 1.666652e-01f, 4.1668393e-02f, 8.368782e-03f, 1.3814454e-03f);
    return (r * r) * p + r;
}
template <class V> MGX_INLINE V exp_reduced(const Reduced<V>& x) {
    const V e = exp_small(x.r) + 1.0f;
#if defined(__AVX512F__)
    if constexpr (same_v<V, vec<float>>) {
        V r;
        asm("vscalefps %2, %1, %0" : "=v"(r) : "v"(e), "v"(x.whole));
        return r;
    }
#endif
    const auto first = x.n >> 1;  // 2^n in two steps: n = 128 and denormal results
    return e * pow2<V>(first) * pow2<V>(x.n - first);
}
// e^x where e^x is a normal number (-87.3 <= x <= 88.3); cheaper than exp.
template <class V> MGX_INLINE V exp_normal(V x) {
    const auto [r, whole, n] = reduce_ln2(x);
    return (exp_small(r) + 1.0f) * pow2<V>(n);
}
template <class V> MGX_INLINE V exp(V x) {
    if constexpr (!is_f32<V>)
        return each([](double v) { return __builtin_exp(v); }, x);
    else
        return exp_reduced(reduce_ln2(clamp(x, -104.0f, 89.0f)));
}
template <class V> MGX_INLINE V expm1(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_expm1(v); }, x);
    } else {
        auto [r, whole, n] = reduce_ln2(clamp(x, -18.0f, 89.0f));
        const V one = fill<V>(1), last = (n > 127) ? one + one : one;
        n = (n > 127) ? int_vec<V>{} + 127 : n;
        const V s = pow2<V>(n);
        const V p = poly(r, 5e-01f, 1.6666666e-01f, 4.166636e-02f, 8.333389e-03f, 1.394073e-03f, 1.9846247e-04f);
        return copysign(((s - one) + s * r + s * (r * r) * p) * last, x);
    }
}
// 1 / d for normal d, at least to 14 bits.
template <class V> MGX_INLINE V near_recip(V d) {
#if defined(__AVX512F__)
    if constexpr (same_v<V, vec<float>>) {
        V r;
        asm("vrcp14ps %1, %0" : "=v"(r) : "v"(d));
        return r;
    }
#endif
    return 1.0f / d;
}
// a / (d + low), corrected once by what the near reciprocal and the sum d + low lost.
template <class V> MGX_INLINE V ratio(V a, V d, V low) {
    const V inverse = near_recip(d), q = a * inverse;
    return q + ((a - q * d) - q * low) * inverse;
}
// 1 / (1 + (1 + part) 2^n) for -62 <= n <= 190, |part| < 1/2; `shifted` is n + BIASED_UNIT, rounded to whole n. All is
// 2^-64 of what it means, so that the power does not overflow where the answer is denormal.
inline constexpr float UNIT = 0x1p-64f, BIASED_UNIT = TO_INT + 127 - 64;
template <bool EXACT, class V> MGX_INLINE V logistic(V part, V shifted) {
    const V power = bit_cast<V>(bit_cast<int_vec<V>>(shifted) << 23), some = part * power + UNIT, d = some + power;
#if defined(__AVX512F__) && !defined(__znver3__) && !defined(__znver4__)  // a division takes long, but on a Zen 4
    const V inverse = near_recip(d);
    if constexpr (!EXACT) return inverse * (2.0f - d * inverse) * UNIT;
    return (inverse + inverse * ((1.0f - power * inverse) - some * inverse)) * UNIT;
#else
    return UNIT / d;
#endif
}
template <class V> MGX_INLINE V sigmoid(V x) {
    if constexpr (!is_f32<V>) {
        const V e = exp(-abs(x)), one = fill<V>(1);
        return ((x < V{}) ? e : one) / (one + e);
    } else {  // from 30 on it is 1
        const V t = clamp(x, -104.0f, 30.0f), shifted = BIASED_UNIT - t * 1.44269504f, n = shifted - BIASED_UNIT;
        const V r = (-t - n * LN2_HIGH) - n * LN2_LOW;
        return logistic<true>(r * poly(r, 1.0f, 4.9999994e-01f, 1.6666520e-01f, 4.1668393e-02f, 8.3687548e-03f, 1.3814483e-03f), shifted);
    }
}
template <class V> MGX_INLINE V near_logistic(V t) {  // 1 / (1 + 2^t) to 2e-7, -62 <= t <= 190
    const V shifted = t + BIASED_UNIT, r = t - (shifted - BIASED_UNIT);
    return logistic<false>(r * poly(r, 6.9314724e-01f, 2.4022235e-01f, 5.5503085e-02f, 9.6718753e-03f, 1.3407251e-03f), shifted);
}
// 0 from where e^-x overflows, as in torch: an Intel core takes many times as long for a product of denormals, and of
// SiLU's results products are made.
template <class V> MGX_INLINE V times_sigmoid(V a, V x) {
    if constexpr (!is_f32<V>) return a * sigmoid(x);
    else return a * ((x < -88.72285f) ? V{} : near_logistic(clamp(x, -89.0f, 30.0f) * -1.44269504f));
}
template <class V> MGX_INLINE V tanh(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_tanh(v); }, x);
    } else {
        const V t = abs(x), limit = fill<V>(9.1f), e = expm1((t > limit) ? limit + limit : t + t);
        const V d = e + 2.0f, low = (e < 2.0f) ? e - (d - 2.0f) : 2.0f - (d - e);
        return copysign(ratio(e, d, low), x);
    }
}
template <class V> MGX_INLINE V erf(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_erf(v); }, x);
    } else {
        const V t = abs(x), cut = fill<V>(0.93f), end = fill<V>(3.95f), s = x * x;
        const V near = poly(s, 1.2837917e-01f, -3.7612632e-01f, 1.12836875e-01f, -2.685894e-02f,
                            5.1999064e-03f, -8.1300084e-04f, 8.316759e-05f) * x + x;
        const V u = (t > end) ? end : t;
        const V q = poly(u, 1.2865137e-01f, 6.3513964e-01f, 1.0625619e-01f, -2.3778692e-02f, 3.6503212e-03f,
                         -3.247374e-04f, 1.1424479e-05f) * u + u;
        const V far = copysign(1.0f - exp_normal(-q), x);
        return (t < cut) ? near : far;
    }
}
// 1 + erf(x) and 1 + tanh(x) to 5e-7, about what rounding erf(x) and the sum leaves of them; less work than erf and tanh.
template <class V> MGX_INLINE V one_plus_erf(V x) {
    if constexpr (!is_f32<V>) return fill<V>(1) + erf(x);
    else if constexpr (HAS_ERF_PIECES && same_v<V, vec<float>>)
        return copysign(erf_of_pieces(mgx::min(abs(x) * ERF_SCALE, fill<V>(LANES - 0.6f))), x) + 1.0f;
    else return clamp(erf_quotient(clamp(x, -ERF_END, ERF_END)), -1.0f, 1.0f) + 1.0f;
}
template <class V> MGX_INLINE V one_plus_tanh(V x) { return times_sigmoid(fill<V>(2), x + x); }

// ---- logarithms in float ----------------------------------------------------------------------------------

// x = 2^e (1 + f), 1 + f in [sqrt 1/2, sqrt 2); denormals too.
template <class V> struct Split {
    V e, f;
};
template <class V> MGX_INLINE Split<V> split_log(V x) {
    using I = int_vec<V>;
    const V tiny = fill<V>(1.17549435e-38f), zero{};
    const auto small = x < tiny;
    const V y = small ? x * 8388608.0f : x;
    const I n = (bit_cast<I>(y) - 0x3f3504f3) >> 23;
    const V e = __builtin_convertvector(n, V) - (small ? zero + 23.0f : zero);
    return {e, bit_cast<V>(bit_cast<I>(y) - (n << 23)) - 1.0f};
}
template <class V> MGX_INLINE V log_ends(V x, V r) {  // the answer at 0, below, at inf and NaN
    const V inf = fill<V>(__builtin_inff()), zero{};
    const V bad = (x == zero) ? -inf : (x < zero) ? fill<V>(__builtin_nanf("")) : x;
    return ((x > zero) & (x < inf)) ? r : bad;
}
template <class V> MGX_INLINE V log_tail(V f) {  // log(1 + f) - f
    const V p = poly(f, 3.333333e-01f, -2.5000823e-01f, 2.0001225e-01f, -1.6623352e-01f, 1.4201784e-01f,
                     -1.3160256e-01f, 1.276142e-01f, -7.634107e-02f);
    return (f * f) * (f * p - 0.5f);
}
template <class V> MGX_INLINE V log(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_log(v); }, x);
    } else {
        const auto [e, f] = split_log(x);
        return log_ends(x, e * LN2_HIGH + (f + (e * LN2_LOW + log_tail(f))));
    }
}
template <class V> MGX_INLINE V log1p(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_log1p(v); }, x);
    } else {
        const V u = x + 1.0f, lost = (x < 1.0f) ? x - (u - 1.0f) : 1.0f - (u - x);  // u + lost = x + 1
        const auto [e, f] = split_log(u);
        const V r = e * LN2_HIGH + (f + ((e * LN2_LOW + lost / u) + log_tail(f)));
        return copysign(log_ends(u, r), x);
    }
}
template <class V> MGX_INLINE V log2(V x) {
    if constexpr (!is_f32<V>) {
        return each([](double v) { return __builtin_log2(v); }, x);
    } else {
        const auto [e, f] = split_log(x);
        const V q = poly(f, -7.2134733e-01f, 4.8089823e-01f, -3.6069664e-01f, 2.8856763e-01f, -2.3961788e-01f,
                         2.0459768e-01f, -1.9105692e-01f, 1.8618754e-01f, -1.09975494e-01f);
        return log_ends(x, e + (f + f * (0.44269504f + f * q)));
    }
}

// ---- the rest in float: computed in double, rounded once --------------------------------------------------

// f on x in double, a register of doubles at a time.
template <class F, class V, class... W> MGX_INLINE V in_double(F f, V x, W... more) {
    constexpr int N = lanes_v<V>;
    if constexpr (N > 1 && 2 * N > LANES) {
        return join(in_double(f, halves(x).low, halves(more).low...),
                    in_double(f, halves(x).high, halves(more).high...));
    } else {
        using D = vec<double, N>;
        const D r = f(__builtin_convertvector(x, D), __builtin_convertvector(more, D)...);
        return __builtin_convertvector(r, V);
    }
}

template <class D> MGX_INLINE D exp2_d(D x) {  // 2^x, |x| < 1000, relative error 2^-50
    using I = int_vec<D>;
    const D shifted = x + 6755399441055744.0, n = shifted - 6755399441055744.0;
    const D r = (x - n) * 0.6931471805599453;
    const D p = r * poly(r, 1.0, 0.4999999999999796, 0.16666666666563817, 0.041666666668215474,
                         0.008333333383240514, 0.0013888888526845447, 0.0001984117269993536,
                         2.4801901574585223e-05, 2.763935109604812e-06, 2.7491843213419046e-07) + 1.0;
    return p * bit_cast<D>((bit_cast<I>(shifted) + 1023) << 52);
}
template <class D> MGX_INLINE D log_d(D x) {  // relative error 2^-50; x zero or normal, below 0 is NaN
    using I = int_vec<D>;
    constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd, two52 = 0x4330000000000000;
    const I top = bit_cast<I>(x) - sqrt_half + (int64_t(1023) << 52);  // biased: a logical shift will do
    const I n = bit_cast<I>(bit_cast<vec<uint64_t, lanes_v<D>>>(top) >> 52);
    const D e = bit_cast<D>(n | two52) - 4503599627371519.0;  // 2^52 + 1023
    const D m = bit_cast<D>(bit_cast<I>(x) - (n << 52) + (int64_t(1023) << 52));
    const D s = (m - 1.0) / (m + 1.0), z = s * s;
    const D r = e * 0.6931471805599453 + 2.0 * s * (z * poly(z, 0.3333333333329355, 0.20000000026166098,
                0.14285708559842725, 0.11111686220134932, 0.09061808499722214, 0.08410070586526629) + 1.0);
    const D inf = fill<D>(__builtin_inf()), zero{};
    const D bad = (x == zero) ? -inf : (x < zero) ? fill<D>(__builtin_nan("")) : x;
    return ((x > zero) & (x < inf)) ? r : bad;
}
template <class D> MGX_INLINE D atan_d(D x) {  // relative error 2^-45
    const D t = abs(x), one = fill<D>(1), zero{};
    const auto far = t > 2.414213562373095, mid = t > 0.41421356237309503;
    const D y = (far ? -one : mid ? t - one : t) / (far ? t : mid ? t + one : one), z = y * y;
    const D base = far ? zero + 1.5707963267948966 : mid ? zero + 0.7853981633974483 : zero;
    const D p = z * poly(z, -0.3333333333169448, 0.19999999685189815, -0.14285693572638603,
                         0.11110449386477782, -0.09079129510637611, 0.07568479925983156,
                         -0.05890828068098707, 0.030891137603968534) + 1.0;
    return copysign(base + y * p, x);
}

// sin and cos of x - n pi/2, and n, for |x| < 2^20.
template <class D> struct SinCos {
    D sin, cos;
    int_vec<D> quadrant;
};
template <class D> MGX_INLINE SinCos<D> sincos_d(D x) {
    const D shifted = x * 0.6366197723675814 + 6755399441055744.0, n = shifted - 6755399441055744.0;
    const D r = (x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;  // pi/2: 33 bits, the rest
    const D z = r * r;
    const D s = r * (z * poly(z, -0.16666666666631585, 0.008333333325270142, -0.00019841263821998207,
                              2.7555357532169024e-06, -2.476163512132899e-08) + 1.0);
    const D c = z * poly(z, -0.4999999999999941, 0.04166666666648765, -0.0013888888870575832,
                         2.4801578643799836e-05, -2.7555241529618e-07, 2.0630584755837344e-09) + 1.0;
    return {s, c, bit_cast<int_vec<D>>(shifted)};
}
template <int SHIFT, class D> MGX_INLINE D sin_d(D x) {
    const auto [s, c, quadrant] = sincos_d(x);
    const auto q = quadrant + SHIFT;
    const D r = ((q & 1) != 0) ? c : s;
    return bit_cast<D>(bit_cast<int_vec<D>>(r) ^ ((q & 2) << 62));
}
template <class V> MGX_INLINE bool huge_angle(V x) {  // finite, too large for sincos_d
    const V t = abs(x);
    return any((t > 1048576.0f) & (t < __builtin_inff()));
}
template <class V> MGX_INLINE V sin(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_sin(v); }, x);
    else if (__builtin_expect(huge_angle(x), 0)) return each([](float v) { return __builtin_sinf(v); }, x);
    else return in_double([](auto d) { return sin_d<0>(d); }, x);
}
template <class V> MGX_INLINE V cos(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_cos(v); }, x);
    else if (__builtin_expect(huge_angle(x), 0)) return each([](float v) { return __builtin_cosf(v); }, x);
    else return in_double([](auto d) { return sin_d<1>(d); }, x);
}
template <class V> MGX_INLINE V tan(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_tan(v); }, x);
    else if (__builtin_expect(huge_angle(x), 0)) return each([](float v) { return __builtin_tanf(v); }, x);
    else return in_double([](auto d) {
        const auto [s, c, q] = sincos_d(d);
        const auto odd = (q & 1) != 0;
        return (odd ? -c : s) / (odd ? s : c);
    }, x);
}
template <class V> MGX_INLINE V atan(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_atan(v); }, x);
    else return in_double([](auto d) { return atan_d(d); }, x);
}
template <class V> MGX_INLINE V asin(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_asin(v); }, x);
    else return in_double([](auto d) { return atan_d(d / sqrt((1.0 - d) * (1.0 + d))); }, x);
}
template <class V> MGX_INLINE V acos(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_acos(v); }, x);
    else return in_double([](auto d) { return 2.0 * atan_d(sqrt((1.0 - d) / (1.0 + d))); }, x);
}
template <class V> MGX_INLINE V sinh(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_sinh(v); }, x);
    else return in_double([](auto d) {
        const auto e = exp2_d(clamp(d, -100.0, 100.0) * 1.4426950408889634), z = d * d;
        return (z < 4e-4) ? d * poly(z, 1.0, 1 / 6.0, 1 / 120.0) : 0.5 * (e - 1.0 / e);
    }, x);
}
template <class V> MGX_INLINE V cosh(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_cosh(v); }, x);
    else return in_double([](auto d) {
        const auto e = exp2_d(clamp(d, -100.0, 100.0) * 1.4426950408889634);
        return 0.5 * (e + 1.0 / e);
    }, x);
}
template <class V> MGX_INLINE V asinh(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_asinh(v); }, x);
    else return in_double([](auto d) {
        const auto z = d * d;
        const auto r = copysign(log_d(abs(d) + sqrt(z + 1.0)), d);
        return (z < 4e-4) ? d * poly(z, 1.0, -1 / 6.0, 3 / 40.0, -15 / 336.0) : r;
    }, x);
}
template <class V> MGX_INLINE V acosh(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_acosh(v); }, x);
    else return in_double([](auto d) { return log_d(d + sqrt(d - 1.0) * sqrt(d + 1.0)); }, x);
}
template <class V> MGX_INLINE V atanh(V x) {
    if constexpr (!is_f32<V>) return each([](double v) { return __builtin_atanh(v); }, x);
    else return in_double([](auto d) {
        const auto z = d * d;
        const auto r = 0.5 * log_d((1.0 + d) / (1.0 - d));
        return (z < 4e-4) ? d * poly(z, 1.0, 1 / 3.0, 1 / 5.0, 1 / 7.0) : r;
    }, x);
}

// |x|^y; the sign, and what C99 says of 0, 1, inf and NaN, is put on in float.
template <class V> MGX_INLINE V pow(V x, V y) {
    if constexpr (!is_fp<V>) {
        return ipow(x, y);
    } else if constexpr (!is_f32<V>) {
        return each([](double a, double b) { return __builtin_pow(a, b); }, x, y);
    } else {
        const V t = abs(x), one = fill<V>(1), zero{}, inf = fill<V>(__builtin_inff());
        V r = in_double([](auto a, auto b) {
            const auto l = log_d(a) * 1.4426950408889634;
            const auto p = (l == 0.0) ? ((b == b) ? l : b) : b * l;
            return exp2_d(clamp(p, -900.0, 900.0));
        }, t, y);
        const auto whole = nearbyint(y) == y, odd = whole & (trunc(y * 0.5f) != y * 0.5f);
        r = odd ? copysign(r, x) : r;
        r = ((x < zero) & (t < inf) & ~whole) ? fill<V>(__builtin_nanf("")) : r;
        return ((x == one) | (y == zero)) ? one : r;
    }
}

}  // namespace mgx

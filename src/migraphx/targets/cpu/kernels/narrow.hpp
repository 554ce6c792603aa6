// Types narrower than a float: how they are read into vectors that compute, and written back.
//
//   half, bf16; fp8e4m3fn, fp8e4m3fnuz, fp8e5m2, fp8e5m2fnuz, fp8e8m0fnu and fp4e2m1fn, one a byte: float lanes.
//   int4, uint4, int2, uint2, one a byte: int8 or uint8 lanes; what does not fit loses its high bits.
//   Rounding is to nearest, ties to even (fp8e8m0fnu: ties up), as in ml_dtypes: what is too large becomes
//   infinity in fp8e5m2, the largest number in fp4e2m1fn, NaN in the others.
//
//   compute_t<T>  the type of the lanes in which T is computed; narrow_v<T>  whether that is another type
//   load_f<N>(p)  load_f_n<N>(p, n, fill)  store_f(p, v)  store_f_n(p, v, n)
//              float lanes from/to any of the floats; NaN and inf are kept.
#pragma once

#include "vec.hpp"

namespace mgx {

// ---- half and bf16 ------------------------------------------------------------------------------

template <int N> MGX_INLINE vec<float, N> half_to_float(vec<uint16_t, N> h) {
#if defined(__F16C__)
    if constexpr (N == 4 || N == 8 || N == LANES) {
        vec<float, N> f;
        if constexpr (N == 4) {
            vec<uint16_t, 8> wide{h[0], h[1], h[2], h[3]};
            asm("vcvtph2ps %1, %0" : "=x"(f) : "x"(wide));
        } else {
            asm("vcvtph2ps %1, %0" : "=v"(f) : "v"(h));
        }
        return f;
    }
#endif
    return __builtin_convertvector(bit_cast<vec<half, N>>(h), vec<float, N>);
}

template <int N> MGX_INLINE vec<uint16_t, N> float_to_half(vec<float, N> f) {
#if defined(__F16C__)
    if constexpr (N == 8 || N == LANES) {
        vec<uint16_t, N> h;
        asm("vcvtps2ph $0, %1, %0" : "=v"(h) : "v"(f));
        return h;
    }
#endif
    return bit_cast<vec<uint16_t, N>>(__builtin_convertvector(f, vec<half, N>));
}

template <int N> MGX_INLINE vec<float, N> bf16_to_float(vec<uint16_t, N> h) {
    return bit_cast<vec<float, N>>(cast<uint32_t>(h) << 16);
}

template <int N> MGX_INLINE vec<uint16_t, N> float_to_bf16(vec<float, N> f) {
    auto u = bit_cast<vec<uint32_t, N>>(f);
    auto rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;  // to nearest, ties to even
    auto quiet = (u >> 16) | 0x40u;                         // rounding could turn a NaN into inf
    return cast<uint16_t>(select(f != f, quiet, rounded));
}

// ---- eight bits and fewer -----------------------------------------------------------------------

// Which codes are no numbers.
struct Ieee {};     // the largest exponent: infinity and NaN
struct OnlyNan {};  // all ones, with either sign: NaN; no infinity
struct Unsigned0 {};  // minus zero: NaN; no infinity
struct Finite {};   // none

using fp8e4m3fn = tiny_float<4, 3, 7, OnlyNan>;
using fp8e4m3fnuz = tiny_float<4, 3, 8, Unsigned0>;
using fp8e5m2 = tiny_float<5, 2, 15, Ieee>;
using fp8e5m2fnuz = tiny_float<5, 2, 16, Unsigned0>;
using fp4e2m1fn = tiny_float<2, 1, 1, Finite>;
using int4 = tiny_int<4, int8_t>;
using uint4 = tiny_int<4, uint8_t>;
using int2 = tiny_int<2, int8_t>;
using uint2 = tiny_int<2, uint8_t>;

constexpr float power_of_two(int n) { return __builtin_bit_cast(float, uint32_t(n + 127) << 23); }

// What is known of a type: how to read its codes and to find the code of a number.
template <class T> struct Codes {
    static constexpr bool tiny = false;
};
template <int E, int M, int BIAS, class S> struct Codes<tiny_float<E, M, BIAS, S>> {
    using compute = float;
    static constexpr bool tiny = true;
    static constexpr bool ieee = same_v<S, Ieee>, only_nan = same_v<S, OnlyNan>, finite = same_v<S, Finite>;
    static constexpr bool unsigned0 = same_v<S, Unsigned0>;
    static constexpr uint32_t MASK = (1u << (E + M)) - 1, SIGN = 1u << (E + M), INF = MASK >> M << M;
    static constexpr uint32_t LARGEST = ieee ? INF - 1 : only_nan ? MASK - 1 : MASK;
    static constexpr uint32_t NOT = ieee ? INF | (1u << (M - 1)) : only_nan ? MASK : SIGN;  // of no number
    static constexpr uint32_t TOO_LARGE = ieee ? INF : finite ? LARGEST : NOT;

    template <int N> static MGX_INLINE vec<float, N> read(vec<uint8_t, N> codes) {
        const auto u = cast<uint32_t>(codes), magnitude = u & MASK;
        const auto scaled = bit_cast<vec<float, N>>(magnitude << (23 - M)) * power_of_two(127 - BIAS);
        auto bits = bit_cast<vec<uint32_t, N>>(scaled) | (u & SIGN) << (31 - E - M);
        if constexpr (ieee) bits = select(magnitude >= INF, bits | 0x7f800000u, bits);
        if constexpr (only_nan) bits = select(magnitude == MASK, bits | 0x7fc00000u, bits);
        if constexpr (unsigned0) bits = select(u == SIGN, splat<uint32_t, N>(0x7fc00000u), bits);
        return bit_cast<vec<float, N>>(bits);
    }
    template <int N> static MGX_INLINE vec<uint8_t, N> write(vec<float, N> x) {
        using F = vec<float, N>;
        using U = vec<uint32_t, N>;
        const U bits = bit_cast<U>(x), a = bits & 0x7fffffffu, sign = bits >> 31 << (E + M);
        const F magnitude = bit_cast<F>(a), step = splat<float, N>(power_of_two(24 - BIAS - M));
        const U rounded = (a + ((1u << (22 - M)) - 1) + (a >> (23 - M) & 1u)) >> (23 - M);
        const U small = bit_cast<U>(magnitude + step) - bit_cast<U>(step);  // steps of a denormal
        U code = select(
            magnitude < power_of_two(1 - BIAS), small, rounded - (uint32_t(127 - BIAS) << M));
        code = select(code > LARGEST, splat<uint32_t, N>(TOO_LARGE), code);
        code = select(a > 0x7f800000u, splat<uint32_t, N>(NOT), code);
        if constexpr (unsigned0)
            code = select((code == 0) | (code == SIGN), code, code | sign);
        else
            code |= sign;
        return cast<uint8_t>(code);
    }
};
template <> struct Codes<fp8e8m0fnu> {
    using compute = float;
    static constexpr bool tiny = true;
    template <int N> static MGX_INLINE vec<float, N> read(vec<uint8_t, N> codes) {
        const auto u = cast<uint32_t>(codes);
        const auto bits = select(u == 0, splat<uint32_t, N>(0x00400000u), u << 23);  // the smallest is denormal
        return bit_cast<vec<float, N>>(select(u == 255, splat<uint32_t, N>(0x7fc00000u), bits));
    }
    template <int N> static MGX_INLINE vec<uint8_t, N> write(vec<float, N> x) {
        const auto u = bit_cast<vec<uint32_t, N>>(x);
        auto code = select(u < 0x00600000u, u & 0u, (u + 0x00400000u) >> 23);
        code = select((u == 0) | (u >= 0x7f800000u) | (code > 254u), splat<uint32_t, N>(255u), code);
        return cast<uint8_t>(code);
    }
};
template <int BITS, class T> struct Codes<tiny_int<BITS, T>> {
    using compute = T;
    static constexpr bool tiny = true;
    template <int N> static MGX_INLINE vec<T, N> read(vec<uint8_t, N> codes) {
        return bit_cast<vec<T, N>>(codes << (8 - BITS)) >> (8 - BITS);
    }
    template <int N> static MGX_INLINE vec<uint8_t, N> write(vec<T, N> x) {
        return bit_cast<vec<uint8_t, N>>(x) & uint8_t((1 << BITS) - 1);
    }
};

template <class T, bool = Codes<T>::tiny> struct compute_of { using type = T; };
template <class T> struct compute_of<T, true> { using type = typename Codes<T>::compute; };
template <> struct compute_of<half, false> { using type = float; };
template <> struct compute_of<bf16, false> { using type = float; };
template <class T> using compute_t = typename compute_of<T>::type;
template <class T> inline constexpr bool narrow_v = !same_v<T, compute_t<T>>;

// ---- loads, stores, scalars ---------------------------------------------------------------------

template <int N = LANES, class T> MGX_INLINE vec<compute_t<T>, N> load_f(const T* p) {
    if constexpr (same_v<T, half>)
        return half_to_float<N>(load<N>(reinterpret_cast<const uint16_t*>(p)));
    else if constexpr (same_v<T, bf16>)
        return bf16_to_float<N>(load<N>(p));
    else if constexpr (Codes<T>::tiny)
        return Codes<T>::template read<N>(load<N>(p));
    else
        return load<N>(p);
}

template <int N = LANES, class T> MGX_INLINE vec<compute_t<T>, N> load_f_n(const T* p, int n, T fill = T{}) {
    if constexpr (same_v<T, half>)
        return half_to_float<N>(load_n<N>(reinterpret_cast<const uint16_t*>(p), n, bit_cast<uint16_t>(fill)));
    else if constexpr (same_v<T, bf16>)
        return bf16_to_float<N>(load_n<N>(p, n, fill));
    else if constexpr (Codes<T>::tiny)
        return Codes<T>::template read<N>(load_n<N>(reinterpret_cast<const uint8_t*>(p), n, fill.bits));
    else
        return load_n<N>(p, n, fill);
}

template <class T, class V> MGX_INLINE void store_f(T* p, V v) {
    if constexpr (same_v<T, half>)
        store(reinterpret_cast<uint16_t*>(p), float_to_half<lanes_v<V>>(v));
    else if constexpr (same_v<T, bf16>)
        store(p, float_to_bf16<lanes_v<V>>(v));
    else if constexpr (Codes<T>::tiny)
        store(p, Codes<T>::template write<lanes_v<V>>(v));
    else
        store(p, v);
}

template <class T, class V> MGX_INLINE void store_f_n(T* p, V v, int n) {
    if constexpr (same_v<T, half>)
        store_n(reinterpret_cast<uint16_t*>(p), float_to_half<lanes_v<V>>(v), n);
    else if constexpr (same_v<T, bf16>)
        store_n(p, float_to_bf16<lanes_v<V>>(v), n);
    else if constexpr (Codes<T>::tiny)
        store_n(p, Codes<T>::template write<lanes_v<V>>(v), n);
    else
        store_n(p, v, n);
}

MGX_INLINE float to_float(float x) { return x; }
MGX_INLINE float to_float(half x) { return static_cast<float>(x); }
MGX_INLINE float to_float(bf16 x) { return bit_cast<float>(uint32_t(x.bits) << 16); }
template <class T> MGX_INLINE auto to_float(T x) -> typename Codes<T>::compute {
    return Codes<T>::template read<4>(splat<uint8_t, 4>(x.bits))[0];
}

}  // namespace mgx

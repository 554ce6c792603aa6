// How generated bodies read and write LANES elements: whole (Full) or the first n of them (int).
//
//   fetch(p, n)            consecutive elements, as lanes of compute_t
//   fetch_strided(p, s, n) elements s apart
//   fetch_same(p)          one element in all lanes
//   put(p, v, n)           consecutive; v has the compute type of *p
//   put_strided(p, s, v, n)
#pragma once

#include "narrow.hpp"

namespace mgx {

struct Full {};

template <class T> MGX_INLINE compute_t<T> scalar_of(T x) {
    if constexpr (narrow_v<T>)
        return to_float(x);
    else
        return x;
}
template <class T> MGX_INLINE T narrow_to(compute_t<T> x) {
    if constexpr (narrow_v<T>) {
        T out[1];
        store_f_n(out, splat<compute_t<T>>(x), 1);
        return out[0];
    } else {
        return x;
    }
}

template <class T> MGX_INLINE vec<compute_t<T>> fetch(const T* p, Full) {
    if constexpr (narrow_v<T>)
        return load_f(p);
    else
        return load(p);
}
template <class T> MGX_INLINE vec<compute_t<T>> fetch(const T* p, int n) {
    if constexpr (narrow_v<T>)
        return load_f_n(p, n);
    else
        return load_n(p, n);
}
template <class T> MGX_INLINE vec<compute_t<T>> fetch_same(const T* p) { return splat<compute_t<T>>(scalar_of(*p)); }

template <class T> MGX_INLINE vec<compute_t<T>> fetch_strided(const T* p, int64_t s, Full) {
    vec<compute_t<T>> v{};
    for (int i = 0; i < LANES; ++i) v[i] = scalar_of(p[i * s]);
    return v;
}
template <class T> MGX_INLINE vec<compute_t<T>> fetch_strided(const T* p, int64_t s, int n) {
    vec<compute_t<T>> v{};
    for (int i = 0; i < n; ++i) v[i] = scalar_of(p[i * s]);
    return v;
}

template <class T> MGX_INLINE void put(T* p, vec<compute_t<T>> v, Full) {
    if constexpr (narrow_v<T>)
        store_f(p, v);
    else
        store(p, v);
}
template <class T> MGX_INLINE void put(T* p, vec<compute_t<T>> v, int n) {
    if constexpr (narrow_v<T>)
        store_f_n(p, v, n);
    else
        store_n(p, v, n);
}
template <class T> MGX_INLINE void put_strided(T* p, int64_t s, vec<compute_t<T>> v, Full) {
    for (int i = 0; i < LANES; ++i) p[i * s] = narrow_to<T>(v[i]);
}
template <class T> MGX_INLINE void put_strided(T* p, int64_t s, vec<compute_t<T>> v, int n) {
    for (int i = 0; i < n; ++i) p[i * s] = narrow_to<T>(v[i]);
}

// v as T holds it, in its compute type: what a conversion to half, fp8 ... leaves for the next operator.
template <class T, class V> MGX_INLINE vec<compute_t<T>, lanes_v<V>> round_to(V v) {
    constexpr int N = lanes_v<V>;
    const auto wide = cast<compute_t<T>>(v);
    if constexpr (same_v<T, half>)
        return half_to_float<N>(float_to_half<N>(wide));
    else if constexpr (same_v<T, bf16>)
        return bf16_to_float<N>(float_to_bf16<N>(wide));
    else
        return Codes<T>::template read<N>(Codes<T>::template write<N>(wide));
}

// A vector of x's type with every lane v: how constants take the type of what they meet.
template <class V> MGX_INLINE V fill(V, lane_t<V> v) { return splat<lane_t<V>, lanes_v<V>>(v); }

// Both forms of the kernels' epilogue concept from one generated f(row, col, acc, n).
template <class F> struct Epilogue {
    F f;
    template <class V> MGX_INLINE void operator()(int64_t row, int64_t col, V acc) const { f(row, col, acc, Full{}); }
    template <class V> MGX_INLINE void operator()(int64_t row, int64_t col, V acc, int n) const { f(row, col, acc, n); }
};
template <class F> Epilogue(F) -> Epilogue<F>;

// One that is short enough to be there for every register of a tile, where functions are inlined.
template <class F> struct ShortEpilogue : Epilogue<F> {
#ifndef __NO_INLINE__
    static constexpr bool in_registers = true;
#endif
};
template <class F> ShortEpilogue(F) -> ShortEpilogue<F>;

}  // namespace mgx

// Reductions as generated kernels use them: what to start from, how to combine, how to fold a vector's lanes.
#pragma once

#include "access.hpp"
#include "math.hpp"

namespace mgx {

template <class T> inline constexpr T lowest_v = is_float_v<T> ? T(-__builtin_inff()) : T(same_v<T, bool> ? 0 : (T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0));
template <class T> inline constexpr T highest_v = is_float_v<T> ? T(__builtin_inff()) : T(~lowest_v<T>);
template <> inline constexpr float lowest_v<float> = -__builtin_inff();
template <> inline constexpr float highest_v<float> = __builtin_inff();
template <> inline constexpr double lowest_v<double> = -__builtin_inf();
template <> inline constexpr double highest_v<double> = __builtin_inf();

struct Sum {
    template <class T> static constexpr T start = T(0);
    template <class V> static MGX_INLINE V join(V a, V b) { return a + b; }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hsum(v); }
};
struct Prod {
    template <class T> static constexpr T start = T(1);
    template <class V> static MGX_INLINE V join(V a, V b) { return a * b; }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hprod(v); }
};
struct Max {
    template <class T> static constexpr T start = lowest_v<T>;
    template <class V> static MGX_INLINE V join(V a, V b) { return mgx::max(a, b); }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hmax(v); }
};
struct Min {
    template <class T> static constexpr T start = highest_v<T>;
    template <class V> static MGX_INLINE V join(V a, V b) { return mgx::min(a, b); }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hmin(v); }
};
struct Any {
    template <class T> static constexpr T start = T(0);
    template <class V> static MGX_INLINE V join(V a, V b) { return a | b; }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hmax(v); }
};
struct All {
    template <class T> static constexpr T start = T(1);
    template <class V> static MGX_INLINE V join(V a, V b) { return a & b; }
    template <class V> static MGX_INLINE lane_t<V> fold(V v) { return hmin(v); }
};

// The first value of an accumulator that will take vectors like `like`.
template <class Op, class V> MGX_INLINE V start_like() { return splat<lane_t<V>, lanes_v<V>>(Op::template start<lane_t<V>>); }

// acc with v joined: all lanes, or the first n.
template <class Op, class V> MGX_INLINE V accumulate(V acc, V v, Full) { return Op::join(acc, v); }
template <class Op, class V> MGX_INLINE V accumulate(V acc, V v, int n) {
    using I = typename int_of<sizeof(lane_t<V>)>::type;
    return select(iota<I, lanes_v<V>>() < static_cast<I>(n), Op::join(acc, v), acc);
}

}  // namespace mgx

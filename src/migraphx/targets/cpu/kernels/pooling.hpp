// Pooling, channels last (any element strides, channels contiguous), 1-d to 3-d, global pooling included.
//
//   pool<Kind>(team, params, x, epi)          Kind: PoolMax, PoolAverage, PoolLp
//     x       element type T: float, half and bf16 are computed in float; double and integers in T
//     epi     row = ((n * out0 + o0) * out1 + o1) * out2 + o2, column = channel; a vec of that type
//   Spatial rank is padded with leading ones; a global pooling has kernel = in and out = 1. `out` is the
//   caller's, so that both ways of rounding it (ceil mode) are possible: a window may reach past the padding.
//     PoolMax       NaN wins, as in torch; a window wholly in the padding gives -inf (integers: the lowest)
//     PoolAverage   sum / count: the elements inside; with count_pad also those of pad and pad_end (not what
//                   lies beyond); or `divisor` where it is not 0. Integers truncate.
//     PoolLp        (sum |x|^p)^(1/p), p = params.p: float and double only
//   No scratch. A unit of work is WIDE channels of one output row; those of a row that a thread has are taken together.
#pragma once

#include "math.hpp"
#include "team.hpp"
#include "narrow.hpp"
#include "window.hpp"

namespace mgx {

struct Pool {
    int64_t n, c;
    int64_t x_n, x_step[3];  // element strides of x: image, spatial axes
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t pad[3], pad_end[3];  // before and after the input, along each axis
    int64_t divisor;
    bool count_pad;
    double p;
};

namespace pooling {

template <class T> using Sum = compute_t<T>;

template <class T> MGX_INLINE vec<Sum<T>> read(const T* x, int n) {
    return n == LANES ? load_f(x) : load_f_n(x, n);
}
template <class V> MGX_INLINE V lowest() {
    using T = lane_t<V>;
    if constexpr (is_fp<V>)
        return V{} - fill<V>(__builtin_inf());
    else if constexpr (T(-1) < T(0))
        return fill<V>(T(T(1) << (sizeof(T) * 8 - 1)));
    else
        return V{};
}

}  // namespace pooling

// Each kind: where a window starts, how an element joins, and what becomes of the sum of `count` elements.
struct PoolMax {
    template <class V> static MGX_INLINE V start() { return pooling::lowest<V>(); }
    template <class V> static MGX_INLINE V join(V acc, V x, const Pool&) { return max(acc, x); }
    template <class V> static MGX_INLINE V finish(V acc, const Pool&, int64_t) { return acc; }
};
struct PoolAverage {
    template <class V> static MGX_INLINE V start() { return V{}; }
    template <class V> static MGX_INLINE V join(V acc, V x, const Pool&) { return acc + x; }
    template <class V> static MGX_INLINE V finish(V acc, const Pool&, int64_t count) {
        return div(acc, fill<V>(lane_t<V>(count ? count : 1)));  // of a window all in the padding: 0
    }
};
struct PoolLp {
    template <class V> static MGX_INLINE V start() { return V{}; }
    template <class V> static MGX_INLINE V join(V acc, V x, const Pool& p) {
        if (p.p == 1) return acc + abs(x);
        if (p.p == 2) return acc + x * x;
        return acc + pow(abs(x), fill<V>(lane_t<V>(p.p)));
    }
    template <class V> static MGX_INLINE V finish(V acc, const Pool& p, int64_t) {
        if (p.p == 1) return acc;
        if (p.p == 2) return sqrt(acc);
        return pow(acc, fill<V>(lane_t<V>(1 / p.p)));
    }
};

namespace pooling {

inline constexpr int64_t WIDE = 4 * LANES;  // channels of a pixel that are computed at once

inline Window along(const Pool& p, int axis, int64_t o) {
    return window(o, p.stride[axis], p.pad[axis], p.dilation[axis], p.kernel[axis], p.in[axis]);
}
// Elements of the window along an axis that an average counts.
inline int64_t counted(const Pool& p, int axis, const Window& w) {
    if (!p.count_pad) return w.count;
    const int64_t room = p.in[axis] + p.pad_end[axis] - w.start;
    const int64_t taps = room > 0 ? (room + p.dilation[axis] - 1) / p.dilation[axis] : 0;
    return taps < p.kernel[axis] ? taps : p.kernel[axis];
}

// One output pixel: V registers from channel on, the last of n lanes (n < LANES only where V is 1).
template <class Kind, int V, class T, class Epi>
MGX_INLINE void pixel(const Pool& p, const T* x, const Window (&w)[3], int n, int64_t row, int64_t channel,
                      const Epi& epi) {
    using A = vec<Sum<T>>;
    A acc[V];
    for (A& a : acc) a = Kind::template start<A>();
    for (int a = 0; a < 3; ++a) x += (w[a].start + w[a].first * p.dilation[a]) * p.x_step[a];
    for (int64_t i = 0; i < w[0].count; ++i)
        for (int64_t j = 0; j < w[1].count; ++j) {
            const T* from = x + i * p.dilation[0] * p.x_step[0] + j * p.dilation[1] * p.x_step[1];
            for (int64_t k = 0; k < w[2].count; ++k, from += p.dilation[2] * p.x_step[2])
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v)
                    acc[v] = Kind::join(acc[v], read(from + v * LANES, V > 1 ? LANES : n), p);
        }
    int64_t count = p.divisor;
    if (count == 0) count = counted(p, 0, w[0]) * counted(p, 1, w[1]) * counted(p, 2, w[2]);
    for (int v = 0; v < V; ++v) {
        const A y = Kind::finish(acc[v], p, count);
        if (V > 1 || n == LANES)
            epi(row, channel + v * LANES, y);
        else
            epi(row, channel, y, n);
    }
}

// Channels begin to end of a row of output pixels. Where a pixel lies in memory its channels follow each other: all are read
// before the next pixel's, as memory is asked for what follows.
template <class Kind, class T, class Epi>
MGX_NOINLINE void line(const Pool& p, const T* x, Window (&w)[3], Range channels, int64_t row, const Epi& epi) {
    for (int64_t o = 0; o < p.out[2]; ++o) {
        w[2] = along(p, 2, o);
        int64_t c = channels.begin;
        for (; c + WIDE <= channels.end; c += WIDE) pixel<Kind, WIDE / LANES>(p, x + c, w, LANES, row + o, c, epi);
        if (c + WIDE / 2 <= channels.end) {
            pixel<Kind, WIDE / 2 / LANES>(p, x + c, w, LANES, row + o, c, epi);
            c += WIDE / 2;
        }
        for (; c < channels.end; c += LANES)
            pixel<Kind, 1>(p, x + c, w, int(least(LANES, channels.end - c)), row + o, c, epi);
    }
}

}  // namespace pooling

template <class Kind, class T, class Epi>
inline void pool(const Team& team, const Pool& p, const T* x, const Epi& epi) {
    const int64_t chunks = (p.c + pooling::WIDE - 1) / pooling::WIDE, lines = p.n * p.out[0] * p.out[1];
    const Range range = team.share(lines * chunks);
    for (int64_t i = range.begin, next; i < range.end; i = next) {
        const int64_t line = i / chunks, o1 = line % p.out[1], plane = line / p.out[1], first = line * chunks;
        next = least(first + chunks, range.end);
        const Range channels{(i - first) * pooling::WIDE, least((next - first) * pooling::WIDE, p.c)};
        Window w[3] = {pooling::along(p, 0, plane % p.out[0]), pooling::along(p, 1, o1), {}};
        pooling::line<Kind>(p, x + plane / p.out[0] * p.x_n, w, channels, line * p.out[2], epi);
    }
}

}  // namespace mgx

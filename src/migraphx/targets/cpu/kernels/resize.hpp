// Resizing of images, channels last: nearest, linear, cubic, or any other separable filter.
//
//   resize<TAPS>(team, params, x, rows, columns, epi)
//     x        [n][in_h][in_w][c], element strides x_n, x_h, x_w, channels contiguous: float, half or bf16
//     rows     Samples<TAPS> of out_h entries, columns of out_w: index[o * TAPS + t] in 0 .. in - 1,
//              clamped by the caller (they are numbers of the call, since a file may bring weights);
//              weight[o * TAPS + t]. TAPS = 1 is nearest (no weights are read), 2 linear, 4 cubic.
//     epi      row = (n * out_h + y) * out_w + x, column = channel; value: the sum over both axes of
//              weight * weight * element, in float
//   resample<TAPS>(team, Resample, x, index, weight, out)
//     one axis of row-major [outer][length][inner], any element type where TAPS is 1; else floats: sums are of
//     weight's type (float or double). index and weight as in Samples.
//   No scratch. A unit of work is one output row.
#pragma once

#include "loops.hpp"

namespace mgx {

struct Resize {
    int64_t n, c, out_h, out_w;
    int64_t x_n, x_h, x_w;
};
template <int TAPS> struct Samples {
    const int64_t* index;
    const float* weight;
};

namespace resizing {

template <int TAPS, class T>
MGX_INLINE vec<float> sample(const T* const (&line)[TAPS], const float* wy, const int64_t (&at)[TAPS],
                             const float* wx, int64_t c, int n) {
    const auto read = [&](int a, int b) {
        const T* p = line[a] + at[b] + c;
        return n == LANES ? load_f(p) : load_f_n(p, n);
    };
    if constexpr (TAPS == 1) {
        return read(0, 0);
    } else {
        vec<float> sum{};
#pragma GCC unroll 4
        for (int a = 0; a < TAPS; ++a) {
            vec<float> across{};
#pragma GCC unroll 4
            for (int b = 0; b < TAPS; ++b) across += read(a, b) * wx[b];
            sum += across * wy[a];
        }
        return sum;
    }
}

}  // namespace resizing

template <int TAPS, class T, class Epi>
inline void resize(const Team& team, const Resize& p, const T* x, const Samples<TAPS>& rows,
                   const Samples<TAPS>& columns, const Epi& epi) {
    const Range range = team.share(p.n * p.out_h);
    for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t y = i % p.out_h * TAPS;
        const T* line[TAPS];
        for (int a = 0; a < TAPS; ++a) line[a] = x + i / p.out_h * p.x_n + rows.index[y + a] * p.x_h;
        for (int64_t o = 0; o < p.out_w; ++o) {
            int64_t at[TAPS];
            for (int b = 0; b < TAPS; ++b) at[b] = columns.index[o * TAPS + b] * p.x_w;
            const float *wy = rows.weight + y, *wx = columns.weight + o * TAPS;
            const int64_t row = i * p.out_w + o, full = p.c / LANES * LANES;
            for (int64_t c = 0; c < full; c += LANES)
                epi(row, c, resizing::sample<TAPS>(line, wy, at, wx, c, LANES));
            const int left = int(p.c - full);
            if (left) epi(row, full, resizing::sample<TAPS>(line, wy, at, wx, full, left), left);
        }
    }
}

struct Resample {
    int64_t outer, length, out, inner;
};
template <int TAPS, class T, class A, class U>
inline void resample(const Team& team, const Resample& p, const T* x, const int64_t* index, const A* weight, U* out) {
    const Range range = team.share(p.outer * p.out);
    for (int64_t u = range.begin; u < range.end; ++u) {
        const T* from = x + u / p.out * p.length * p.inner;
        const int64_t at = u % p.out * TAPS;
        U* to = out + u * p.inner;
        if constexpr (TAPS == 1) {
            const T* row = from + index[at] * p.inner;
            for (int64_t i = 0; i < p.inner; ++i) to[i] = row[i];
        } else {
            for_lanes(0, p.inner, [&](int64_t i, auto n) {
                vec<A> sum{};
                for (int t = 0; t < TAPS; ++t)
                    sum += cast<A>(fetch(from + index[at + t] * p.inner + i, n)) * weight[at + t];
                put(to + i, cast<compute_t<U>>(sum), n);
            });
        }
    }
}

}  // namespace mgx

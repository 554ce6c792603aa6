// Resizing of images: nearest, linear, cubic, or any other separable filter.
//
//   resize<TAPS>(team, params, x, rows, columns, epi)
//     x        [n][in_h][in_w][c], element strides x_n, x_h, x_w, channels contiguous: float, half or bf16
//     rows     Samples<TAPS> of out_h entries, columns of out_w: index[o * TAPS + t] in 0 .. in - 1,
//              clamped by the caller (they are numbers of the call, since a file may bring weights);
//              weight[o * TAPS + t]. TAPS = 1 is nearest (no weights are read), 2 linear, 4 cubic.
//     epi      row = (n * out_h + y) * out_w + x, column = channel; value: the sum over both axes of
//              weight * weight * element, in float
//     No scratch.
//   resize_planes<TAPS>(team, params, x, rows, columns, epi, scratch)
//     x        [n][in_h][in_w], row-major: n planes, as many as images have channels; c is not read, x_w is 1
//     rows     as above; the indices of an entry follow one another but for those that were clamped
//     epi      row = n * out_h + y, column = x; else as above
//     scratch  planes_scratch<TAPS>(params) bytes per thread, 64-byte aligned
//   resample<TAPS>(team, Resample, x, index, weight, out)
//     one axis of row-major [outer][length][inner], any element type where TAPS is 1; else floats: sums are of
//     weight's type (float or double). index and weight as in Samples. No scratch.
//
// A unit of work is one output row.
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

// ---- planes -----------------------------------------------------------------------------------------------

namespace resizing {

inline int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

// Along a row: what LANES neighbouring columns of the output are made of lies within a register of the source row from
// `base` on, where the image grows. `index` counts from there, or from the row's begin where it does not (FAR).
template <int TAPS> struct Columns {
    static constexpr int64_t FAR = -1;
    float* weight;  // [block][TAPS][LANES], as index
    int32_t* index;
    int64_t* base;  // of each block
    int64_t width;  // of a source row, as far as it is read
    int64_t out;

    static int64_t bytes(int64_t out) { return padded(out) * TAPS * 8 + padded(out) / LANES * 8; }

    Columns(const Samples<TAPS>& columns, int64_t n, char* scratch)
        : weight(reinterpret_cast<float*>(scratch)),
          index(reinterpret_cast<int32_t*>(weight + padded(n) * TAPS)),
          base(reinterpret_cast<int64_t*>(index + padded(n) * TAPS)),
          width(0),
          out(n) {
        for (int64_t i = 0; i < n * TAPS; ++i) width = columns.index[i] < width ? width : columns.index[i] + 1;
        for (int64_t block = 0; block < padded(n) / LANES; ++block) fill(columns, block);
    }

    void fill(const Samples<TAPS>& columns, int64_t block) {
        const int64_t at = block * LANES * TAPS;
        int64_t low = width, high = 0;
        for (int i = 0; i < LANES * TAPS; ++i) {
            const int64_t column = least(block * LANES + i % LANES, out - 1);  // lanes beyond the end take the last one
            const int64_t k = column * TAPS + i / LANES, from = columns.index[k];
            low = least(low, from);
            high = high < from ? from : high;
            index[at + i] = static_cast<int32_t>(from);
            if constexpr (TAPS > 1) weight[at + i] = columns.weight[k];
        }
        if (low + LANES > width) low = width < LANES ? 0 : width - LANES;  // no register reaches beyond the row
        base[block] = high - low < LANES ? low : FAR;
        for (int i = 0; i < LANES * TAPS && high - low < LANES; ++i) index[at + i] -= static_cast<int32_t>(low);
    }

    // A source row at the columns of the output; `to` has room for whole blocks.
    template <class T> MGX_INLINE void sample(const T* row, float* to) const {
        for (int64_t block = 0; block < padded(out) / LANES; ++block) {
            const int64_t at = block * LANES * TAPS, from = base[block];
            vec<float> near{}, sum{};
            if (from != FAR) near = width < LANES ? load_f_n(row, int(width)) : load_f(row + from);
#pragma GCC unroll 4
            for (int t = 0; t < TAPS; ++t) {
                const int32_t* const k = index + at + t * LANES;
                vec<float> x{};
                if (from != FAR)
                    x = shuffle(near, near, load(k));
                else
                    for (int i = 0; i < LANES; ++i) x[i] = to_float(row[k[i]]);
                if constexpr (TAPS == 1)
                    sum = x;
                else
                    sum += x * load(weight + at + t * LANES);
            }
            store(to + block * LANES, sum);
        }
    }
};

}  // namespace resizing

template <int TAPS> inline int64_t planes_scratch(const Resize& p) {
    return resizing::padded(p.out_w) * TAPS * 4 + resizing::Columns<TAPS>::bytes(p.out_w);
}

// Source rows are resampled once for all the rows of the output between them; the latest TAPS of them are kept.
template <int TAPS, class T, class Epi>
inline void resize_planes(const Team& team, const Resize& p, const T* x, const Samples<TAPS>& rows,
                          const Samples<TAPS>& columns, const Epi& epi, char* scratch) {
    const Range range = team.share(p.n * p.out_h);
    if (range.begin == range.end) return;
    const int64_t length = resizing::padded(p.out_w), full = p.out_w / LANES * LANES;
    float* const kept = reinterpret_cast<float*>(scratch);
    const resizing::Columns<TAPS> across(columns, p.out_w, scratch + length * TAPS * 4);
    const T* source[TAPS] = {};
    for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t y = i % p.out_h * TAPS;
        const float* line[TAPS];
        vec<float> wy[TAPS];
        for (int a = 0; a < TAPS; ++a) {
            const int64_t from = rows.index[y + a], slot = from % TAPS;
            const T* const row = x + i / p.out_h * p.x_n + from * p.x_h;
            if (source[slot] != row) across.sample(row, kept + slot * length);
            source[slot] = row;
            line[a] = kept + slot * length;
            if constexpr (TAPS > 1) wy[a] = splat(rows.weight[y + a]);
        }
        const auto at = [&](int64_t o) {
            if constexpr (TAPS == 1) return load(line[0] + o);
            vec<float> sum{};
#pragma GCC unroll 4
            for (int a = 0; a < TAPS; ++a) sum += load(line[a] + o) * wy[a];
            return sum;
        };
        for (int64_t o = 0; o < full; o += LANES) epi(i, o, at(o));
        if (full < p.out_w) epi(i, full, at(full), int(p.out_w - full));
    }
}

// ---- one axis ---------------------------------------------------------------------------------------------

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

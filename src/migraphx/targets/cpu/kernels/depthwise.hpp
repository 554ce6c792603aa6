// Depthwise convolution, channels last: every channel its own filter (channel multiplier 1).
//
//   depthwise<K, TX, TW, Epi>(team, params, x, w, epi)
//     x       [n][in0][in1][in2][c], pixels `pixel` elements apart (c where dense); float, half or bf16
//     w       [k0][k1][k2][c] dense; float, half or bf16. Sums are float.
//     K       kernel[2] where it is 3, 5 or 7 and stride[2] = dilation[2] = 1 (the inputs of neighbouring pixels
//             are then loaded once); 0 for everything else. depthwise_width(params) says which.
//     epi     row = ((n * out0 + o0) * out1 + o1) * out2 + o2, column = channel; every thread calls it for its own
//             rows and columns, each pair once
//   Spatial rank is padded with leading ones. Padding at the end follows from `out`; taps outside x read zero.
//   No scratch.
//
// A unit of work is one output row of CHUNK registers of channels, rows of a chunk one after the other, so that the
// input rows which they share stay cached. Within it TILE output pixels of one register are summed at once.
#pragma once

#include "team.hpp"
#include "vec.hpp"

namespace mgx {

struct Depthwise {
    int64_t n, c, pixel;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];  // pad: before the first element of each axis
};

inline constexpr int depthwise_width(const Depthwise& p) {
    const int64_t k = p.kernel[2];
    return p.stride[2] == 1 && p.dilation[2] == 1 && (k == 3 || k == 5 || k == 7) ? int(k) : 0;
}

namespace dw {

inline constexpr int TILE = 8;
inline constexpr int CHUNK = 4;

// Taps first .. last - 1 of an axis lie within the input when output o is computed.
struct Window {
    int64_t first, last, start;  // start: the input index of tap 0, which may be negative
};
inline Window window(const Depthwise& p, int axis, int64_t o) {
    const int64_t start = o * p.stride[axis] - p.pad[axis], d = p.dilation[axis], in = p.in[axis];
    const int64_t first = start < 0 ? (d - 1 - start) / d : 0, end = in > start ? (in - start + d - 1) / d : 0;
    return {first, end < p.kernel[axis] ? end : p.kernel[axis], start};
}

template <bool FAST, class T> MGX_INLINE vec<float> read(const T* p, int n) {
    return FAST || n == LANES ? load_f(p) : load_f_n(p, n);
}

// One filter row over TILE pixels whose first input column is `column`: every input is loaded once. Unless FAST,
// columns outside 0 .. width are skipped.
template <int K, bool FAST, class TX, class TW>
MGX_INLINE void row_sliding(vec<float> (&acc)[TILE], const TX* x, const TW* w, const Depthwise& p, int64_t column, int n) {
    vec<float> tap[K];
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) tap[k] = read<FAST>(w + k * p.c, n);
#pragma GCC unroll 16
    for (int j = 0; j < TILE + K - 1; ++j) {
        if (!FAST && (column + j < 0 || column + j >= p.in[2])) continue;
        const vec<float> v = read<FAST>(x + (column + j) * p.pixel, n);
#pragma GCC unroll 16
        for (int k = 0; k < K; ++k)
            if (j - k >= 0 && j - k < TILE) acc[j - k] += v * tap[k];
    }
}
template <bool FAST, class TX, class TW>
MGX_INLINE void row_any(vec<float> (&acc)[TILE], const TX* x, const TW* w, const Depthwise& p, int64_t column, int n) {
    const int64_t step = p.stride[2];
    for (int64_t k = 0; k < p.kernel[2]; ++k) {
        const vec<float> tap = read<FAST>(w + k * p.c, n);
        const int64_t at = column + k * p.dilation[2];
#pragma GCC unroll 16
        for (int i = 0; i < TILE; ++i) {
            const int64_t j = at + i * step;
            if (FAST || (j >= 0 && j < p.in[2])) acc[i] += read<FAST>(x + j * p.pixel, n) * tap;
        }
    }
}

// Pixels o .. o + count of an output row, n channels; x and w are at the channel, x at the image.
template <int K, bool FAST, class TX, class TW, class Epi>
MGX_NOINLINE void tile(const Depthwise& p, const TX* x, const TW* w, const Window& z, const Window& y, int64_t o,
                       int count, int n, int64_t row, int64_t channel, const Epi& epi) {
    vec<float> acc[TILE] = {};
    const int64_t column = o * p.stride[2] - p.pad[2];
    for (int64_t a = z.first; a < z.last; ++a)
        for (int64_t b = y.first; b < y.last; ++b) {
            const int64_t line = (z.start + a * p.dilation[0]) * p.in[1] + y.start + b * p.dilation[1];
            const TX* from = x + line * p.in[2] * p.pixel;
            const TW* taps = w + (a * p.kernel[1] + b) * p.kernel[2] * p.c;
            if constexpr (K)
                row_sliding<K, FAST>(acc, from, taps, p, column, n);
            else
                row_any<FAST>(acc, from, taps, p, column, n);
        }
#pragma GCC unroll 16
    for (int i = 0; i < TILE; ++i) {
        if (FAST || (i < count && n == LANES))
            epi(row + o + i, channel, acc[i]);
        else if (i < count)
            epi(row + o + i, channel, acc[i], n);
    }
}

// One output row of one register of channels.
template <int K, class TX, class TW, class Epi>
MGX_INLINE void line(const Depthwise& p, const TX* x, const TW* w, const Window& z, const Window& y, int n, int64_t row,
                     int64_t channel, const Epi& epi) {
    for (int64_t o = 0; o < p.out[2]; o += TILE) {
        const int64_t left = p.out[2] - o, first = o * p.stride[2] - p.pad[2];
        const int64_t end = first + (TILE - 1) * p.stride[2] + (p.kernel[2] - 1) * p.dilation[2];
        const int count = int(left < TILE ? left : TILE);
        if (count == TILE && n == LANES && first >= 0 && end < p.in[2])
            tile<K, true>(p, x, w, z, y, o, count, n, row, channel, epi);
        else
            tile<K, false>(p, x, w, z, y, o, count, n, row, channel, epi);
    }
}

}  // namespace dw

template <int K, class TX, class TW, class Epi>
inline void depthwise(const Team& team, const Depthwise& p, const TX* x, const TW* w, const Epi& epi) {
    const int64_t wide = dw::CHUNK * LANES, chunks = (p.c + wide - 1) / wide, image = p.in[0] * p.in[1] * p.in[2];
    const Range range = team.share(p.n * p.out[0] * chunks * p.out[1]);
    for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t o1 = i % p.out[1], chunk = i / p.out[1] % chunks, plane = i / p.out[1] / chunks;
        const int64_t row = (plane * p.out[1] + o1) * p.out[2], end = (chunk + 1) * wide < p.c ? (chunk + 1) * wide : p.c;
        const dw::Window z = dw::window(p, 0, plane % p.out[0]), y = dw::window(p, 1, o1);
        const TX* from = x + plane / p.out[0] * image * p.pixel;
        for (int64_t c = chunk * wide; c < end; c += LANES)
            dw::line<K>(p, from + c, w + c, z, y, int(end - c < LANES ? end - c : LANES), row, c, epi);
    }
}

}  // namespace mgx

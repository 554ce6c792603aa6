// Depthwise convolution, channels last: every channel its own filter or filters, or one for each of the few channels of
// its group.
//
//   depthwise<K, S, TILE, G, PLANES, M, WHOLE>(team, params, x, w, epi)
//     x       [n][in0][in1][in2][c / M], pixels `pixel` elements apart (c / M where dense); float, half or bf16
//     w       [k0][k1][k2][G][c] dense; float, half or bf16: the weights of output channels c for the channels 0 .. G - 1 of
//             their groups. Sums are float.
//     G       channels of a group, in and out: a power of two, at most LANES; 1 by default
//     K, S    kernel[2] and stride[2] where these are few and there is no dilation along the last axis, so that what
//             neighbouring pixels share is loaded once (Depthwise.special of emit/structs.py says when); else 0, 0
//     TILE    pixels of a tile: 8, or 7 where rows end with fewer of them unused
//     PLANES  whether kernel[0] may be more than 1, where K is not 0; false by default
//     M       output channels of an input channel (the channel multiplier): a power of two, at most LANES, and 1 where G is
//             not; 1 by default
//     WHOLE   whether c is a multiple of LANES, so that no code is compiled for part of a register; false by default
//     epi     row = ((n * out0 + o0) * out1 + o1) * out2 + o2, column = channel; each pair once
//   Spatial rank is padded with leading ones. Padding at the end follows from `out`; taps outside x read
//   zero. No scratch.
//
// Threads take output rows, as they do in the convolutions before and after, whose results are then in the cache of
// their own core; channels where pixels are few. A thread works on a chunk of channels at a time, row after row, so
// that the input rows which they share stay cached. TILE pixels of one register are summed at once, of two output rows
// where registers are many. Of groups every register of the input serves G times, with the channel that each lane
// multiplies put in its place: products of a group's few channels would leave the lanes of an engine of matrices empty.
#pragma once

#include "team.hpp"
#include "narrow.hpp"
#include "window.hpp"

namespace mgx {

struct Depthwise {
    int64_t n, c, pixel;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t pad[3];  // before the first element of each axis
};

namespace dw {

inline constexpr int ROWS = REGISTERS == 32 ? 2 : 1;  // output rows at once: two share most of their input rows
inline constexpr int64_t CACHE = 32768;  // bytes of the first-level cache for the input rows that are shared

inline constexpr int64_t LEAST_PIXELS = 64;  // of the input, for every thread that takes rows

// Channels of a chunk: as many as let the input rows of one output row stay cached; where not even 64 do, rows
// come from the second level anyway, and long runs of channels suit it best.
inline int64_t chunk_channels(const Depthwise& p, int64_t size) {
    const int64_t fit = CACHE / (p.kernel[1] * p.in[2] * size) / 64 * 64;
    return fit == 0 || fit > 256 ? 256 : fit;
}

// Multiples of a distance in bytes that take few registers: x86 adds 1, 2, 4 or 8 times one to an address for nothing.
// Compilers would compute every multiple ahead, and fetch most from the stack wherever one is used; so this one is hidden
// from them where it is made, which is to be within the loop.
struct Multiples {
    int64_t one, three, five;
    explicit MGX_INLINE Multiples(int64_t distance) : one(hidden(distance)), three(3 * one), five(5 * one) {}
    template <class T> MGX_INLINE const T* behind(const T* p, int count) const {
        const char* const from = reinterpret_cast<const char*>(p) + count / 5 * five;
        return reinterpret_cast<const T*>(from + (count % 5 == 3 ? three : count % 5 * one));
    }
};

// What a pair of output rows sums of one input plane, or a single row: filter row k of the upper output row meets the
// same input row as filter row k - stride of the lower one. First come `upper` input rows that only the upper one
// reads, then `both`, then `lower`, one after another; x and w are at the first of them, w as the upper one counts.
template <int G, int M, class TX, class TW> struct Source {
    const TX* x;
    const TW* w;
    int64_t planes, x_plane, w_plane;
    int64_t upper, both, lower, x_row, w_row, w_shift;
    int64_t pixel, width;                   // of x: between pixels, columns
    int64_t c, tap;                         // of w: between channels of a group, taps
    int64_t taps, dilation, stride, pad;    // of the last axis
};
template <int G, int M, class TX, class TW>
inline Source<G, M, TX, TW> source(const Depthwise& p, const TX* x, const TW* w, int64_t o0, int64_t o1, bool pair) {
    const Window z = window(o0, p.stride[0], p.pad[0], p.dilation[0], p.kernel[0], p.in[0]);
    Window y = window(o1, p.stride[1], p.pad[1], p.dilation[1], p.kernel[1] + (pair ? p.stride[1] : 0), p.in[1]);
    if (z.count == 0) y.count = 0;
    const int64_t line = p.in[2] * p.pixel, plane = p.in[1] * line, tap = G * p.c, w_row = p.kernel[2] * tap;
    const int64_t x_plane = p.dilation[0] * plane, x_row = p.dilation[1] * line;
    const int64_t w_plane = p.kernel[1] * w_row;
    const int64_t at = z.start * plane + z.first * x_plane + y.start * line + y.first * x_row;
    const auto rows = [&](int64_t from, int64_t to) {  // of the window, those between these filter rows
        from = from < y.first ? y.first : from, to = to < y.first + y.count ? to : y.first + y.count;
        return to > from ? to - from : 0;
    };
    const int64_t k = p.kernel[1], shift = pair ? p.stride[1] : k;
    return {x + (z.count && y.count ? at : 0),
            w + z.first * w_plane + y.first * w_row,
            z.count, x_plane, w_plane,
            rows(0, shift), rows(shift, k), rows(k, k + shift), x_row, w_row, shift * w_row,
            p.pixel, p.in[2], p.c, tap,
            p.kernel[2], p.dilation[2], p.stride[2], p.pad[2]};
}

// How a tile reads a row: all of it lies within; the same, but for the first and last K / 2 columns, which may lie outside;
// or columns outside are left out.
enum Mode { INSIDE, BORDER, EDGE };

// PART: only n channels of the register.
template <bool PART, class T> MGX_INLINE vec<float> read(const T* p, int n) { return PART ? load_f_n(p, n) : load_f(p); }

// The LANES / M numbers at p, or as many of them as n lanes have, each in M lanes.
template <bool PART, int M, class T, int... I> MGX_INLINE vec<float> read_repeated(const T* p, int n, Ints<I...>) {
    constexpr int N = LANES / M;
    const vec<float, N> few = PART ? load_f_n<N>(p, (n + M - 1) / M) : load_f<N>(p);
    return __builtin_shufflevector(few, few, (I / M)...);
}

// The input at p as lanes multiply it by the weights of channel i of their groups.
template <bool PART, int G, int M, class T, class I> MGX_INLINE vec<float> read_group(const T* p, int n, I i) {
    if constexpr (G == LANES)
        return splat<float>(to_float(p[i]));
    else if constexpr (M == LANES)
        return splat<float>(to_float(*p));
    else if constexpr (M > 1)
        return read_repeated<PART, M>(p, n, UpTo<LANES>{});
    else if constexpr (G == 1)
        return read<PART>(p, n);
    else {
        const vec<float> v = read<PART>(p, n);
        return shuffle(v, v, (iota<int32_t>() & -G) + int(i));
    }
}

// f(0) .. f(G - 1): code for each, unless a group fills a register, whose channels differ by an address alone.
template <int G, class F> MGX_INLINE void each_channel(F f) {
    if constexpr (G == LANES) {
#pragma GCC unroll 1
        for (int i = 0; i < G; ++i) f(i);
    } else {
        unroll<G>(f);
    }
}

// The first and last K / 2 columns of a tile on the border, one behind the other: where they are read, from the tile's first
// column on, and what is left of them: nothing of columns outside, for which others are read.
template <int K, int S, int TILE, Mode MODE> struct Ends {
    template <class Read> Ends(const Read&, int64_t) {}
};
template <int K, int S, int TILE> struct Ends<K, S, TILE, BORDER> {
    static constexpr int HALF = K / 2, COLUMNS = (TILE - 1) * S + K;
    int64_t at[2 * HALF];
    vec<int32_t> mask[2 * HALF];

    static constexpr int end(int j) { return j < HALF ? j : j >= COLUMNS - HALF ? j - COLUMNS + 2 * HALF : -1; }
    template <class Read> Ends(const Read& s, int64_t column) {
        for (int j = 0; j < COLUMNS; ++j) {
            if (end(j) < 0) continue;
            const int64_t c = column + j, in = c < 0 ? 0 : c < s.width ? c : s.width - 1;
            at[end(j)] = (in - column) * s.pixel;
            mask[end(j)] = splat<int32_t>(in == c ? -1 : 0);
        }
    }
};

// One input row over TILE pixels of the output rows FIRST .. LAST - 1; x is at the first input column, `column`.
// Every input is loaded once.
template <int K, int S, Mode MODE, bool PART, int FIRST, int LAST, int TILE, int G, int M, class TX, class TW, class I>
MGX_INLINE void row_special(vec<float> (&acc)[ROWS][TILE], const Source<G, M, TX, TW>& s, const TX* x, const TW* w,
                            int64_t column, int n, const Ends<K, S, TILE, MODE>& ends, I i) {
    const Multiples pixels(s.pixel * int64_t(sizeof(TX))), taps(s.tap * int64_t(sizeof(TW)));
    vec<float> tap[ROWS][K];
#pragma GCC unroll 2
    for (int r = FIRST; r < LAST; ++r)
#pragma GCC unroll 16
        for (int k = 0; k < K; ++k) tap[r][k] = read<PART>(taps.behind(w + i * s.c - r * s.w_shift, k), n);
#pragma GCC unroll 32
    for (int j = 0; j < (TILE - 1) * S + K; ++j) {
        if (MODE == EDGE && static_cast<uint64_t>(column + j) >= static_cast<uint64_t>(s.width)) continue;
        vec<float> v;
        if constexpr (MODE == BORDER) {
            const int end = ends.end(j);
            v = read_group<PART, G, M>(end < 0 ? pixels.behind(x, j) : x + ends.at[end < 0 ? 0 : end], n, i);
            if (end >= 0) v = bit_cast<vec<float>>(bit_cast<vec<int32_t>>(v) & ends.mask[end]);
        } else {
            v = read_group<PART, G, M>(pixels.behind(x, j), n, i);
        }
        v = in_register(v);
#pragma GCC unroll 2
        for (int r = FIRST; r < LAST; ++r)
#pragma GCC unroll 16
            for (int k = 0; k < K; ++k)
                if (j >= k && (j - k) % S == 0 && (j - k) / S < TILE) acc[r][(j - k) / S] += v * tap[r][k];
    }
}
template <Mode MODE, bool PART, int TILE, int G, int M, class TX, class TW, class I>
MGX_INLINE void row_any(vec<float> (&acc)[TILE], const Source<G, M, TX, TW>& s, const TX* x, const TW* w,
                        int64_t column, int n, I channel) {
    const int64_t step = s.stride * s.pixel;
    for (int64_t k = 0; k < s.taps; ++k, column += s.dilation, x += s.dilation * s.pixel, w += s.tap) {
        const vec<float> tap = read<PART>(w + channel * s.c, n);
#pragma GCC unroll 16
        for (int i = 0; i < TILE; ++i)
            if (MODE == INSIDE || static_cast<uint64_t>(column + i * s.stride) < static_cast<uint64_t>(s.width))
                acc[i] += read_group<PART, G, M>(x + i * step, n, channel) * tap;
    }
}

// The input rows of one plane.
template <int K, int S, Mode MODE, bool PART, int TILE, int G, int M, class TX, class TW>
MGX_INLINE void sum(vec<float> (&acc)[ROWS][TILE], const Source<G, M, TX, TW>& s, const TX* x, const TW* w, int64_t column,
                    int n, const Ends<K, S, TILE, MODE>& ends) {
    for (int64_t b = 0; b < s.upper; ++b, x += s.x_row, w += s.w_row)
        each_channel<G>([&](auto i) {
            if constexpr (K > 0)
                row_special<K, S, MODE, PART, 0, 1>(acc, s, x, w, column, n, ends, i);
            else
                row_any<MODE, PART>(acc[0], s, x, w, column, n, i);
        });
    if constexpr (K > 0 && ROWS == 2) {
        for (int64_t b = 0; b < s.both; ++b, x += s.x_row, w += s.w_row)
            each_channel<G>([&](auto i) { row_special<K, S, MODE, PART, 0, 2>(acc, s, x, w, column, n, ends, i); });
        for (int64_t b = 0; b < s.lower; ++b, x += s.x_row, w += s.w_row)
            each_channel<G>([&](auto i) { row_special<K, S, MODE, PART, 1, 2>(acc, s, x, w, column, n, ends, i); });
    }
}

// Pixels o + first .. o + last - 1 of `rows` output rows, the first row at epilogue row `row`; the channels from c0 on: whole
// registers up to end, or, of PART, the few before it.
template <int K, int S, int TILE, bool PLANES, Mode MODE, bool PART, int G, int M, class TX, class TW, class Epi>
MGX_NOINLINE void tile(const Source<G, M, TX, TW>& source, int64_t o, int first, int last, int64_t c0, int64_t end,
                       int64_t row, int64_t width, int rows, const Epi& to) {
    const Epi epi = to;  // copies, which stores cannot change
    const Source<G, M, TX, TW> s = source;
    const int64_t column = o * s.stride - s.pad, at = column * s.pixel;
    const int n = int(end - c0);
    const Ends<K, S, TILE, MODE> ends(s, column);
    for (int64_t channel = c0; channel < end; channel += LANES) {
        vec<float> acc[ROWS][TILE] = {};
        for (int64_t a = 0; a < (PLANES ? s.planes : 1); ++a)
            sum<K, S, MODE, PART>(
                acc, s, s.x + a * s.x_plane + at + channel / M, s.w + a * s.w_plane + channel, column, n, ends);
        const auto give = [&](int r, int i, vec<float> v) {
            if (r >= rows || (MODE == BORDER && i < first) || (MODE == EDGE && i >= last)) return;
            if constexpr (PART)
                epi(row + r * width + o + i, channel, v, n);
            else
                epi(row + r * width + o + i, channel, v);
        };
        if constexpr (requires { Epi::in_registers; }) {
#pragma GCC unroll 2
            for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
                for (int i = 0; i < TILE; ++i) give(r, i, acc[r][i]);
        } else {  // loops: long code, once
            vec<float> left[ROWS][TILE];
            __builtin_memcpy(left, acc, sizeof(acc));
            for (int r = 0; r < rows; ++r)
#pragma GCC unroll 1
                for (int i = first; i < last; ++i) give(r, i, left[r][i]);
        }
    }
}

// Whether tiles at the ends of rows are whole ones, the last of which begin before those in front of them end, and of what
// they read no more than K / 2 columns lie outside.
template <int K, int S, int TILE> inline bool has_borders(const Depthwise& p) {
    const int64_t behind = (p.out[2] - 1) * S + K - p.pad[2] - p.in[2];
    return K > 0 && p.out[2] >= TILE && p.in[2] > 0 && p.pad[2] <= K / 2 && behind <= K / 2;
}

// One output row, or two, of channels c0 .. end, tile by tile: what a tile reads of a row lies together.
template <int K, int S, int TILE, bool PLANES, bool WHOLE, int G, int M, class TX, class TW, class Epi>
MGX_INLINE void lines(const Source<G, M, TX, TW>& s, bool borders, int64_t width, int64_t c0, int64_t end, int64_t row,
                      int rows, const Epi& epi) {
    const int64_t span = (TILE - 1) * s.stride + (s.taps - 1) * s.dilation;
    const int64_t whole = WHOLE ? end : c0 + (end - c0) / LANES * LANES;
    for (int64_t o = 0; o < width; o += TILE) {
        const int64_t first = o * s.stride - s.pad;
        const int count = int(width - o < TILE ? width - o : TILE);
        const bool inside = count == TILE && first >= 0 && first + span < s.width;
        const auto channels = [&]<bool PART>(int64_t from, int64_t to) {
            if (inside)
                tile<K, S, TILE, PLANES || K == 0, INSIDE, PART>(s, o, 0, TILE, from, to, row, width, rows, epi);
            else if (K == 0 || !borders)
                tile<K, S, TILE, PLANES || K == 0, EDGE, PART>(s, o, 0, count, from, to, row, width, rows, epi);
            else if constexpr (K > 0)
                tile<K, S, TILE, PLANES, BORDER, PART>(s, o + count - TILE, TILE - count, TILE, from, to, row, width, rows, epi);
        };
        if (c0 < whole) channels.template operator()<false>(c0, whole);
        if constexpr (!WHOLE)
            if (whole < end) channels.template operator()<true>(whole, end);
    }
}

}  // namespace dw

template <
    int K, int S, int TILE, int G = 1, bool PLANES = false, int M = 1, bool WHOLE = false, class TX, class TW, class Epi>
inline void depthwise(const Team& team, const Depthwise& p, const TX* x, const TW* w, const Epi& epi) {
    const int64_t wide = dw::chunk_channels(p, sizeof(TX));
    const int64_t image = p.in[0] * p.in[1] * p.in[2] * p.pixel;
    const int64_t lines = p.n * p.out[0] * p.out[1], pixels = p.n * p.in[0] * p.in[1] * p.in[2];
    const bool by_rows = pixels >= dw::LEAST_PIXELS * team.threads();
    const Range rows = by_rows ? team.share(lines) : Range{0, lines};
    const Range columns = by_rows ? Range{0, p.c} : team.share(p.c, 2 * LANES);
    const bool borders = dw::has_borders<K, S, TILE>(p);
    const bool pairs = dw::ROWS == 2 && K > 0 && p.dilation[1] == 1 && p.stride[1] < p.kernel[1];
    for (int64_t c0 = columns.begin; c0 < columns.end; c0 += wide) {
        const int64_t end = c0 + wide < columns.end ? c0 + wide : columns.end;
        for (int64_t i = rows.begin, n; i < rows.end; i += n) {
            const int64_t plane = i / p.out[1], o1 = i % p.out[1];
            const TX* from = x + plane / p.out[0] * image;
            n = pairs && i + 1 < rows.end && o1 + 1 < p.out[1] ? 2 : 1;
            const auto source = dw::source<G, M>(p, from, w, plane % p.out[0], o1, n == 2);
            dw::lines<K, S, TILE, PLANES, WHOLE>(source, borders, p.out[2], c0, end, i * p.out[2], int(n), epi);
        }
    }
}

}  // namespace mgx

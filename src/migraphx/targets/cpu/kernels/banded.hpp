// A convolution and the depthwise one behind it, one band of rows after the other, and the 1x1 convolution behind that:
// what lies between them never leaves the second-level cache of the core that computes it.
//
//   banded<K, S, TILE, WHOLE>(team, conv, params, x, w, first, dw, epi, scratch, fast, block)
//   banded<K, S, TILE, WHOLE>(team, conv, params, last, x, w, first, dw, second, pw, epi, scratch, fast, block)
//     conv, x, w, fast, block
//                     as for conv.hpp; images of floats, in[0] = out[0] = 1; a kernel of one row has no stride and padding.
//                     Or conv is Pictures<K, S, FEW, MANY>{params}, and these, x and w are as for planar.hpp
//     first(between)  the epilogue of the convolution, which writes its rows to `between`, densely and counted from 0
//     params, dw, epi as for depthwise.hpp: it reads all that the convolution gives, dense
//     K, S, TILE, WHOLE
//                     as for depthwise.hpp
//     last, pw        as for conv.hpp: kernels of one, without stride and padding
//     second(between) the epilogue of the depthwise one, as `first`
//     scratch         banded_scratch(conv, params) or (conv, params, last) bytes per thread, 64-byte aligned
//
// Threads take rows of the result. Rows that two bands read are moved, not computed again; those that two threads read
// are computed by both.
#pragma once

#include "conv.hpp"
#include "depthwise.hpp"
#include "planar.hpp"

namespace mgx {

inline constexpr int64_t BAND = 1 << 18;  // bytes between the two, about

// Rows of the result that a band makes: pairs, as depthwise.hpp likes them.
inline constexpr int64_t band_lines(const Depthwise& d) {
    const int64_t lines = BAND / (d.in[2] * d.c * int64_t(sizeof(float)) * d.stride[1]) / 2 * 2;
    return lines > 2 ? lines : 2;
}

// The convolution in front: its scratch, and some rows of an image of what it gives.
template <int K, int S, int FEW, int MANY> struct Pictures : Planar {};

inline int64_t rows_scratch(const Conv& c) { return round64(conv_scratch(c, sizeof(float))); }
template <int K, int S, int FEW, int MANY> inline int64_t rows_scratch(const Pictures<K, S, FEW, MANY>& c) {
    return planar_scratch<K, S, FEW, MANY>(c);
}
template <class Epi>
MGX_INLINE void rows_of(const Team& alone, const Conv& c, int64_t image, int64_t first, int64_t count, const float* x,
                        const float* w, const Epi& epi, char* scratch, bool fast, int64_t block) {
    Conv part = c;
    part.n = 1;
    part.out[1] = count;
    const float* lies = x + image * c.in[1] * c.in[2] * c.pixel;
    if (is_pointwise(c)) {
        part.in[1] = count;
        lies += first * c.in[2] * c.pixel;
    } else {
        part.pad[1] -= first * c.stride[1];
    }
    conv<float>(alone, part, lies, w, epi, scratch, fast, block);
}
template <int K, int S, int FEW, int MANY, class Epi>
MGX_INLINE void rows_of(const Team& alone, const Pictures<K, S, FEW, MANY>& c, int64_t image, int64_t first, int64_t count,
                        const float* x, const float* w, const Epi& epi, char* scratch, bool, int64_t) {
    Planar part = c;
    part.n = 1;
    part.out_h = count;
    part.pad_h -= first * c.stride_h;
    planar<K, S, FEW, MANY>(alone, part, x + image * c.x_image, w, epi, scratch);
}

template <class C> inline int64_t banded_scratch(const C& c, const Depthwise& d) {
    const int64_t rows = (band_lines(d) - 1) * d.stride[1] + (d.kernel[1] - 1) * d.dilation[1] + 1;
    return rows_scratch(c) + round64(rows * d.in[2] * d.c * int64_t(sizeof(float)));
}
template <class C> inline int64_t banded_scratch(const C& c, const Depthwise& d, const Conv& last) {
    const int64_t lines = round64(band_lines(d) * d.out[2] * d.c * int64_t(sizeof(float)));
    return banded_scratch(c, d) + lines + conv_scratch(last, sizeof(float));
}

// An epilogue whose rows begin at this one.
template <class Epi> struct OfLines {
    Epi epi;
    int64_t row;
    template <class V, class... N> MGX_INLINE void operator()(int64_t r, int64_t c, V acc, N... n) const {
        epi(row + r, c, acc, n...);
    }
};
template <class Epi> struct ShortOfLines : OfLines<Epi> {
    static constexpr bool in_registers = true;
};
template <class Epi> MGX_INLINE auto of_lines(const Epi& epi, int64_t row) {
    if constexpr (requires { Epi::in_registers; })
        return ShortOfLines<Epi>{{epi, row}};
    else
        return OfLines<Epi>{epi, row};
}

// `give(i, n, window, band)` is called for rows i .. i + n - 1 of the result, with what it takes to compute them.
template <class C, class First, class Give>
MGX_INLINE void each_band(const Team& team, const C& c, const Depthwise& d, const float* x, const float* w, const First& first,
                          char* scratch, bool fast, int64_t block, const Give& give) {
    float* const band = reinterpret_cast<float*>(scratch + rows_scratch(c));
    const int64_t line = d.in[2] * d.c, lines = band_lines(d), reach = (d.kernel[1] - 1) * d.dilation[1] + 1;
    const Range mine = team.share(d.n * d.out[1]);
    const Team alone = team.alone();
    int64_t from = 0, to = 0;  // rows of the image between that lie in the band
    for (int64_t i = mine.begin, n; i < mine.end && !team.stopped(); i += n) {
        const int64_t image = i / d.out[1], o = i % d.out[1], top = o * d.stride[1] - d.pad[1];
        n = least(lines, least(mine.end - i, d.out[1] - o));
        const int64_t begin = least(top > 0 ? top : 0, d.in[1]);
        const int64_t last = least(top + (n - 1) * d.stride[1] + reach, d.in[1]), end = last > begin ? last : begin;
        const int64_t kept = o > 0 && to > begin ? to - begin : 0, first_row = begin + kept;
        if (kept) __builtin_memmove(band, band + (begin - from) * line, kept * line * sizeof(float));
        from = begin, to = end;
        if (end > first_row)
            rows_of(alone, c, image, first_row, end - first_row, x, w, first(band + kept * line), scratch, fast, block);
        Depthwise window = d;
        window.n = 1;
        window.in[1] = end - begin;
        window.out[1] = n;
        window.pad[1] = begin - top;
        give(i, n, window, band);
    }
}

template <int K, int S, int TILE, bool WHOLE, class C, class First, class Epi>
inline void banded(const Team& team, const C& c, const Depthwise& d, const float* x, const float* w, const First& first,
                   const float* dw, const Epi& epi, char* scratch, bool fast, int64_t block = ROW_BLOCK) {
    const Team alone = team.alone();
    each_band(team, c, d, x, w, first, scratch, fast, block, [&](int64_t i, int64_t, const Depthwise& window, const float* band) {
        depthwise<K, S, TILE, 1, false, 1, WHOLE>(alone, window, band, dw, of_lines(epi, i * d.out[2]));
    });
}

template <int K, int S, int TILE, bool WHOLE, class C, class First, class Second, class Epi>
inline void banded(const Team& team, const C& c, const Depthwise& d, const Conv& last, const float* x, const float* w,
                   const First& first, const float* dw, const Second& second, const float* pw, const Epi& epi, char* scratch,
                   bool fast, int64_t block = ROW_BLOCK) {
    const Team alone = team.alone();
    char* const behind = scratch + banded_scratch(c, d);
    float* const lines = reinterpret_cast<float*>(behind + conv_scratch(last, sizeof(float)));
    const auto between = second(lines);
    each_band(team, c, d, x, w, first, scratch, fast, block, [&](int64_t i, int64_t n, const Depthwise& window, const float* band) {
        depthwise<K, S, TILE, 1, false, 1, WHOLE>(alone, window, band, dw, between);
        Conv part = last;
        part.n = 1;
        part.in[1] = part.out[1] = n;
        conv<float>(alone, part, lines, pw, of_lines(epi, i * d.out[2]), behind, fast, block);
    });
}

}  // namespace mgx

// Convolution, channels last, as implicit dot on the engine of gemm.hpp: no im2col buffer.
//
// ---- what to call -------------------------------------------------------------------------------------------
//   template <class T, class TA, class TB, class Epi>
//   void conv(const Team&, const Conv&, const TA* x, const TB* packed_w, const Epi&, char* scratch);
//       x is [n][in0][in1][in2][ic] (spatial rank padded with leading ones), pixels `pixel` elements apart (pixel = ic
//       where x is dense). Epilogue row = ((n * out0 + o0) * out1 + o1) * out2 + o2, column = output channel over all
//       groups. out is what the caller wants: padding at the end follows from it, taps outside x read zero.
//       scratch: conv_scratch(c, sizeof(TA)) bytes per thread, 64-byte aligned. T, TA, TB as for gemm.
//
// ---- packed weights -----------------------------------------------------------------------------------------
//   packed[groups][ceil(ocg / NR)][k0][k1][k2][icg][NR], ocg = oc / groups, icg = ic / groups, zeros past ocg.
//   In NumPy, for w of shape (oc, icg, k0, k1, k2), the layout of torch:
//       p = -(-ocg // NR); t = np.zeros((groups, p * NR, icg, k0, k1, k2), w.dtype)
//       t[:, :ocg] = w.reshape(groups, ocg, icg, k0, k1, k2)
//       packed = np.ascontiguousarray(t.reshape(groups, p, NR, icg, k0, k1, k2).transpose(0, 1, 4, 5, 6, 3, 2))
//
// ---- how it works -------------------------------------------------------------------------------------------
// The engine reads every filter tap through one pointer an output pixel; a tap outside x points to a row of zeros.
// Where ic is small (first layers) a whole row of taps, k2 * ic elements that lie together, is one segment; at the left
// and right edge such a run is copied between zeros first. A 1x1 convolution without padding needs no table at all.
#pragma once

#include "gemm.hpp"

namespace mgx {

struct Conv {
    int64_t n, ic, oc, groups, pixel;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];  // pad: before the first element of each axis
};

inline constexpr int64_t RUN = 128;  // longest row of taps that is read as one segment

inline constexpr bool reads_runs(const Conv& c) {
    return c.groups == 1 && c.dilation[2] == 1 && c.pixel == c.ic && c.kernel[2] > 1 && c.kernel[2] * c.ic <= RUN;
}
inline constexpr bool is_pointwise(const Conv& c) {
    for (int i = 0; i < 3; ++i)
        if (c.kernel[i] != 1 || c.stride[i] != 1 || c.pad[i] != 0 || c.in[i] != c.out[i]) return false;
    return true;
}
inline constexpr int64_t conv_segs(const Conv& c) {
    return c.kernel[0] * c.kernel[1] * (reads_runs(c) ? 1 : c.kernel[2]);
}

// Bytes per thread: the engine's, the row of zeros, and the copied runs of a block.
inline constexpr int64_t conv_scratch(const Conv& c, int64_t size) {
    const int64_t run = reads_runs(c) ? c.kernel[2] * c.ic : 0, zeros = run > c.ic ? run : c.ic;
    return engine_scratch(conv_segs(c)) + round64(zeros * size) + round64(ROW_BLOCK * conv_segs(c) * run * size);
}

template <class TA> struct Taps {
    Conv c;
    const TA* x;
    const TA* zeros;
    TA* runs;  // [ROW_BLOCK][segs][k2 * ic], where reads_runs
};

struct Pixel {
    int64_t n, o[3];
};
inline Pixel pixel_of(const Conv& c, int64_t row) {
    const int64_t o2 = row % c.out[2], q = row / c.out[2], o1 = q % c.out[1], p = q / c.out[1];
    return {p / c.out[0], {p % c.out[0], o1, o2}};
}
inline void next_pixel(const Conv& c, Pixel& p) {
    if (++p.o[2] < c.out[2]) return;
    p.o[2] = 0;
    if (++p.o[1] < c.out[1]) return;
    p.o[1] = 0;
    if (++p.o[0] < c.out[0]) return;
    p.o[0] = 0;
    ++p.n;
}
inline int64_t tap_at(const Conv& c, const Pixel& p, int axis, int64_t tap) {
    return p.o[axis] * c.stride[axis] - c.pad[axis] + tap * c.dilation[axis];
}

// The first element of input row (i0, i1) of image n, or null outside.
template <class TA> inline const TA* input_row(const Taps<TA>& t, int64_t n, int64_t i0, int64_t i1) {
    const Conv& c = t.c;
    if (uint64_t(i0) >= uint64_t(c.in[0]) || uint64_t(i1) >= uint64_t(c.in[1])) return nullptr;
    return t.x + ((n * c.in[0] + i0) * c.in[1] + i1) * c.in[2] * c.pixel;
}

// Calls f(slot, step, row, pixel) for every row of a block; slot is where its pointers begin, step apart.
template <class TA, class F>
MGX_INLINE void each_row(const Conv& c, int64_t row, const Tiles& tiles, const TA** table, F f) {
    const int64_t segs = conv_segs(c);
    Pixel p = pixel_of(c, row);
    for (int64_t t = 0; t < tiles.count; table += tiles.of(t) * segs, ++t)
        for (int r = 0; r < tiles.of(t); ++r, ++row, next_pixel(c, p)) f(table + r, tiles.of(t), row, p);
}

template <class TA> void tap_pointers(const void* source, int64_t row, const Tiles& tiles, const TA** table) {
    const auto& t = *static_cast<const Taps<TA>*>(source);
    const Conv& c = t.c;
    each_row(c, row, tiles, table, [&](const TA** out, int step, int64_t, const Pixel& p) {
        const int64_t left = tap_at(c, p, 2, 0);
        for (int64_t k0 = 0; k0 < c.kernel[0]; ++k0)
            for (int64_t k1 = 0; k1 < c.kernel[1]; ++k1) {
                const TA* line = input_row(t, p.n, tap_at(c, p, 0, k0), tap_at(c, p, 1, k1));
                for (int64_t k2 = 0, i = left; k2 < c.kernel[2]; ++k2, i += c.dilation[2], out += step)
                    *out = line && uint64_t(i) < uint64_t(c.in[2]) ? line + i * c.pixel : t.zeros;
            }
    });
}

template <class TA> void run_pointers(const void* source, int64_t row, const Tiles& tiles, const TA** table) {
    const auto& t = *static_cast<const Taps<TA>*>(source);
    const Conv& c = t.c;
    const int64_t run = c.kernel[2] * c.ic, segs = conv_segs(c);
    each_row(c, row, tiles, table, [&](const TA** out, int step, int64_t at, const Pixel& p) {
        const int64_t left = tap_at(c, p, 2, 0), right = left + c.kernel[2];
        const int64_t from = left < 0 ? 0 : left, to = right > c.in[2] ? c.in[2] : right;
        TA* copy = t.runs + at % ROW_BLOCK * segs * run;
        for (int64_t k0 = 0; k0 < c.kernel[0]; ++k0)
            for (int64_t k1 = 0; k1 < c.kernel[1]; ++k1, out += step, copy += run) {
                const TA* line = input_row(t, p.n, tap_at(c, p, 0, k0), tap_at(c, p, 1, k1));
                *out = !line || from >= to ? t.zeros : line + left * c.ic;
                if (*out == t.zeros || (from == left && to == right)) continue;
                for (int64_t i = 0; i < run; ++i) copy[i] = TA{};
                for (int64_t i = (from - left) * c.ic; i < (to - left) * c.ic; ++i) copy[i] = line[left * c.ic + i];
                *out = copy;
            }
    });
}

// Scratch: conv_scratch(c, sizeof(TA)).
template <class T, class TA, class TB, class Epi>
inline void conv(const Team& team, const Conv& c, const TA* x, const TB* w, const Epi& epi, char* scratch) {
    const int64_t segs = conv_segs(c), taps = c.kernel[0] * c.kernel[1] * c.kernel[2], icg = c.ic / c.groups;
    const int64_t rows = c.n * c.out[0] * c.out[1] * c.out[2], kc = taps / segs * icg;
    char* zeros = scratch + engine_scratch(segs);
    const int64_t zero_bytes = round64((kc > c.ic ? kc : c.ic) * sizeof(TA));
    const Taps<TA> source{c, x, reinterpret_cast<const TA*>(zeros), reinterpret_cast<TA*>(zeros + zero_bytes)};
    const RowSource<TA> plain{x, c.pixel};
    const bool pointwise = is_pointwise(c);
    if (!pointwise) __builtin_memset(zeros, 0, zero_bytes);
    const Rows<TA> pointers = pointwise ? row_pointers<TA> : reads_runs(c) ? run_pointers<TA> : tap_pointers<TA>;
    const void* from = pointwise ? static_cast<const void*>(&plain) : &source;
    const int64_t panel = taps * icg * NR;
    const Engine<T, TA, TB> e{
        rows, c.oc / c.groups, c.groups, segs, kc, icg, pointers, from, w, NR, panel, finish<T, Epi>, &epi};
    run_engine(team, e, scratch);
}

}  // namespace mgx

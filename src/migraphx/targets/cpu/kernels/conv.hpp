// Convolution, channels last, as implicit dot on the engine of gemm.hpp: no im2col buffer.
//
// ---- what to call -------------------------------------------------------------------------------
//   template <class T, class TA, class TB, class Epi>
//   void conv(const Team&, const Conv&, const TA* x, const TB* packed_w, const Epi&, char* scratch,
//             bool fast = false);
//       x is [n][in0][in1][in2][ic] (spatial rank padded with leading ones), pixels `pixel` elements apart
//       (pixel = ic where x is dense). out is what the caller wants: padding at the end follows from it,
//       taps outside x read zero. Epilogue row = ((n * out0 + o0) * out1 + o1) * out2 + o2, column = output
//       channel over all groups. T, TA, TB and fast as for gemm.
//       scratch: conv_scratch(c, sizeof(TA)) bytes per thread, 64-byte aligned.
//
// ---- packed weights -----------------------------------------------------------------------------
//   packed[groups][ceil(ocg / NR)][k0][k1][k2][icg][NR], ocg = oc / groups, icg = ic / groups, zero past ocg.
//   In NumPy, for w of shape (oc, icg, k0, k1, k2), the layout of torch:
//       p = -(-ocg // NR); t = np.zeros((groups, p * NR, icg, k0, k1, k2), w.dtype)
//       t[:, :ocg] = w.reshape(groups, ocg, icg, k0, k1, k2)
//       t = t.reshape(groups, p, NR, icg, k0, k1, k2)
//       packed = np.ascontiguousarray(t.transpose(0, 1, 4, 5, 6, 3, 2))
//
// ---- how it works -------------------------------------------------------------------------------
// The engine reads every filter tap through one pointer an output pixel; a tap outside x points to zeros, and rows of taps
// that do so for a whole tile are left out (dilations that are wide for the image, and its first and last lines).
// Where ic is small (first layers) a whole row of taps, k2 * ic elements that lie together, is one segment;
// at the left and right edge such a run is copied between zeros first. A 1x1 convolution without stride and
// padding is a dot.
#pragma once

#include "gemm.hpp"

namespace mgx {

struct Conv {
    int64_t n, ic, oc, groups, pixel;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];  // pad: before the first element
};

inline constexpr int64_t RUN = 128;  // longest row of taps that is read as one segment

inline constexpr bool reads_runs(const Conv& c) {
    const bool together = c.groups == 1 && c.dilation[2] == 1 && c.pixel == c.ic;
    return together && c.kernel[2] > 1 && c.kernel[2] * c.ic <= RUN;
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
    const int64_t segs = conv_segs(c);
    return engine_scratch(segs) + round64(zeros * size) + round64(ROW_BLOCK * segs * run * size);
}

template <class TA> struct Taps {
    Conv c;
    const TA* x;
    const TA* zeros;
    TA* runs;  // [ROW_BLOCK][segs][k2 * ic], where reads_runs
};

// Consecutive output pixels of one output row: rows first .. first + count - 1 of the block.
struct Line {
    int64_t n, o0, o1, o2, first, count;
};

// Where the pointers of every row of a block go: segment s of row r at slot[r] + s * step[r].
template <class TA> struct Slots {
    const TA** slot[ROW_BLOCK];
    int64_t step[ROW_BLOCK];
};

// Calls f(line, slots) for the lines of a block that begins at output pixel `row`.
template <class TA, class F>
MGX_INLINE void each_line(const Conv& c, int64_t row, const Tiles& tiles, const TA** table, F f) {
    Slots<TA> slots;
    int64_t rows = 0;
    for (int64_t t = 0; t < tiles.count; table += tiles.of(t) * conv_segs(c), ++t)
        for (int r = 0; r < tiles.of(t); ++r, ++rows) {
            slots.slot[rows] = table + r;
            slots.step[rows] = tiles.of(t);
        }
    for (int64_t first = 0, count; first < rows; first += count) {
        const int64_t at = row + first, o2 = at % c.out[2], line = at / c.out[2], plane = line / c.out[1];
        count = least(rows - first, c.out[2] - o2);
        f(Line{plane / c.out[0], plane % c.out[0], line % c.out[1], o2, first, count}, slots);
    }
}

// The first element of the input row that taps (k0, k1) of a line read, or null outside.
template <class TA> inline const TA* input_row(const Taps<TA>& t, const Line& l, int64_t k0, int64_t k1) {
    const Conv& c = t.c;
    const int64_t i0 = l.o0 * c.stride[0] - c.pad[0] + k0 * c.dilation[0];
    const int64_t i1 = l.o1 * c.stride[1] - c.pad[1] + k1 * c.dilation[1];
    if (uint64_t(i0) >= uint64_t(c.in[0]) || uint64_t(i1) >= uint64_t(c.in[1])) return nullptr;
    return t.x + ((l.n * c.in[0] + i0) * c.in[1] + i1) * c.in[2] * c.pixel;
}

template <class TA> void tap_pointers(const void* source, int64_t row, const Tiles& tiles, const TA** table) {
    const auto& t = *static_cast<const Taps<TA>*>(source);
    const Conv& c = t.c;
    each_line(c, row, tiles, table, [&](const Line& l, const Slots<TA>& to) {
        int64_t seg = 0;
        for (int64_t k0 = 0; k0 < c.kernel[0]; ++k0)
            for (int64_t k1 = 0; k1 < c.kernel[1]; ++k1) {
                const TA* x = input_row(t, l, k0, k1);
                for (int64_t k2 = 0; k2 < c.kernel[2]; ++k2, ++seg) {
                    int64_t i = l.o2 * c.stride[2] - c.pad[2] + k2 * c.dilation[2];
                    const uint64_t wide = x ? c.in[2] : 0;
                    for (int64_t r = l.first; r < l.first + l.count; ++r, i += c.stride[2])
                        to.slot[r][seg * to.step[r]] = uint64_t(i) < wide ? x + i * c.pixel : t.zeros;
                }
            }
    });
}

// The run of taps of input row x that begins at pixel i, of which some lie outside: a copy between zeros.
template <class TA> const TA* edge_run(const Conv& c, const TA* x, int64_t i, TA* copy) {
    for (int64_t k = 0; k < c.kernel[2]; ++k)
        for (int64_t j = 0; j < c.ic; ++j)
            copy[k * c.ic + j] = uint64_t(i + k) < uint64_t(c.in[2]) ? x[(i + k) * c.ic + j] : TA{};
    return copy;
}

template <class TA> void run_pointers(const void* source, int64_t row, const Tiles& tiles, const TA** table) {
    const auto& t = *static_cast<const Taps<TA>*>(source);
    const Conv& c = t.c;
    const int64_t run = c.kernel[2] * c.ic, segs = conv_segs(c), stride = c.stride[2], step = stride * c.ic;
    const int64_t last = c.in[2] - c.kernel[2];
    each_line(c, row, tiles, table, [&](const Line& l, const Slots<TA>& to) {
        const int64_t first = l.o2 * stride - c.pad[2];
        const int64_t left = first < 0 ? least(ceil_div(-first, stride), l.count) : 0;  // runs that begin outside
        const int64_t whole = last < first ? 0 : least((last - first) / stride + 1, l.count);
        for (int64_t seg = 0; seg < segs; ++seg) {
            const TA* x = input_row(t, l, seg / c.kernel[1], seg % c.kernel[1]);
            const auto slot = [&](int64_t k) -> const TA*& { return to.slot[l.first + k][seg * to.step[l.first + k]]; };
            const auto edge = [&](int64_t k) {
                TA* copy = t.runs + ((l.first + k) * segs + seg) * run;
                slot(k) = x ? edge_run(c, x, first + k * stride, copy) : t.zeros;
            };
            for (int64_t k = 0; k < left; ++k) edge(k);
            const TA* from = x ? x + first * c.ic : t.zeros;
            const int64_t by = x ? step : 0;
            for (int64_t k = left; k < whole; ++k) slot(k) = from + k * by;
            for (int64_t k = whole > left ? whole : left; k < l.count; ++k) edge(k);
        }
    });
}

// Scratch: conv_scratch(c, sizeof(TA)).
template <class T, class TA, class TB, class Epi>
inline void conv(
    const Team& team, const Conv& c, const TA* x, const TB* w, const Epi& epi, char* scratch,
    bool fast = false, int64_t block = ROW_BLOCK) {
    const int64_t segs = conv_segs(c), taps = c.kernel[0] * c.kernel[1] * c.kernel[2], icg = c.ic / c.groups;
    const int64_t rows = c.n * c.out[0] * c.out[1] * c.out[2], kc = taps / segs * icg;
    char* zeros = scratch + engine_scratch(segs);
    const int64_t zero_bytes = round64((kc > c.ic ? kc : c.ic) * sizeof(TA));
    TA* runs = reinterpret_cast<TA*>(zeros + zero_bytes);
    const Taps<TA> source{c, x, reinterpret_cast<const TA*>(zeros), runs};
    const RowSource<TA> plain{x, c.pixel};
    const bool pointwise = is_pointwise(c);
    if (!pointwise) __builtin_memset(zeros, 0, zero_bytes);
    const Rows<TA> taps_or_runs = reads_runs(c) ? run_pointers<TA> : tap_pointers<TA>;
    const Rows<TA> pointers = pointwise ? row_pointers<TA> : taps_or_runs;
    const void* from = pointwise ? static_cast<const void*>(&plain) : &source;
    const int64_t panel = taps * icg * NR;
    const Engine<T, TA, TB> e{
        rows, c.oc / c.groups, c.groups, segs, kc, icg, pointers, from, w, NR, panel, finish<T, Epi>, &epi,
        strips<T, TA, TB, Epi>(), fast, 0, 0, block, x, pointwise || reads_runs(c) ? nullptr : source.zeros};
    run_engine(team, e, scratch);
}

}  // namespace mgx

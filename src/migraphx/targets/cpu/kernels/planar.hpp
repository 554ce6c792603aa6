// Convolution of pictures: few channels, each a plane of its own (NCHW), to an image with channels last.
//
//   planar<K, S, FEW, MANY>(team, params, x, w, epi, scratch)
//     x        planes of floats: columns follow each other, rows, planes and images are as far apart as params says
//     w        packed[ceil(oc / NR)][rows of the filter][ic][K][NR] floats, zero past oc
//     K, S     columns of the filter, and the stride along them
//     FEW      pixels of an output row that are summed at once where registers are few, at most FEW_PIXELS
//     MANY     the same where they are many, at most MANY_PIXELS
//     epi      row = (image * out_h + y) * out_w + x, column = output channel, as for conv.hpp
//     scratch  planar_scratch<K, S, FEW, MANY>(params) bytes per thread, 64-byte aligned
//   Taps outside x read zero; padding behind x follows from `out`.
//
// A product of so little depth would spend its time on pointers, one a pixel and filter row. Here the pixels of a tile
// lie at one step, so that a pointer serves a whole tile, and planes need not become pixels first. Tiles that read
// outside x read copies with zeros round them. Threads take output rows, as they do in the convolutions behind.
#pragma once

#include "engine.hpp"

namespace mgx {

struct Planar {
    int64_t n, ic, oc;
    int64_t x_image, x_plane, x_row;  // elements between images, channels, rows
    int64_t in_h, in_w, out_h, out_w;
    int64_t kernel_h, stride_h, pad_h, pad_w;  // pad: before the first row and column
};

inline constexpr int FEW_PIXELS = 6, MANY_PIXELS = 14;  // of two registers of sums each, of 16 and of 32
template <int FEW, int MANY> inline constexpr int PIXELS = REGISTERS == 32 ? MANY : FEW;

// What a thread's scratch holds: pointers, copies, a tile.
template <int K, int S, int TILE> struct PlanarScratch {
    static constexpr int64_t SPAN = (TILE - 1) * S + K;  // columns that a tile reads
    int64_t rows, tiles, copies, tile, bytes;
    explicit PlanarScratch(const Planar& p)
        : rows(p.kernel_h * p.ic), tiles(ceil_div(p.out_w, TILE)), copies(round64(tiles * rows * 8)),
          tile(copies + round64((tiles + 1) * rows * SPAN * 4)), bytes(tile + round64(TILE * NR * 4)) {}
};
template <int K, int S, int FEW, int MANY> inline int64_t planar_scratch(const Planar& p) {
    return PlanarScratch<K, S, PIXELS<FEW, MANY>>(p).bytes;
}

// Where the tiles of one output row read: [tile][row of the filter, channel].
template <int K, int S, int TILE>
MGX_NOINLINE void planar_pointers(const Planar& p, const float* image, int64_t y, const float** table, float* copies) {
    constexpr int64_t SPAN = PlanarScratch<K, S, TILE>::SPAN;
    const float* const zeros = copies;
    __builtin_memset(copies, 0, SPAN * sizeof(float));
    for (int64_t t = 0; t * TILE < p.out_w; ++t) {
        const int64_t first = t * TILE * S - p.pad_w;
        const bool inside = first >= 0 && first + SPAN <= p.in_w;
        for (int64_t k = 0; k < p.kernel_h; ++k) {
            const int64_t row = y * p.stride_h - p.pad_h + k;
            const bool outside = uint64_t(row) >= uint64_t(p.in_h);
            const float* from = image + row * p.x_row + first;
            for (int64_t c = 0; c < p.ic; ++c, ++table, from += p.x_plane) {
                if (outside) {
                    *table = zeros;
                } else if (inside) {
                    *table = from;
                } else {
                    copies += SPAN;
                    for (int64_t i = 0; i < SPAN; ++i)
                        copies[i] = uint64_t(first + i) < uint64_t(p.in_w) ? from[i] : 0.0f;
                    *table = copies;
                }
            }
        }
    }
}

// One tile of one panel. VECS: registers of the panel that are used.
template <int K, int S, int TILE, int VECS, class Epi>
MGX_INLINE void planar_tile(int64_t rows, const float* const* table, const float* w, int64_t row, int count, int64_t col, int cols,
                            const Epi& epi, float* buffer) {
    vec<float> acc[TILE * VECS] = {};
    do {
        const float* const x = *table++;
#pragma GCC unroll 1
        for (int64_t k = 0; k < K; ++k, w += NR) {
            const float* const at = x + hidden(k);  // else what neighbours read twice would be kept, in memory
            vec<float> b[VECS];
            unroll<VECS>([&](auto j) { b[j] = in_register(load(w + j * LANES)); });
            unroll<TILE>([&](auto i) {
                const vec<float> v = splat<float>(at[i * S]);
                unroll<VECS>([&](auto j) { acc[i * VECS + j] += v * b[j]; });
            });
        }
    } while (--rows > 0);
    if constexpr (requires { Epi::in_registers; }) {
        if (cols == VECS * LANES) {
            unroll<TILE>([&](auto i) {
                if (i < count) unroll<VECS>([&](auto j) { epi(row + i, col + j * LANES, acc[i * VECS + j]); });
            });
            return;
        }
    }
    store_row(buffer, acc, UpTo<TILE * VECS>{});
    finish<float, Epi>(&epi, row, col, count, cols, VECS * LANES, buffer);
}

// The tiles of one output row of one panel.
template <int K, int S, int TILE, int VECS, class Epi>
MGX_NOINLINE void planar_line(const Planar& p, const float* const* table, const float* w, int64_t row, int64_t col, int cols,
                              const Epi& to, float* buffer) {
    const Epi epi = to;  // a copy, which stores cannot change
    const int64_t rows = p.kernel_h * p.ic;
    for (int64_t o = 0; o < p.out_w; o += TILE, table += rows)
        planar_tile<K, S, TILE, VECS>(rows, table, w, row + o, int(least(TILE, p.out_w - o)), col, cols, epi, buffer);
}

template <int K, int S, int FEW, int MANY, class Epi>
inline void planar(const Team& team, const Planar& p, const float* x, const float* w, const Epi& epi, char* scratch) {
    constexpr int TILE = PIXELS<FEW, MANY>;
    const PlanarScratch<K, S, TILE> at(p);
    const float** const table = reinterpret_cast<const float**>(scratch);
    float* const copies = reinterpret_cast<float*>(scratch + at.copies);
    float* const buffer = reinterpret_cast<float*>(scratch + at.tile);
    const Range mine = team.share(p.n * p.out_h);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
        planar_pointers<K, S, TILE>(p, x + i / p.out_h * p.x_image, i % p.out_h, table, copies);
        const float* panel = w;
        for (int64_t col = 0; col < p.oc; col += NR, panel += at.rows * K * NR) {
            const int cols = int(least(NR, p.oc - col));
            if (cols > LANES)
                planar_line<K, S, TILE, 2>(p, table, panel, i * p.out_w, col, cols, epi, buffer);
            else
                planar_line<K, S, TILE, 1>(p, table, panel, i * p.out_w, col, cols, epi, buffer);
        }
    }
}

}  // namespace mgx

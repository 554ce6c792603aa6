// Winograd F(2x2, 3x3) of 8-bit integers, exactly: a 3x3 convolution of stride 1, four ninths of the products.
//
// ---- what to call -------------------------------------------------------------------------------
//   template <class S, class Epi>
//   void winograd_words(const Team&, const Conv&, const Word<S>* x, const int32_t* packed_u, const Epi&, char* scratch);
//       As conv of quant.hpp (its Conv counts channels in words), with kernel {1, 3, 3}, stride and dilation 1, pad[0] = 0,
//       one group; any padding and size, where MGX_PAIRS. Sums wrap as int32 does: they are exact below 2^29, up to
//       WINOGRAD_WORDS words of channels. scratch: winograd_words_scratch(c) bytes per thread, 64-byte aligned.
//
// ---- transformed weights ------------------------------------------------------------------------
//   u[a, b] = 4 G w G^T for every (output, input channel), 16 matrices of int16, pairs of channels in a 32-bit lane:
//   packed[16][ceil(oc / NR)][ic / 2][NR]. 2 G is [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]: whole numbers, at most
//   9 * 128. input_pairs is B^T, output_sums is A^T, which need whole numbers as they are.
//
// ---- how it works -------------------------------------------------------------------------------
// As winograd.hpp: blocks of tiles, of 2x2 pixels, whose 4x4 patches are widened to int16 as they are transformed (at most
// 4 * 255); 16 products of pairs, whose sums are four times the convolution's.
#pragma once

#include "quant.hpp"

namespace mgx {

inline constexpr int64_t WINOGRAD_WORDS = 456;  // 4 * 9 * 255 * 128 * 4 of them stay below 2^31

#if defined(MGX_PAIRS)

inline constexpr int CHANNELS = 2 * LANES;  // int16 lanes of a register

inline constexpr int64_t pair_tiles(const Conv& c) {
    return c.n * c.in[0] * ceil_div(c.out[1], 2) * ceil_div(c.out[2], 2);
}
inline constexpr int64_t pair_width(const Conv& c) { return ceil_div(4 * c.ic, CHANNELS) * CHANNELS; }
inline constexpr int64_t pair_place(int64_t tiles, int64_t bytes) { return tiles * bytes + 64; }  // as place_stride

// Tiles a block: both intermediates within 1 MiB, but enough tiles to make the weights' way worth it.
inline constexpr int64_t pair_block(const Conv& c) {
    const int64_t fit = (1 << 20) / (16 * (2 * pair_width(c) + 4 * ceil_div(c.oc, NR) * NR)), most = fit < 24 ? 24 : fit;
    return least(most, pair_tiles(c));
}
inline constexpr int64_t winograd_words_scratch(const Conv& c) {
    const int64_t block = pair_block(c);
    const int64_t places = pair_place(block, 2 * pair_width(c)) + pair_place(block, 4 * ceil_div(c.oc, NR) * NR);
    return round64(pair_width(c)) + 16 * round64(places);
}

// B^T d
template <class V> MGX_INLINE void input_pairs(const V* d, V* t) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
}

// A^T m
template <class V> MGX_INLINE void output_sums(const V* m, V* o) {
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] - m[3];
}

inline Line pair_tile(const Conv& c, int64_t tile) {  // its image and first pixel
    const int64_t wide = ceil_div(c.out[2], 2), high = ceil_div(c.out[1], 2), line = tile / wide;
    return {line / high, 0, line % high * 2, tile % wide * 2, 0, 0};
}

// One 4x4 patch, all channels: place k goes to v + k * stride.
template <class S>
inline void transform_patch(const Conv& c, const S* x, const S* zeros, const Line& p, int16_t* v, int64_t stride) {
    using Bytes = vec<S, CHANNELS>;
    using V = vec<int16_t, CHANNELS>;
    const int64_t channels = 4 * c.ic;
    const S* at[16];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int64_t y = p.o1 - c.pad[1] + i, z = p.o2 - c.pad[2] + j;
            const bool inside = uint64_t(y) < uint64_t(c.in[1]) && uint64_t(z) < uint64_t(c.in[2]);
            at[4 * i + j] = inside ? x + ((p.n * c.in[1] + y) * c.in[2] + z) * c.pixel * 4 : zeros;
        }
    for (int64_t ch = 0; ch < channels; ch += CHANNELS) {
        V t[16], line[4];
        for (int j = 0; j < 4; ++j) {
            V d[4];
            unroll<4>([&](auto i) {
                const S* from = at[4 * i + j] + ch;
                const bool whole = ch + CHANNELS <= channels;
                d[i] = __builtin_convertvector(whole ? load<CHANNELS>(from) : load_n<CHANNELS>(from, int(channels - ch)), V);
            });
            input_pairs(d, line);
            unroll<4>([&](auto i) { t[4 * i + j] = line[i]; });
        }
        for (int i = 0; i < 4; ++i) {
            input_pairs(t + 4 * i, line);
            unroll<4>([&](auto j) { store(v + (4 * i + j) * stride + ch, line[j]); });
        }
    }
}

struct PairBlock {
    int64_t first, tiles;  // of the output
    Range panels;
    int16_t* v;            // [16][tiles][channels]
    int32_t* m;            // [16][panel][tiles][columns of the panel]
    int64_t v_stride, m_stride, width;
};

// The 16 products of a block.
inline void multiply_pair_places(const Conv& c, const PairBlock& w, const int32_t* u) {
    const int64_t depth = 2 * c.ic, per_place = ceil_div(c.oc, NR), panel = depth * NR;
    const Tiles parts = tiles_of(w.tiles, MR<int32_t>);
    for (int64_t k = 0; k < 16; ++k)
        for (int64_t p = w.panels.begin; p < w.panels.end; ++p) {
            const int32_t* b = u + (k * per_place + p) * panel;
            const int64_t then = p + 1 < w.panels.end ? p + 1 : per_place + w.panels.begin;
            const int64_t vecs = ceil_div(least(NR, c.oc - p * NR), LANES);
            int32_t* out = w.m + k * w.m_stride + (p - w.panels.begin) * NR * w.tiles;
            const Ahead<int32_t> fetch(b, u + (k * per_place + then) * panel, 1, depth, panel, parts.count);
            for (int64_t t = 0, row = 0; t < parts.count; row += parts.of(t), ++t) {
                const Pair* rows[MR<int32_t>];
                for (int r = 0; r < parts.of(t); ++r)
                    rows[r] = reinterpret_cast<const Pair*>(w.v + k * w.v_stride + (row + r) * w.width);
                const Micro<int32_t, Pair, int32_t> place{
                    rows, 1, 0, depth, b, NR, panel, out + row * vecs * LANES, false, fetch.of(t)};
                run_micro<int32_t, Pair, int32_t>(parts.of(t), int(vecs), place);
            }
        }
}

template <class Epi> void finish_pair_tiles(const Conv& c, const PairBlock& w, const Epi& epi) {
    for (int64_t t = 0; t < w.tiles; ++t) {
        const Line patch = pair_tile(c, w.first + t);
        const int64_t high = least(2, c.out[1] - patch.o1), wide = least(2, c.out[2] - patch.o2);
        const int64_t row = (patch.n * c.out[1] + patch.o1) * c.out[2] + patch.o2;
        for (int64_t p = w.panels.begin; p < w.panels.end; ++p) {
            const int64_t vecs = ceil_div(least(NR, c.oc - p * NR), LANES);
            const int32_t* m = w.m + (p - w.panels.begin) * NR * w.tiles + t * vecs * LANES;
            for (int64_t j = 0; j < vecs; ++j) {
                const int64_t col = p * NR + j * LANES, n = least(LANES, c.oc - col);
                vec<int32_t> s[8], line[2], pixels[4];
                for (int64_t k = 0; k < 4; ++k) {
                    vec<int32_t> d[4];
                    unroll<4>([&](auto i) { d[i] = load(m + (4 * i + k) * w.m_stride + j * LANES); });
                    output_sums(d, line);
                    s[k] = line[0], s[4 + k] = line[1];
                }
                output_sums(s, pixels);
                output_sums(s + 4, pixels + 2);
                for (int64_t i = 0; i < high; ++i)
                    for (int64_t k = 0; k < wide; ++k) {
                        const vec<int32_t> sum = pixels[2 * i + k] >> 2;
                        if (n == LANES)
                            epi(row + i * c.out[2] + k, col, sum);
                        else
                            epi(row + i * c.out[2] + k, col, sum, int(n));
                    }
            }
        }
    }
}

// Scratch: winograd_words_scratch(c).
template <class S, class Epi>
inline void winograd_words(
    const Team& team, const Conv& c, const Word<S>* x, const int32_t* u, const Epi& epi, char* scratch) {
    const Grid grid = divide(team, pair_tiles(c), ceil_div(c.oc, NR), 2 * c.ic);
    const int64_t most = pair_block(c), width = pair_width(c), total = grid.rows.size();
    if (total == 0 || grid.panels.size() == 0) return;
    const S* pixels = reinterpret_cast<const S*>(x);
    S* zeros = reinterpret_cast<S*>(scratch);
    __builtin_memset(zeros, 0, width);
    char* const v = scratch + round64(width);
    char* const m = v + 16 * pair_place(most, 2 * width);
    const Tiles blocks = tiles_of(total, most);
    for (int64_t i = 0, first = grid.rows.begin; i < blocks.count && !team.stopped(); first += blocks.of(i), ++i) {
        const int64_t tiles = blocks.of(i);
        const PairBlock w{
            first, tiles, grid.panels, reinterpret_cast<int16_t*>(v), reinterpret_cast<int32_t*>(m),
            pair_place(tiles, 2 * width) / 2, pair_place(tiles, grid.panels.size() * NR * 4) / 4, width};
        for (int64_t t = 0; t < tiles; ++t)
            transform_patch(c, pixels, zeros, pair_tile(c, first + t), w.v + t * width, w.v_stride);
        multiply_pair_places(c, w, u);
        finish_pair_tiles(c, w, epi);
    }
}

#endif

}  // namespace mgx

// Products of 8-bit integers, summed in int32: the engine that float dots and convolutions use, on quads.
//
// ---- what to call -------------------------------------------------------------------------------
//   gemm<int32_t>(...) of gemm.hpp and conv<int32_t>(...) of conv.hpp with
//       TA = Quad<int8_t> or Quad<uint8_t>: four numbers of the depth that lie together, and
//       TB = int32_t: four weights (int8_t) in a word, packed as below.
//   All counts of elements along the depth (k, lda; ic, pixel) are counts of quads. The caller pads the depth
//   to whole quads; what the padding of A holds does not matter, that of the weights is zero.
//
// ---- packed weights -----------------------------------------------------------------------------
//   packed[panels][1 + Q][NR] words. The first row of a panel is -128 * the sum of each column's weights; then
//   word (q, j) holds weights 4q .. 4q + 3 of column j, the first in the lowest byte. Q is the depth in quads,
//   of all segments, rounded up to whole AMX tiles (16). Zeros past the last column and past the depth.
//   The kernels get a pointer to the second row of the first panel; `panel` is (1 + Q) * NR.
//
// ---- how it works -------------------------------------------------------------------------------
// VNNI multiplies unsigned by signed bytes. Signed A is read with 128 added, and the accumulators start at the
// panel's first row, which takes that away again. Without VNNI two multiplications of 16-bit pairs do the same.
// AMX takes A of either sign: rows are copied to tiles, weights are read where they lie.
#pragma once

#include "conv.hpp"

namespace mgx {

inline constexpr int64_t TILE_QUADS = 16;  // depth of one tile
inline constexpr int64_t TILE_LINES = TILE_QUADS * NR * 4 / 64;  // of cache that its weights take in a panel

template <class S> struct Quad {
    S at[4];
};
inline constexpr int64_t quant_panel(int64_t quads) {  // words
    return (1 + ceil_div(quads, TILE_QUADS) * TILE_QUADS) * NR;
}

// ---- vector registers ---------------------------------------------------------------------------

template <class T, class S> MGX_INLINE T scalar_as(Quad<S> x) {
    const auto bits = bit_cast<uint32_t>(x);
    return static_cast<T>(same_v<S, int8_t> ? bits ^ 0x80808080u : bits);
}

// acc + the products of four unsigned bytes with four signed ones, for each lane.
template <class V> MGX_INLINE V add_quads(V acc, V a, V b) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#if defined(__AVX512VNNI__)
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
#endif
    return acc;
#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
    using Pairs = vec<int16_t, 2 * lanes_v<V>>;
    const auto sum = [](V x, V y) {  // of the products of two pairs
        V r;
        asm("vpmaddwd %2, %1, %0" : "=v"(r) : "v"(x), "v"(y));
        return r;
    };
    const Pairs pairs = bit_cast<Pairs>(b);
    acc += sum(a & 0x00ff00ff, bit_cast<V>((pairs << 8) >> 8));
    return acc + sum((a >> 8) & 0x00ff00ff, bit_cast<V>(pairs >> 8));
#else
    for (int i = 0; i < 4; ++i) acc += ((a >> 8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
    return acc;
#endif
}

template <class S> struct Products<int32_t, Quad<S>> {
    template <int N> static MGX_INLINE vec<int32_t, N> first(const int32_t* b) {
        return same_v<S, int8_t> ? load<N>(b - NR) : vec<int32_t, N>{};
    }
    template <class V> static MGX_INLINE V add(V acc, V x, V b) { return add_quads(acc, x, b); }
};

// ---- AMX ----------------------------------------------------------------------------------------

#if defined(MGX_AMX)

template <class S> using QuantEngine = Engine<int32_t, Quad<S>, int32_t>;

inline constexpr int64_t QUANT_TILE = 32 * 64;  // bytes of the A tiles of 32 rows
inline constexpr int64_t QUANT_A = AMX_A, QUANT_ROWS = AMX_ROWS;  // of one block: in AMX_SCRATCH

// What a product fetches of the next panel meanwhile: `lines` lines of cache for each tile of depth.
struct NextPanel {
    const char* at;
    int64_t lines;
};

// C (32 x 32, rows 128 bytes apart) = A x B over `tiles` of depth; b's rows are a panel's.
template <class S, bool LOWER>
MGX_NOINLINE void multiply_quads(const char* a, const int32_t* b, int64_t tiles, int32_t* c, NextPanel next) {
#define MGX_TDP(C, A, B)                                                                             \
    if constexpr (same_v<S, int8_t>)                                                                 \
        asm volatile("tdpbssd %%tmm" B ", %%tmm" A ", %%tmm" C : : : "memory");                      \
    else                                                                                             \
        asm volatile("tdpbusd %%tmm" B ", %%tmm" A ", %%tmm" C : : : "memory")
    const int64_t row = NR * sizeof(int32_t), line = 64;
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" : : :);
    for (int64_t i = 0; i < tiles; ++i, a += QUANT_TILE, b += TILE_QUADS * NR) {
        for (const char* end = next.at + next.lines * 64; next.at < end; next.at += 64)
            __builtin_prefetch(next.at, 0, 2);
        asm volatile("tileloadd (%0,%2,1), %%tmm6\n\ttileloadd 64(%0,%2,1), %%tmm7\n\t"
                     "tileloadd (%1,%3,1), %%tmm4" : : "r"(b), "r"(a), "r"(row), "r"(line) : "memory");
        MGX_TDP("0", "4", "6");
        MGX_TDP("1", "4", "7");
        if constexpr (LOWER) {
            asm volatile("tileloadd 1024(%0,%1,1), %%tmm5" : : "r"(a), "r"(line) : "memory");
            MGX_TDP("2", "5", "6");
            MGX_TDP("3", "5", "7");
        }
    }
#undef MGX_TDP
    asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)"
                 : : "r"(c), "r"(row) : "memory");
    if constexpr (LOWER)
        asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)"
                     : : "r"(c + 16 * NR), "r"(row) : "memory");
}

// Rows of A, their segments one behind the other, as [32 rows][tile of depth][row][64 bytes].
template <class S>
void tile_rows(const QuantEngine<S>& e, Range rows, int64_t group, const Quad<S>** table, char* to) {
    const int64_t depth = e.segs * e.kc * 4, tiles = ceil_div(depth, 64), segment = e.kc * 4;
    for (int64_t r0 = 0, n; r0 < rows.size(); r0 += n) {
        n = least(ROW_BLOCK, rows.size() - r0);
        e.pointers(e.source, rows.begin + r0, {1, n, 0}, table);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t r = r0 + i;
            char* row = to + r / 32 * tiles * QUANT_TILE + r % 32 * 64;
            for (int64_t s = 0, at = 0; s < e.segs; ++s) {
                const char* x = reinterpret_cast<const char*>(table[s * n + i] + group * e.group_step);
                for (int64_t k = 0, m; k < segment; k += m, at += m) {
                    m = least(segment - k, 64 - at % 64);
                    char* place = row + at / 64 * QUANT_TILE + at % 64;
                    if (m == 64)
                        store(place, load<64>(x + k));
                    else
                        __builtin_memcpy(place, x + k, m);
                }
            }
        }
    }
}

// What lies past the depth in A's last tile is multiplied by the weights' zeros.
template <class S> MGX_NOINLINE void amx_quads(const Grid& grid, const QuantEngine<S>& e, char* scratch) {
    char* a = scratch + fma_scratch(e.segs);
    int32_t* tile = reinterpret_cast<int32_t*>(scratch);
    auto* table = reinterpret_cast<const Quad<S>**>(scratch + round64(ROW_BLOCK * 2 * NR * 8));
    const int64_t tiles = ceil_div(e.segs * e.kc, TILE_QUADS), per_group = ceil_div(e.cols, NR);
    const int64_t most = least(QUANT_ROWS, QUANT_A / (tiles * QUANT_TILE) * 32);
    const int64_t total = grid.rows.size(), blocks = ceil_div(total, most);
    TileRows shape;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t from = grid.rows.begin;
        const Range rows{from + total * i / blocks, from + total * (i + 1) / blocks};
        for (int64_t p = grid.panels.begin; p < grid.panels.end; ++p) {
            const int64_t group = p / per_group, col = p % per_group * NR;
            if (p == grid.panels.begin || (col == 0 && e.groups > 1)) tile_rows(e, rows, group, table, a);
            const int cols = int(least(NR, e.cols - col));
            const int64_t lines = p + 1 < grid.panels.end ? ceil_div(TILE_LINES, ceil_div(rows.size(), 32)) : 0;
            const char* ahead = reinterpret_cast<const char*>(e.b + (p + 1) * e.panel);
            for (int64_t r = 0; r < rows.size(); r += 32, ahead += lines * tiles * 64) {
                const int n = int(least(32, rows.size() - r));
                shape.set(n < 16 ? n : 16, n < 16 ? 0 : n - 16);
                const auto run = n > 16 ? multiply_quads<S, true> : multiply_quads<S, false>;
                run(a + r / 32 * tiles * QUANT_TILE, e.b + p * e.panel, tiles, tile, {ahead, lines});
                e.finish(e.epi, e.row0 + rows.begin + r, e.col0 + group * e.cols + col, n, cols, NR, tile);
            }
        }
    }
}

#endif

template <class S>
MGX_NOINLINE void run_engine(const Team& team, Engine<int32_t, Quad<S>, int32_t> e, char* scratch) {
    const int64_t quads = e.segs * e.kc;
    e.b += NR;  // past the first row
    e.panel = quant_panel(quads);
    const Grid grid = divide(team, e.rows, e.groups * ceil_div(e.cols, NR), quads);
#if defined(MGX_AMX)
    const bool fits = ceil_div(quads, TILE_QUADS) * QUANT_TILE <= QUANT_A;
    if (fits && grid.rows.size() > 0 && grid.panels.size() > 0 && e.rows >= 8 && amx_ready())
        return amx_quads(grid, e, scratch);
#endif
    run_grid(grid, e, scratch);
}

}  // namespace mgx

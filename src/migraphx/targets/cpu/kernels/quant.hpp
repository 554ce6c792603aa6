// Products of narrow numbers, on the engine that float dots and convolutions use, a word of four bytes at a time:
// four 8-bit integers, summed in int32, or two bf16, summed in float.
//
// ---- what to call -------------------------------------------------------------------------------
//   gemm<T>(...) of gemm.hpp and conv<T>(...) of conv.hpp with
//       TA = Word<S>: numbers of the depth that lie together; S = int8_t or uint8_t (T = int32_t) or bf16
//       (T = float; only where MGX_BF16_WORDS), and
//       TB = T: a word of weights (int8_t or bf16), whatever T, packed as below.
//   All counts of elements along the depth (k, lda; ic, pixel) are counts of words. The caller pads the depth
//   to whole words; what the padding of A holds does not matter to integers and must be finite in bf16, that of the
//   weights is zero.
//
// ---- packed weights -----------------------------------------------------------------------------
//   packed[panels][1 + Q][NR] words. The first row of a panel is -128 * the sum of each column's weights for
//   integers, zeros for bf16; then word (q, j) holds weights of the depth 4q .. 4q + 3 (2q, 2q + 1) of column j, the
//   first in the lowest byte. Q is the depth in words, of all segments, rounded up to whole AMX tiles (16). Zeros
//   past the last column and past the depth.
//   The kernels get a pointer to the second row of the first panel; `panel` is (1 + Q) * NR.
//
// ---- how it works -------------------------------------------------------------------------------
// VNNI multiplies unsigned by signed bytes. Signed A is read with 128 added, and the accumulators start at the
// panel's first row, which takes that away again. AMX takes A of either sign: rows are copied to tiles, weights are read
// where they lie. Products of bf16 are exact in float; both VDPBF16PS and TDPBF16PS count denormal operands and sums as zero.
//
// Without VNNI bytes become pairs of 16 bits, which are multiplied and summed exactly in 32 (the multiplication that takes
// bytes saturates): a word's first and third byte are a pair, and its second and fourth. A block of rows is widened once,
// a panel once for the block, and the products are those of a matrix of pairs of twice the depth in words. Where rows are
// few, or columns of a group, bytes are widened in registers.
#pragma once

#include "conv.hpp"
#include "loops.hpp"
#include "quads.hpp"

namespace mgx {

inline constexpr int64_t TILE_WORDS = 16;  // depth of one tile
inline constexpr int64_t TILE_LINES = TILE_WORDS * NR * 4 / 64;  // of cache that its weights take in a panel

template <class S> struct Word {
    S at[4 / sizeof(S)];
};
template <class S> struct sum_of { using type = int32_t; };
template <> struct sum_of<bf16> { using type = float; };
template <class S> using sum_t = typename sum_of<S>::type;
template <class S> using WordEngine = Engine<sum_t<S>, Word<S>, sum_t<S>>;

inline constexpr int64_t word_panel(int64_t words) {
    return (1 + ceil_div(words, TILE_WORDS) * TILE_WORDS) * NR;
}

// ---- vector registers ---------------------------------------------------------------------------

template <class S> struct Products<int32_t, Word<S>> {
    template <int N> static MGX_INLINE vec<int32_t, N> first(const int32_t* b) {
        return same_v<S, int8_t> ? load<N>(b - NR) : vec<int32_t, N>{};
    }
    template <int N> static MGX_INLINE vec<int32_t, N> all(Word<S> x) {
        const auto bits = bit_cast<uint32_t>(x);
        return splat<int32_t, N>(int32_t(same_v<S, int8_t> ? bits ^ 0x80808080u : bits));
    }
    template <class V> static MGX_INLINE V add(V acc, V x, V b) { return add_quads(acc, x, b); }
};

#if defined(MGX_PAIRS)
struct Pair {
    int16_t at[2];
};
template <> struct Products<int32_t, Pair> {
    template <int N> static MGX_INLINE vec<int32_t, N> first(const int32_t*) { return vec<int32_t, N>{}; }
    template <int N> static MGX_INLINE vec<int32_t, N> all(Pair x) { return splat<int32_t, N>(bit_cast<int32_t>(x)); }
    template <class V> static MGX_INLINE V add(V acc, V x, V b) { return acc + multiply_pairs(x, b); }
};
#endif

#if MGX_BF16_WORDS
template <> struct Products<float, Word<bf16>> {
    template <int N> static MGX_INLINE vec<float, N> first(const float*) { return vec<float, N>{}; }
    template <int N> static MGX_INLINE vec<float, N> all(Word<bf16> x) {
        return bit_cast<vec<float, N>>(splat<uint32_t, N>(bit_cast<uint32_t>(x)));
    }
    template <class V> static MGX_INLINE V add(V acc, V x, V b) {
        asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(b));
        return acc;
    }
};
#endif

// ---- AMX ----------------------------------------------------------------------------------------

#if defined(MGX_AMX)

inline constexpr int64_t WORD_TILE = 32 * 64;  // bytes of the A tiles of 32 rows
inline constexpr int64_t WORD_A = AMX_A, WORD_ROWS = AMX_ROWS;  // of one block: in AMX_SCRATCH

// What a product fetches of the next panel meanwhile: `lines` lines of cache for each tile of depth.
struct NextPanel {
    const char* at;
    int64_t lines;
};

// C (32 x 32, rows 128 bytes apart) = A x B over `tiles` of depth; b's rows are a panel's.
template <class S, bool LOWER>
MGX_NOINLINE void multiply_words(const char* a, const sum_t<S>* b, int64_t tiles, sum_t<S>* c, NextPanel next) {
#define MGX_TDP(C, A, B)                                                                             \
    if constexpr (same_v<S, int8_t>)                                                                 \
        asm volatile("tdpbssd %%tmm" B ", %%tmm" A ", %%tmm" C : : : "memory");                      \
    else if constexpr (same_v<S, bf16>)                                                              \
        asm volatile("tdpbf16ps %%tmm" B ", %%tmm" A ", %%tmm" C : : : "memory");                    \
    else                                                                                             \
        asm volatile("tdpbusd %%tmm" B ", %%tmm" A ", %%tmm" C : : : "memory")
    const int64_t row = NR * sizeof(int32_t), line = 64;
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" : : :);
    for (int64_t i = 0; i < tiles; ++i, a += WORD_TILE, b += TILE_WORDS * NR) {
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
void tile_rows(const WordEngine<S>& e, Range rows, int64_t group, const Word<S>** table, char* to) {
    const int64_t depth = e.segs * e.kc * 4, tiles = ceil_div(depth, 64), segment = e.kc * 4;
    for (int64_t r0 = 0, n; r0 < rows.size(); r0 += n) {
        n = least(ROW_BLOCK, rows.size() - r0);
        e.pointers(e.source, rows.begin + r0, {1, n, 0}, table);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t r = r0 + i;
            char* row = to + r / 32 * tiles * WORD_TILE + r % 32 * 64;
            for (int64_t s = 0, at = 0; s < e.segs; ++s) {
                const char* x = reinterpret_cast<const char*>(table[s * n + i] + group * e.group_step);
                for (int64_t k = 0, m; k < segment; k += m, at += m) {
                    m = least(segment - k, 64 - at % 64);
                    char* place = row + at / 64 * WORD_TILE + at % 64;
                    if (m == 64)
                        store(place, load<64>(x + k));
                    else
                        __builtin_memcpy(place, x + k, m);
                }
            }
            if constexpr (same_v<S, bf16>)  // zeros of the weights would not hide NaN
                __builtin_memset(row + (tiles - 1) * WORD_TILE + (depth - 1) % 64 + 1, 0, tiles * 64 - depth);
        }
    }
}

// What lies past the depth in A's last tile is multiplied by the weights' zeros; in bf16 it is zero too.
template <class S> MGX_NOINLINE void amx_words(const Grid& grid, const WordEngine<S>& e, char* scratch) {
    char* a = scratch + fma_scratch(e.segs);
    auto* tile = reinterpret_cast<sum_t<S>*>(scratch);
    auto* table = reinterpret_cast<const Word<S>**>(scratch + round64(ROW_BLOCK * 2 * NR * 8));
    const int64_t tiles = ceil_div(e.segs * e.kc, TILE_WORDS), per_group = ceil_div(e.cols, NR);
    const int64_t most = least(WORD_ROWS, WORD_A / (tiles * WORD_TILE) * 32);
    const int64_t total = grid.rows.size(), blocks = ceil_div(total, most);
    TileRows shape;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t from = grid.rows.begin;
        const Range rows{from + total * i / blocks, from + total * (i + 1) / blocks};
        for (int64_t p = grid.panels.begin; p < grid.panels.end && !grid.team.stopped(); ++p) {
            const int64_t group = p / per_group, col = p % per_group * NR;
            if (p == grid.panels.begin || (col == 0 && e.groups > 1)) tile_rows(e, rows, group, table, a);
            const int cols = int(least(NR, e.cols - col));
            const int64_t lines = p + 1 < grid.panels.end ? ceil_div(TILE_LINES, ceil_div(rows.size(), 32)) : 0;
            const char* ahead = reinterpret_cast<const char*>(e.b + (p + 1) * e.panel);
            for (int64_t r = 0; r < rows.size(); r += 32, ahead += lines * tiles * 64) {
                const int n = int(least(32, rows.size() - r));
                shape.set(n < 16 ? n : 16, n < 16 ? 0 : n - 16);
                const auto run = n > 16 ? multiply_words<S, true> : multiply_words<S, false>;
                run(a + r / 32 * tiles * WORD_TILE, e.b + p * e.panel, tiles, tile, {ahead, lines});
                e.finish(e.epi, e.row0 + rows.begin + r, e.col0 + group * e.cols + col, n, cols, NR, tile);
            }
        }
    }
}

#endif

// ---- pairs --------------------------------------------------------------------------------------

#if defined(MGX_PAIRS)

// A row whose words lie where its odd pairs will: the even pairs before them, then the odd ones. More than LANES words.
// Whole vectors are stored, the last ones first, since what they run over is read before or written later: masked stores are
// slow on many processors.
template <class S> MGX_INLINE void widen_row(int32_t* even, int64_t depth) {
    int32_t* const odd = even + depth;
    const auto first = load<LANES>(odd);
    const auto put_pairs = [&](int64_t k, auto words) {
        const auto pairs = pairs_of<S>(words);
        store(even + k, pairs.even);
        store(odd + k, pairs.odd);
    };
    const int64_t last = (depth - 1) / LANES * LANES;
    put_pairs(last, load<LANES>(odd + last));
    put_pairs(0, first);
    for (int64_t k = LANES; k < last; k += LANES) put_pairs(k, load<LANES>(odd + k));
}

// Rows of A, their segments one behind the other: the even pairs of all words, then the odd ones. Segments that are no whole
// vectors are first put side by side, and widened when all rows are: what was just stored in pieces is slow to load.
template <class S>
void widen_rows(const WordEngine<S>& e, Range rows, int64_t group, const Word<S>** table, Pair* to) {
    const int64_t n = rows.size(), depth = e.segs * e.kc;
    const bool in_place = e.kc % LANES && depth > LANES;
    e.pointers(e.source, rows.begin, {1, n, 0}, table);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t s = 0; s < e.segs; ++s) {
            const auto* x = reinterpret_cast<const int32_t*>(table[s * n + i] + group * e.group_step);
            auto* even = reinterpret_cast<int32_t*>(to + 2 * i * depth + s * e.kc);
            for_lanes(0, e.kc, [&](int64_t k, auto count) {
                const auto words = fetch(x + k, count);
                if (in_place) return store(even + depth + k, words);
                const auto pairs = pairs_of<S>(words);
                store(even + depth + k, pairs.odd);
                put(even + k, pairs.even, count);
            });
        }
    if (in_place)
        for (int64_t i = 0; i < n; ++i) widen_row<S>(reinterpret_cast<int32_t*>(to + 2 * i * depth), depth);
}

// A panel of weights: the even pairs of all its rows, then the odd ones.
inline MGX_NOINLINE void widen_panel(const int32_t* b, int64_t depth, int32_t* to) {
    for (int64_t i = 0; i < depth * NR; i += LANES) {
        const auto pairs = pairs_of<int8_t>(load<LANES>(b + i));
        store(to + i, pairs.even);
        store(to + depth * NR + i, pairs.odd);
    }
}

template <class S> MGX_NOINLINE void multiply_as_pairs(const Grid& grid, const WordEngine<S>& e, char* scratch) {
    auto* tiles = reinterpret_cast<int32_t*>(scratch);
    char* const table = scratch + round64(ROW_BLOCK * 2 * NR * 8);
    auto* a = reinterpret_cast<Pair*>(scratch + fma_scratch(e.segs));
    auto* b = reinterpret_cast<int32_t*>(scratch + fma_scratch(e.segs) + PAIRS_A);
    const int64_t depth = e.segs * e.kc, per_group = ceil_div(e.cols, NR);
    const int64_t most = least(ROW_BLOCK, PAIRS_A / (depth * 8));
    const int64_t total = grid.rows.size(), blocks = ceil_div(total, most);
    const RowSource<Pair> source{a, 2 * depth};
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t from = grid.rows.begin;
        const Range rows{from + total * i / blocks, from + total * (i + 1) / blocks};
        for (int64_t p = grid.panels.begin; p < grid.panels.end && !grid.team.stopped(); ++p) {
            const int64_t group = p / per_group, col = p % per_group * NR;
            if (p == grid.panels.begin || (col == 0 && e.groups > 1))
                widen_rows(e, rows, group, reinterpret_cast<const Word<S>**>(table), a);
            widen_panel(e.b + p * e.panel, depth, b);
            const Engine<int32_t, Pair, int32_t> pairs{
                rows.size(), least(NR, e.cols - col), 1, 1, 2 * depth, 0, row_pointers<Pair>, &source, b, NR, 0, e.finish,
                e.epi, {}, false, e.row0 + rows.begin, e.col0 + group * e.cols + col};
            run_block(pairs, {{0, rows.size()}, {0, 1}, grid.team}, tiles, reinterpret_cast<const Pair**>(table));
        }
    }
}

#endif

template <class S>
MGX_NOINLINE void run_engine(const Team& team, WordEngine<S> e, char* scratch) {
    const int64_t words = e.segs * e.kc;
    e.b += NR;  // past the first row
    e.panel = word_panel(words);
    const Grid grid = divide(team, e.rows, e.groups * ceil_div(e.cols, NR), words);
#if defined(MGX_AMX)
    const bool fits = words > 0 && ceil_div(words, TILE_WORDS) * WORD_TILE <= WORD_A;
    if (fits && grid.rows.size() > 0 && grid.panels.size() > 0 && e.rows >= 8 && amx_ready())
        return amx_words(grid, e, scratch);
#elif defined(MGX_PAIRS)
    const bool fits = words > 0 && words <= PAIRS_DEPTH;
    if (fits && grid.rows.size() >= PAIRS_ROWS && (e.cols > NR || e.kc >= LANES)) return multiply_as_pairs(grid, e, scratch);
#endif
    run_grid(grid, e, scratch);
}

}  // namespace mgx

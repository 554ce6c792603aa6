// Dot of floats with constant weights of 4 bits, which stay so in memory: C = epilogue(A x B).
//
//   int4_gemm(team, Int4Gemm{m, n, k, lda, block}, a, codes, scales, zeros, epi, scratch, fast)
//       A is row-major [m][k], rows lda floats apart. B[k][j] = (code - 8 - zero) * scale of block k / block, column
//       j; zeros may be null: 0.
//       Rows given to the epilogue are 0 .. m-1, columns 0 .. n-1. block divides k.
//       scratch: int4_scratch(k) bytes per thread, 64-byte aligned.
//   codes[panels][k][LANES] bytes: the lower half of byte j is column j of the panel, the upper j + LANES.
//   scales[panels][k / block][NR], zeros likewise, a byte each.
//
// A few rows (a step of decoding) are bound by memory: their products use the codes as they come. For more rows
// some panels at a time become floats in scratch, where the engine takes them.
#pragma once

#include "gemm.hpp"

namespace mgx {

inline constexpr int FEW_ROWS = 4;
// Panels that are floats at a time: those of a tile, more where AMX must pay for splitting A.
inline constexpr int64_t PANELS_AT_ONCE = 8, PANELS_OF_FEW = 2, FEW_FOR_AMX = 64;

struct Int4Gemm {
    int64_t m, n, k, lda, block;
};
struct Int4Weights {  // of one panel
    const uint8_t* codes;
    const float* scales;
    const int8_t* zeros;
};
inline constexpr int64_t int4_scratch(int64_t k) { return engine_scratch(1) + round64(k * PANELS_AT_ONCE * NR * 4); }

// The epilogue of a part of the matrix that begins at this column.
template <class Epi> struct Part {
    const Epi& epi;
    int64_t col;
    template <class V, class... N> MGX_INLINE void operator()(int64_t r, int64_t c, V acc, N... n) const {
        epi(r, col + c, acc, n...);
    }
};

// The two vectors of a panel's row, as floats from 0 to 15.
struct CodePair {
    vec<float> left, right;
};
MGX_INLINE CodePair read_codes(const uint8_t* p) {
    const vec<int32_t> both = widen(load<LANES>(p));
#if defined(__AVX512F__)
    const auto look_up = [digits = iota<float>()](vec<int32_t> v) {  // by the lowest four bits
        vec<float> r;
        asm("vpermps %2, %1, %0" : "=v"(r) : "v"(v), "v"(digits));
        return r;
    };
    return {look_up(both), look_up(both >> 4)};
#else
    return {cast<float>(both & 15), cast<float>(both >> 4)};
#endif
}

// The codes that stand for zero in a block; the blocks' follow each other.
MGX_INLINE CodePair read_zeros(const int8_t*& p) {
    if (!p) return {vec<float>{} + 8.0f, vec<float>{} + 8.0f};
    const CodePair z{cast<float>(load<LANES>(p)) + 8.0f, cast<float>(load<LANES>(p + LANES)) + 8.0f};
    p += NR;
    return z;
}

inline float total_of(const float* p, int64_t n) {
    vec<float> sum{};
    for (; n >= LANES; n -= LANES, p += LANES) sum += load(p);
    return hsum(n ? sum + load_n(p, int(n)) : sum);
}

// ROWS x NR elements of C: sums of a * code over each block, less those of a * zero, times the block's scale.
// totals[ROWS][k / block]: the sums of a over each block. Several sums a column hide the latency of an addition.
template <int ROWS>
MGX_NOINLINE void int4_rows(const float* a, const Int4Gemm& g, Int4Weights w, const float* totals, float* tile) {
    constexpr int SETS = ROWS == 1 ? 4 : ROWS == 2 ? 2 : 1, TILE = ROWS * 2;
    auto [codes, scales, zeros] = w;
    vec<float> sums[TILE];
    unroll<TILE>([&](auto i) { sums[i] = vec<float>{}; });
    for (int64_t k = 0, blocks = g.k / g.block; k < g.k; scales += NR, ++totals) {
        vec<float> acc[SETS * TILE];
        unroll<SETS * TILE>([&](auto i) { acc[i] = vec<float>{}; });
        const auto add = [&](auto set) {
            const CodePair b = read_codes(codes + set * LANES);
            unroll<ROWS>([&](auto r) {
                const vec<float> x = splat<float>(a[r * g.lda + k + set]);
                acc[set * TILE + r * 2] += x * b.left;
                acc[set * TILE + r * 2 + 1] += x * b.right;
            });
        };
        const int64_t end = k + g.block;
        for (; k + SETS <= end; k += SETS, codes += SETS * LANES) {
            __builtin_prefetch(codes + 2048, 0, 3);  // into L2 alone (2) was a tenth slower
            unroll<SETS>(add);
        }
        for (; k < end; ++k, codes += LANES) add(Int<0>{});
        const vec<float> left = load(scales), right = load(scales + LANES);
        const CodePair zero = read_zeros(zeros);
        unroll<(SETS - 1) * TILE>([&](auto i) { acc[i % TILE] += acc[TILE + i]; });
        unroll<ROWS>([&](auto r) {
            const float total = totals[r * blocks];
            sums[r * 2] += (acc[r * 2] - total * zero.left) * left;
            sums[r * 2 + 1] += (acc[r * 2 + 1] - total * zero.right) * right;
        });
    }
    unroll<TILE>([&](auto i) { store(tile + i * LANES, sums[i]); });
}

// One panel as floats, [k][NR].
inline void int4_panel(const Int4Gemm& g, Int4Weights w, float* to) {
    auto [codes, scales, zeros] = w;
    for (int64_t k = 0; k < g.k; scales += NR) {
        const vec<float> left = load(scales), right = load(scales + LANES);
        const CodePair zero = read_zeros(zeros);
        for (const int64_t end = k + g.block; k < end; ++k, codes += LANES, to += NR) {
            const CodePair b = read_codes(codes);
            store(to, (b.left - zero.left) * left);
            store(to + LANES, (b.right - zero.right) * right);
        }
    }
}

template <class Epi>
MGX_NOINLINE void int4_gemm(
    const Team& team, const Int4Gemm& g, const float* a, const uint8_t* codes, const float* scales,
    const int8_t* zeros, const Epi& epi, char* scratch, bool fast = false) {
    const int64_t panels = ceil_div(g.n, NR), code_step = g.k * LANES, scale_step = g.k / g.block * NR;
    const Range mine = team.share(panels);  // of columns: each becomes floats once
    const auto panel = [&](int64_t p) {
        return Int4Weights{codes + p * code_step, scales + p * scale_step, zeros ? zeros + p * scale_step : nullptr};
    };
    if (g.m <= FEW_ROWS) {
        float *tile = reinterpret_cast<float*>(scratch), *totals = reinterpret_cast<float*>(scratch + engine_scratch(1));
        const int64_t blocks = g.k / g.block;
        for (int64_t i = 0; i < g.m * blocks; ++i)
            totals[i] = total_of(a + i / blocks * g.lda + i % blocks * g.block, g.block);
        const auto run = g.m == 1 ? int4_rows<1> : g.m == 2 ? int4_rows<2> : g.m == 3 ? int4_rows<3> : int4_rows<4>;
        for (int64_t p = mine.begin; p < mine.end && g.m > 0; ++p) {
            run(a, g, panel(p), totals, tile);
            finish<float, Epi>(&epi, 0, p * NR, int(g.m), int(least(NR, g.n - p * NR)), NR, tile);
        }
        return;
    }
    float* wide = reinterpret_cast<float*>(scratch + engine_scratch(1));
    const int64_t most = g.m < FEW_FOR_AMX ? PANELS_OF_FEW : PANELS_AT_ONCE;
    for (int64_t p = mine.begin, np; p < mine.end; p += np) {
        np = least(most, mine.end - p);
        for (int64_t j = 0; j < np; ++j) int4_panel(g, panel(p + j), wide + j * g.k * NR);
        const Gemm part{g.m, least(np * NR, g.n - p * NR), g.k, g.lda};
        gemm<float>(team.alone(), part, a, wide, Part<Epi>{epi, p * NR}, scratch, fast);
    }
}

}  // namespace mgx

// Dot of floats with constant weights of 4 bits, which stay so in memory: C = epilogue(A x B).
//
//   int4_gemm(team, Int4Gemm{m, n, k, lda, block}, a, codes, scales, zeros, epi, scratch, fast)
//       A is row-major [m][k], rows lda floats apart. B[k][j] = (code - 8 - zero) * scale of block k / block, column
//       j; zeros may be null: 0.
//       Rows given to the epilogue are 0 .. m-1, columns 0 .. n-1. block divides k.
//       scratch: int4_scratch(k) bytes per thread, 64-byte aligned.
//   codes[panels][k / block][ceil(block / 4)][LANES][4] bytes: four of the depth side by side, the lower half of a byte is
//   column j of the panel, the upper j + LANES. What fills up a block may be any code.
//   scales[panels][k / block][NR], zeros likewise, a byte each.
//
// A few rows (a step of decoding) are bound by memory, if only a code costs little. So they become integers of 24 bits, whose
// step in each block of the depth is the block's largest number over LARGEST. That is as exact as floats are: a number is off
// by half a step at most, 6e-8 of the largest, and the sums of a block are exact. An integer is three digits from -128 to 127,
// so that a code takes three products of bytes. More rows, and those with infinities or NaN, are multiplied as floats: some
// panels at a time become floats in scratch, where the engine takes them.
#pragma once

#include "gemm.hpp"
#include "loops.hpp"
#include "quads.hpp"

namespace mgx {

inline constexpr int FEW_ROWS = 4;
// Panels that are floats at a time: those of a tile, more where AMX must pay for splitting A.
inline constexpr int64_t PANELS_AT_ONCE = 8, PANELS_OF_FEW = 2, FEW_FOR_AMX = 64;

struct Int4Gemm {
    int64_t m, n, k, lda, block;
    int64_t blocks() const { return k / block; }
    int64_t quads() const { return ceil_div(block, 4); }  // of a block
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

struct Pair {  // of the vectors of a panel's row
    vec<float> left, right;
};

// The code in the lowest four bits, as floats.
MGX_INLINE vec<float> code_of(vec<int32_t> v) {
#if defined(__AVX512F__)
    vec<float> r;
    asm("vpermps %2, %1, %0" : "=v"(r) : "v"(v), "v"(iota<float>()));
    return r;
#else
    return cast<float>(v & 15);
#endif
}

// The zeros of a block; the blocks' follow each other.
MGX_INLINE Pair read_zeros(const int8_t*& p) {
    if (!p) return {vec<float>{}, vec<float>{}};
    const Pair z{cast<float>(load<LANES>(p)), cast<float>(load<LANES>(p + LANES))};
    p += NR;
    return z;
}
MGX_INLINE vec<int32_t> read_codes(const uint8_t* p) {
    vec<int32_t> codes = load(reinterpret_cast<const int32_t*>(p));
#if defined(__AVX__)
    asm("" : "+v"(codes));  // once: compilers would load them for each use
#endif
    return codes;
}

// ---- few rows -----------------------------------------------------------------------------------

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)

inline constexpr int DIGITS = 3;
inline constexpr int32_t ALL_128 = 0x808080;    // 128 in each digit
inline constexpr float LARGEST = 0x7f7f70;      // below 127 in each, by more than the roundings of a step
inline constexpr float LEAST_STEP = 0x1p-120f;  // its inverse is a float

// A block of a row; behind it lies a word for each quad of numbers, those of the lowest digits first.
struct Digits {
    int32_t starts[DIGITS];  // -8 * the sum of each digit: what the codes count too much
    float step, total;       // what a lowest digit of 1 stands for; the sum of the numbers
    static int64_t bytes(int64_t quads) { return int64_t(sizeof(Digits)) + DIGITS * quads * 4; }
    int32_t* quads() { return reinterpret_cast<int32_t*>(this + 1); }
    const int32_t* quads() const { return reinterpret_cast<const int32_t*>(this + 1); }
};

// Whether all numbers are finite: others have no digits.
inline bool split_block(const float* x, int64_t n, Digits* to) {
    vec<int32_t> most{};
    for_lanes(0, n, [&](int64_t i, auto count) {
        const vec<int32_t> bits = bit_cast<vec<int32_t>>(fetch(x + i, count)) & 0x7fffffff;  // in the order of the numbers
        most = select(bits > most, bits, most);
    });
    const float largest = bit_cast<float>(hmax(most));
    if (!(largest < __builtin_inff())) return false;
    to->step = largest / LARGEST > LEAST_STEP ? largest / LARGEST : LEAST_STEP;
    const int64_t quads = ceil_div(n, 4);
    auto* bytes = reinterpret_cast<int8_t*>(to->quads());
    if (n % 4)
        for (int d = 1; d <= DIGITS; ++d) to->quads()[d * quads - 1] = 0;
    const float scale = 1 / to->step;
    const vec<float> half = splat<float>(0.5f);
    vec<int32_t> sums[DIGITS]{};
    for_lanes(0, n, [&](int64_t i, auto count) {
        const vec<float> v = fetch(x + i, count) * scale;
        const vec<int32_t> whole = cast<int32_t>(v + select(v < 0.0f, -half, half)) + ALL_128;
        unroll<DIGITS>([&](auto d) {
            const vec<int32_t> digit = ((whole >> 8 * d) & 255) - 128;
            sums[d] += digit;
            put(bytes + 4 * d * quads + i, cast<int8_t>(digit), count);
        });
    });
    float total = 0;
    for (int d = DIGITS; d-- > 0;) {
        const int32_t sum = hsum(sums[d]);
        to->starts[d] = -8 * sum;
        total = total * 256 + float(sum);
    }
    to->total = total * to->step;
    return true;
}

inline bool prepare_rows(const Int4Gemm& g, const float* a, char* to) {
    for (int64_t i = 0, blocks = g.blocks(); i < g.m * blocks; ++i, to += Digits::bytes(g.quads()))
        if (!split_block(a + i / blocks * g.lda + i % blocks * g.block, g.block, reinterpret_cast<Digits*>(to))) return false;
    return true;
}

// Sums of one digit of a row times the codes, for both vectors. Variables, not arrays, which compilers keep in memory
// here.
struct DigitSums {
    vec<int32_t> left, right;
    static MGX_INLINE DigitSums all(int32_t x) { return {splat<int32_t>(x), splat<int32_t>(x)}; }
    MGX_INLINE void add(vec<int32_t> lower, vec<int32_t> upper, int32_t word) {
        const vec<int32_t> x = splat<int32_t>(word);
        left = add_quads(left, lower, x);
        right = add_quads(right, upper, x);
    }
};
// A block of a row times the codes less 8, in steps.
MGX_INLINE Pair sum_codes(const Digits* a, int64_t quads, const uint8_t* codes) {
    const int32_t *low = a->quads(), *middle = low + quads, *high = middle + quads;
    DigitSums x = DigitSums::all(a->starts[0]), y = DigitSums::all(a->starts[1]), z = DigitSums::all(a->starts[2]);
    for (int64_t q = 0; q < quads; ++q, codes += 4 * LANES) {
        __builtin_prefetch(codes + 2048, 0, 3);
        const vec<int32_t> both = read_codes(codes), lower = both & 0x0f0f0f0f, upper = (both >> 4) & 0x0f0f0f0f;
        x.add(lower, upper, low[q]);
        y.add(lower, upper, middle[q]);
        z.add(lower, upper, high[q]);
    }
    const auto whole = [](vec<int32_t> low, vec<int32_t> middle, vec<int32_t> high) {
        return (cast<float>(high) * 256.0f + cast<float>(middle)) * 256.0f + cast<float>(low);
    };
    return {whole(x.left, y.left, z.left), whole(x.right, y.right, z.right)};
}

// m x NR elements of C.
MGX_NOINLINE inline void int4_rows(const Int4Gemm& g, const float*, const char* rows, Int4Weights w, float* tile) {
    auto [codes, scales, zeros] = w;
    const int64_t blocks = g.blocks(), quads = g.quads(), step = Digits::bytes(quads);
    for (int64_t i = 0; i < g.m * NR; i += LANES) store(tile + i, vec<float>{});
    for (int64_t b = 0; b < blocks; ++b, rows += step, codes += quads * 4 * LANES, scales += NR) {
        const vec<float> left = load(scales), right = load(scales + LANES);
        const bool with_zeros = zeros;
        const Pair zero = read_zeros(zeros);
        for (int64_t r = 0; r < g.m; ++r) {
            const auto* a = reinterpret_cast<const Digits*>(rows + r * blocks * step);
            Pair sums = sum_codes(a, quads, codes);
            sums.left *= a->step, sums.right *= a->step;
            if (with_zeros) sums.left -= a->total * zero.left, sums.right -= a->total * zero.right;
            float* to = tile + r * NR;
            store(to, load(to) + sums.left * left);
            store(to + LANES, load(to + LANES) + sums.right * right);
        }
    }
}

#else

// Of each row the sums of its blocks. Whether all are finite.
inline bool prepare_rows(const Int4Gemm& g, const float* a, char* to) {
    auto* totals = reinterpret_cast<float*>(to);
    bool finite = true;
    for (int64_t i = 0, blocks = g.blocks(); i < g.m * blocks; ++i) {
        const float* x = a + i / blocks * g.lda + i % blocks * g.block;
        vec<float> sum{};
        for_lanes(0, g.block, [&](int64_t k, auto count) { sum += fetch(x + k, count); });
        totals[i] = hsum(sum);
        finite &= totals[i] - totals[i] == 0;
    }
    return finite;
}

// ROWS x NR elements of C: sums of a * code over each block, less those of a * zero, times the block's scale.
// Several sums a column hide the latency of an addition.
template <int ROWS>
MGX_NOINLINE void some_rows(const Int4Gemm& g, const float* a, const float* totals, Int4Weights w, float* tile) {
    constexpr int SETS = ROWS == 1 ? 4 : ROWS == 2 ? 2 : 1, TILE = ROWS * 2;
    auto [codes, scales, zeros] = w;
    vec<float> sums[TILE];
    unroll<TILE>([&](auto i) { sums[i] = vec<float>{}; });
    for (int64_t k = 0, blocks = g.blocks(); k < g.k; scales += NR, ++totals) {
        vec<float> acc[SETS * TILE];
        unroll<SETS * TILE>([&](auto i) { acc[i] = vec<float>{}; });
        const auto add = [&](auto set, int64_t at, vec<int32_t> both) {
            const vec<float> left = code_of(both), right = code_of(both >> 4);
            unroll<ROWS>([&](auto r) {
                const vec<float> x = splat<float>(a[r * g.lda + at]);
                acc[set * TILE + r * 2] += x * left;
                acc[set * TILE + r * 2 + 1] += x * right;
            });
        };
        const int64_t end = k + g.block;
        for (; k + 4 <= end; k += 4, codes += 4 * LANES) {
            __builtin_prefetch(codes + 2048, 0, 3);  // into L2 alone (2) was a tenth slower
            const vec<int32_t> both = read_codes(codes);
            unroll<4>([&](auto i) { add(Int<i % SETS>{}, k + i, both >> 8 * i); });
        }
        if (k < end) {
            vec<int32_t> both = read_codes(codes);
            codes += 4 * LANES;
            for (; k < end; ++k, both >>= 8) add(Int<0>{}, k, both);
        }
        const vec<float> left = load(scales), right = load(scales + LANES);
        Pair zero = read_zeros(zeros);
        zero.left += 8.0f, zero.right += 8.0f;
        unroll<(SETS - 1) * TILE>([&](auto i) { acc[i % TILE] += acc[TILE + i]; });
        unroll<ROWS>([&](auto r) {
            const float total = totals[r * blocks];
            sums[r * 2] += (acc[r * 2] - total * zero.left) * left;
            sums[r * 2 + 1] += (acc[r * 2 + 1] - total * zero.right) * right;
        });
    }
    unroll<TILE>([&](auto i) { store(tile + i * LANES, sums[i]); });
}
inline void int4_rows(const Int4Gemm& g, const float* a, const char* totals, Int4Weights w, float* tile) {
    const auto run = g.m == 1 ? some_rows<1> : g.m == 2 ? some_rows<2> : g.m == 3 ? some_rows<3> : some_rows<4>;
    run(g, a, reinterpret_cast<const float*>(totals), w, tile);
}

#endif

// ---- many rows ----------------------------------------------------------------------------------

// One panel as floats, [k][NR].
inline void int4_panel(const Int4Gemm& g, Int4Weights w, float* to) {
    auto [codes, scales, zeros] = w;
    for (int64_t k = 0; k < g.k; scales += NR) {
        const vec<float> left = load(scales), right = load(scales + LANES);
        const Pair zero = read_zeros(zeros);
        const vec<float> zero_left = zero.left + 8.0f, zero_right = zero.right + 8.0f;
        for (const int64_t end = k + g.block; k < end; codes += 4 * LANES) {
            vec<int32_t> both = read_codes(codes);
            for (const int64_t last = least(k + 4, end); k < last; ++k, to += NR, both >>= 8) {
                store(to, (code_of(both) - zero_left) * left);
                store(to + LANES, (code_of(both >> 4) - zero_right) * right);
            }
        }
    }
}

template <class Epi>
MGX_NOINLINE void int4_gemm(
    const Team& team, const Int4Gemm& g, const float* a, const uint8_t* codes, const float* scales,
    const int8_t* zeros, const Epi& epi, char* scratch, bool fast = false) {
    const int64_t panels = ceil_div(g.n, NR), scale_step = g.blocks() * NR, code_step = g.blocks() * g.quads() * 4 * LANES;
    const Range mine = team.share(panels);  // of columns: each becomes floats once
    const auto panel = [&](int64_t p) {
        return Int4Weights{codes + p * code_step, scales + p * scale_step, zeros ? zeros + p * scale_step : nullptr};
    };
    char* const prepared = scratch + engine_scratch(1);
    if (g.m <= FEW_ROWS && prepare_rows(g, a, prepared)) {
        float* tile = reinterpret_cast<float*>(scratch);
        for (int64_t p = mine.begin; p < mine.end && g.m > 0; ++p) {
            int4_rows(g, a, prepared, panel(p), tile);
            finish<float, Epi>(&epi, 0, p * NR, int(g.m), int(least(NR, g.n - p * NR)), NR, tile);
        }
        return;
    }
    float* wide = reinterpret_cast<float*>(prepared);
    const int64_t most = g.m < FEW_FOR_AMX ? PANELS_OF_FEW : PANELS_AT_ONCE;
    for (int64_t p = mine.begin, np; p < mine.end; p += np) {
        np = least(most, mine.end - p);
        for (int64_t j = 0; j < np; ++j) int4_panel(g, panel(p + j), wide + j * g.k * NR);
        const Gemm part{g.m, least(np * NR, g.n - p * NR), g.k, g.lda};
        gemm<float>(team.alone(), part, a, wide, Part<Epi>{epi, p * NR}, scratch, fast);
    }
}

}  // namespace mgx

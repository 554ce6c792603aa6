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
// A few rows (a step of decoding) are bound by memory, if only a code costs little. Where the processor sums products of bytes
// (VNNI, AVX2), their numbers become integers of 24 bits, whose step in each block of the depth is the block's largest over
// LARGEST. That is as exact as floats are: a number is off by half a step at most, 6e-8 of the largest, and the sums of a
// block are exact. An integer is three digits from -128 to 127: 64 bytes of codes take six products. Elsewhere codes become
// floats in registers. More rows, and those with infinities or NaN, whose sums would be NaN in every column, are multiplied
// as floats: some panels at a time become floats in scratch, where the engine takes them.
#pragma once

#include "gemm.hpp"
#include "loops.hpp"
#include "quads.hpp"

namespace mgx {

inline constexpr int FEW_ROWS = 4;
// Bytes of codes that are fetched ahead, over borders of pages, where processors stop. On two cores of a Zen 4, which then read
// as fast as memory gives, 512, 2048 and 4096 were 10, 6 and 2 % slower.
inline constexpr int64_t AHEAD = 6144;
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
    void to_next_block(int64_t quads) {
        codes += quads * 4 * LANES, scales += NR;
        if (zeros) zeros += NR;
    }
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

// The zeros of a block.
MGX_INLINE Pair read_zeros(const int8_t* p) {
    if (!p) return {vec<float>{}, vec<float>{}};
    return {cast<float>(load<LANES>(p)), cast<float>(load<LANES>(p + LANES))};
}
MGX_INLINE vec<int32_t> read_codes(const uint8_t* p) {
    return in_register(load(reinterpret_cast<const int32_t*>(p)));
}

// ---- few rows -----------------------------------------------------------------------------------

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || (defined(MGX_PAIRS) && defined(__AVX2__))

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

// Adds the products of codes and digits, to a sum of 32 bits in each lane, or to two of 16 bits: these hold eight quads, as
// none is more than 2 * 15 * 128.
MGX_INLINE void add_codes(vec<int32_t>& sums, vec<int32_t> codes, vec<int32_t> digits) {
#if defined(MGX_PAIRS)
    vec<int32_t> products;
    asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sums), "=&v"(products) : "v"(codes), "v"(digits));
#else
    sums = add_quads(sums, codes, digits);
#endif
}

// Sums of a row's digits times the codes of a panel, in steps. Variables, not arrays, which compilers keep in memory here.
struct CodeSums {
    vec<int32_t> low_left{}, low_right{}, middle_left{}, middle_right{}, high_left{}, high_right{};
    CodeSums() = default;
    explicit MGX_INLINE CodeSums(const Digits* a)
        : low_left(splat<int32_t>(a->starts[0])), low_right(low_left), middle_left(splat<int32_t>(a->starts[1])),
          middle_right(middle_left), high_left(splat<int32_t>(a->starts[2])), high_right(high_left) {}
    MGX_INLINE void add(const uint8_t* codes, int32_t low_word, int32_t middle_word, int32_t high_word) {
        __builtin_prefetch(codes + AHEAD, 0, 3);
        const vec<int32_t> low = splat<int32_t>(low_word), middle = splat<int32_t>(middle_word);
        const vec<int32_t> high = splat<int32_t>(high_word);
        const vec<int32_t> both = read_codes(codes), left = both & 0x0f0f0f0f, right = (both >> 4) & 0x0f0f0f0f;
        add_codes(low_left, left, low), add_codes(low_right, right, low);
        add_codes(middle_left, left, middle), add_codes(middle_right, right, middle);
        add_codes(high_left, left, high), add_codes(high_right, right, high);
    }
    MGX_INLINE void add_block(const uint8_t* codes, const Digits* a, int64_t quads) {
        const int32_t *low = a->quads(), *middle = low + quads, *high = middle + quads;
#if defined(MGX_PAIRS)
        for (int64_t q = 0; q < quads;) {
            CodeSums some;
#pragma GCC unroll 1
            for (const int64_t end = least(q + 8, quads); q < end; ++q, codes += 4 * LANES)
                some.add(codes, low[q], middle[q], high[q]);
            add_wide(low_left, some.low_left), add_wide(low_right, some.low_right);
            add_wide(middle_left, some.middle_left), add_wide(middle_right, some.middle_right);
            add_wide(high_left, some.high_left), add_wide(high_right, some.high_right);
        }
    }
    static MGX_INLINE void add_wide(vec<int32_t>& to, vec<int32_t> pairs) {
        to += multiply_pairs(pairs, splat<int32_t>(0x00010001));
    }
#else
        for (int64_t q = 0; q < quads; ++q) add(codes + q * 4 * LANES, low[q], middle[q], high[q]);
    }
#endif
    static MGX_INLINE vec<float> whole(vec<int32_t> low, vec<int32_t> middle, vec<int32_t> high) {
        return (cast<float>(high) * 256.0f + cast<float>(middle)) * 256.0f + cast<float>(low);
    }
    // Adds them to a row of C. `zeros` as of the block, or null.
    MGX_INLINE void finish(const Digits* a, const float* scales, const int8_t* zeros, float* to) const {
        vec<float> left = whole(low_left, middle_left, high_left) * a->step;
        vec<float> right = whole(low_right, middle_right, high_right) * a->step;
        if (zeros) {
            const Pair zero = read_zeros(zeros);
            left -= a->total * zero.left, right -= a->total * zero.right;
        }
        store(to, load(to) + left * load(scales));
        store(to + LANES, load(to + LANES) + right * load(scales + LANES));
    }
};

// m x NR elements of C.
MGX_NOINLINE inline void int4_rows(const Int4Gemm& g, const float*, const char* rows, Int4Weights w, float* tile) {
    const int64_t blocks = g.blocks(), quads = g.quads(), step = Digits::bytes(quads);
    for (int64_t i = 0; i < g.m * NR; i += LANES) store(tile + i, vec<float>{});
    for (int64_t b = 0; b < blocks; ++b, rows += step, w.to_next_block(quads))
        for (int64_t r = 0; r < g.m; ++r) {
            const auto* a = reinterpret_cast<const Digits*>(rows + r * blocks * step);
            CodeSums sums(a);
            sums.add_block(w.codes, a, quads);
            sums.finish(a, w.scales, w.zeros, tile + r * NR);
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
    vec<float> sums[TILE];
    unroll<TILE>([&](auto i) { sums[i] = vec<float>{}; });
    for (int64_t k = 0, blocks = g.blocks(); k < g.k; w.to_next_block(g.quads()), ++totals) {
        const uint8_t* codes = w.codes;
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
            __builtin_prefetch(codes + AHEAD, 0, 3);
            const vec<int32_t> both = read_codes(codes);
            unroll<4>([&](auto i) { add(Int<i % SETS>{}, k + i, both >> 8 * i); });
        }
        if (k < end) {
            vec<int32_t> both = read_codes(codes);
            for (; k < end; ++k, both >>= 8) add(Int<0>{}, k, both);
        }
        const vec<float> left = load(w.scales), right = load(w.scales + LANES);
        Pair zero = read_zeros(w.zeros);
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
    for (int64_t k = 0; k < g.k; w.to_next_block(g.quads())) {
        const uint8_t* codes = w.codes;
        const vec<float> left = load(w.scales), right = load(w.scales + LANES);
        const Pair zero = read_zeros(w.zeros);
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

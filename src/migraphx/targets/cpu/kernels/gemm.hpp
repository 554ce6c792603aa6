// Dot: C = epilogue(A x B), on the engine that convolution shares.
//
// ---- what to call -------------------------------------------------------------------------------
//   template <class T, class TA, class TB, class Epi>
//   void gemm(const Team&, const Gemm& {m, n, k, lda},
//             const TA* a, const TB* packed_b, const Epi&, char* scratch, bool fast = false, int64_t block = ROW_BLOCK);
//       A is row-major [m][k], rows lda elements apart. B is packed ahead, see below. Rows given to the
//       epilogue are 0 .. m-1, columns 0 .. n-1. scratch: GEMM_SCRATCH bytes per thread, 64-byte aligned.
//       fast: float products may be taken on AMX (amx.hpp) where that is quicker: as exact, but numbers below
//       1e-33 lose bits and products below 1e-38 count as zero; false: multiply-adds everywhere.
//       block: rows that multiply-adds work on together, 1 to ROW_BLOCK.
//
//   template <class T, class TA, class TB, class Epi>
//   void batched_dot(const Team&, const BatchedDot&, const TA* a, const TB* b, const Epi&, char* scratch);
//       Both operands as they lie, any strides; epilogue row = batch * m + row (batch flattened over its
//       four axes). scratch: dot_scratch(d, sizeof(TA), sizeof(TB)) bytes per thread, 64-byte aligned.
//
//   template <class T, class TA, class TB, class Epi>
//   void picked_gemm(const Team&, const PickedGemm&, const TA* a, const TB* packed_b, const int64_t* picks,
//                    const Epi&, char* scratch, bool fast = false);
//       A dot for each batch of A, `step` elements apart, with the matrix picks[batch] of B, of `size` elements packed;
//       epilogue row = batch * m + row. For a layer of experts, of which a few are read.
//
//   T is the type of the accumulator and of the epilogue's vectors: float (TA, TB in float, half, bf16),
//   double (double) or int32_t (TA, TB in int8_t, uint8_t, int32_t). The epilogue gets vec<T, LANES>. T is
//   the first template argument, the others are deduced: gemm<float>(team, {m, n, k, lda}, a, b, epi, s).
//
// ---- packed B -----------------------------------------------------------------------------------
//   NR = 2 * LANES columns a panel: 32 on AVX-512, 16 on AVX2, 8 on NEON and SSE; the same for every type.
//   packed[ceil(n / NR)][k][NR], columns past n are zero. In NumPy, for b of shape (k, n):
//       p = -(-n // NR); w = np.zeros((k, p * NR), b.dtype); w[:, :n] = b
//       packed = np.ascontiguousarray(w.reshape(k, p, NR).transpose(1, 0, 2))
//   packed_size(n, k) = ceil(n / NR) * k * NR elements. Align the buffer to 64 bytes.
//
// ---- how it works -------------------------------------------------------------------------------
// engine.hpp: multiply-adds on vector registers. amx.hpp: float products on AMX.
#pragma once

#include "amx.hpp"
#include "engine.hpp"
#include "transpose.hpp"

namespace mgx {

// Bytes per thread, for a filter of `segs` segments.
inline constexpr int64_t engine_scratch(int64_t segs) {
#if defined(MGX_AMX)
    return fma_scratch(segs) + AMX_SCRATCH;
#elif defined(MGX_PAIRS)
    return fma_scratch(segs) + PAIRS_A + PAIRS_B;
#else
    return fma_scratch(segs);
#endif
}

inline constexpr int64_t NEAR = 1 << 17;  // bytes of B that the second-level cache still holds behind a block

// The rows x panels of one thread, block by block. Scratch: engine_scratch(segs).
template <class T, class TA, class TB>
MGX_NOINLINE void run_grid(const Grid& grid, const Engine<T, TA, TB>& e, char* scratch) {
    T* tiles = reinterpret_cast<T*>(scratch);
    const TA** table = reinterpret_cast<const TA**>(scratch + round64(ROW_BLOCK * 2 * NR * 8));
    const int64_t total = grid.panels.size() ? grid.rows.size() : 0, blocks = ceil_div(total, e.block);
    const int64_t bytes = grid.panels.size() * e.segs * e.kc * NR * int64_t(sizeof(TB));
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t first = grid.rows.begin;
        const Range rows{first + total * i / blocks, first + total * (i + 1) / blocks};
        run_block(e, {rows, grid.panels, grid.team}, tiles, table, i > 0 && bytes <= NEAR);
    }
}

template <class T, class TA, class TB>
MGX_NOINLINE void run_engine(const Team& team, const Engine<T, TA, TB>& e, char* scratch) {
    const int64_t panels = e.groups * ceil_div(e.cols, NR), depth = e.segs * e.kc;
#if defined(MGX_AMX)
    if constexpr (same_v<T, float> && same_v<TA, TB> && (same_v<TA, float> || same_v<TA, half>)) {
        const Team thread = team.whole();  // what decides is its share: parts that lie side by side keep rows
        const Grid share = divide(thread, e.rows, panels, depth);
        if (amx_suits(share, e)) return amx_grid(part_of<TA>(share, team, depth), e, scratch);
    }
#endif
    run_grid(divide(team, e.rows, panels, depth), e, scratch);
}

// ---- dot with packed B --------------------------------------------------------------------------

struct Gemm {
    int64_t m, n, k, lda;
};
inline constexpr int64_t GEMM_SCRATCH = engine_scratch(1);

template <class TA> struct RowSource {
    const TA* a;
    int64_t lda;
};
template <class TA> void row_pointers(const void* source, int64_t row, const Tiles& tiles, const TA** table) {
    const auto& s = *static_cast<const RowSource<TA>*>(source);
    const int64_t rows = tiles.count * tiles.rows + tiles.longer;
    for (int64_t r = 0; r < rows; ++r) table[r] = s.a + (row + r) * s.lda;
}

template <class T, class TA, class TB, class Epi>
inline void gemm(
    const Team& team, const Gemm& g, const TA* a, const TB* b, const Epi& epi, char* scratch,
    bool fast = false, int64_t block = ROW_BLOCK) {
    const RowSource<TA> source{a, g.lda};
    const int64_t panel = g.k * NR;
    const Engine<T, TA, TB> e{
        g.m, g.n, 1, 1, g.k, 0, row_pointers<TA>, &source, b, NR, panel, finish<T, Epi>, &epi, strips<T, TA, TB, Epi>(), fast,
        0, 0, block, a};
    run_engine(team, e, scratch);
}

// ---- dots with packed matrices that are picked --------------------------------------------------

struct PickedGemm {
    int64_t batches, m, n, k, lda, step, size;
};

// The epilogue of a dot whose rows begin at this one.
template <class Epi> struct Below {
    const Epi& epi;
    int64_t row;
    template <class V, class... N> MGX_INLINE void operator()(int64_t r, int64_t c, V acc, N... n) const {
        epi(row + r, c, acc, n...);
    }
};

template <class T, class TA, class TB, class Epi>
inline void picked_gemm(
    const Team& team, const PickedGemm& g, const TA* a, const TB* b, const int64_t* picks, const Epi& epi,
    char* scratch, bool fast = false) {
    const Gemm one{g.m, g.n, g.k, g.lda};
    for (int64_t i = 0; i < g.batches && !team.stopped(); ++i)
        gemm<T>(team, one, a + i * g.step, b + picks[i] * g.size, Below<Epi>{epi, i * g.m}, scratch, fast);
}

// ---- batched dot, both operands as they lie -----------------------------------------------------

// Strides are in elements and may be zero (broadcast) or negative. Batch lens are padded with leading ones.
struct BatchedDot {
    int64_t m, n, k;
    int64_t batch[4];
    int64_t a_batch[4], a_row, a_k;
    int64_t b_batch[4], b_k, b_col;
};

// Bytes per thread: the engine's, two panels of B, and a block of A where its depth is not contiguous.
inline constexpr int64_t dot_scratch(const BatchedDot& d, int64_t size_a, int64_t size_b) {
    const int64_t block = d.a_k == 1 ? 0 : round64(d.k * ROW_BLOCK * size_a);
    return engine_scratch(1) + round64(d.k * 2 * NR * size_b) + block;
}

// dst[r * ld + c] = src[r * row + c * col]
template <class T>
MGX_NOINLINE void gather_2d(
    T* dst, int64_t ld, const T* src, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    int64_t done = 0;  // columns that the fast path below has copied in every row of its squares
    if (col == 1) {
        for (int64_t r = 0; r < rows; ++r) __builtin_memcpy(dst + r * ld, src + r * row, cols * sizeof(T));
        return;
    }
    const int64_t squares = sizeof(T) == 4 && row == 1 ? rows / LANES * LANES : 0;
    if constexpr (sizeof(T) == 4)
        for (; squares && done + LANES <= cols; done += LANES)
            for (int64_t r = 0; r < squares; r += LANES)
                transpose_square(src + r + done * col, col, dst + r * ld + done, ld);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = r < squares ? done : 0; c < cols; ++c) dst[r * ld + c] = src[r * row + c * col];
}

// The rows x panels of one thread in one batch.
template <class T, class TA, class TB>
MGX_NOINLINE void dot_one(
    const BatchedDot& d, const Grid& grid, const TA* a, const TB* b, Engine<T, TA, TB> e, char* scratch) {
    TB* packed = reinterpret_cast<TB*>(scratch + engine_scratch(1));
    TA* block = reinterpret_cast<TA*>(scratch + engine_scratch(1) + round64(d.k * 2 * NR * sizeof(TB)));
    const int64_t row0 = e.row0, blocks = d.a_k == 1 ? 1 : ceil_div(grid.rows.size(), ROW_BLOCK);
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t first = grid.rows.begin + grid.rows.size() * i / blocks;
        const Range rows{0, grid.rows.begin + grid.rows.size() * (i + 1) / blocks - first};
        RowSource<TA> source{a + first * d.a_row, d.a_row};
        if (d.a_k != 1) {
            gather_2d(block, d.k, source.a, d.a_row, d.a_k, rows.size(), d.k);
            source = {block, d.k};
        }
        e.source = &source;
        e.row0 = row0 + first;
        for (int64_t p = grid.panels.begin, np; p < grid.panels.end && !grid.team.stopped(); p += np) {
            np = least(NP<T>, grid.panels.end - p);
            const int64_t col = p * NR, width = np * NR, cols = least(width, d.n - col);
            e.col0 = col;
            e.cols = cols;
            const bool near = rows.size() <= IN_PLACE_ROWS || (d.b_k >= 0 && d.b_k <= IN_PLACE_STEP);
            if (d.b_col == 1 && cols == width && near) {
                e.b = b + col, e.step = d.b_k, e.panel = NR;
            } else {
                for (int64_t j = 0; j < np; ++j) {
                    const int64_t c = least(NR, cols - j * NR);
                    TB* panel = packed + j * d.k * NR;
                    if (c < NR) __builtin_memset(static_cast<void*>(panel), 0, d.k * NR * sizeof(TB));
                    gather_2d(panel, NR, b + (col + j * NR) * d.b_col, d.b_k, d.b_col, d.k, c);
                }
                e.b = packed, e.step = NR, e.panel = d.k * NR;
            }
            run_grid({rows, {0, np}, grid.team}, e, scratch);
        }
    }
}

// Scratch: dot_scratch(d, sizeof(TA), sizeof(TB)).
template <class T, class TA, class TB, class Epi>
MGX_NOINLINE void batched_dot(
    const Team& team, const BatchedDot& d, const TA* a, const TB* b, const Epi& epi, char* scratch) {
    const int64_t panels = ceil_div(d.n, NR), batches = d.batch[0] * d.batch[1] * d.batch[2] * d.batch[3];
    const bool even = batches % team.threads() == 0 || batches >= 4 * team.threads();
    const bool whole = even && batches >= team.size;  // threads take whole batches, and each part has one
    const Range mine = whole ? team.share(batches) : Range{0, batches};
    const Grid grid = whole ? Grid{{0, d.m}, {0, panels}, team} : divide(team, d.m, panels, d.k);
    Engine<T, TA, TB> e{
        d.m, d.n, 1, 1, d.k, 0, row_pointers<TA>, nullptr, nullptr, NR, 0, finish<T, Epi>, &epi, strips<T, TA, TB, Epi>()};
    for (int64_t i = mine.begin; i < mine.end && !team.stopped(); ++i) {
        const TA* ai = a;
        const TB* bi = b;
        for (int64_t axis = 3, rest = i; axis >= 0; rest /= d.batch[axis], --axis) {
            ai += rest % d.batch[axis] * d.a_batch[axis];
            bi += rest % d.batch[axis] * d.b_batch[axis];
        }
        e.row0 = i * d.m;
        dot_one(d, grid, ai, bi, e, scratch);
    }
}

}  // namespace mgx

// Products of float or half matrices on AMX: every number is split into bf16 parts, whose products are summed.
//
//   x = h + m + l exactly (8 bits each, rounded to nearest), and a * b is taken as
//   hl + hm + mm + mh + hh + lh; what is left out (ml, lm, ll) is below 2^-25 |a b|, half an ulp of float.
//   Products are exact in float and TDPBF16PS adds 32 of them before it touches the accumulator, so that sums
//   are no less exact than those of a chain of multiply-adds (measured: the largest error is half of theirs).
//   TDPBF16PS flushes denormals: products below 2^-126 (1.2e-38) count as zero, and every operand is read
//   with an absolute error of at most 2^-126, which shows only where operands are below 2^-110 (1e-33). A NaN
//   or infinity, and a number that rounds to infinity in bf16, make elements of the tile that are not finite:
//   such a tile is computed once more by multiply-adds.
//   A half is h + m exactly; hm + mh + hh leaves out what is below 2^-18 |a b|, which no half shows.
//
//   MGX_AMX        defined where the compiler may use AMX (vec.hpp); the rest of this file only then
//   amx_ready()    whether this processor has it and the kernel lets this process use it (asked once)
//   TileRows(a, b) configures tiles for products of a + b rows (a <= 16, b <= 16); releases them at the end
//   split_side_by_side, PanelSplit  split rows of A and panels of B into chunks of CHUNK k:
//                  A [chunk][h m l][upper, lower 16 rows][row][16 pairs k, k + 16]
//                  B [chunk][h m l][left, right 16 columns][16 pairs k, k + 16][column]
//                  (half: h m)
//   multiply       32 x 32 elements of C over some chunks
//   finite         whether they are
#pragma once

#include "engine.hpp"

#if defined(MGX_AMX)

#include <unistd.h>

namespace mgx {

inline constexpr int64_t CHUNK = 32;             // depth of one tile
inline constexpr int64_t PART = 2 * 1024;        // bytes of two tiles
template <class S> inline constexpr int PARTS = same_v<S, half> ? 2 : 3;
template <class S> inline constexpr int64_t CHUNK_BYTES = PARTS<S> * PART;

// ---- permission ---------------------------------------------------------------------------------

inline int amx_state = 0;  // 0: not asked yet, 1: granted, 2: denied or absent (tests set it)

inline bool amx_ask() {
    uint32_t a = 7, b, c = 0, d;
    asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    const bool has = (d >> 22 & 1) && (d >> 24 & 1) && (d >> 25 & 1);  // bf16 products, tiles, bytes' products
    constexpr long ARCH_PRCTL = 158, REQUEST = 0x1023, TILE_DATA = 18;
    return has && syscall(ARCH_PRCTL, REQUEST, TILE_DATA) == 0;
}
inline bool amx_ready() {
    int state = __atomic_load_n(&amx_state, __ATOMIC_RELAXED);
    if (state == 0) {
        state = amx_ask() ? 1 : 2;
        __atomic_store_n(&amx_state, state, __ATOMIC_RELAXED);
    }
    return state == 1;
}

// ---- tiles --------------------------------------------------------------------------------------

// tmm0 .. 3: C (upper left, upper right, lower left, lower right), tmm4, 5: A (upper, lower), tmm6, 7: B.
struct TileRows {
    int upper = 0, lower = 0;

    void set(int a, int b) {
        if (a == upper && b == lower) return;
        upper = a, lower = b;
        struct {
            uint8_t palette = 1, start = 0, unused[14] = {};
            uint16_t bytes[16] = {};
            uint8_t rows[16] = {};
        } shape;
        const int rows[8] = {a, a, b ? b : 1, b ? b : 1, a, b ? b : 1, 16, 16};
        for (int i = 0; i < 8; ++i) shape.bytes[i] = 64, shape.rows[i] = uint8_t(rows[i]);
        asm volatile("ldtilecfg %0" : : "m"(shape));
    }
    ~TileRows() { asm volatile("tilerelease" : : : "memory"); }
};

// ---- splitting ----------------------------------------------------------------------------------

// 16 pairs (u, v) as N bf16 parts, PART bytes apart.
template <int N> MGX_INLINE void split_pairs(vec<float> u, vec<float> v, char* to) {
    using U = vec<uint32_t>;
    constexpr uint32_t HIGH = 0xffff0000u;
    for (int part = 0; part < N - 1; ++part) {
        const U a = (bit_cast<U>(u) + 0x8000u) & HIGH, b = (bit_cast<U>(v) + 0x8000u) & HIGH;
        store(reinterpret_cast<uint32_t*>(to + part * PART), (a >> 16) | b);
        u -= bit_cast<vec<float>>(a);
        v -= bit_cast<vec<float>>(b);
    }
    store(reinterpret_cast<uint32_t*>(to + (N - 1) * PART), (bit_cast<U>(u) >> 16) | (bit_cast<U>(v) & HIGH));
}

// `depth` elements of some rows, from k on and padded with zeros to whole chunks; `to` is the first row's place in the first
// chunk. Rows go side by side, chunk by chunk: where a row goes alone every store is in another page, and of 24 chunks
// splitting takes half as long again.
inline constexpr int64_t SIDE_BY_SIDE = 8;
template <class S>
inline void split_side_by_side(const S* const* rows, int64_t count, int64_t k, int64_t depth, char* to) {
    constexpr int64_t AHEAD = 4 * CHUNK;
    for (; depth >= CHUNK; depth -= CHUNK, k += CHUNK, to += CHUNK_BYTES<S>)
        for (int64_t r = 0; r < count; ++r) {
            const S* x = rows[r] + k;
            __builtin_prefetch(x + AHEAD, 0, 3);
            __builtin_prefetch(x + AHEAD + 16, 0, 3);
            split_pairs<PARTS<S>>(load_f(x), load_f(x + 16), to + r * 64);
        }
    if (depth <= 0) return;
    const int n = int(depth);
    for (int64_t r = 0; r < count; ++r) {
        const S* x = rows[r] + k;
        split_pairs<PARTS<S>>(load_f_n(x, n < 16 ? n : 16), load_f_n(x + 16, n > 16 ? n - 16 : 0), to + r * 64);
    }
}

// A panel of B being split a little at a time, between products. `ahead`: what is prefetched meanwhile.
template <class S> struct PanelSplit {
    const S *from, *ahead;
    int64_t step, depth;  // elements between rows, rows
    char* to;
    int64_t done = 0, all = (depth + CHUNK - 1) / CHUNK * CHUNK;  // pairs of 16 columns
    int64_t rate = 0, due = 0;  // pairs to split after a product, and left from those before, in 1024ths

    // What is left, as evenly as it divides: where it comes in a lump, the tiles wait for it.
    void spread(int64_t products) { rate = ceil_div((all - done) * 1024, products); }
    MGX_INLINE void some() {
        due += rate;
        pairs(due >> 10);
        due &= 1023;
    }
    MGX_INLINE void pairs(int64_t number) {
        for (const int64_t end = done + number < all ? done + number : all; done < end; ++done) {
            const int64_t right = done & 1, row = done >> 1 & 15, k = (done & ~int64_t(31)) + row;
            const int64_t near = k * step + right * 16, far = near + 16 * step;
            __builtin_prefetch(ahead + near, 0, 2);
            __builtin_prefetch(ahead + far, 0, 2);
            const vec<float> zero{};
            char* at = to + (k >> 5) * CHUNK_BYTES<S> + right * 1024 + row * 64;
            split_pairs<PARTS<S>>(
                k < depth ? load_f(from + near) : zero, k + 16 < depth ? load_f(from + far) : zero, at);
        }
    }
};

// ---- products -----------------------------------------------------------------------------------

#define MGX_LOAD(TILE, AT) "tileloadd " AT "(%0,%1,1), %%tmm" TILE "\n\t"
#define MGX_ADD(C, A, B) "tdpbf16ps %%tmm" B ", %%tmm" A ", %%tmm" C "\n\t"
#define MGX_ASM(TEXT, P) asm volatile(TEXT : : "r"(P), "r"(int64_t(64)) : "memory")

template <bool LOWER> MGX_INLINE void load_a(const char* p) {
    MGX_ASM(MGX_LOAD("4", "0"), p);
    if constexpr (LOWER) MGX_ASM(MGX_LOAD("5", "1024"), p);
}
MGX_INLINE void load_b(const char* p) { MGX_ASM(MGX_LOAD("6", "0") MGX_LOAD("7", "1024"), p); }
template <bool LOWER> MGX_INLINE void add_products() {
    asm volatile(MGX_ADD("0", "4", "6") MGX_ADD("1", "4", "7") : : : "memory");
    if constexpr (LOWER) asm volatile(MGX_ADD("2", "5", "6") MGX_ADD("3", "5", "7") : : : "memory");
}
#undef MGX_LOAD
#undef MGX_ADD
#undef MGX_ASM

// C (32 x 32, rows 128 bytes apart) = or += A x B over `chunks`; some pairs of `other` are split after
// every product of parts, which costs little while the tiles are busy. Tiles are configured by the caller.
template <class S> inline constexpr int64_t PRODUCTS = same_v<S, half> ? 3 : 6;  // of parts, in a chunk
template <class S, bool LOWER>
MGX_NOINLINE void multiply(
    const char* a, const char* b, int64_t chunks, float* c, bool accumulate, PanelSplit<S>& split) {
    const int64_t row = 32 * sizeof(float);
    PanelSplit<S> other = split;  // a copy stays in registers
    if (accumulate) {
        asm volatile("tileloadd (%0,%1,1), %%tmm0\n\ttileloadd 64(%0,%1,1), %%tmm1"
                     : : "r"(c), "r"(row) : "memory");
        if constexpr (LOWER)
            asm volatile("tileloadd (%0,%1,1), %%tmm2\n\ttileloadd 64(%0,%1,1), %%tmm3"
                         : : "r"(c + 16 * 32), "r"(row) : "memory");
    } else {
        asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" : : :);
    }
    for (int64_t i = 0; i < chunks; ++i, a += CHUNK_BYTES<S>, b += CHUNK_BYTES<S>) {
        load_a<LOWER>(a);
        if constexpr (PARTS<S> == 3) {
            load_b(b + 2 * PART), add_products<LOWER>();
            other.some();
        }
        load_b(b + PART), add_products<LOWER>();
        other.some();
        load_a<LOWER>(a + PART);
        if constexpr (PARTS<S> == 3) {
            add_products<LOWER>();
            other.some();
        }
        load_b(b), add_products<LOWER>();
        other.some();
        load_a<LOWER>(a), add_products<LOWER>();
        other.some();
        if constexpr (PARTS<S> == 3) {
            load_a<LOWER>(a + 2 * PART), add_products<LOWER>();
            other.some();
        }
    }
    asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)"
                 : : "r"(c), "r"(row) : "memory");
    if constexpr (LOWER)
        asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)"
                     : : "r"(c + 16 * 32), "r"(row) : "memory");
    split.done = other.done, split.due = other.due;
}

// Whether all of `rows` x 32 elements are.
inline bool finite(const float* c, int rows) {
    vec<float> left{}, right{};
    for (int r = 0; r < rows; ++r, c += 32) {
        left += load(c) * 0.0f;
        right += load(c + 16) * 0.0f;
    }
    return hsum(left + right) == 0.0f;
}

// ---- the engine on AMX --------------------------------------------------------------------------

// A thread takes a block of rows, splits it for as much depth as fits L2, and multiplies it by panels of B;
// while the tiles work on one panel the next is split in between, so that its cost mostly hides. Weights stay
// as they are in memory. Where the depth takes several passes, C of some panels waits in a buffer.

template <class S> using SplitEngine = Engine<float, S, S>;

inline constexpr int64_t AMX_ROWS = 224;     // most rows of a block
inline constexpr int64_t AMX_CHUNKS = 140;   // most chunks of A (each 32 rows x 32 k) in a block
inline constexpr int64_t AMX_DEPTH = 1024;   // most depth of a pass
inline constexpr int64_t AMX_PANELS = 12;    // most panels whose C waits between passes
inline constexpr int64_t AMX_B = AMX_DEPTH / CHUNK * CHUNK_BYTES<float>, AMX_A = AMX_CHUNKS * CHUNK_BYTES<float>;
inline constexpr int64_t AMX_C = AMX_PANELS * AMX_ROWS * NR * 4;
inline constexpr int64_t AMX_SCRATCH = 2 * AMX_B + AMX_A + AMX_C + AMX_DEPTH * 4;
inline constexpr int64_t AMX_LEAST_DEPTH = 64;
inline constexpr int64_t LEAST_HALF_ROWS = 8;  // in all: multiply-adds widen every element each time

// Buffers of one thread, and the part of the work that they hold: some rows, one pass over the depth.
template <class S> struct SplitBlock {
    const S** table;
    char *a, *b[2];
    float* c;
    S* row;
    Range rows;
    Passes plan;

    SplitBlock(const SplitEngine<S>& e, char* scratch, Range rows) : rows(rows) {
        table = reinterpret_cast<const S**>(scratch + round64(ROW_BLOCK * 2 * NR * 8));
        a = scratch + fma_scratch(e.segs);
        b[0] = a + AMX_A, b[1] = b[0] + AMX_B;
        c = reinterpret_cast<float*>(b[1] + AMX_B), row = reinterpret_cast<S*>(b[1] + AMX_B + AMX_C);
        const int64_t most = AMX_CHUNKS / pairs() * CHUNK;
        plan = passes(e.segs, e.kc, least(most, AMX_DEPTH), 0);
        if (plan.pieces > 1) {  // of whole chunks
            plan.depth = ceil_div(plan.depth, CHUNK) * CHUNK;
            plan.pieces = ceil_div(e.kc, plan.depth), plan.count = e.segs * plan.pieces;
        }
    }
    int64_t pairs() const { return ceil_div(rows.size(), 32); }
    int64_t first_seg(int64_t pass) const { return pass / plan.pieces * plan.segs; }
    int64_t first_k(int64_t pass) const { return pass % plan.pieces * plan.depth; }
    int64_t segs(const SplitEngine<S>& e, int64_t pass) const {
        return least(plan.segs, e.segs - first_seg(pass));
    }
    int64_t depth(const SplitEngine<S>& e, int64_t pass) const {  // of one segment
        return least(plan.depth, e.kc - first_k(pass));
    }
};

// The rows of A in one pass: a row's segments follow each other; they are put together first where chunks
// begin inside one.
template <class S> inline void split_rows(const SplitEngine<S>& e, const SplitBlock<S>& w, int64_t pass) {
    const int64_t seg = w.first_seg(pass), segs = w.segs(e, pass);
    const int64_t k0 = w.first_k(pass), kc = w.depth(e, pass);
    const int64_t chunks = ceil_div(segs * kc, CHUNK);
    const bool even = segs == 1 || kc % CHUNK == 0;
    for (int64_t r0 = 0, n; r0 < w.rows.size(); r0 += n) {
        n = least(ROW_BLOCK, w.rows.size() - r0);
        e.pointers(e.source, w.rows.begin + r0, {1, n, 0}, w.table);
        for (int64_t i = 0, count; i < n; i += count) {
            const int64_t r = r0 + i;
            char* to = w.a + r / 32 * chunks * CHUNK_BYTES<S> + r % 32 * 64;
            count = even ? least(SIDE_BY_SIDE, n - i) : 1;
            for (int64_t s = 0; s < segs; ++s) {
                const S** x = w.table + (seg + s) * n + i;
                if (even)
                    split_side_by_side(x, count, k0, kc, to + s * (kc / CHUNK) * CHUNK_BYTES<S>);
                else
                    __builtin_memcpy(w.row + s * kc, *x + k0, kc * sizeof(S));
            }
            const S* row = w.row;
            if (!even) split_side_by_side(&row, 1, 0, segs * kc, to);
        }
    }
}
static_assert(32 % SIDE_BY_SIDE == 0 && ROW_BLOCK % SIDE_BY_SIDE == 0);  // of the same 32 rows

// A tile of at most 32 rows that has NaN or infinity, once more by multiply-adds.
template <class S>
inline void multiply_again(
    const SplitEngine<S>& e, const SplitBlock<S>& w, int64_t row, int rows, int64_t p, float* tile) {
    for (int r = 0, n; r < rows; r += n, tile += n * NR) {
        n = int(least(MR1<float>, rows - r));
        e.pointers(e.source, row + r, {1, n, 0}, w.table);
        const S* b = e.b + p * e.panel;
        const char* none = reinterpret_cast<const char*>(b);
        run_micro<float, S, S>(
            n, 2, {w.table, e.segs, 0, e.kc, b, e.step, e.panel, tile, false, {none, 0}});
    }
}

// The panels of one thread in an order that keeps C of some panels waiting while the depth goes by: panel and
// pass of the i-th piece of work.
struct PieceOrder {
    Range panels;
    int64_t passes, groups, first;  // first: the number of the first group among those of all parts

    PieceOrder(Range panels, int64_t passes, int part) : panels(panels), passes(passes) {
        groups = passes == 1 ? 1 : ceil_div(panels.size(), AMX_PANELS);
        first = part * groups;
    }
    // The n-th pass of a group: there and back, so that the rows of the last one serve the next group or part, too. That is
    // so whoever takes the parts, as the order of sums shows in the answer.
    int64_t pass(int64_t group, int64_t n) const { return (first + group) % 2 ? passes - 1 - n : n; }
    int64_t count() const { return panels.size() * passes; }
    Range group(int64_t g) const {
        return {panels.begin + panels.size() * g / groups, panels.begin + panels.size() * (g + 1) / groups};
    }
};
struct Piece {
    int64_t group, turn, panel, pass;  // turn: of the group's passes

    Piece(const PieceOrder& order) : group(0), turn(0), panel(order.panels.begin), pass(order.pass(0, 0)) {}
    bool next(const PieceOrder& order) {  // false after the last
        if (++panel < order.group(group).end) return true;
        if (++turn == order.passes) {
            turn = 0;
            if (++group == order.groups) return false;
        }
        panel = order.group(group).begin, pass = order.pass(group, turn);
        return true;
    }
};

template <class S>
inline const S* piece_of_b(const SplitEngine<S>& e, const SplitBlock<S>& w, const Piece& at) {
    return e.b + at.panel * e.panel + (w.first_seg(at.pass) * e.kc + w.first_k(at.pass)) * e.step;
}

// The split of a piece of B, which prefetches the piece after it.
template <class S>
inline PanelSplit<S> panel_split(
    const SplitEngine<S>& e, const SplitBlock<S>& w, const PieceOrder& order, const Piece& at, char* to) {
    Piece after = at;
    if (!after.next(order)) after = at;
    const int64_t depth = w.segs(e, at.pass) * w.depth(e, at.pass);
    return {piece_of_b(e, w, at), piece_of_b(e, w, after), e.step, depth, to};
}

// One piece of work: all rows of the block times one panel, one pass. `other` is split meanwhile.
template <class S>
inline void multiply_piece(
    const SplitEngine<S>& e, const SplitBlock<S>& w, const Piece& at, float* c, const char* b, PanelSplit<S>& other,
    TileRows& shape) {
    const int64_t total = w.rows.size(), pairs = w.pairs();
    const int64_t chunks = ceil_div(w.segs(e, at.pass) * w.depth(e, at.pass), CHUNK), col = at.panel * NR;
    const bool single = w.plan.count == 1, last = at.turn + 1 == w.plan.count;
    const int cols = int(least(NR, e.cols - col));
    const int64_t long_ones = total < 16 ? 1 : (total + 16) / 32;  // products of few rows hide nothing
    other.spread(PRODUCTS<S> * long_ones * chunks);
    for (int64_t t = 0; t < pairs; ++t) {
        const int rows = int(least(32, total - t * 32));
        const char* a = w.a + t * chunks * CHUNK_BYTES<S>;
        shape.set(rows < 16 ? rows : 16, rows < 16 ? 0 : rows - 16);
        const auto run = rows > 16 ? multiply<S, true> : multiply<S, false>;
        run(a, b, chunks, c, at.turn > 0, other);
        const int64_t row = w.rows.begin + t * 32;
        if (last) {
            if (!finite(c, rows)) multiply_again(e, w, row, rows, at.panel, c);
            e.finish(e.epi, e.row0 + row, e.col0 + col, rows, cols, NR, c);
        }
        if (!single) c += 32 * NR;
    }
    other.pairs(other.all);
}

template <class S>
inline void amx_block(const SplitEngine<S>& e, const SplitBlock<S>& w, const Grid& grid, TileRows& shape) {
    const PieceOrder order(grid.panels, w.plan.count, grid.team.tid);
    Kept own, &kept = grid.team.kept ? *grid.team.kept : own;
    Piece at(order), next = at;
    PanelSplit<S> first = panel_split(e, w, order, at, w.b[0]);
    first.pairs(first.all);
    for (int64_t i = 0; i < order.count() && !grid.team.stopped(); ++i, at = next) {
        const int64_t begin = order.group(at.group).begin;
        if (at.panel == begin && !kept.replace(e.operand, w.rows, at.pass)) split_rows(e, w, at.pass);
        const bool more = next.next(order);
        PanelSplit<S> other = panel_split(e, w, order, more ? next : at, w.b[1 - i % 2]);
        if (!more) other.done = other.all;
        float* c = w.plan.count == 1 ? w.c : w.c + (at.panel - begin) * AMX_ROWS * NR;
        multiply_piece(e, w, at, c, w.b[i % 2], other, shape);
    }
}

template <class S> MGX_NOINLINE void amx_grid(const Grid& grid, const SplitEngine<S>& e, char* scratch) {
    const int64_t total = grid.panels.size() ? grid.rows.size() : 0, blocks = ceil_div(total, AMX_ROWS);
    TileRows shape;
    for (int64_t i = 0; i < blocks; ++i) {
        const int64_t first = grid.rows.begin;
        const Range rows{first + total * i / blocks, first + total * (i + 1) / blocks};
        amx_block(e, SplitBlock<S>(e, scratch, rows), grid, shape);
    }
}

// ---- parts of a share ---------------------------------------------------------------------------

// Nanoseconds for each chunk of the depth, as measured on an Emerald Rapids: PRODUCT of 32 rows and a panel, SPLIT_A of 32
// rows, SPLIT_B of a panel, of which each 32 rows that it is multiplied by hide some, all but LEAST_B; FIRST of the panel
// that a block of rows begins with: nothing hides it, and nobody has fetched it.
template <class S> inline constexpr double PRODUCT = 172.0 * PRODUCTS<S> / 6;
inline constexpr double SPLIT_A = 250, SPLIT_B = 170, HIDDEN_B = 22, LEAST_B = 20, FIRST = 300;

// What a share costs in so many parts of `pairs` times 32 rows and `panels` each, of which `each` side by side have the same
// rows: these are split once where they are one block, and then but for the pass that the part before has left.
template <class S> inline double parts_cost(int64_t pairs, int64_t panels, int64_t chunks, int parts, int each) {
    const int64_t blocks = ceil_div(pairs, AMX_ROWS / 32), block = ceil_div(pairs, blocks);
    const int64_t passes = ceil_div(chunks, least(AMX_CHUNKS / block, AMX_DEPTH / CHUNK));
    const int64_t groups = passes == 1 ? 1 : ceil_div(panels, AMX_PANELS);
    const double left = blocks == 1 ? 1.0 / double(passes) : 0, first = parts / each;
    const double splits = first + (parts * groups - first) * (blocks == 1 ? 1 - left : 1);
    const double hidden = HIDDEN_B * double(block), b = SPLIT_B - hidden > LEAST_B ? SPLIT_B - hidden : LEAST_B;
    const double products = double(pairs * panels) * PRODUCT<S> + double(blocks) * (double(panels) * b + FIRST);
    return parts * products + splits * double(pairs) * SPLIT_A;
}

// A thread that is ahead waits for about half a part of another one's, now and then, and of many threads one is always
// behind: so much of a part counts.
inline double waiting(const Team& team) { return team.threads() < MANY_THREADS ? 0.25 : 1.0; }

// A part of a thread's share of rows x panels. Where all the parts that there may be would cost more than their balance is
// worth, some are empty.
template <class S> inline Grid part_of(const Grid& share, const Team& team, int64_t depth) {
    const int64_t pairs = ceil_div(share.rows.size(), 32), panels = share.panels.size(), chunks = ceil_div(depth, CHUNK);
    const Grid none{{0, 0}, {0, 0}, team};
    if (!pairs || !panels) return none;  // there may be more threads than rows
    int rows = 1, cols = 1;
    double best = 1e300;
    for (int r = 1; r == 1 || (r <= team.parts && 2 * r <= pairs); ++r)
        for (int c = 1; c == 1 || (r * c <= team.parts && 2 * c <= panels); ++c) {
            const double all = parts_cost<S>(ceil_div(pairs, r), ceil_div(panels, c), chunks, r * c, c);
            const double cost = all * (1 + waiting(team) / (r * c));
            if (cost < best) best = cost, rows = r, cols = c;
        }
    const int part = team.tid % team.parts;
    if (part >= rows * cols) return none;
    return {split(share.rows, 32, part / cols, rows), split(share.panels, 1, part % cols, cols), team};
}

// ---- whether it is worth it ---------------------------------------------------------------------

// Nanoseconds that multiply-adds take for each chunk of the depth of 32 rows and a panel, and how many times as long as
// tiles they must take: tiles are slow while anybody uses the core's SMT sibling. On an Emerald Rapids a MobileNetV2, an
// EfficientNet-B0 and GPT-2's 64 tokens take with 1.8, by the least of 10 turns, 6, 12 and 11 % less time than with 1.0, by
// the medians, beside neighbours, 29, 18 and 4 %; BERT and ViT, whose products are larger, lose nothing by their least.
inline constexpr double BY_MULTIPLY_ADDS = 430, AMX_GAIN = 1.8;
inline double amx_gain = AMX_GAIN;  // tests set it

template <class S> inline bool amx_suits(const Grid& share, const SplitEngine<S>& e) {
    const int64_t depth = e.segs * e.kc, rows = share.rows.size(), panels = share.panels.size();
    if (!e.fast || e.groups > 1 || depth < AMX_LEAST_DEPTH || !rows || !panels || !amx_ready()) return false;
    if (same_v<S, half>) return e.rows >= LEAST_HALF_ROWS;
    const double tiles = parts_cost<S>(ceil_div(rows, 32), panels, ceil_div(depth, CHUNK), 1, 1);
    return tiles * amx_gain <= double(rows * panels) / 32 * BY_MULTIPLY_ADDS;
}

}  // namespace mgx
#endif

// The register-blocked engine that dot, convolution and Winograd share: micro-kernels, blocks, threads.
//
// A micro-kernel keeps a tile of C in registers (6 rows x 4 vectors on AVX-512, 6 x 2 on AVX2) and reads A
// through one pointer a row and segment, so a convolution needs no im2col buffer: its segments are the
// filter taps. It leaves the tile in a small buffer that stays in L1, and one function per epilogue type
// finishes it; so the micro-kernels are compiled once per element type, not once per fused expression. Only whole
// tiles of floats with a short epilogue have a kernel of their own, which finishes them in registers: of a depth of 16
// to 100 the way through the buffer costs as much as the products.
#pragma once

#include "team.hpp"
#include "narrow.hpp"

namespace mgx {

inline constexpr int PANEL_VECTORS = 2;
inline constexpr int NR = PANEL_VECTORS * LANES;  // columns a panel
inline constexpr int64_t ROW_BLOCK = 120;      // rows of A that are worked on together (fit L2)
// Depth of a pass over one block. On a Zen 4 (depths of 768 and 3072, rows of 49 to 197) 320, 384, 512 and 1024 were up to
// 6 % slower, with AVX2 and with AVX-512, though a panel of 320 would fit L1 with AVX2.
inline constexpr int64_t K_BLOCK = 768;
inline constexpr int64_t IN_PLACE_ROWS = 64;   // up to so many rows an unpacked B is read where it lies,
inline constexpr int64_t IN_PLACE_STEP = 256;  // and always where its rows are no farther apart
template <class T> inline constexpr int NP = LANES == 8 || LANES * sizeof(T) > 64 ? 1 : 2;  // panels a tile
// Rows of a tile: 6 x 4 accumulators in 32 registers, 6 x 2 or 3 x 4 in 16; where there is one panel only 8 x 2 in 32.
template <class T> inline constexpr int MR = REGISTERS == 16 && sizeof(T) == 8 ? 3 : 6;
template <class T> inline constexpr int MR1 = REGISTERS == 32 && sizeof(T) < 8 ? 8 : MR<T>;
template <class T> inline constexpr int MR3 = LANES == 8 && same_v<T, float> ? 4 : 0;  // rows of three vectors on AVX2
// Panels, all of them whole, that one or two rows of floats are multiplied by together on AVX2, each of which asks for what
// comes next in it: no sum waits for itself, and more of memory is on its way. On a Zen 3 (medians of five turns, three sizes)
// one row brings in 19.5 to 20.7 GB/s from memory so, panel by panel 16.8 to 18.2; from the third-level cache 84 to 111 and 72
// to 75. With AVX-512 a tile has two panels; on an Emerald Rapids four, unasked for, bring in 10 to 19 % less from memory.
template <class T> constexpr int64_t panels_together(int64_t rows, int64_t panels) {
    if (!same_v<T, float> || NP<T> > 1 || rows > 2 || panels < 2) return NP<T>;
    return rows == 1 && panels >= 4 ? 4 : 2;
}

inline constexpr int64_t round64(int64_t bytes) { return (bytes + 63) & ~int64_t(63); }
inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Bytes of the tile buffer and the pointer table, for a filter of `segs` segments.
inline constexpr int64_t fma_scratch(int64_t segs) {
    return round64(ROW_BLOCK * 2 * NR * 8) + round64(ROW_BLOCK * segs * 8);
}

// Where bytes are widened to pairs (quant.hpp): a block of rows, at least PAIRS_ROWS, and a panel of PAIRS_DEPTH words.
inline constexpr int64_t PAIRS_ROWS = 8, PAIRS_DEPTH = 2048, PAIRS_A = 16 * PAIRS_DEPTH * 8, PAIRS_B = PAIRS_DEPTH * NR * 8;

// ---- micro-kernel -------------------------------------------------------------------------------

// What is prefetched meanwhile, `step` bytes farther with every k; 0: nothing.
struct Stream {
    const char* from;
    int64_t step;
};

// With AVX2 a line is asked for once, not at each k: instructions are scarce where a neighbour computes on the same core
// (a Zen 3: products of MobileNetV2's sizes 3 to 5 % faster with fewer; with AVX-512 no faster).
inline constexpr bool SPARING = REGISTERS == 16;
inline constexpr int SPARED = 4;  // one prefetch for so many k, which are a line of a stream of this step or a smaller one
inline constexpr int64_t SPARED_STEP = 64 / SPARED;

template <class T, class TA, class TB> struct Micro {
    const TA* const* rows;  // [segs][rows of the tile]
    int64_t segs, k0, kc;   // every segment is read from k0 to k0 + kc
    const TB* b;            // row k of panel j is at b + j * panel + k * step; segments follow each other
    int64_t step, panel;
    T* tile;                // [rows of the tile][columns of the tile]
    bool accumulate;        // start from the tile, not from zero
    Stream ahead;
    bool fetch_rows = false;  // whether a segment asks for the first line of the next one's rows
};

template <class T, int N, class S> MGX_INLINE vec<T, N> load_as(const S* p) {
    if constexpr (same_v<T, S>)
        return load<N>(p);
    else if constexpr (same_v<T, float>)
        return load_f<N>(p);
    else
        return cast<T>(load<N>(p));
}

template <class T, class S> MGX_INLINE T scalar_as(S x) {
    if constexpr (same_v<T, float>)
        return to_float(x);
    else
        return static_cast<T>(x);
}

// How a micro-kernel multiplies numbers of type TA: quant.hpp has a way of its own for words.
template <class T, class TA> struct Products {
    template <int N, class TB> static MGX_INLINE vec<T, N> first(const TB*) { return vec<T, N>{}; }
    template <int N> static MGX_INLINE vec<T, N> all(TA x) { return splat<T, N>(scalar_as<T>(x)); }
    template <class V> static MGX_INLINE V add(V acc, V x, V b) { return acc + x * b; }
};

// Steps of one row of a tile, whose vectors are numbered by J: once for all tiles of so many columns, since compiling
// a function takes longer than putting it where it is called.
template <class T, int N, class S, int... J>
MGX_INLINE void load_row(vec<T, N>* to, const S* from, int64_t panel, Ints<J...>) {
    constexpr int PER = NR / N;
    ((to[J] = load_as<T, N>(from + (J / PER) * panel + (J % PER) * N)), ...);
}
template <class T, class TA, int N, class TB, int... J>
MGX_INLINE void first_row(vec<T, N>* acc, const TB* b, int64_t panel, Ints<J...>) {
    constexpr int PER = NR / N;
    ((acc[J] = Products<T, TA>::template first<N>(b + (J / PER) * panel + (J % PER) * N)), ...);
}
template <class Way, class V, int... J> MGX_INLINE void add_row(V* acc, V x, const V* b, Ints<J...>) {
    ((acc[J] = Way::add(acc[J], x, b[J])), ...);
}
template <class V, int... J> MGX_INLINE void keep_row(V* row, Ints<J...>) {
    ((row[J] = in_register(row[J])), ...);
}
// Of several panels, which are as many streams.
template <class S, int... J> MGX_INLINE void ask_for_more(const S* b, int64_t panel, Ints<J...>) {
    constexpr int64_t BYTES = 512;
    (__builtin_prefetch(reinterpret_cast<const char*>(b + J * panel) + BYTES, 0, 3), ...);
}
template <class V, class T, int... J> MGX_INLINE void store_row(T* to, const V* from, Ints<J...>) {
    (store(to + J * lanes_v<V>, from[J]), ...);
}

// ROWS x (VECS * LANES) elements of C in registers of N lanes. `ahead` is prefetched at one of EVERY k.
template <class T, class TA, class TB, int VECS, int N, int EVERY = 1, int... R>
MGX_INLINE void multiply(const Micro<T, TA, TB>& u, vec<T, N>* acc, Ints<R...>) {
    constexpr int ROWS = sizeof...(R), COLS = VECS * LANES / N, PANELS = VECS / PANEL_VECTORS;  // whole ones
    constexpr UpTo<COLS> cols;
    if (u.accumulate)
        (load_row<T, N>(acc + R * COLS, u.tile + R * COLS * N, NR, cols), ...);
    else
        (first_row<T, TA, N>(acc + R * COLS, u.b, u.panel, cols), ...);
    const TB* b = u.b;
    Stream ahead = u.ahead;
    const int64_t step = u.step, panel = u.panel, kc = u.kc;
    const TA* const* rows = u.rows;
    if (kc <= 0) return;  // loops that run at least once: the sums stay in registers between them
    int64_t segs = u.segs;
    do {
        const TA* a[] = {(rows[R] + u.k0)...};
        if (u.fetch_rows && segs > 1) (__builtin_prefetch(rows[ROWS + R] + u.k0), ...);
        const auto add = [&](int64_t k) __attribute__((always_inline)) {
            vec<T, N> bv[COLS];
            load_row<T, N>(bv, b, panel, cols);
            if constexpr (same_v<T, TB> && ROWS * COLS + COLS < REGISTERS) keep_row(bv, cols);  // all fit, with x
            (add_row<Products<T, TA>>(acc + R * COLS, Products<T, TA>::template all<N>(a[R][k]), bv, cols), ...);
            b += step;
        };
        int64_t k = 0;
        if constexpr (EVERY > 1) {
            for (; k + EVERY <= kc; k += EVERY) {
                __builtin_prefetch(ahead.from, 0, 3);
                ahead.from += EVERY * ahead.step;
                unroll<EVERY>([&](auto i) __attribute__((always_inline)) { add(k + i); });
            }
        }
#pragma GCC unroll 2  // which g++ 12 ignores at a do-while loop
        for (; k < kc; ++k) {
            if constexpr (PANELS > NP<T>) {
                ask_for_more(b, panel, UpTo<PANELS>{});
            } else if constexpr (EVERY == 1) {
                __builtin_prefetch(ahead.from, 0, 3);  // into L2 alone (2) was up to 7 % slower
                ahead.from += ahead.step;
            }
            add(k);
        }
        rows += ROWS;
    } while (--segs > 0);
}

// A tile that is left in the buffer.
template <class T, class TA, class TB, int ROWS, int VECS>
MGX_NOINLINE void micro(const Micro<T, TA, TB>& u) {
    constexpr int N = LANES * int(sizeof(float)) / int(sizeof(T)), COUNT = ROWS * VECS * LANES / N;
    constexpr bool often = SPARING && same_v<T, float> && ROWS >= 4 && VECS == PANEL_VECTORS;  // worth a loop of its own
    vec<T, N> acc[COUNT];
    if (often && u.ahead.step <= SPARED_STEP)
        multiply<T, TA, TB, VECS, N, often ? SPARED : 1>(u, acc, UpTo<ROWS>{});
    else
        multiply<T, TA, TB, VECS, N>(u, acc, UpTo<ROWS>{});
    store_row(u.tile, acc, UpTo<COUNT>{});
}

template <class T, class TA, class TB, int ROWS> inline void run_micro(int vecs, const Micro<T, TA, TB>& u) {
    if constexpr (ROWS <= MR1<T>) {
        if (vecs == 1) return micro<T, TA, TB, ROWS, 1>(u);
        if (vecs == 2) return micro<T, TA, TB, ROWS, 2>(u);
    }
    if constexpr (ROWS <= MR3<T>) {
        if (vecs == 3) return micro<T, TA, TB, ROWS, 3>(u);
    }
    if constexpr (panels_together<T>(ROWS, 2) > NP<T>) {
        if (vecs == 2 * PANEL_VECTORS) return micro<T, TA, TB, ROWS, 2 * PANEL_VECTORS>(u);
    }
    if constexpr (panels_together<T>(ROWS, 4) > 2) {
        if (vecs == 4 * PANEL_VECTORS) return micro<T, TA, TB, ROWS, 4 * PANEL_VECTORS>(u);
    }
    if constexpr (ROWS <= MR<T> && NP<T> == 2) {
        if (vecs == 3) return micro<T, TA, TB, ROWS, 3>(u);
        if (vecs == 4) return micro<T, TA, TB, ROWS, 4>(u);
    }
}

template <class T, class TA, class TB> MGX_NOINLINE void run_micro(int rows, int vecs, const Micro<T, TA, TB>& u) {
    switch (rows) {
        case 1: return run_micro<T, TA, TB, 1>(vecs, u);
        case 2: return run_micro<T, TA, TB, 2>(vecs, u);
        case 3: return run_micro<T, TA, TB, 3>(vecs, u);
        case 4: return run_micro<T, TA, TB, 4>(vecs, u);
        case 5: return run_micro<T, TA, TB, 5>(vecs, u);
        case 6: return run_micro<T, TA, TB, 6>(vecs, u);
        case 7: return run_micro<T, TA, TB, 7>(vecs, u);
        case 8: return run_micro<T, TA, TB, 8>(vecs, u);
    }
}

// ---- finishing a tile ---------------------------------------------------------------------------

// Numbers that an epilogue takes at once, unless there are fewer: of smaller tiles its start would count.
inline constexpr int64_t FINISHED = 384;

// Gives rows x cols of a tile (rows `width` elements apart) to the epilogue.
template <class T>
using Finish = void (*)(
    const void* epi, int64_t row, int64_t col, int rows, int cols, int width, const T* tile);

template <class T, class Epi>
void finish(const void* epi, int64_t row, int64_t col, int rows, int cols, int width, const T* tile) {
    const Epi e = *static_cast<const Epi*>(epi);  // a copy, which stores cannot change
    constexpr bool masks = has_masked_store_v<vec<uint8_t>>, is_short = requires { Epi::in_registers; };
    for (int r = 0; r < rows; ++r, tile += width) {
        int j = 0;
        if constexpr (masks && !is_short) {  // long code, once
            for (; j < cols; j += LANES) e(row + r, col + j, load<LANES>(tile + j), int(least(LANES, cols - j)));
        } else {
            for (; j + LANES <= cols; j += LANES) e(row + r, col + j, load<LANES>(tile + j));
            if (j < cols) e(row + r, col + j, load<LANES>(tile + j), cols - j);
        }
    }
}

// ---- whole tiles, finished in registers ---------------------------------------------------------

// How the tiles of these panels fetch the next ones: all of them alike. Where the first ones hurried (by steps of powers of
// two), too many lines were on their way at a time: GPT-2's products of 64 rows took 6 % longer on a Xeon (AVX2, AVX-512).
template <class TB> struct Ahead {
    const TB *b, *next;
    int64_t depth, panel, end, step;
    static constexpr int64_t LINE = NR * sizeof(TB) >= 64 ? NR * sizeof(TB) : 64;  // bytes per k and panel

    // near: the next panels are in the second-level cache.
    Ahead(const TB* b, const TB* next, int64_t panels, int64_t depth, int64_t panel, int64_t tiles, bool near = false)
        : b(b), next(next), depth(depth), panel(panel), end(SPARING && near ? 0 : panels * LINE),
          step(tiles > 0 ? least(64, ceil_div(end, tiles)) : 0) {}
    Stream of(int64_t tile) const {
        const int64_t from = tile * step;
        if (from >= end) return {reinterpret_cast<const char*>(b), 0};
        return {reinterpret_cast<const char*>(next + from / LINE * panel) + from % LINE * depth, step};
    }
};

// Tiles of equal rows, one below the other, whose columns fill the registers.
template <class TA, class TB> struct Strip {
    Micro<float, TA, TB> tile;  // the first
    int64_t tiles, next;        // how many; pointers from tile to tile
    const Ahead<TB>& fetch;
    int64_t first;              // number of the first tile, as `fetch` counts
    const void* epi;
    int64_t row, col;
};
template <class TA, class TB> using RunStrip = void (*)(const Strip<TA, TB>&);

template <class TA, class TB, class Epi, int ROWS, int PANELS>
MGX_NOINLINE void run_strip(const Strip<TA, TB>& s) {
    constexpr int VECS = PANELS * NR / LANES;
    const Epi e = *static_cast<const Epi*>(s.epi);  // a copy, which stores cannot change
    Micro<float, TA, TB> u = s.tile;
    const int64_t next = s.next, end = s.first + s.tiles, col = s.col;
    int64_t row = s.row;
    for (int64_t t = s.first; t < end; ++t, row += ROWS) {
        u.ahead = s.fetch.of(t);
        vec<float> acc[ROWS * VECS];
        if (SPARING && u.ahead.step <= SPARED_STEP)
            multiply<float, TA, TB, VECS, LANES, SPARING ? SPARED : 1>(u, acc, UpTo<ROWS>{});
        else
            multiply<float, TA, TB, VECS, LANES>(u, acc, UpTo<ROWS>{});
        unroll<ROWS>([&](auto r) {
            unroll<VECS>([&](auto j) { e(row + r, col + j * LANES, acc[r * VECS + j]); });
        });
        u.rows += next;
        u.tile += ROWS * VECS * LANES;
    }
}

// What multiplies and finishes whole tiles of so many panels and rows: of one panel MR1 - 1 and MR1 rows, of two MR - 1 and
// MR. Null where numbers are not float or Epi is long.
template <class TA, class TB> struct Strips {
    RunStrip<TA, TB> of[2][2] = {};

    RunStrip<TA, TB> run(int64_t panels, int rows) const {
        const int shorter = rows - (panels == 1 ? MR1<float> : MR<float>) + 1;
        return shorter == 0 || shorter == 1 ? of[panels - 1][shorter] : nullptr;
    }
};
template <class T, class TA, class TB, class Epi> inline constexpr Strips<TA, TB> strips() {
    if constexpr (!(same_v<T, float> && same_v<TA, float> && same_v<TB, float> && requires { Epi::in_registers; })) {
        return {};
    } else {
        constexpr int M1 = MR1<float>, M = MR<float>;
        Strips<TA, TB> s{{{run_strip<TA, TB, Epi, M1 - 1, 1>, run_strip<TA, TB, Epi, M1, 1>}, {}}};
        if constexpr (NP<float> == 2) s.of[1][0] = run_strip<TA, TB, Epi, M - 1, 2>, s.of[1][1] = run_strip<TA, TB, Epi, M, 2>;
        return s;
    }
}

// ---- the engine ---------------------------------------------------------------------------------

// A block of rows in tiles: the first `longer` tiles have rows + 1 rows, the others `rows`.
struct Tiles {
    int64_t count, rows, longer;
    int of(int64_t tile) const { return int(rows + (tile < longer)); }
};
inline Tiles tiles_of(int64_t rows, int64_t most) {
    const int64_t count = ceil_div(rows, most);
    return {count, rows / count, rows % count};
}

// Writes the pointers of a block that begins at `row`: table[tile][segment][row of the tile].
template <class TA>
using Rows = void (*)(const void* source, int64_t row, const Tiles& tiles, const TA** table);

template <class T, class TA, class TB> struct Engine {
    int64_t rows, cols, groups;  // cols: columns of one group
    int64_t segs, kc;            // depth is segs * kc
    int64_t group_step;          // elements of A between groups
    Rows<TA> pointers;
    const void* source;
    const TB* b;                 // row k of panel p (counted over the groups) is at b + p * panel + k * step
    int64_t step, panel;
    Finish<T> finish;
    const void* epi;
    Strips<TA, TB> strips = {};
    bool fast = false;           // AMX may be used
    int64_t row0 = 0, col0 = 0;  // of the first row and column, as the epilogue counts
    int64_t block = ROW_BLOCK;   // rows of A that are worked on together, at most ROW_BLOCK
    const void* operand = nullptr;  // where A lies, which tells it from others that a kernel reads; null: nobody may keep it
    const TA* outside = nullptr;    // where pointers of taps that read zeros point; null: none do
};

// The segments that a tile of `rows` reads: before and behind them all its rows lie outside. One at least.
template <class TA> inline Range segments_of(const TA* const* table, int64_t segs, int rows, const TA* outside) {
    const auto dead = [&](int64_t s) {
        for (int r = 0; r < rows; ++r)
            if (table[s * rows + r] != outside) return false;
        return true;
    };
    Range live{0, segs};
    while (live.begin + 1 < segs && dead(live.begin)) ++live.begin;
    while (live.end > live.begin + 1 && dead(live.end - 1)) --live.end;
    return live;
}

// Rows x panels of the result that somebody computes.
struct Grid {
    Range rows, panels;
    const Team& team;
};

// The i-th of `count` cells of a grid of tm x tn that is cheapest in arithmetic plus operand traffic. Of columns most of A
// and of the result, of this depth, comes from other cores, which counts again; a depth of 0: the cells are one core's.
inline Grid cell(const Grid& grid, int i, int count, int64_t depth) {
    const int64_t rows = grid.rows.size(), panels = grid.panels.size();
    int best = 1;
    double cost = 1e300;
    for (int tm = 1; tm <= count; ++tm) {
        if (count % tm) continue;
        const int tn = count / tm;
        const double r = double(ceil_div(rows, tm)), c = double(ceil_div(panels, tn) * NR);
        const double foreign = depth ? (r + r * c / double(depth)) * (tn - 1) / tn : 0;
        const double t = r * c / (2 * LANES) + r + c + foreign;
        if (t < cost) cost = t, best = tm;
    }
    const int tn = count / best;
    return {split(grid.rows, 1, i / tn, best), split(grid.panels, 1, i % tn, tn), grid.team};
}

// How the threads divide rows x panels of a depth, and each of them its share into parts, which read again what the
// thread has in the cache of its core. Threads that take whole rows find what they read of A where they wrote it, as
// does whoever reads the result by rows.
inline Grid divide(const Team& team, int64_t rows, int64_t panels, int64_t depth) {
    const Grid share = cell({{0, rows}, {0, panels}, team}, team.tid / team.parts, team.threads(), depth > 0 ? depth : 1);
    return cell(share, team.tid % team.parts, team.parts, 0);
}

// The depth in passes: whole segments together, or pieces of one segment where that is deep.
struct Passes {
    int64_t count, pieces, segs, depth;
};
inline Passes passes(int64_t segs, int64_t kc, int64_t block = K_BLOCK, int64_t more = K_BLOCK / 4) {
    if (kc > block + more) {
        const int64_t pieces = ceil_div(kc, block);
        return {segs * pieces, pieces, 1, ceil_div(kc, pieces)};
    }
    const int64_t most = kc > 0 ? (block + more) / kc : 1, count = ceil_div(segs, most);
    return {count, 1, ceil_div(segs, count), kc};
}

// One block of rows times some panels, which a block before may have left `near`, in the second-level cache. The
// accumulators wait in `out` between passes over the depth.
template <class T, class TA, class TB>
MGX_NOINLINE void run_block(const Engine<T, TA, TB>& e, const Grid& grid, T* out, const TA** table, bool near = false) {
    const Range rows = grid.rows, panels = grid.panels;
    const int64_t often = rows.size() * e.segs * e.kc < 1 << 16 ? 64 : 1;  // pairs of panels from look to look
    const int64_t per_group = ceil_div(e.cols, NR);
    const Tiles all = tiles_of(rows.size(), per_group == 1 ? MR1<T> : MR<T>);
    e.pointers(e.source, rows.begin, all, table);
    Range inside[ROW_BLOCK];
    const bool skips = same_v<T, float> && e.outside && e.segs > 1;
    for (int64_t t = 0, r0 = 0; skips && t < all.count; r0 += all.of(t), ++t)
        inside[t] = segments_of(table + r0 * e.segs, e.segs, all.of(t), e.outside);
    const auto read_by = [&](int64_t t) { return skips ? inside[t] : Range{0, e.segs}; };
    const bool few = panels_together<T>(rows.size(), 2) > NP<T>;  // which read a panel once, however deep it is
    const Passes plan = few ? Passes{1, 1, e.segs, e.kc} : passes(e.segs, e.kc);
    for (int64_t p = panels.begin, np, turn = 1; p < panels.end; p += np, ++turn) {
        if (turn % often == 0 && grid.team.stopped()) return;
        const int64_t group = p / per_group, first = p % per_group, col0 = e.col0 + group * e.cols;
        const int64_t left = least(panels.end - p, per_group - first);
        np = least(panels_together<T>(rows.size(), least(left, e.cols / NR - first)), left);
        // The last vector of columns alone would wait for its own sums. Of one segment rows make any tiles.
        const bool three = MR3<T> > 0 && e.segs == 1 && p + 2 <= panels.end && first + 2 == per_group &&
            e.cols - first * NR <= 3 * LANES;
        if (three) np = 2;
        const bool last_alone = NP<T> == 2 && np == 1 && e.segs == 1;
        const Tiles parts = three ? tiles_of(rows.size(), MR3<T>) : last_alone ? tiles_of(rows.size(), MR1<T>) : all;
        const int64_t col = first * NR, cols = least(np * NR, e.cols - col);
        const int64_t vecs = ceil_div(cols, LANES), width = vecs * LANES;
        for (int64_t pass = 0; pass < plan.count; ++pass) {
            const int64_t seg = pass / plan.pieces * plan.segs, k0 = pass % plan.pieces * plan.depth;
            const int64_t segs = least(plan.segs, e.segs - seg), kc = least(plan.depth, e.kc - k0);
            const bool last = pass + 1 == plan.count;
            const TB* b = e.b + p * e.panel + (seg * e.kc + k0) * e.step;
            const TB* next = last ? e.b + (p + np) * e.panel : b + segs * kc * e.step;
            const Ahead<TB> fetch(b, next, np, segs * kc, e.panel, parts.count, near);
            int waiting = 0;  // rows in the buffer, above this tile's
            for (int64_t t = 0, r0 = 0, count; t < parts.count; r0 += count * parts.of(t), t += count) {
                const int n = parts.of(t);
                T* tile = out + (plan.count == 1 ? waiting : r0) * width;
                const Range whole = read_by(t), read = common(whole, {seg, seg + segs});
                const TA** taps = table + r0 * e.segs + read.begin * n;
                const int64_t from = k0 + group * e.group_step, row = e.row0 + rows.begin + r0;
                const bool more = k0 > 0 || read.begin > whole.begin;
                // a group's pixels are a line each, far apart: no other prefetch finds them
                const Micro<T, TA, TB> u{taps, read.size(), from, kc, b + (read.begin - seg) * kc * e.step, e.step, e.panel, tile,
                                         more, fetch.of(t), e.groups > 1};
                count = 1;
                if constexpr (same_v<T, float>) {
                    const auto strip = last && cols == np * NR && read.size() > 0 ? e.strips.run(np, n) : nullptr;
                    if (strip) {
                        const int64_t end = t < parts.longer ? parts.longer : parts.count;
                        while (t + count < end && read_by(t + count) == whole) ++count;
                        strip({u, count, e.segs * n, fetch, t, e.epi, row, col0 + col});
                        continue;
                    }
                }
                if (read.size() > 0) run_micro<T, TA, TB>(n, int(vecs), u);
                if (!last) continue;
                waiting += n;
                // a tile that this pass adds nothing to is finished at once: a strip may follow
                if (read.size() > 0 && waiting * width < FINISHED && t + 1 < parts.count) continue;
                const int above = waiting - n;
                e.finish(e.epi, row - above, col0 + col, waiting, int(cols), int(width), tile - above * width);
                waiting = 0;
            }
        }
    }
}

}  // namespace mgx

// Attention in one pass over the keys: out = softmax(scale * Q K^T + mask) V; no queries x keys matrix.
//
//   attention<T, M>(team, params, q, k, v, mask, out, scratch)
//     T             storage of q, k, v and out: float, half, bf16; sums are float
//     q, out        [batch][heads][queries][dim or value_dim]
//     k, v          [batch][kv_heads][keys][dim or value_dim]; head h reads kv head h / (heads / kv_heads)
//                   arbitrary element strides of batch, head, row (0 broadcasts); last dimension contiguous
//     M* mask       float, half, bf16: added to scale * Q K^T; uint8_t (bool): 1 keeps the score, 0 makes it
//                   -inf; null: none. [batch][heads][queries][keys] with arbitrary element strides.
//     causal        query i sees the keys up to i + causal_offset; blocks of hidden keys are not computed
//     a row with every key masked gives NaN, as eager softmax does, or 0 where params.zero_rows is set (what
//                   torch's scaled_dot_product_attention gives)
//   scratch         attention_scratch<T>(params) bytes a thread, 64-byte aligned
//
// Scores are kept transposed, [key][query]: queries lie in lanes, so the first product broadcasts elements of
// K, the softmax has no horizontal step, and the second product broadcasts probabilities against rows of V. A
// unit of work is up to TILES tiles of MQ queries of one head; keys are taken KEY_BLOCK at a time, so that a
// tile's scores stay in the first-level cache, with running maximum and sum (Milakov and Gimelshein, 2018;
// Dao et al., 2022). Blocks of keys before the first that a tile's mask shows, and keys behind the last, are not read, so
// that a cache costs what is filled of it. A few queries for each head of keys (a step of decoding) take another way: the
// heads of a group read their keys once, and depth lies in lanes.
#pragma once

#include "math.hpp"
#include "team.hpp"
#include "transpose.hpp"
#include "narrow.hpp"

namespace mgx {

struct Attention {
    struct Strides {
        int64_t batch, head, row;
    };
    int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;
    Strides q, k, v, out;
    int64_t mask_batch, mask_head, mask_row, mask_key;
    float scale;
    bool causal, zero_rows;
    int64_t causal_offset;
};

namespace attn {

inline constexpr int QV = LANES == 16 ? 2 : 3;  // registers of queries of a tile
inline constexpr int MQ = QV * LANES;  // queries of a tile
inline constexpr int TILES = 16;  // tiles of a unit at most: they share packed keys and values
inline constexpr int64_t KEPT = 1 << 18;  // bytes of the queries and sums of a unit, about: half of a second-level cache
inline constexpr int KR = LANES == 16 ? 8 : 4;  // keys of a tile of the first product
inline constexpr int QR = LANES == 16 ? 8 : 6;  // queries of a tile of the second
inline constexpr int VR = 2;  // value registers of a tile of the second
inline constexpr int64_t KEY_BLOCK = 128;
static_assert(MQ % QR == 0 && KEY_BLOCK % KR == 0);

using F = vec<float>;

// nq queries from q0 on, of one batch and head; the pointers are moved there.
template <class T, class M> struct Unit {
    const T *q, *k, *v;
    const M* mask;
    T* out;
    int64_t q0, nq;
};
struct Scratch {  // max to o: one tile's, those of a unit lie one after the other
    float *max, *sum, *scale, *qt, *o, *s, *k, *v;
};

inline int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }
inline int64_t key_block(const Attention& p) {  // keys of a block, a multiple of KR
    return ((p.keys < KEY_BLOCK ? p.keys : KEY_BLOCK) + KR - 1) / KR * KR;
}
inline int64_t tile_floats(const Attention& p) { return MQ * (3 + padded(p.dim) + padded(p.value_dim)); }
// Tiles of a unit at most. This, and `values_block` column by column, took 0.90 to 1.0 of the time of 4 tiles on a Zen 3.
inline int64_t most_tiles(const Attention& p) {
    const int64_t fit = KEPT / (tile_floats(p) * int64_t(sizeof(float)));
    return fit < 1 ? 1 : least(fit, TILES);
}
inline Scratch divide(const Attention& p, float* at, int tile) {
    float* own = at + tile * tile_floats(p);
    float* s = at + most_tiles(p) * tile_floats(p);
    float* k = s + key_block(p) * MQ;
    return {own, own + MQ, own + 2 * MQ, own + 3 * MQ, own + MQ * (3 + padded(p.dim)),
            s,   k,        k + key_block(p) * padded(p.dim)};
}

// ---- operands, packed ---------------------------------------------------------------------------------------

// qt[d][query] = scale * q[query][d]
template <class T>
MGX_NOINLINE void pack_queries(const T* q, int64_t stride, int nq, int64_t dim, float scale, float* qt) {
    for (int v = 0; v < nq; v += LANES)
        for (int64_t d = 0; d < dim; d += LANES) {
            const int n = int(dim - d < LANES ? dim - d : LANES);
            transpose_tile<F>(
                nq - v, n, [&](int r) { return load_f_n(q + (v + r) * stride + d, n); },
                [&](int j, F x) { store(qt + (d + j) * MQ + v, x * scale); });
        }
}

// Rows of K or V as floats one after the other: wide strides would share few sets of the cache.
struct Rows {
    const float* at;
    int64_t stride;
};
template <class T>
MGX_NOINLINE Rows pack_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
    if constexpr (same_v<T, float>)
        if (stride == columns) return {from, stride};
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; c += LANES)
            store(to + r * padded(columns) + c,
                  load_f_n(from + r * stride + c, int(columns - c < LANES ? columns - c : LANES)));
    return {to, padded(columns)};
}

// ---- scores -----------------------------------------------------------------------------------------------

// s[key][query] for `vectors` registers of queries and nk keys; s has room for nk rounded up to KR.
template <int V>
MGX_NOINLINE void scores(const float* qt, Rows k, int64_t nk, int64_t dim, float* s) {
    for (int64_t j = 0; j < nk; j += KR) {
        const float* row[KR];
        for (int i = 0; i < KR; ++i) row[i] = k.at + (j + i < nk ? j + i : nk - 1) * k.stride;
        F acc[KR][V] = {};
#pragma GCC unroll 4
        for (int64_t d = 0; d < dim; ++d) {
            F x[V];
#pragma GCC unroll 4
            for (int c = 0; c < V; ++c) x[c] = load(qt + d * MQ + c * LANES);
#pragma GCC unroll 16
            for (int i = 0; i < KR; ++i) {
                const F b = splat(row[i][d]);
#pragma GCC unroll 4
                for (int c = 0; c < V; ++c) acc[i][c] += b * x[c];
            }
        }
        for (int i = 0; i < KR; ++i)
            for (int c = 0; c < V; ++c) store(s + (j + i) * MQ + c * LANES, acc[i][c]);
    }
}

template <class M> MGX_INLINE F masked(F s, F m) {
    if constexpr (same_v<M, uint8_t>)
        return (m != 0.0f) ? s : F{} - __builtin_inff();
    else
        return s + m;
}
template <class M> MGX_INLINE float mask_lane(const M* m) {
    if constexpr (same_v<M, uint8_t>)
        return *m;
    else
        return to_float(*m);
}
template <class M> MGX_INLINE F mask_lanes(const M* m, int64_t stride, int n) {
    if (stride == 1) {
        if constexpr (same_v<M, uint8_t>)
            return cast<float>(load_n(m, n));
        else
            return load_f_n(m, n);
    }
    F x{};
    for (int i = 0; i < n; ++i) x[i] = mask_lane(m + i * stride);
    return x;
}

// Adds the mask of keys k0 .. k0 + nk to s.
template <class M>
MGX_NOINLINE void add_mask(const Attention& p, const M* mask, int nq, int64_t k0, int64_t nk, float* s) {
    mask += k0 * p.mask_key;
    if (p.mask_row == 0) {
        for (int64_t j = 0; j < nk; ++j)
            for (int v = 0; v < nq; v += LANES) {
                float* at = s + j * MQ + v;
                store(at, masked<M>(load(at), splat(mask_lane(mask + j * p.mask_key))));
            }
        return;
    }
    for (int v = 0; v < nq; v += LANES)
        for (int64_t j = 0; j < nk; j += LANES) {
            const M* from = mask + v * p.mask_row + j * p.mask_key;
            const int n = int(nk - j < LANES ? nk - j : LANES);
            transpose_tile<F>(
                nq - v, n, [&](int r) { return mask_lanes(from + r * p.mask_row, p.mask_key, n); },
                [&](int c, F m) {
                    float* at = s + (j + c) * MQ + v;
                    store(at, masked<M>(load(at), m));
                });
        }
}

// Query q0 + lane sees no key past itself + offset.
inline void cut_causal(int64_t first_query, int nq, int64_t k0, int64_t nk, float* s) {
    int64_t j = first_query - k0 + 1;  // up to here every query sees the key
    for (j = j < 0 ? 0 : j; j < nk; ++j)
        for (int v = 0; v < nq; v += LANES) {
            const vec<int32_t> hidden = iota<int32_t>() < int32_t(k0 + j - first_query - v);
            store(s + j * MQ + v, select(hidden, F{} - __builtin_inff(), load(s + j * MQ + v)));
        }
}

// e^x for x <= 0: below -87 it is 0, NaN stays.
MGX_INLINE F exp_negative(F x) {
    const F e = exp_normal(x), zero{};
    return (x < -87.0f) ? zero : e;
}

// s = e^(s - max), and per query: max, sum, and the scale that brings earlier sums to the new maximum.
inline void softmax_block(const Scratch& w, int nq, int64_t nk, bool first) {
    const F none = F{} - __builtin_inff();
    for (int v = 0; v < nq; v += LANES) {
        float* s = w.s + v;
        F m[4] = {none, none, none, none}, l[4] = {};
        int64_t j = 0;
        for (; j + 4 <= nk; j += 4)
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                const F x = load(s + (j + i) * MQ);
                m[i] = (x > m[i]) ? x : m[i];  // a NaN score reaches the sum through its own exponential
            }
        for (; j < nk; ++j) m[0] = max(m[0], load(s + j * MQ));
        const F before = first ? none : load(w.max + v);
        const F most = max(before, max(max(m[0], m[1]), max(m[2], m[3])));
        const F base = (most == none) ? F{} : most;
        for (j = 0; j + 4 <= nk; j += 4)
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                const F e = exp_negative(load(s + (j + i) * MQ) - base);
                l[i] += e;
                store(s + (j + i) * MQ, e);
            }
        for (; j < nk; ++j) {
            const F e = exp_negative(load(s + j * MQ) - base);
            l[0] += e;
            store(s + j * MQ, e);
        }
        const F sum = (l[0] + l[1]) + (l[2] + l[3]), scale = exp_negative(before - base);
        store(w.max + v, most);
        store(w.sum + v, first ? sum : load(w.sum + v) * scale + sum);
        store(w.scale + v, scale);
    }
}

// ---- values -----------------------------------------------------------------------------------------------

// What becomes of a tile of sums: the first block starts from 0, the last divides by the sum and writes out.
struct Stage {
    bool first, last;
};

// QR queries from r on, V registers of values from column c on; only n columns of the last register exist.
template <int V, class T>
MGX_INLINE void values(const Scratch& w, Rows rows, int64_t nk, int64_t o_stride, int r, int nq, int64_t c,
                       int n, Stage stage, T* out, int64_t out_stride) {
    F acc[QR][V] = {};
    float* o = w.o + r * o_stride + c;
    if (!stage.first)
        for (int i = 0; i < QR; ++i)
            for (int a = 0; a < V; ++a) acc[i][a] = load(o + i * o_stride + a * LANES) * w.scale[r + i];
    const float *s = w.s + r, *v = rows.at + c;
    for (int64_t j = 0; j < nk; ++j, s += MQ, v += rows.stride) {
        F x[V];
#pragma GCC unroll 4
        for (int a = 0; a < V; ++a) x[a] = (V > 1 || n == LANES) ? load(v + a * LANES) : load_n(v, n);
#pragma GCC unroll 16
        for (int i = 0; i < QR; ++i) {
            const F b = splat(s[i]);
#pragma GCC unroll 4
            for (int a = 0; a < V; ++a) acc[i][a] += b * x[a];
        }
    }
    for (int i = 0; i < QR; ++i)
        for (int a = 0; a < V; ++a) {
            if (!stage.last)
                store(o + i * o_stride + a * LANES, acc[i][a]);
            else if (r + i < nq)
                store_f_n(out + (r + i) * out_stride + c + a * LANES, acc[i][a] * w.sum[r + i],
                          V > 1 ? LANES : n);
        }
}

template <class T>
MGX_NOINLINE void values_block(const Attention& p, const Scratch& w, Rows v, int64_t nk, int nq, Stage stage,
                               T* out) {
    const int64_t o_stride = padded(p.value_dim), full = p.value_dim / (VR * LANES) * (VR * LANES);
    // columns by columns: those of all keys stay in the first-level cache
    for (int64_t c = 0; c < full; c += VR * LANES)
        for (int r = 0; r < nq; r += QR) values<VR>(w, v, nk, o_stride, r, nq, c, LANES, stage, out, p.out.row);
    for (int64_t c = full; c < p.value_dim; c += LANES) {
        const int n = int(p.value_dim - c < LANES ? p.value_dim - c : LANES);
        for (int r = 0; r < nq; r += QR) values<1>(w, v, nk, o_stride, r, nq, c, n, stage, out, p.out.row);
    }
}

// ---- keys that are seen -----------------------------------------------------------------------------------

// Whether these rows of the mask hide all of the keys k0 .. k0 + nk.
template <class M>
MGX_NOINLINE bool hides(const Attention& p, const M* mask, int64_t rows, int64_t k0, int64_t nk) {
    const F hidden = same_v<M, uint8_t> ? F{} : F{} - __builtin_inff();
    for (int64_t r = 0; r < (p.mask_row ? rows : 1); ++r)
        for (int64_t j = 0; j < nk; j += LANES) {
            const int n = int(nk - j < LANES ? nk - j : LANES);
            const F m = mask_lanes(mask + r * p.mask_row + (k0 + j) * p.mask_key, p.mask_key, n);
            const vec<int32_t> shown = (m != hidden) & (iota<int32_t>() < n);
            if (hmin(shown) < 0) return false;
        }
    return true;
}

// The keys below `keys` that any of these rows may see, from the begin of a block on; the first block where none is.
template <class M>
inline Range shown(const Attention& p, const M* mask, int64_t rows, int64_t keys) {
    if (!mask || keys <= 0) return {0, keys};
    const int64_t block = key_block(p);
    const auto hidden = [&](int64_t from) { return hides(p, mask, rows, from, least(block, keys - from)); };
    int64_t begin = 0, end = keys, last = (keys - 1) / block * block;
    while (begin < last && hidden(begin)) begin += block;
    if (begin == last && hidden(begin)) return {0, least(block, keys)};
    for (; last > begin && hidden(last); last -= block) end = last;
    while (end - begin > LANES && hides(p, mask, rows, end - LANES, LANES)) end -= LANES;
    return {begin, end};
}

// 1 / sum, and what a row without any key gives.
inline void invert_sums(const Attention& p, const Scratch& w) {
    for (int v = 0; v < MQ; v += LANES) {
        const F sum = load(w.sum + v), inverse = 1.0f / sum, zero{};
        store(w.sum + v, p.zero_rows ? select(sum == zero, zero, inverse) : inverse);
    }
}

// Keys that the queries before `end` see.
inline int64_t seen(const Attention& p, int64_t end) {
    const int64_t n = p.causal ? end + p.causal_offset : p.keys;
    return n < 0 ? 0 : n < p.keys ? n : p.keys;
}

// The keys k0 .. k0 + nk, of which k and v are the rows, for the tile whose first query is u.q0 and that sees `keys`.
template <class T, class M>
MGX_NOINLINE void run_tile(const Attention& p, const Unit<T, M>& u, const Scratch& w, Rows k, Rows v,
                           int64_t k0, int64_t nk, Range keys) {
    if (k0 < keys.begin || (k0 > keys.begin && k0 >= keys.end)) return;
    if (k0 + nk > keys.end) nk = keys.end - k0;
    const Stage stage{k0 == keys.begin, k0 + nk >= keys.end};
    const int nq = int(u.nq);
    if (nq <= LANES)
        scores<1>(w.qt, k, nk, p.dim, w.s);
    else if (nq <= 2 * LANES)
        scores<2>(w.qt, k, nk, p.dim, w.s);
    else
        scores<QV>(w.qt, k, nk, p.dim, w.s);
    if (u.mask) add_mask(p, u.mask, nq, k0, nk, w.s);
    if (p.causal) cut_causal(u.q0 + p.causal_offset, nq, k0, nk, w.s);
    softmax_block(w, nq, nk, stage.first);
    if (stage.last) invert_sums(p, w);
    values_block(p, w, v, nk, nq, stage, u.out);
}

template <class T, class M>
MGX_NOINLINE void run_unit(const Attention& p, const Unit<T, M>& u, float* scratch) {
    const auto tile = [&](int64_t t) {
        const int64_t q = t * MQ, left = u.nq - q;
        return Unit<T, M>{u.q + q * p.q.row, u.k, u.v, u.mask ? u.mask + q * p.mask_row : nullptr,
                          u.out + q * p.out.row, u.q0 + q, left < MQ ? left : MQ};
    };
    const int64_t block = key_block(p), tiles = (u.nq + MQ - 1) / MQ;
    Range keys[TILES], all{p.keys, 0};
    for (int64_t t = 0; t < tiles; ++t) {
        const Unit<T, M> one = tile(t);
        pack_queries(one.q, p.q.row, int(one.nq), p.dim, p.scale, divide(p, scratch, int(t)).qt);
        keys[t] = shown(p, one.mask, one.nq, seen(p, one.q0 + one.nq));
        all = {least(all.begin, keys[t].begin), all.end < keys[t].end ? keys[t].end : all.end};
    }
    for (int64_t k0 = all.begin; k0 == all.begin || k0 < all.end; k0 += block) {
        const int64_t nk = all.end - k0 < block ? all.end - k0 : block;
        const Scratch w = divide(p, scratch, 0);
        const Rows k = pack_rows(u.k + k0 * p.k.row, p.k.row, nk, p.dim, w.k);
        const Rows v = pack_rows(u.v + k0 * p.v.row, p.v.row, nk, p.value_dim, w.v);
        for (int64_t t = 0; t < tiles; ++t) run_tile(p, tile(t), divide(p, scratch, int(t)), k, v, k0, nk, keys[t]);
    }
}

// ---- few queries ------------------------------------------------------------------------------------------

inline constexpr int64_t FEW = 8;  // rows at most: the queries of all heads of a group

// What a group keeps: rows of queries, of scores and of sums, for each row its maximum and its sum, keys and values.
struct Few {
    float *q, *s, *o, *max, *sum, *k, *v;
    int64_t q_step, s_step, o_step;
};
inline Few divide_few(const Attention& p, float* at) {
    const int64_t q = padded(p.dim), s = padded(key_block(p)), o = padded(p.value_dim);
    float *sums = at + FEW * (q + s + o), *rows = sums + padded(2 * FEW);
    return {at, at + FEW * q, at + FEW * (q + s), sums, sums + FEW, rows, rows + key_block(p) * q, q, s, o};
}
inline int64_t few_floats(const Attention& p) {
    const int64_t row = padded(p.dim) + padded(p.value_dim), block = key_block(p);
    return FEW * (row + padded(block)) + padded(2 * FEW) + block * row;
}

// Rows of K or V as floats, where they lie if they are.
template <class T>
MGX_INLINE Rows as_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
    if constexpr (same_v<T, float>)
        return {from, stride};
    else
        return pack_rows(from, stride, rows, columns, to);
}

// Scores of a row with nk keys: LANES keys at a time, whose sums over lanes are one transposition.
inline void few_scores(const float* q, Rows k, int64_t nk, int64_t dim, float* s) {
    for (int64_t j = 0; j < nk; j += LANES) {
        const float* row[LANES];
        for (int i = 0; i < LANES; ++i) row[i] = k.at + (j + i < nk ? j + i : nk - 1) * k.stride;
        F acc[LANES] = {};
        int64_t d = 0;
        for (; d + LANES <= dim; d += LANES) {
            const F x = load(q + d);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; ++i) acc[i] += x * load(row[i] + d);
        }
        if (d < dim) {
            const F x = load(q + d);
            for (int i = 0; i < LANES; ++i) acc[i] += x * load_n(row[i] + d, int(dim - d));
        }
        transpose_lanes(acc);
        F sum{};
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i) sum += acc[i];
        store(s + j, sum);
    }
}

// C registers of the sums of R rows from column c on, scaled to their new maximum; n columns of the last exist.
template <int R, int C>
MGX_INLINE void few_columns(const Few& w, const float* scale, Rows v, int64_t nk, int64_t c, int n) {
    const float *from = v.at + c, *s = w.s;
    const int64_t step = w.s_step;
    F acc[R][C];
    for (int r = 0; r < R; ++r)
        for (int i = 0; i < C; ++i) acc[r][i] = load(w.o + r * w.o_step + c + i * LANES) * scale[r];
    for (int64_t j = 0; j < nk; ++j, from += v.stride) {
        F x[C];
#pragma GCC unroll 4
        for (int i = 0; i < C; ++i) x[i] = C > 1 || n == LANES ? load(from + i * LANES) : load_n(from, n);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const F weight = splat(s[r * step + j]);
#pragma GCC unroll 4
            for (int i = 0; i < C; ++i) acc[r][i] += weight * x[i];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int i = 0; i < C; ++i) store(w.o + r * w.o_step + c + i * LANES, acc[r][i]);
}
template <int R>
MGX_NOINLINE void few_values(const Few& w, const float* scale, Rows v, int64_t nk, int64_t dim) {
    constexpr int C = (LANES == 16 ? 16 : 8) / R < 4 ? (LANES == 16 ? 16 : 8) / R : 4;
    int64_t c = 0;
    if constexpr (C > 1)
        for (; c + C * LANES <= dim; c += C * LANES) few_columns<R, C>(w, scale, v, nk, c, LANES);
    for (; c < dim; c += LANES) few_columns<R, 1>(w, scale, v, nk, c, int(least(LANES, dim - c)));
}

// Scores of a row become exponentials; returns what brings earlier sums to the new maximum.
inline float few_softmax(float* s, int64_t nk, float& max, float& sum) {
    for (int64_t j = nk; j < padded(nk); ++j) s[j] = -__builtin_inff();
    F m = splat(max), l{};
    for (int64_t j = 0; j < nk; j += LANES) {
        const F x = load(s + j);
        m = (x > m) ? x : m;
    }
    const float most = hmax(m), base = most == -__builtin_inff() ? 0 : most;
    for (int64_t j = 0; j < nk; j += LANES) {
        const F e = exp_negative(load(s + j) - splat(base));
        l += e;
        store(s + j, e);
    }
    const float scale = exp_negative(splat(max - base))[0];
    sum = sum * scale + hsum(l);
    max = most;
    return scale;
}

// The group of heads that reads head g of batch b.
template <class T, class M>
MGX_NOINLINE void run_few(const Attention& p, int64_t b, int64_t g, int64_t rows, const T* q, const T* k, const T* v,
                          const M* mask, T* out, float* scratch) {
    const auto values = rows <= 1 ? few_values<1> : rows <= 2 ? few_values<2> : rows <= 4 ? few_values<4> : few_values<8>;
    const int64_t group = p.heads / p.kv_heads, block = key_block(p), limit = seen(p, p.queries);
    const Few w = divide_few(p, scratch);
    k += b * p.k.batch + g * p.k.head;
    v += b * p.v.batch + g * p.v.head;
    __builtin_memset(scratch, 0, sizeof(float) * (w.max - scratch));  // rows and columns that do not exist count as 0
    Range keys{limit, 0};
    const M* masks[FEW];
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t h = g * group + r / p.queries, i = r % p.queries;
        const T* from = q + b * p.q.batch + h * p.q.head + i * p.q.row;
        for (int64_t d = 0; d < p.dim; d += LANES)
            store_n(w.q + r * w.q_step + d, load_f_n(from + d, int(least(LANES, p.dim - d))) * p.scale,
                    int(least(LANES, p.dim - d)));
        masks[r] = mask ? mask + b * p.mask_batch + h * p.mask_head + i * p.mask_row : nullptr;
        w.max[r] = -__builtin_inff();
        w.sum[r] = 0;
        if (r && masks[r] == masks[r - 1]) continue;
        const Range own = shown(p, masks[r], 1, limit);
        keys = {least(keys.begin, own.begin), keys.end < own.end ? own.end : keys.end};
    }
    for (int64_t k0 = keys.begin; k0 < keys.end; k0 += block) {
        const int64_t nk = least(block, keys.end - k0);
        const Rows keys_at = as_rows(k + k0 * p.k.row, p.k.row, nk, p.dim, w.k);
        const Rows values_at = as_rows(v + k0 * p.v.row, p.v.row, nk, p.value_dim, w.v);
        float scale[FEW] = {};
        for (int64_t r = 0; r < rows; ++r) {
            float* s = w.s + r * w.s_step;
            few_scores(w.q + r * w.q_step, keys_at, nk, p.dim, s);
            for (int64_t j = 0; masks[r] && j < nk; j += LANES) {
                const int n = int(least(LANES, nk - j));
                store(s + j, masked<M>(load(s + j), mask_lanes(masks[r] + (k0 + j) * p.mask_key, p.mask_key, n)));
            }
            const int64_t last = r % p.queries + p.causal_offset - k0;  // that the row sees
            for (int64_t j = last < 0 ? 0 : last + 1; p.causal && j < nk; ++j) s[j] = -__builtin_inff();
            scale[r] = few_softmax(s, nk, w.max[r], w.sum[r]);
        }
        values(w, scale, values_at, nk, p.value_dim);
    }
    for (int64_t r = 0; r < rows; ++r) {
        T* to = out + b * p.out.batch + (g * group + r / p.queries) * p.out.head + r % p.queries * p.out.row;
        const float inverse = p.zero_rows && w.sum[r] == 0 ? 0 : 1 / w.sum[r];
        for (int64_t c = 0; c < p.value_dim; c += LANES)
            store_f_n(to + c, load(w.o + r * w.o_step + c) * inverse, int(least(LANES, p.value_dim - c)));
    }
}

template <class T, class M>
inline void few_queries(const Team& team, const Attention& p, const T* q, const T* k, const T* v, const M* mask, T* out,
                        char* scratch) {
    const Range mine = team.share(p.batch * p.kv_heads);
    for (int64_t i = mine.begin, rows = p.heads / p.kv_heads * p.queries; i < mine.end; ++i)
        run_few(p, i / p.kv_heads, i % p.kv_heads, rows, q, k, v, mask, out, reinterpret_cast<float*>(scratch));
}

// Asks for rows that are read next: far apart as those of heads are, no other prefetch finds them. On a Zen 3 64 windows of
// 49 tokens with 3 heads of 32 take two threads 2.1 ms so, in place of 2.5.
template <class T> inline void ask_for(const T* from, int64_t stride, int64_t rows, int64_t columns) {
    const int64_t bytes = columns * int64_t(sizeof(T));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < bytes; k += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(from + r * stride) + k, 0, 2);
}

template <class T, class M>
inline void many_queries(const Team& team, const Attention& p, const T* q, const T* k, const T* v, const M* mask, T* out,
                         char* scratch) {
    const int64_t group = p.heads / p.kv_heads, tiles = (p.queries + MQ - 1) / MQ;
    const int64_t each = p.batch * p.heads * tiles / (4 * team.size);  // tiles of a unit: four units a thread
    const int64_t per = each < 1 ? 1 : least(each, most_tiles(p)), units = (tiles + per - 1) / per, span = per * MQ;
    const Range range = team.share(p.batch * p.heads * units);
    const auto unit = [&](int64_t i) {
        const int64_t b = i / units / p.heads, h = i / units % p.heads, q0 = i % units * span, g = h / group;
        const M* own = mask ? mask + b * p.mask_batch + h * p.mask_head + q0 * p.mask_row : mask;
        return Unit<T, M>{
            q + b * p.q.batch + h * p.q.head + q0 * p.q.row, k + b * p.k.batch + g * p.k.head,
            v + b * p.v.batch + g * p.v.head, own, out + b * p.out.batch + h * p.out.head + q0 * p.out.row,
            q0, least(span, p.queries - q0)};
    };
    for (int64_t i = range.begin; i < range.end; ++i) {
        if (i + 1 < range.end && units == 1 && p.keys <= KEY_BLOCK) {
            const Unit<T, M> next = unit(i + 1);
            ask_for(next.q, p.q.row, next.nq, p.dim);
            ask_for(next.k, p.k.row, p.keys, p.dim);
            ask_for(next.v, p.v.row, p.keys, p.value_dim);
        }
        run_unit(p, unit(i), reinterpret_cast<float*>(scratch));
    }
}

}  // namespace attn

template <class T> inline int64_t attention_scratch(const Attention& p) {
    const int64_t row = attn::MQ + attn::padded(p.dim) + attn::padded(p.value_dim);
    const int64_t many = attn::most_tiles(p) * attn::tile_floats(p) + attn::key_block(p) * row, few = attn::few_floats(p);
    return int64_t(sizeof(float)) * (many > few ? many : few);
}

enum class Group { few, many };  // how many queries share keys
template <Group group_is, class T, class M>
MGX_NOINLINE void attention(const Team& team, const Attention& p, const T* q, const T* k, const T* v, const M* mask,
                            T* out, char* scratch) {
    if constexpr (group_is == Group::few) attn::few_queries(team, p, q, k, v, mask, out, scratch);
    if constexpr (group_is == Group::many) attn::many_queries(team, p, q, k, v, mask, out, scratch);
}
template <class... Rest> MGX_INLINE void attention(const Team& team, const Attention& p, Rest... rest) {
    const bool few = p.heads / p.kv_heads * p.queries <= attn::FEW;  // which differs from run to run
    few ? attention<Group::few>(team, p, rest...) : attention<Group::many>(team, p, rest...);
}

}  // namespace mgx

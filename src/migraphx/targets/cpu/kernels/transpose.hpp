// Matrices of bytes or of words of four, transposed: {n, rows, columns} whose columns follow each other becomes what has
// rows that do, such as images whose channels become the innermost dimension, or no longer are. The general copy reads or
// writes such elements one by one.
//
//   transpose(team, params, x, y)
//
// Threads take blocks of the longer side, so wide that whole cache lines are read and written.
#pragma once

#include "team.hpp"
#include "vec.hpp"

namespace mgx {

struct Transpose {
    int64_t n, rows, columns;
    int64_t x_image, x_row, y_image, y_column;  // elements from matrix to matrix, from row to row, from column to column
};

// Exchanges the parts of SHIFT bits that lie off the diagonal of two by two such parts.
template <int SHIFT> MGX_INLINE void exchange(uint64_t& a, uint64_t& b, uint64_t low) {
    const uint64_t differ = (a >> SHIFT ^ b) & low;
    b ^= differ;
    a ^= differ << SHIFT;
}

// LANES registers of LANES elements: swaps the S x S blocks off the diagonal of each of 2S x 2S, for S down to 1.
template <int S, class V, int... I> MGX_INLINE void swap_blocks(V& a, V& b, Ints<I...>) {
    const V low = __builtin_shufflevector(a, b, ((I & S) ? LANES + I - S : I)...);
    b = __builtin_shufflevector(a, b, ((I & S) ? LANES + I : I + S)...);
    a = low;
}
template <int S = LANES / 2, class V> MGX_INLINE void transpose_lanes(V (&t)[LANES]) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i)
        if (!(i & S)) swap_blocks<S>(t[i], t[i + S], UpTo<LANES>{});
    if constexpr (S > 1) transpose_lanes<S / 2>(t);
}

// get(i) is row i < rows, put(j, x) takes column j < columns; lanes of rows that do not exist are 0.
template <class V, class Get, class Put> MGX_INLINE void transpose_tile(int rows, int columns, Get get, Put put) {
    V t[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) t[i] = i < rows ? get(i) : V{};
    transpose_lanes(t);
#pragma GCC unroll 16
    for (int j = 0; j < LANES; ++j)
        if (j < columns) put(j, t[j]);
}

// LANES x LANES elements of 4 bytes: dst[c * dst_ld + r] = src[r * src_ld + c].
template <class T> MGX_INLINE void transpose_square(const T* src, int64_t src_ld, T* dst, int64_t dst_ld) {
    vec<T> v[LANES];
    for (int i = 0; i < LANES; ++i) v[i] = load(src + i * src_ld);
    transpose_lanes(v);
    for (int i = 0; i < LANES; ++i) store(dst + i * dst_ld, v[i]);
}

// Eight by eight bytes, as transpose_square.
MGX_INLINE void transpose_square(const uint8_t* src, int64_t src_ld, uint8_t* dst, int64_t dst_ld) {
    uint64_t r[8];  // the first byte in the lowest bits
    for (int i = 0; i < 8; ++i) __builtin_memcpy(&r[i], src + i * src_ld, 8);
    for (int i = 0; i < 8; i += 2) exchange<8>(r[i], r[i + 1], 0x00FF00FF00FF00FF);
    for (int i = 0; i < 8; i += 1 + i % 2 * 2) exchange<16>(r[i], r[i + 2], 0x0000FFFF0000FFFF);
    for (int i = 0; i < 4; ++i) exchange<32>(r[i], r[i + 4], 0x00000000FFFFFFFF);
    for (int i = 0; i < 8; ++i) __builtin_memcpy(dst + i * dst_ld, &r[i], 8);
}

inline constexpr int64_t TRANSPOSED = 256;  // bytes of a block along its longer side

// What is no whole square.
template <class T>
MGX_NOINLINE void transpose_rest(const T* src, int64_t src_ld, T* dst, int64_t dst_ld, int64_t rows, int64_t columns) {
    for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows; ++i) dst[j * dst_ld + i] = src[i * src_ld + j];
}

template <class T> inline void transpose(const Team& team, const Transpose& params, const T* x, T* y) {
    constexpr int64_t EDGE = sizeof(T) == 1 ? 8 : LANES, BLOCK = TRANSPOSED / sizeof(T);
    const Transpose p = params;  // a copy, which stores cannot change
    const bool tall = p.rows > p.columns;  // blocks of rows
    const int64_t longer = tall ? p.rows : p.columns, other = tall ? p.columns : p.rows, blocks = (longer + BLOCK - 1) / BLOCK;
    const int64_t x_along = tall ? p.x_row : 1, x_across = tall ? 1 : p.x_row;
    const int64_t y_along = tall ? 1 : p.y_column, y_across = tall ? p.y_column : 1;
    const Range mine = team.share(p.n * blocks);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t first = i % blocks * BLOCK, length = least(BLOCK, longer - first), image = i / blocks;
        for (int64_t a = 0; a < other; a += EDGE) {
            const T* from = x + image * p.x_image + first * x_along + a * x_across;
            T* to = y + image * p.y_image + first * y_along + a * y_across;
            const int64_t across = least(EDGE, other - a), squares = across == EDGE ? length / EDGE * EDGE : 0;
            for (int64_t b = 0; b < squares; b += EDGE)
                transpose_square(from + b * x_along, p.x_row, to + b * y_along, p.y_column);
            const int64_t left = length - squares;
            from += squares * x_along, to += squares * y_along;
            transpose_rest(from, p.x_row, to, p.y_column, tall ? left : across, tall ? across : left);
        }
    }
}

}  // namespace mgx

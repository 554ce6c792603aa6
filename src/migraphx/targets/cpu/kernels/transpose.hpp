// Matrices of bytes, transposed: {n, rows, columns} whose columns follow each other becomes what has rows that do, such
// as images whose channels become the innermost dimension. The general copy reads or writes such bytes one by one.
//
//   transpose(team, params, x, y)
//
// Threads take runs of eight rows.
#pragma once

#include "team.hpp"
#include "vec.hpp"

namespace mgx {

struct Transpose {
    int64_t n, rows, columns;
    int64_t x_image, x_row, y_image, y_column;  // bytes from matrix to matrix, from row to row, from column to column
};

// Exchanges the parts of SHIFT bits that lie off the diagonal of two by two such parts.
template <int SHIFT> MGX_INLINE void exchange(uint64_t& a, uint64_t& b, uint64_t low) {
    const uint64_t differ = (a >> SHIFT ^ b) & low;
    b ^= differ;
    a ^= differ << SHIFT;
}

// Eight rows of eight bytes, the first in the lowest bits.
MGX_INLINE void transpose_tile(uint64_t (&r)[8]) {
    for (int i = 0; i < 8; i += 2) exchange<8>(r[i], r[i + 1], 0x00FF00FF00FF00FF);
    for (int i = 0; i < 8; i += 1 + i % 2 * 2) exchange<16>(r[i], r[i + 2], 0x0000FFFF0000FFFF);
    for (int i = 0; i < 4; ++i) exchange<32>(r[i], r[i + 4], 0x00000000FFFFFFFF);
}

inline void transpose(const Team& team, const Transpose& p, const uint8_t* x, uint8_t* y) {
    const int64_t runs = (p.rows + 7) / 8;
    const Range mine = team.share(p.n * runs);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t first = i % runs * 8, rows = least(8, p.rows - first);
        const uint8_t* from = x + i / runs * p.x_image + first * p.x_row;
        uint8_t* to = y + i / runs * p.y_image + first;
        for (int64_t k = 0; k < p.columns; k += 8) {
            const int64_t columns = least(8, p.columns - k);
            if (rows == 8 && columns == 8) {
                uint64_t tile[8];
                for (int j = 0; j < 8; ++j) __builtin_memcpy(&tile[j], from + j * p.x_row + k, 8);
                transpose_tile(tile);
                for (int j = 0; j < 8; ++j) __builtin_memcpy(to + (k + j) * p.y_column, &tile[j], 8);
                continue;
            }
            for (int64_t j = 0; j < columns; ++j)
                for (int64_t r = 0; r < rows; ++r) to[(k + j) * p.y_column + r] = from[r * p.x_row + k + j];
        }
    }
}

}  // namespace mgx

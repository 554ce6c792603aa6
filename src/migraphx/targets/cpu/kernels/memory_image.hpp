// Whether pieces of this process's memory hold what they held. They lie all over it, and a run has pushed them out of the
// caches: each is asked for well before it is compared, so that one wait covers many.
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

namespace mgx {

// Where a piece begins, and above that how many bytes it has: fewer than 64 K.
using Piece = uint64_t;
inline constexpr int ADDRESS_BITS = 48;
inline constexpr int64_t REQUEST_BYTES = 96;
inline constexpr int64_t PIECES_AHEAD = 32, LINE_BYTES = 64, LONG_PIECE = 256;

inline const char* begin_of(Piece piece) {
    return reinterpret_cast<const char*>(piece & ((Piece(1) << ADDRESS_BITS) - 1));
}
inline int64_t bytes_of(Piece piece) { return int64_t(piece >> ADDRESS_BITS); }

// Of a long piece its beginning: the processor goes on by itself.
inline void prefetch(Piece piece) {
    const char* const begin = begin_of(piece);
    const int64_t bytes = bytes_of(piece) < LONG_PIECE ? bytes_of(piece) : LONG_PIECE;
    for (int64_t k = 0; k < bytes; k += LINE_BYTES) __builtin_prefetch(begin + k);
    __builtin_prefetch(begin + bytes - 1);
}

// Of a long piece the image keeps no bytes, but for each block of it a sum of products with random numbers: half as much is
// read, and a block that was changed has the same sum once in 2^64 times, whatever was written, for nobody knows the
// numbers (NH of Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, Crypto 1999; words of 64 bits).
inline constexpr int64_t BLOCK_WORDS = 128, BLOCK_BYTES = BLOCK_WORDS * 8;
using Sum = unsigned __int128;

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-slp-vectorize")))  // it would add pairs as vectors, and take them apart to multiply
#endif
inline Sum sum_of(const char* words, const uint64_t* random) {
    Sum sums[2] = {};
    for (int64_t k = 0; k < BLOCK_WORDS; k += 4) {
        uint64_t w[4];
        memcpy(w, words + 8 * k, sizeof w);
        sums[0] += Sum(w[0] + random[k]) * (w[1] + random[k + 1]);
        sums[1] += Sum(w[2] + random[k + 2]) * (w[3] + random[k + 3]);
    }
    return sums[0] + sums[1];
}

// Bytes that are kept of a piece.
inline int64_t kept_of(Piece piece) {
    const int64_t bytes = bytes_of(piece);
    return bytes <= LONG_PIECE ? bytes : (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * int64_t(sizeof(Sum));
}

// Calls `block(its sum, its number)` for each block of a long piece; the last one ends with zeros.
template <class F> inline void each_sum(Piece piece, const uint64_t* random, const F& block) {
    const char* const begin = begin_of(piece);
    const int64_t bytes = bytes_of(piece);
    int64_t k = 0;
    for (; (k + 1) * BLOCK_BYTES <= bytes; ++k) block(sum_of(begin + k * BLOCK_BYTES, random), k);
    if (k * BLOCK_BYTES == bytes) return;
    char last[BLOCK_BYTES] = {};
    memcpy(last, begin + k * BLOCK_BYTES, bytes - k * BLOCK_BYTES);
    block(sum_of(last, random), k);
}

inline void take(Piece piece, const uint64_t* random, char* kept) {
    if (bytes_of(piece) <= LONG_PIECE) {
        memcpy(kept, begin_of(piece), bytes_of(piece));
    } else {
        each_sum(piece, random, [&](Sum sum, int64_t k) { memcpy(kept + k * sizeof(Sum), &sum, sizeof(Sum)); });
    }
}

// Zero where a piece is as it was. Short ones by words, which compilers make vectors of.
inline uint64_t difference(Piece piece, const uint64_t* random, const char* kept) {
    uint64_t found = 0;
    if (bytes_of(piece) > LONG_PIECE) {
        each_sum(piece, random, [&](Sum sum, int64_t k) { found |= memcmp(kept + k * sizeof(Sum), &sum, sizeof(Sum)) != 0; });
        return found;
    }
    const char* begin = begin_of(piece);
    int64_t bytes = bytes_of(piece);
    for (; bytes >= 8; bytes -= 8, begin += 8, kept += 8) {
        uint64_t x, y;
        memcpy(&x, begin, 8);
        memcpy(&y, kept, 8);
        found |= x ^ y;
    }
    return bytes == 0 ? found : found | (memcmp(begin, kept, bytes) != 0);
}

// What the kernel is asked, which answers 0 where nothing changed: the same question with several arguments.
struct Requests {
    int64_t file, number, count;
    const char* arguments;

    bool unchanged() const {
        for (int64_t k = 0; k < count; ++k) {
            char argument[REQUEST_BYTES];  // which the kernel writes to
            memcpy(argument, arguments + k * REQUEST_BYTES, REQUEST_BYTES);
            if (ioctl(int(file), (unsigned long)(number), argument) != 0) return false;
        }
        return true;
    }
};

// Pieces come in stages, which end at ends[0], ends[1], ...: only where all of a stage are as they were is the memory of
// the next one read. `kept` is what they held, one behind the other.
struct Image {
    const Piece* pieces;
    const int64_t* ends;
    int64_t stages;
    char* kept;
    const uint64_t* random;  // BLOCK_WORDS numbers
    Requests requests;

    int64_t count() const { return stages ? ends[stages - 1] : 0; }
};

inline bool same(const Image& image) {
    if (!image.requests.unchanged()) return false;
    const char* kept = image.kept;
    const int64_t count = image.count();
    for (int64_t stage = 0, k = 0, asked = 0; stage < image.stages; ++stage) {
        uint64_t found = 0;
        for (; k < image.ends[stage]; kept += kept_of(image.pieces[k++])) {
            for (; asked < count && asked <= k + PIECES_AHEAD; ++asked) prefetch(image.pieces[asked]);
            found |= difference(image.pieces[k], image.random, kept);
        }
        if (found) return false;
    }
    return true;
}

// How many bytes are kept; they are written where `kept` is not null.
inline int64_t take(const Image& image) {
    int64_t at = 0;
    for (int64_t k = 0; k < image.count(); at += kept_of(image.pieces[k++])) {
        if (image.kept) take(image.pieces[k], image.random, image.kept + at);
    }
    return at;
}

// Whether each piece differs.
inline void compare(const Image& image, bool* differs) {
    const char* kept = image.kept;
    for (int64_t k = 0; k < image.count(); kept += kept_of(image.pieces[k++])) {
        differs[k] = difference(image.pieces[k], image.random, kept) != 0;
    }
}

}  // namespace mgx

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

// Zero where `bytes` bytes are alike. By words, which compilers make vectors of.
inline uint64_t difference(const char* a, const char* b, int64_t bytes) {
    if (bytes > LONG_PIECE) return memcmp(a, b, bytes) != 0;
    uint64_t found = 0;
    for (; bytes >= 8; bytes -= 8, a += 8, b += 8) {
        uint64_t x, y;
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        found |= x ^ y;
    }
    return found | (memcmp(a, b, bytes) != 0);
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
    const char* kept;
    Requests requests;

    int64_t count() const { return stages ? ends[stages - 1] : 0; }
};

inline bool same(const Image& image) {
    if (!image.requests.unchanged()) return false;
    const char* kept = image.kept;
    const int64_t count = image.count();
    for (int64_t stage = 0, k = 0, asked = 0; stage < image.stages; ++stage) {
        uint64_t found = 0;
        for (; k < image.ends[stage]; ++k) {
            for (; asked < count && asked <= k + PIECES_AHEAD; ++asked) prefetch(image.pieces[asked]);
            const Piece piece = image.pieces[k];
            found |= difference(begin_of(piece), kept, bytes_of(piece));
            kept += bytes_of(piece);
        }
        if (found) return false;
    }
    return true;
}

inline void take(const Image& image, char* kept) {
    const Piece* const pieces = image.pieces;
    const int64_t count = image.count();
    for (int64_t k = 0; k < count; kept += bytes_of(pieces[k++])) memcpy(kept, begin_of(pieces[k]), bytes_of(pieces[k]));
}

}  // namespace mgx

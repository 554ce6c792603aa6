// An image of three planes {n, 3, pixels} as pixels of three elements {n, pixels, 3}, as convolutions read it: the
// general copy writes such short pixels lane by lane.
//
//   interleave(team, params, x, y)   elements of 4 bytes
//
// Threads take runs of pixels.
#pragma once

#include "team.hpp"
#include "vec.hpp"

namespace mgx {

struct Interleave {
    int64_t n, pixels;
    int64_t x_image, x_plane, y_image;  // elements from image to image, from plane to plane
};

// Lanes PART * LANES .. of a0 b0 c0 a1 b1 c1 ...
template <int PART, class V> MGX_INLINE V interleaved(V a, V b, V c) {
    vec<int32_t> of_ab{}, of_c{};
    for (int i = 0; i < LANES; ++i) {
        const int pixel = (PART * LANES + i) / 3, plane = (PART * LANES + i) % 3;
        of_ab[i] = pixel + plane % 2 * LANES;
        of_c[i] = plane == 2 ? LANES + pixel : i;
    }
    return shuffle(shuffle(a, b, of_ab), c, of_c);
}

inline void interleave(const Team& team, const Interleave& p, const uint32_t* x, uint32_t* y) {
    const int64_t steps = (p.pixels + LANES - 1) / LANES;
    const Range mine = team.share(p.n * steps);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t at = i % steps * LANES, count = p.pixels - at;
        const uint32_t* from = x + i / steps * p.x_image + at;
        uint32_t* to = y + i / steps * p.y_image + at * 3;
        if (count < LANES) {
            for (int64_t k = 0; k < 3 * count; ++k) to[k] = from[k % 3 * p.x_plane + k / 3];
            continue;
        }
        const auto a = load(from), b = load(from + p.x_plane), c = load(from + 2 * p.x_plane);
        store(to, interleaved<0>(a, b, c));
        store(to + LANES, interleaved<1>(a, b, c));
        store(to + 2 * LANES, interleaved<2>(a, b, c));
    }
}

}  // namespace mgx

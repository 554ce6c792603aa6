// Images of two or three planes {n, planes, pixels} as pixels of so many elements {n, pixels, planes}: pictures as
// convolutions read them, shuffled channels. The general copy writes such short pixels lane by lane.
//
//   interleave<PLANES>(team, params, x, y)   elements of 4 bytes
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

// Lanes PART * LANES .. of a0 b0 a1 b1 ... or a0 b0 c0 a1 b1 c1 ...
template <int PART, int PLANES, class V> MGX_INLINE V interleaved(const V (&planes)[PLANES]) {
    vec<int32_t> of_ab{}, of_c{};
    for (int i = 0; i < LANES; ++i) {
        const int pixel = (PART * LANES + i) / PLANES, plane = (PART * LANES + i) % PLANES;
        of_ab[i] = pixel + plane % 2 * LANES;
        of_c[i] = plane == 2 ? LANES + pixel : i;
    }
    const V ab = shuffle(planes[0], planes[1], of_ab);
    if constexpr (PLANES == 2)
        return ab;
    else
        return shuffle(ab, planes[2], of_c);
}

template <int PLANES> inline void interleave(const Team& team, const Interleave& p, const uint32_t* x, uint32_t* y) {
    const int64_t steps = (p.pixels + LANES - 1) / LANES;
    const Range mine = team.share(p.n * steps);
    for (int64_t i = mine.begin, image = i / steps, step = i % steps; i < mine.end; ++i) {
        const int64_t at = step * LANES, count = least(p.pixels - at, LANES);
        const uint32_t* from = x + image * p.x_image + at;
        uint32_t* to = y + image * p.y_image + at * PLANES;
        vec<uint32_t> planes[PLANES];
        if (count == LANES) {
            unroll<PLANES>([&](auto k) { planes[k] = load(from + k * p.x_plane); });
            unroll<PLANES>([&](auto k) { store(to + k * LANES, interleaved<k>(planes)); });
        } else {
            unroll<PLANES>([&](auto k) { planes[k] = load_n(from + k * p.x_plane, int(count)); });
            unroll<PLANES>([&](auto k) {
                const int64_t left = count * PLANES - k * LANES;
                if (left > 0) store_n(to + k * LANES, interleaved<k>(planes), int(least(left, LANES)));
            });
        }
        if (++step == steps) step = 0, ++image;
    }
}

}  // namespace mgx

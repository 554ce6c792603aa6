// Regions of images: bilinear samples pooled to a grid (ONNX RoiAlign), and those that overlap no better one
// (ONNX NonMaxSuppression).
#pragma once

#include "indexing.hpp"

namespace mgx {

struct RoiAlign {
    int64_t rois, images, channels, height, width, out_height, out_width, samples, image_check, samples_check, most;
    double scale;
    bool half, largest;  // half_pixel coordinates; the largest weighted corner instead of the mean
};

namespace regions {

// Two neighbours of a coordinate and their weights; 0 beyond one element outside.
struct Pair {
    int64_t at[2];
    double weight[2];
};
MGX_INLINE Pair neighbours(double v, int64_t n) {
    const bool inside = v >= -1 && v <= double(n);
    v = v < 0 ? 0 : v > double(n - 1) ? double(n - 1) : v;
    const int64_t low = inside ? int64_t(v) : 0;
    const double part = v - double(low);
    return {{low, low + 1 < n ? low + 1 : n - 1}, {inside ? 1 - part : 0, inside ? part : 0}};
}

}  // namespace regions

// x [images][channels][height][width], rois [rois][4] as x1 y1 x2 y2, image [rois] -> out [rois][channels][bins].
template <class T, class I>
void roi_align(const Team& t, const RoiAlign& p, const T* x, const T* rois, const I* image, T* out, int64_t* status) {
    const int64_t bins = p.out_height * p.out_width;
    const Range mine = t.share(p.rois * p.channels * bins);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t roi = u / (p.channels * bins), c = u / bins % p.channels, by = u % bins / p.out_width, bx = u % p.out_width;
        const double shift = p.half ? 0.5 : 0;
        double edge[4];
        for (int k = 0; k < 4; ++k) edge[k] = double(scalar_of(rois[roi * 4 + k])) * p.scale - shift;
        double w = edge[2] - edge[0], h = edge[3] - edge[1];
        if (!p.half) w = w < 1 ? 1 : w, h = h < 1 ? 1 : h;
        const auto count = [&](double length, int64_t parts) {
            if (p.samples) return p.samples;
            const double n = __builtin_ceil(length / double(parts));
            if (!(n <= double(p.most))) return checked(n < 9e18 ? int64_t(n) : p.most, p.most, status, p.samples_check);
            return n > 0 ? int64_t(n) : 0;
        };
        const int64_t ny = count(h, p.out_height), nx = count(w, p.out_width);
        const int64_t from = int64_t(image[roi]);
        const T* plane = x;
        if (from < 0 || from >= p.images)
            checked(-1 - p.images, p.images, status, p.image_check);
        else
            plane += (from * p.channels + c) * p.height * p.width;
        double sum = 0, top = -__builtin_inf();
        for (int64_t j = 0; j < ny; ++j) {
            const auto y = regions::neighbours(edge[1] + h / p.out_height * (by + (j + 0.5) / ny), p.height);
            for (int64_t i = 0; i < nx; ++i) {
                const auto at = regions::neighbours(edge[0] + w / p.out_width * (bx + (i + 0.5) / nx), p.width);
                for (int a = 0; a < 2; ++a)
                    for (int b = 0; b < 2; ++b) {
                        const double v = y.weight[a] * at.weight[b] * double(scalar_of(plane[y.at[a] * p.width + at.at[b]]));
                        sum += v;
                        if (v > top) top = v;
                    }
            }
        }
        const double pooled = p.largest ? top : sum / double(ny * nx);
        out[u] = narrow_to<T>(compute_t<T>(ny && nx ? pooled : 0));
    }
}

struct Suppression {
    int64_t images, classes, boxes;
    bool centered;  // boxes are (x, y, width, height), otherwise two corners
};

namespace regions {

struct Box {
    float low[2], high[2], area;
    bool open;  // may still be chosen
};
template <class T> MGX_INLINE Box box_of(const T* p, bool centered) {
    Box box{};
    for (int k = 0; k < 2; ++k) {
        const float a = float(scalar_of(p[k])), b = float(scalar_of(p[k + 2]));
        box.low[k] = centered ? a - b / 2 : a < b ? a : b;
        box.high[k] = centered ? a + b / 2 : a < b ? b : a;
    }
    box.area = (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
    return box;
}
MGX_INLINE float shared(const Box& a, const Box& b) {
    float area = 1;
    for (int k = 0; k < 2; ++k) {
        const float side = (a.high[k] < b.high[k] ? a.high[k] : b.high[k]) - (a.low[k] > b.low[k] ? a.low[k] : b.low[k]);
        area *= side > 0 ? side : 0;
    }
    return area;
}

}  // namespace regions

// boxes [images][boxes][4], scores [images][classes][boxes] -> rows (image, class, box), best first, 0 behind the last.
// A row's place depends on those before it: one thread. scratch: a Box a box.
template <class T, class S, class I, class U, class V>
void suppress(const Team& t, const Suppression& p, const T* boxes, const S* scores, const I* most, const U* overlap,
              const V* least, int64_t* out, char* scratch) {
    if (t.tid) return;
    auto* box = reinterpret_cast<regions::Box*>(scratch);
    const float limit = float(scalar_of(overlap[0])), lowest = float(scalar_of(least[0]));
    int64_t* row = out;
    for (int64_t u = 0; u < p.images * p.classes; ++u, scores += p.boxes) {
        for (int64_t i = 0; i < p.boxes; ++i) {
            if (u % p.classes == 0) box[i] = regions::box_of(boxes + (u / p.classes * p.boxes + i) * 4, p.centered);
            box[i].open = float(scalar_of(scores[i])) > lowest;
        }
        for (int64_t kept = 0; kept < int64_t(most[0]); ++kept) {
            int64_t best = -1;
            for (int64_t i = 0; i < p.boxes; ++i)
                if (box[i].open && (best < 0 || float(scalar_of(scores[i])) > float(scalar_of(scores[best])))) best = i;
            if (best < 0) break;
            if (t.stopped()) return;
            *row++ = u / p.classes, *row++ = u % p.classes, *row++ = best;
            box[best].open = false;
            for (int64_t i = 0; i < p.boxes; ++i) {
                const float both = regions::shared(box[i], box[best]);
                if (both > limit * (box[i].area + box[best].area - both)) box[i].open = false;
            }
        }
    }
    while (row < out + p.images * p.classes * p.boxes * 3) *row++ = 0;
}

}  // namespace mgx

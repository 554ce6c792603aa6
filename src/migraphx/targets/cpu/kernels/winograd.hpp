// Winograd F(4x4, 3x3) (Lavin and Gray, 2015): a 3x3 convolution of stride 1, a quarter of the products. Of three axes the
// first one counts frames (of a video, of a volume), and its taps are as many more channels.
//
// ---- what to call -------------------------------------------------------------------------------
//   template <class Epi>
//   void winograd(const Team&, const Conv&, const float* x, const float* packed_u, const Epi&, char*);
//       As conv of conv.hpp, for float with kernel {k0, 3, 3}, one group, and stride and dilation 1 but of frames; any
//       padding and size. scratch: winograd_scratch(c) bytes per thread, 64-byte aligned.
//   template <class Epi>
//   void winograd_of_taps(const Team&, const Conv&, const float* x, const float* packed_w, const Epi&, char*);
//       The same of kernel {1, 3, 3} and as many frames as x has, and of weights that are transformed on the way, a part of
//       the channels at a time: for few tiles, where a quarter of the bytes is worth more than the transform. scratch:
//       winograd_of_taps_scratch(c) bytes.
//   When each is expected to beat conv is said where that is decided: Conv.suits_winograd of emit/structs.py.
//   A NaN or infinity in x reaches the outputs that read it and no others, as in conv: a tile that comes out
//   with one is computed again, directly. Weights must be finite.
//
// ---- transformed weights ------------------------------------------------------------------------
//   u[a, b] = G w G^T for every (output channel, frame, input channel), 36 matrices, each packed as gemm.hpp packs B:
//   packed[36][ceil(oc / NR)][k0 * ic][NR]. In NumPy, for w of shape (oc, k0 * ic, 3, 3), computed in float64:
//       p, q = 5 / 8, 3 / 2                      # the points are 0, p, -p, q, -q and infinity
//       i, j = 2 * p**2 * (p**2 - q**2), 2 * q**2 * (q**2 - p**2)
//       G = np.array([[1 / (p * q) ** 2, 0, 0], [1 / i, p / i, p**2 / i], [1 / i, -p / i, p**2 / i],
//                     [1 / j, q / j, q**2 / j], [1 / j, -q / j, q**2 / j], [0, 0, 1]])
//       u = np.einsum("ai,ocij,bj->abco", G, w, G).reshape(36, k0 * ic, oc).astype(np.float32)
//       packed = each u[k] of shape (k0 * ic, oc) packed as B
//   winograd_of_taps: packed[ceil(ic / TAPS_DEPTH)][ceil(oc / NR)][TAPS_DEPTH][9][NR], the weights as they are; the last
//   part of the channels is as long as it is.
//   The other two matrices are in the code below: input_line is B^T, output_line is A^T. These points make an
//   error four times smaller than the usual 0, 1, -1, 2, -2 (measured: 3e-6 of the largest output for 256
//   channels, 1.1e-5 there) and cost no more.
//
// ---- how it works -------------------------------------------------------------------------------
// A thread takes some tiles of 4x4 output pixels (a block of them at a time, so that both intermediates stay
// in L2) and some panels of output channels: it transforms the 6x6 input patches, does one dot for each of
// the 36 places, and transforms back; the epilogue gets pixels. Frames that no tile of a block reads are left out.
#pragma once

#include "conv.hpp"
#include "window.hpp"

namespace mgx {

inline constexpr int64_t round_lanes(int64_t n) { return ceil_div(n, LANES) * LANES; }

inline constexpr int64_t winograd_tiles(const Conv& c) {
    return c.n * c.out[0] * ceil_div(c.out[1], 4) * ceil_div(c.out[2], 4);
}

// The depth of the 36 dots, and of a tile's row of them, of which the last store may be as wide as a register.
inline constexpr int64_t winograd_depth(const Conv& c) { return c.kernel[0] * c.ic; }
inline constexpr int64_t winograd_row(const Conv& c) { return round_lanes(winograd_depth(c) - c.ic + round_lanes(c.ic)); }

// Tiles a block: both intermediates within 1 MiB, but enough tiles to make the weights' way worth it.
inline constexpr int64_t winograd_block(const Conv& c) {
    const int64_t fit = (1 << 20) / (36 * 4 * (winograd_depth(c) + c.oc)), most = fit < 16 ? 16 : fit;
    return least(most, winograd_tiles(c));
}

// Distance between the 36 matrices of an intermediate; the odd line keeps them out of each other's cache set.
inline constexpr int64_t place_stride(int64_t tiles, int64_t width) { return tiles * width + 16; }

inline constexpr int64_t winograd_scratch(const Conv& c) {
    const int64_t block = winograd_block(c), oc = ceil_div(c.oc, NR) * NR;
    const int64_t places = place_stride(block, winograd_row(c)) + place_stride(block, oc);
    return round64(round_lanes(c.ic) * 4) + 36 * 4 * places;
}

// The points, exact in float, and their powers.
inline constexpr float P1 = 0.625f, P2 = P1 * P1, P3 = P2 * P1, Q1 = 1.5f, Q2 = Q1 * Q1, Q3 = Q2 * Q1;

// B^T d
MGX_INLINE void input_line(const vec<float>* d, vec<float>* t) {
    const vec<float> a = d[4] - Q2 * d[2], b = d[3] - Q2 * d[1], e = d[4] - P2 * d[2], f = d[3] - P2 * d[1];
    t[0] = P2 * Q2 * d[0] - (P2 + Q2) * d[2] + d[4];
    t[1] = a + P1 * b;
    t[2] = a - P1 * b;
    t[3] = e + Q1 * f;
    t[4] = e - Q1 * f;
    t[5] = P2 * Q2 * d[1] - (P2 + Q2) * d[3] + d[5];
}

// A^T m
MGX_INLINE void output_line(const vec<float>* m, vec<float>* o) {
    const vec<float> a = m[1] + m[2], b = m[1] - m[2], e = m[3] + m[4], f = m[3] - m[4];
    o[0] = m[0] + a + e;
    o[1] = P1 * b + Q1 * f;
    o[2] = P2 * a + Q2 * e;
    o[3] = P3 * b + Q3 * f + m[5];
}

struct Patch {
    int64_t frame, y, x;  // of the output, with its image folded in; first pixel
};
inline Patch patch_of(const Conv& c, int64_t tile) {
    const int64_t wide = ceil_div(c.out[2], 4), high = ceil_div(c.out[1], 4), line = tile / wide;
    return {line / high, line % high * 4, tile % wide * 4};
}

// Which frames of x a frame of the output reads, as taps of the first axis.
inline Window frames_of(const Conv& c, int64_t frame) {
    return window(frame % c.out[0], c.stride[0], c.pad[0], c.dilation[0], c.kernel[0], c.in[0]);
}
// The frame of x that a tap reads, which is inside, with its image folded in.
inline int64_t frame_at(const Conv& c, int64_t frame, const Window& w, int64_t tap) {
    return frame / c.out[0] * c.in[0] + w.start + tap * c.dilation[0];
}

// What the lines of G have in common: they are 1 0 0, 1 p p^2, 1 -p p^2, 1 q q^2, 1 -q q^2, 0 0 1 times these.
static constexpr float SCALES[6] = {1 / (P2 * Q2), 1 / (2 * P2 * (P2 - Q2)), 1 / (2 * P2 * (P2 - Q2)),
                                    1 / (2 * Q2 * (Q2 - P2)), 1 / (2 * Q2 * (Q2 - P2)), 1};

// One 6x6 patch of a frame of x, channels `from` to `to`: place k goes to v + k * stride. SCALED: times what weights are not.
template <bool SCALED> inline void transform_input(const Conv& c, const float* x, int64_t frame, const float* zeros, const Patch& p,
                            int64_t from, int64_t to, float* v, int64_t stride) {
    const float* at[36];
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) {
            const int64_t y = p.y - c.pad[1] + i, z = p.x - c.pad[2] + j;
            const bool inside = uint64_t(y) < uint64_t(c.in[1]) && uint64_t(z) < uint64_t(c.in[2]);
            at[6 * i + j] = inside ? x + ((frame * c.in[1] + y) * c.in[2] + z) * c.pixel : zeros;
        }
    for (int64_t ch = from; ch < to; ch += LANES) {
        vec<float> t[36], line[6];
        for (int j = 0; j < 6; ++j) {
            vec<float> d[6];
            if (ch + LANES <= c.ic)
                unroll<6>([&](auto i) { d[i] = load(at[6 * i + j] + ch); });
            else
                unroll<6>([&](auto i) { d[i] = load_n(at[6 * i + j] + ch, int(c.ic - ch)); });
            input_line(d, line);
            unroll<6>([&](auto i) { t[6 * i + j] = line[i]; });
        }
        for (int i = 0; i < 6; ++i) {
            input_line(t + 6 * i, line);
            unroll<6>([&](auto j) {
                if constexpr (SCALED) line[j] *= SCALES[i] * SCALES[j];
                store(v + (6 * i + j) * stride + ch - from, line[j]);
            });
        }
    }
}

// LANES channels of one tile: 36 places to 4x4 pixels.
inline void transform_output(const float* m, int64_t stride, vec<float>* pixels) {
    vec<float> t[24], line[4];
    for (int j = 0; j < 6; ++j) {
        vec<float> d[6];
        unroll<6>([&](auto i) { d[i] = load(m + (6 * i + j) * stride); });
        output_line(d, line);
        unroll<4>([&](auto i) { t[6 * i + j] = line[i]; });
    }
    for (int i = 0; i < 4; ++i) output_line(t + 6 * i, pixels + 4 * i);
}

struct WinogradBlock {
    int64_t first, tiles;  // of the output
    Range panels;
    float *v, *m;          // [36][tiles][row], [36][panels in groups of `together`][tiles][columns of the group]
    int64_t v_stride, m_stride, row, together;
    Range depth;           // what is read of a row
};

// The frames, as taps, that some tile of a block reads; one at least.
inline Range frames_read(const Conv& c, int64_t first, int64_t tiles) {
    Range read{c.kernel[0] - 1, 1};
    const int64_t end = patch_of(c, first + tiles - 1).frame;
    for (int64_t frame = patch_of(c, first).frame; frame <= end; ++frame) {
        const Window w = frames_of(c, frame);
        if (w.count == 0) continue;
        read.begin = least(read.begin, w.first);
        if (read.end < w.first + w.count) read.end = w.first + w.count;
    }
    return read.begin < read.end ? read : Range{0, 1};
}

// The patch of a tile in all frames `taps`; those outside x are zeros.
inline void transform_frames(const Conv& c, const float* x, const float* zeros, const Patch& p, Range taps, float* v, int64_t stride) {
    const Window w = frames_of(c, p.frame);
    for (int64_t k = taps.begin; k < taps.end; ++k) {
        float* const to = v + k * c.ic;
        if (k >= w.first && k < w.first + w.count)
            transform_input<false>(c, x, frame_at(c, p.frame, w, k), zeros, p, 0, c.ic, to, stride);
        else
            for (int i = 0; i < 36; ++i) __builtin_memset(to + i * stride, 0, c.ic * sizeof(float));
    }
}

// The 36 dots of a block.
inline void multiply_places(const Conv& c, const WinogradBlock& w, const float* u) {
    const int64_t per_place = ceil_div(c.oc, NR), panel = winograd_depth(c) * NR;
    const Tiles parts = tiles_of(w.tiles, MR<float>);
    u += w.depth.begin * NR;
    for (int64_t k = 0; k < 36; ++k)
        for (int64_t p = w.panels.begin, np; p < w.panels.end; p += np) {
            np = least(NP<float>, w.panels.end - p);
            const int64_t vecs = ceil_div(least(np * NR, c.oc - p * NR), LANES);
            const float* b = u + (k * per_place + p) * panel;
            const int64_t then = p + np < w.panels.end ? p + np : per_place + w.panels.begin;
            const float* next = u + (k * per_place + then) * panel;
            float* out = w.m + k * w.m_stride + (p - w.panels.begin) * NR * w.tiles;
            const Ahead<float> fetch(b, next, np, w.depth.size(), panel, parts.count);
            for (int64_t t = 0, row = 0; t < parts.count; row += parts.of(t), ++t) {
                const float* rows[MR<float>];
                for (int r = 0; r < parts.of(t); ++r)
                    rows[r] = w.v + k * w.v_stride + (row + r) * w.row + w.depth.begin;
                float* tile = out + row * vecs * LANES;
                const Micro<float, float, float> place{
                    rows, 1, 0, w.depth.size(), b, NR, panel, tile, false, fetch.of(t)};
                run_micro<float, float, float>(parts.of(t), int(vecs), place);
            }
        }
}

// Three weights of a line of G w: the points 0, p, -p and infinity alone give them back.
MGX_INLINE void weight_line(vec<float> zero, vec<float> p, vec<float> minus_p, vec<float> last, vec<float>* w) {
    w[0] = P2 * Q2 * zero;
    w[1] = P1 * (P2 - Q2) * (p - minus_p);
    w[2] = last;
}

// LANES channels of one tile directly; weights_of(i, w) gives the nine weights of i = frame * ic + input channel.
template <class Weights>
MGX_NOINLINE void direct_tile(const Conv& c, const float* x, const Patch& p, const Weights& weights_of, vec<float>* pixels) {
    for (int i = 0; i < 16; ++i) pixels[i] = vec<float>{};
    const Window frames = frames_of(c, p.frame);
    for (int64_t from = frames.first * c.ic, at = from; at < from + frames.count * c.ic; ++at) {
        vec<float> w[9];
        weights_of(at, w);
        const int64_t frame = frame_at(c, p.frame, frames, at / c.ic), ch = at % c.ic;
        for (int i = 0; i < 36; ++i) {
            const int64_t y = p.y - c.pad[1] + i / 6, z = p.x - c.pad[2] + i % 6;
            if (uint64_t(y) >= uint64_t(c.in[1]) || uint64_t(z) >= uint64_t(c.in[2])) continue;
            const float value = x[((frame * c.in[1] + y) * c.in[2] + z) * c.pixel + ch];
            for (int k = 0; k < 9; ++k) {  // pixel (r, s) reads value by tap k
                const int r = i / 6 - k / 3, s = i % 6 - k % 3;
                if (r >= 0 && r < 4 && s >= 0 && s < 4) pixels[4 * r + s] += value * w[k];
            }
        }
    }
}

// Weights of transformed ones, in places `step` elements apart: four of a line's six points give them back.
struct OfPlaces {
    const float* u;
    int64_t step;

    MGX_NOINLINE void operator()(int64_t ch, vec<float>* w) const {
        constexpr int PLACES[4] = {0, 1, 2, 5};
        vec<float> lines[4][3], back[3];
        for (int i = 0; i < 4; ++i) {
            const float* at = u + ch * NR + 6 * PLACES[i] * step;
            weight_line(load(at), load(at + step), load(at + 2 * step), load(at + 5 * step), lines[i]);
        }
        for (int j = 0; j < 3; ++j) {
            weight_line(lines[0][j], lines[1][j], lines[2][j], lines[3][j], back);
            for (int i = 0; i < 3; ++i) w[3 * i + j] = back[i];
        }
    }
};

// Channels of the input whose weights are transformed together: what they become stays in L2.
inline constexpr int64_t TAPS_DEPTH = 64;

// The weights of a panel for channels from `first` on, a multiple of TAPS_DEPTH, as winograd_of_taps has them.
inline const float* taps_at(const Conv& c, const float* w, int64_t first, int64_t panel) {
    return w + (first * ceil_div(c.oc, NR) + panel * least(TAPS_DEPTH, c.ic - first)) * 9 * NR;
}
struct OfTaps {
    const Conv& c;
    const float* w;
    int64_t col;

    void operator()(int64_t ch, vec<float>* to) const {
        const int64_t first = ch / TAPS_DEPTH * TAPS_DEPTH;
        const float* at = taps_at(c, w, first, col / NR) + (ch - first) * 9 * NR + col % NR;
        for (int k = 0; k < 9; ++k) to[k] = load(at + k * NR);
    }
};

// Whether a value is NaN or infinite (or the sum overflows, which costs no more than a second computation).
MGX_INLINE bool not_finite(const vec<float>* pixels) {
    vec<float> sum = pixels[0];
    unroll<15>([&](auto i) { sum += pixels[i + 1]; });
    return hsum(sum - sum) != 0;
}

// `weights_of(col)` gives what direct_tile takes for LANES columns.
template <class Weights, class Epi>
void finish_tiles(const Conv& c, const WinogradBlock& w, const float* x, const Weights& weights_of, const Epi& epi) {
    vec<float> pixels[16];
    for (int64_t t = 0; t < w.tiles; ++t) {
        const Patch patch = patch_of(c, w.first + t);
        const int64_t high = least(4, c.out[1] - patch.y), wide = least(4, c.out[2] - patch.x);
        const int64_t row = (patch.frame * c.out[1] + patch.y) * c.out[2] + patch.x;
        for (int64_t p = w.panels.begin, np; p < w.panels.end; p += np) {
            np = least(w.together, w.panels.end - p);
            const int64_t vecs = ceil_div(least(np * NR, c.oc - p * NR), LANES);
            const float* m = w.m + ((p - w.panels.begin) * NR * w.tiles) + t * vecs * LANES;
            for (int64_t j = 0; j < vecs; ++j) {
                const int64_t col = p * NR + j * LANES, n = least(LANES, c.oc - col);
                transform_output(m + j * LANES, w.m_stride, pixels);
                if (__builtin_expect(not_finite(pixels), 0)) direct_tile(c, x, patch, weights_of(col), pixels);
                for (int64_t i = 0; i < high; ++i)
                    for (int64_t k = 0; k < wide; ++k) {
                        if (n == LANES)
                            epi(row + i * c.out[2] + k, col, pixels[4 * i + k]);
                        else
                            epi(row + i * c.out[2] + k, col, pixels[4 * i + k], int(n));
                    }
            }
        }
    }
}

// Scratch: winograd_scratch(c).
template <class Epi>
inline void winograd(
    const Team& team, const Conv& c, const float* x, const float* u, const Epi& epi, char* scratch) {
    const Grid grid = divide(team, winograd_tiles(c), ceil_div(c.oc, NR), winograd_depth(c));
    const int64_t most = winograd_block(c), row = winograd_row(c), total = grid.rows.size();
    if (total == 0 || grid.panels.size() == 0) return;
    float* zeros = reinterpret_cast<float*>(scratch);
    __builtin_memset(zeros, 0, round64(round_lanes(c.ic) * 4));
    float* v = reinterpret_cast<float*>(scratch + round64(round_lanes(c.ic) * 4));
    float* m = v + 36 * place_stride(most, row);
    const Tiles blocks = tiles_of(total, most);
    const int64_t panel = winograd_depth(c) * NR, place = ceil_div(c.oc, NR) * panel;
    const auto weights_of = [&](int64_t col) { return OfPlaces{u + col / NR * panel + col % NR, place}; };
    for (int64_t i = 0, first = grid.rows.begin; i < blocks.count; first += blocks.of(i), ++i) {
        const int64_t tiles = blocks.of(i);
        const int64_t v_stride = place_stride(tiles, row);
        const int64_t m_stride = place_stride(tiles, grid.panels.size() * NR);
        const Range taps = frames_read(c, first, tiles), depth{taps.begin * c.ic, taps.end * c.ic};
        const WinogradBlock w{first, tiles, grid.panels, v, m, v_stride, m_stride, row, NP<float>, depth};
        for (int64_t t = 0; t < tiles; ++t)
            transform_frames(c, x, zeros, patch_of(c, first + t), taps, v + t * row, v_stride);
        multiply_places(c, w, u);
        finish_tiles(c, w, x, weights_of, epi);
    }
}

// ---- weights that are transformed on the way ----------------------------------------------------

inline constexpr int64_t TAPS_TILES = 32;  // of a block, and about as many as it is quicker for

inline constexpr int64_t winograd_of_taps_scratch(const Conv& c) {
    const int64_t tiles = least(TAPS_TILES, winograd_tiles(c)), oc = ceil_div(c.oc, NR) * NR;
    const int64_t places = place_stride(tiles, TAPS_DEPTH) + place_stride(TAPS_DEPTH, NR) + place_stride(tiles, oc);
    return round64(round_lanes(c.ic) * 4) + 36 * 4 * places;
}

// A line of three weights at six points: G w, but for SCALES, which the input has taken.
MGX_INLINE void place_line(vec<float> a, vec<float> b, vec<float> c, vec<float>* t) {
    const vec<float> p = a + P2 * c, q = a + Q2 * c, r = P1 * b, s = Q1 * b;
    t[0] = a;
    t[1] = p + r;
    t[2] = p - r;
    t[3] = q + s;
    t[4] = q - s;
    t[5] = c;
}

// Weights of `depth` channels of a panel: place k goes to u + k * stride.
MGX_NOINLINE inline void transform_taps(const float* w, int64_t depth, float* u, int64_t stride) {
    for (int64_t k = 0; k < depth; ++k, w += 9 * NR, u += NR)
        for (int64_t j = 0; j < NR; j += LANES) {
            vec<float> columns[3][6], line[6];
            unroll<3>([&](auto i) {
                place_line(load(w + i * NR + j), load(w + (3 + i) * NR + j), load(w + (6 + i) * NR + j), columns[i]);
            });
            unroll<6>([&](auto a) {
                place_line(columns[0][a], columns[1][a], columns[2][a], line);
                unroll<6>([&](auto b) { store(u + (6 * a + b) * stride + j, line[b]); });
            });
        }
}

// Place A of those of a column of three weights.
template <int A> MGX_INLINE vec<float> place_of(const float* w) {
    constexpr float X = A < 3 ? P1 : Q1;
    if constexpr (A == 0) return load(w);
    if constexpr (A == 5) return load(w + 6 * NR);
    return load(w) + X * X * load(w + 6 * NR) + (A % 2 ? X : -X) * load(w + 3 * NR);
}

// The products of four tiles and LANES columns at the places of line A. What weights become stays in registers: so few
// products would pay for a way through the cache only half.
inline constexpr int64_t FOUR = 4;
template <int A>
MGX_NOINLINE void multiply_four(const float* w, int64_t depth, const float* v, float* m, int64_t m_stride, int64_t m_tile,
                                bool accumulate, const char* ahead) {
    constexpr int64_t V_STRIDE = place_stride(FOUR, TAPS_DEPTH);
    vec<float> sums[6][FOUR] = {};
    v += 6 * A * V_STRIDE, m += 6 * A * m_stride;
    if (accumulate)
        unroll<6>([&](auto b) { unroll<FOUR>([&](auto t) { sums[b][t] = load(m + b * m_stride + t * m_tile); }); });
    for (int64_t k = 0; k < depth; ++k, w += 9 * NR, ++v, ahead += 96) {
        __builtin_prefetch(ahead, 0, 3);
        __builtin_prefetch(ahead + 64, 0, 3);
        vec<float> u[6];
        place_line(place_of<A>(w), place_of<A>(w + NR), place_of<A>(w + 2 * NR), u);
        unroll<6>([&](auto b) { unroll<FOUR>([&](auto t) { sums[b][t] += u[b] * v[b * V_STRIDE + t * TAPS_DEPTH]; }); });
    }
    unroll<6>([&](auto b) { unroll<FOUR>([&](auto t) { store(m + b * m_stride + t * m_tile, sums[b][t]); }); });
}

// Scratch: winograd_of_taps_scratch(c).
template <class Epi>
inline void winograd_of_taps(
    const Team& team, const Conv& c, const float* x, const float* taps, const Epi& epi, char* scratch) {
    const int64_t all = winograd_tiles(c), panels = ceil_div(c.oc, NR), most = least(TAPS_TILES, all);
    const Team thread = team.whole();
    const bool whole = panels >= thread.size;  // else some transform the same weights, and parts would, too
    if (!whole && team.tid % team.parts) return;
    const Grid grid = whole ? Grid{{0, all}, team.share(panels), team} : divide(thread, all, panels, c.ic);
    const int64_t total = grid.rows.size();
    if (total == 0 || grid.panels.size() == 0) return;
    float* zeros = reinterpret_cast<float*>(scratch);
    __builtin_memset(zeros, 0, round64(round_lanes(c.ic) * 4));
    float* v = reinterpret_cast<float*>(scratch + round64(round_lanes(c.ic) * 4));
    float* u = v + 36 * place_stride(most, TAPS_DEPTH);
    float* m = u + 36 * place_stride(TAPS_DEPTH, NR);
    const auto weights_of = [&](int64_t col) { return OfTaps{c, taps, col}; };
    const Tiles blocks = tiles_of(total, most);
    for (int64_t i = 0, first = grid.rows.begin; i < blocks.count; first += blocks.of(i), ++i) {
        const int64_t tiles = blocks.of(i), u_stride = place_stride(TAPS_DEPTH, NR);
        const int64_t v_stride = place_stride(tiles, TAPS_DEPTH);
        const int64_t m_stride = place_stride(tiles, grid.panels.size() * NR);
        const WinogradBlock w{first, tiles, grid.panels, v, m, v_stride, m_stride, TAPS_DEPTH, 1, {0, c.ic}};
        const Tiles parts = tiles_of(tiles, MR1<float>);
        for (int64_t ch = 0; ch < c.ic && !team.stopped(); ch += TAPS_DEPTH) {
            const int64_t depth = least(TAPS_DEPTH, c.ic - ch);
            for (int64_t t = 0; t < tiles; ++t) {
                const Patch p = patch_of(c, first + t);
                transform_input<true>(c, x, p.frame, zeros, p, ch, ch + depth, v + t * TAPS_DEPTH, v_stride);
            }
            for (int64_t p = grid.panels.begin; p < grid.panels.end; ++p) {
                const bool last = p + 1 == grid.panels.end;  // the weights behind these are on their way meanwhile
                const int64_t then = last ? least(ch + TAPS_DEPTH, c.ic - 1) / TAPS_DEPTH * TAPS_DEPTH : ch;
                const char* ahead = reinterpret_cast<const char*>(taps_at(c, taps, then, last ? grid.panels.begin : p + 1));
                const int64_t vecs = ceil_div(least(NR, c.oc - p * NR), LANES), step = NR / parts.count;
                float* const out = m + (p - grid.panels.begin) * NR * tiles;
#if defined(__AVX512F__)
                if (tiles == FOUR) {
                    for (int64_t j = 0; j < vecs; ++j)
                        unroll<6>([&](auto a) {
                            multiply_four<a>(taps_at(c, taps, ch, p) + j * LANES, depth, v, out + j * LANES, m_stride,
                                             vecs * LANES, ch > 0, ahead + (j * 6 + a) * 96 * depth);
                        });
                    continue;
                }
#endif
                transform_taps(taps_at(c, taps, ch, p), depth, u, u_stride);
                for (int64_t k = 0; k < 36; ++k)
                    for (int64_t t = 0, row = 0; t < parts.count; row += parts.of(t), ++t, ahead += step * depth) {
                        const float* rows[MR1<float>];
                        for (int r = 0; r < parts.of(t); ++r) rows[r] = v + k * v_stride + (row + r) * TAPS_DEPTH;
                        float* tile = out + k * m_stride + row * vecs * LANES;
                        const Micro<float, float, float> place{
                            rows, 1, 0, depth, u + k * u_stride, NR, 0, tile, ch > 0, {ahead, step}};
                        run_micro<float, float, float>(parts.of(t), int(vecs), place);
                    }
            }
        }
        finish_tiles(c, w, x, weights_of, epi);
    }
}

}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "conv.hpp"

namespace mgx {
template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "team.hpp"
#include "conv.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// convolution
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e24 = a[24];
    const int64_t e25 = a[25];
    const int64_t e26 = a[26];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        int64_t q2 = row, r2 = 0;
        r2 += q2 % e24 * e25; q2 /= e24;
        r2 += q2 * e26;
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + r2 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_0_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

// convolution
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e24 = a[24];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e24 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_1_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

// 
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    float* const p0 = reinterpret_cast<float*>(p[0]);
    for_rows<2, 1>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(0.0);
            put(p0 + o[0] + i, v0, n);
        });
    });
}

// 
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    float* const p0 = reinterpret_cast<float*>(p[0]);
    for_rows<1, 1>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(0.0);
            put(p0 + o[0] + i, v0, n);
        });
    });
}

// copy
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t s0 = a[7];
    for_rows<4, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {k3, nullptr},
    {k4, nullptr},
    {k5, nullptr},
};

}  // namespace mgx

// bytes: arena 16960, status 64, input 0 960, input 1 160, input 2 960, input 3 1152, output 0 1980, output 1 180, output 2 1512, weight 0 1024, weight 1 2048, weight 2 2048, weight 3 4096, weight 4 1024
// step 0: k0 (1, 8, 30, 0, 30, 0, 8), 296 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (1, 8, 5, 1, 8, 1, 5, 6, 1, 5, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 6, 10, 110), 329 ns
//     p0: arena
//     p1: weight 0
//     p2: arena + 12288
// step 2: k1 (1, 8, 5, 1, 8, 1, 5, 6, 1, 5, 5, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 5, 10, 110), 375 ns
//     p0: arena
//     p1: weight 1
//     p2: arena + 12308
// step 3: k1 (1, 8, 5, 1, 8, 1, 5, 6, 1, 4, 6, 1, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 6, 10, 110), 374 ns
//     p0: arena
//     p1: weight 2
//     p2: arena + 12508
// step 4: k1 (1, 8, 5, 1, 8, 1, 5, 6, 1, 4, 5, 1, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 5, 10, 110), 688 ns
//     p0: arena
//     p1: weight 3
//     p2: arena + 12528
// step 5: k0 (1, 8, 5, 0, 5, 0, 8), 216 ns
//     p0: input 1
//     p1: arena
// step 6: k2 (1, 8, 5, 1, 8, 1, 1, 5, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 10), 264 ns
//     p0: arena
//     p1: weight 4
//     p2: arena + 16768
// step 7: k3 (4, 5, 10, 1), 208 ns
//     p0: arena + 16788
// step 8: k0 (1, 8, 30, 0, 30, 0, 8), 296 ns
//     p0: input 2
//     p1: arena + 15808
// step 9: k4 (3072, 1), 814 ns
//     p0: arena
// step 10: k5 (2, 12, 4, 3, 144, -1, 36, 12, 1536, 128, 32, 1), 315 ns
//     p0: input 3 + 44
//     p1: arena
// step 11: k2 (1, 8, 6, 2, 8, 1, 5, 6, 1, 7, 9, 1, 3, 4, 1, 1, 1, 1, 1, 1, 0, 2, 3, 1, 6), 1110 ns
//     p0: arena + 15808
//     p1: arena
//     p2: arena + 14272
// step 12: k0 (1, 99, 5, 0, 5, 0, 99), 398 ns
//     p0: arena + 12288
//     p1: output 0
// step 13: k0 (1, 9, 5, 0, 5, 0, 9), 218 ns
//     p0: arena + 16768
//     p1: output 1
// step 14: k0 (1, 63, 6, 0, 6, 0, 63), 351 ns
//     p0: arena + 14272
//     p1: output 2

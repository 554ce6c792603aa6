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
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e24 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_0_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

// convolution add add relu
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    const float* const p3 = reinterpret_cast<const float*>(p[3]);
    float* const p4 = reinterpret_cast<float*>(p[4]);
    const int64_t e24 = a[24];
    const int64_t e25 = a[25];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = fetch(p2 + 0 + col, n);
        const auto v1 = fetch(p3 + row * e24 + col, n);
        const auto v2 = (acc + v0);
        const auto v3 = (v2 + v1);
        const auto v4 = mgx::fill(v3, 0);
        const auto v5 = mgx::max(v3, v4);
        put(p4 + row * e25 + col, v5, n);
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
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    float* const p0 = reinterpret_cast<float*>(p[0]);
    for_rows<1, 1>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(0.0);
            put(p0 + o[0] + i, v0, n);
        });
    });
}

// copy
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t s0 = a[5];
    for_rows<3, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void k2(const Team&, char* const*, const int64_t*, char*);
void k3(const Team&, char* const*, const int64_t*, char*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {k2, nullptr},
    {k3, nullptr},
    {h0_1, h0_1_scratch},
};

}  // namespace mgx

// bytes: arena 25344, status 64, input 0 3456, input 1 2688, input 2 800, input 3 11520, input 4 9072, input 5 1280, output 0 9072, output 1 1152, output 2 864, output 3 1440, weight 0 84, weight 1 9216, weight 2 9216, weight 3 3072
// step 0: k0 (2, 8, 54, 432, 54, 432, 8), 545 ns
//     p0: input 0
//     p1: arena + 18432
// step 1: k0 (2, 8, 42, 336, 42, 336, 8), 468 ns
//     p0: input 1
//     p1: arena
// step 2: k1 (2, 8, 12, 2, 8, 1, 7, 6, 1, 4, 3, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 1, 12), 1060 ns
//     p0: arena
//     p1: weight 1
//     p2: arena + 23360
// step 3: k0 (1, 8, 25, 0, 25, 0, 8), 280 ns
//     p0: input 2
//     p1: arena + 24512
// step 4: k2 (4608, 1), 1121 ns
//     p0: arena
// step 5: k3 (9, 8, 8, 1, 9, 72, 256, 32, 1), 430 ns
//     p0: input 3 + 9216
//     p1: arena + 9216
// step 6: k3 (9, 8, 32, 1, 9, 72, 256, 32, 1), 1121 ns
//     p0: input 3
//     p1: arena
// step 7: k1 (1, 8, 40, 1, 8, 1, 5, 5, 1, 3, 3, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 40), 1752 ns
//     p0: arena + 24512
//     p1: arena
//     p2: arena + 21888
// step 8: k0 (2, 21, 54, 1134, 54, 1134, 21), 1107 ns
//     p0: input 4
//     p1: arena
// step 9: k4 (2, 8, 21, 1, 8, 1, 9, 6, 1, 9, 6, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 21, 21), 5078 ns
//     p0: arena + 18432
//     p1: weight 2
//     p2: weight 0
//     p3: arena
//     p4: arena + 9088
// step 10: k0 (2, 8, 20, 160, 20, 160, 8), 328 ns
//     p0: input 5
//     p1: arena
// step 11: k1 (2, 8, 6, 1, 8, 1, 1, 20, 1, 1, 18, 1, 1, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 6), 564 ns
//     p0: arena
//     p1: weight 3
//     p2: arena + 1280
// step 12: k0 (2, 54, 21, 1134, 21, 1134, 54), 1107 ns
//     p0: arena + 9088
//     p1: output 0
// step 13: k0 (2, 12, 12, 144, 12, 144, 12), 315 ns
//     p0: arena + 23360
//     p1: output 1
// step 14: k0 (2, 18, 6, 108, 6, 108, 18), 286 ns
//     p0: arena + 1280
//     p1: output 2
// step 15: k0 (1, 9, 40, 0, 40, 0, 9), 344 ns
//     p0: arena + 21888
//     p1: output 3

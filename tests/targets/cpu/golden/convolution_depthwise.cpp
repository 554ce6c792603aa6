#include "team.hpp"
#include "depthwise.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
// depthwise
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e21 = a[21];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e21 + col, v0, n);
    }};
    depthwise<0, 0, 7, 1, 0, 1, 0>(t, Depthwise{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}}, p0, p1, epi);
}
int64_t h0_0_scratch(const int64_t* a) { return 0; }

// depthwise
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e21 = a[21];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e21 + col, v0, n);
    }};
    depthwise<3, 1, 7, 1, 0, 1, 0>(t, Depthwise{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}}, p0, p1, epi);
}
int64_t h0_1_scratch(const int64_t* a) { return 0; }

// depthwise
void h0_2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e21 = a[21];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e21 + col, v0, n);
    }};
    depthwise<5, 2, 7, 1, 0, 1, 0>(t, Depthwise{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}}, p0, p1, epi);
}
int64_t h0_2_scratch(const int64_t* a) { return 0; }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void h0_2(const Team&, char* const*, const int64_t*, char*);
int64_t h0_2_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {h0_2, h0_2_scratch},
};

}  // namespace mgx

// bytes: arena 49664, status 64, input 0 14652, input 1 1332, output 0 14652, output 1 4440, output 2 5180, output 3 9324, weight 0 1332, weight 1 1332, weight 2 3700
// step 0: k0 (1, 37, 99, 0, 99, 0, 37), 1665 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (1, 37, 37, 1, 11, 9, 1, 7, 5, 1, 3, 3, 1, 1, 1, 1, 2, 2, 0, 0, 0, 37), 1491 ns
//     p0: arena
//     p1: weight 0
//     p2: arena + 38656
// step 2: k2 (1, 37, 37, 1, 11, 9, 1, 11, 9, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 37), 2391 ns
//     p0: arena
//     p1: weight 1
//     p2: arena + 14656
// step 3: k3 (1, 37, 37, 1, 11, 9, 1, 6, 5, 1, 5, 5, 1, 2, 2, 1, 1, 1, 0, 2, 2, 37), 1894 ns
//     p0: arena
//     p1: weight 2
//     p2: arena + 43840
// step 4: k0 (1, 37, 9, 0, 9, 0, 37), 333 ns
//     p0: input 1
//     p1: arena + 48320
// step 5: k2 (1, 37, 37, 1, 11, 9, 1, 9, 7, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 37), 1884 ns
//     p0: arena
//     p1: arena + 48320
//     p2: arena + 29312
// step 6: k0 (1, 99, 37, 0, 37, 0, 99), 1665 ns
//     p0: arena + 14656
//     p1: output 0
// step 7: k0 (1, 30, 37, 0, 37, 0, 30), 644 ns
//     p0: arena + 43840
//     p1: output 1
// step 8: k0 (1, 35, 37, 0, 37, 0, 35), 718 ns
//     p0: arena + 38656
//     p1: output 2
// step 9: k0 (1, 63, 37, 0, 37, 0, 63), 1132 ns
//     p0: arena + 29312
//     p1: output 3

#include "team.hpp"
#include "pooling.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
// pooling
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t e29 = a[29];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p1 + row * e29 + col, v0, n);
    }};
    pool<PoolMax>(t, Pool{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}, {a[21], a[22], a[23]}, {a[24], a[25], a[26]}, 0, a[27] != 0, double(a[28])}, p0, epi);
}
int64_t h0_0_scratch(const int64_t* a) { return 0; }

// pooling
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t e29 = a[29];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p1 + row * e29 + col, v0, n);
    }};
    pool<PoolAverage>(t, Pool{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}, {a[21], a[22], a[23]}, {a[24], a[25], a[26]}, 0, a[27] != 0, double(a[28])}, p0, epi);
}
int64_t h0_1_scratch(const int64_t* a) { return 0; }

// pooling
void h0_2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t e29 = a[29];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p1 + row * e29 + col, v0, n);
    }};
    pool<PoolLp>(t, Pool{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}, {a[21], a[22], a[23]}, {a[24], a[25], a[26]}, 0, a[27] != 0, double(a[28])}, p0, epi);
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

// bytes: arena 12160, status 64, input 0 5760, output 0 1600, output 1 1600, output 2 1600, output 3 1600
// step 0: k0 (1, 20, 72, 0, 72, 0, 20), 776 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (1, 20, 1440, 0, 160, 20, 1, 9, 8, 1, 5, 4, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 20), 1288 ns
//     p0: arena
//     p1: arena + 5760
// step 2: k2 (1, 20, 1440, 0, 160, 20, 1, 9, 8, 1, 5, 4, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 20), 1288 ns
//     p0: arena
//     p1: arena + 7360
// step 3: k3 (1, 20, 1440, 0, 160, 20, 1, 9, 8, 1, 5, 4, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 20), 1288 ns
//     p0: arena
//     p1: arena + 8960
// step 4: k2 (1, 20, 1440, 0, 160, 20, 1, 9, 8, 1, 5, 4, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 2, 20), 1288 ns
//     p0: arena
//     p1: arena + 10560
// step 5: k0 (1, 20, 20, 0, 20, 0, 20), 360 ns
//     p0: arena + 5760
//     p1: output 0
// step 6: k0 (1, 20, 20, 0, 20, 0, 20), 360 ns
//     p0: arena + 7360
//     p1: output 1
// step 7: k0 (1, 20, 20, 0, 20, 0, 20), 360 ns
//     p0: arena + 8960
//     p1: output 2
// step 8: k0 (1, 20, 20, 0, 20, 0, 20), 360 ns
//     p0: arena + 10560
//     p1: output 3

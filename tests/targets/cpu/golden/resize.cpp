#include "team.hpp"
#include "resize.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
// resize
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e9 = a[9];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p3 + row * e9 + col, v0, n);
    }};
    resize<1>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi);
}
int64_t h0_0_scratch(const int64_t* a) { return 0; }

// resize
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e9 = a[9];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p3 + row * e9 + col, v0, n);
    }};
    resize<2>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi);
}
int64_t h0_1_scratch(const int64_t* a) { return 0; }

// resize
void h0_2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e9 = a[9];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p3 + row * e9 + col, v0, n);
    }};
    resize<4>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi);
}
int64_t h0_2_scratch(const int64_t* a) { return 0; }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "resize.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

// copy
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const double* const p0 = reinterpret_cast<const double*>(p[0]);
    double* const p1 = reinterpret_cast<double*>(p[1]);
    const int64_t s0 = a[5];
    for_rows<3, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// resize
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const double* const p0 = reinterpret_cast<const double*>(p[0]);
    const double* const p1 = reinterpret_cast<const double*>(p[1]);
    double* const p2 = reinterpret_cast<double*>(p[2]);
    resample<2>(t, Resample{a[0], a[1], a[2], a[3]}, p0, a + 4, p1, p2);
}

// resize
void k6(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const double* const p0 = reinterpret_cast<const double*>(p[0]);
    const double* const p1 = reinterpret_cast<const double*>(p[1]);
    double* const p2 = reinterpret_cast<double*>(p[2]);
    resample<1>(t, Resample{a[0], a[1], a[2], a[3]}, p0, a + 4, p1, p2);
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void h0_2(const Team&, char* const*, const int64_t*, char*);
int64_t h0_2_scratch(const int64_t*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
void k6(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {h0_2, h0_2_scratch},
    {k4, nullptr},
    {k5, nullptr},
    {k6, nullptr},
};

}  // namespace mgx

// bytes: arena 87104, status 64, input 0 6840, input 1 192, output 0 26752, output 1 26752, output 2 26752, output 3 560, output 4 336, weight 0 44, weight 1 64, weight 2 88, weight 3 128, weight 4 176, weight 5 256, weight 6 80, weight 7 112, weight 8 56
// step 0: k0 (2, 19, 45, 855, 45, 855, 19), 884 ns
//     p0: input 0
//     p1: arena + 80256
// step 1: k1 (2, 19, 11, 16, 855, 171, 19, 10, 21, 19, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 0, 0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7, 8), 1885 ns
//     p0: arena + 80256
//     p1: weight 0
//     p2: weight 1
//     p3: arena
// step 2: k2 (2, 19, 11, 16, 855, 171, 19, 10, 32, 19, 0, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 2, 3, 3, 4, 3, 4, 4, 4, 0, 0, 0, 1, 0, 1, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 5, 6, 5, 6, 6, 7, 7, 8, 7, 8, 8, 8), 1890 ns
//     p0: arena + 80256
//     p1: weight 2
//     p2: weight 3
//     p3: arena + 26752
// step 3: k3 (2, 19, 11, 16, 855, 171, 19, 10, 54, 19, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 4, 2, 3, 4, 4, 3, 4, 4, 4, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 5, 2, 3, 4, 5, 3, 4, 5, 6, 3, 4, 5, 6, 4, 5, 6, 7, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 8, 6, 7, 8, 8, 7, 8, 8, 8), 1901 ns
//     p0: arena + 80256
//     p1: weight 4
//     p2: weight 5
//     p3: arena + 53504
// step 4: k4 (2, 4, 3, 12, 1, 4, 12, 3, 1), 219 ns
//     p0: input 1
//     p1: arena + 81216
// step 5: k5 (8, 3, 5, 1, 0, 0, 0, 1, 1, 2, 1, 2, 2, 2), 229 ns
//     p0: arena + 81216
//     p1: weight 6
//     p2: arena + 80832
// step 6: k5 (2, 4, 7, 5, 0, 0, 0, 1, 0, 1, 1, 2, 2, 3, 2, 3, 3, 3), 249 ns
//     p0: arena + 80832
//     p1: weight 7
//     p2: arena + 80256
// step 7: k6 (2, 4, 7, 3, 0, 0, 0, 1, 2, 2, 3), 229 ns
//     p0: arena + 81216
//     p1: weight 8
//     p2: arena + 80832
// step 8: k0 (2, 176, 19, 3344, 19, 3344, 176), 2875 ns
//     p0: arena
//     p1: output 0
// step 9: k0 (2, 176, 19, 3344, 19, 3344, 176), 2875 ns
//     p0: arena + 26752
//     p1: output 1
// step 10: k0 (2, 176, 19, 3344, 19, 3344, 176), 2875 ns
//     p0: arena + 53504
//     p1: output 2
// step 11: k4 (2, 5, 7, 35, 1, 5, 35, 7, 1), 256 ns
//     p0: arena + 80256
//     p1: output 3
// step 12: k4 (2, 3, 7, 21, 1, 3, 21, 7, 1), 233 ns
//     p0: arena + 80832
//     p1: output 4

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
    resize<2>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi);
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
    resize_planes<1>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi, scratch);
}
int64_t h0_1_scratch(const int64_t* a) { return planes_scratch<1>(Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}); }

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
    resize_planes<2>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi, scratch);
}
int64_t h0_2_scratch(const int64_t* a) { return planes_scratch<2>(Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}); }

// resize
void h0_3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e9 = a[9];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p3 + row * e9 + col, v0, n);
    }};
    resize_planes<4>(t, Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, p0, {a + a[7], p1}, {a + a[8], p2}, epi, scratch);
}
int64_t h0_3_scratch(const int64_t* a) { return planes_scratch<4>(Resize{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}); }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"
#include "resize.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
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
void h0_3(const Team&, char* const*, const int64_t*, char*);
int64_t h0_3_scratch(const int64_t*);
void k5(const Team&, char* const*, const int64_t*, char*);
void k6(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {h0_2, h0_2_scratch},
    {h0_3, h0_3_scratch},
    {k5, nullptr},
    {k6, nullptr},
};

}  // namespace mgx

// bytes: arena 10496, status 64, input 0 6840, input 1 192, output 0 26752, output 1 26752, output 2 26752, output 3 3648, output 4 560, output 5 336, weight 0 32, weight 1 48, weight 2 44, weight 3 64, weight 4 88, weight 5 128, weight 6 176, weight 7 256, weight 8 80, weight 9 112, weight 10 56
// step 0: k0 (2, 19, 45, 855, 45, 855, 19), 884 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (2, 19, 4, 6, 855, 171, 19, 10, 18, 19, 0, 1, 1, 2, 2, 3, 3, 4, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8), 728 ns
//     p0: arena
//     p1: weight 0
//     p2: weight 1
//     p3: arena + 6848
// step 2: k2 (38, 1, 11, 16, 45, 9, 1, 10, 21, 16, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 0, 0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7, 8), 1885 ns
//     p0: input 0
//     p1: weight 2
//     p2: weight 3
//     p3: output 0
// step 3: k3 (38, 1, 11, 16, 45, 9, 1, 10, 32, 16, 0, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 2, 3, 3, 4, 3, 4, 4, 4, 0, 0, 0, 1, 0, 1, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 5, 6, 5, 6, 6, 7, 7, 8, 7, 8, 8, 8), 1890 ns
//     p0: input 0
//     p1: weight 4
//     p2: weight 5
//     p3: output 1
// step 4: k4 (38, 1, 11, 16, 45, 9, 1, 10, 54, 16, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 4, 2, 3, 4, 4, 3, 4, 4, 4, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 5, 2, 3, 4, 5, 3, 4, 5, 6, 3, 4, 5, 6, 4, 5, 6, 7, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 8, 6, 7, 8, 8, 7, 8, 8, 8), 1901 ns
//     p0: input 0
//     p1: weight 6
//     p2: weight 7
//     p3: output 2
// step 5: k0 (2, 24, 19, 456, 19, 456, 24), 564 ns
//     p0: arena + 6848
//     p1: output 3
// step 6: k5 (2, 3, 5, 4, 0, 0, 0, 1, 1, 2, 1, 2, 2, 2), 229 ns
//     p0: input 1
//     p1: weight 8
//     p2: arena
// step 7: k5 (10, 4, 7, 1, 0, 0, 0, 1, 0, 1, 1, 2, 2, 3, 2, 3, 3, 3), 249 ns
//     p0: arena
//     p1: weight 9
//     p2: output 4
// step 8: k6 (6, 4, 7, 1, 0, 0, 0, 1, 2, 2, 3), 229 ns
//     p0: input 1
//     p1: weight 10
//     p2: output 5

#include "team.hpp"
#include "regions.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// roialign
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const int64_t* const p2 = reinterpret_cast<const int64_t*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    int64_t* const p4 = reinterpret_cast<int64_t*>(p[4]);
    roi_align(t, RoiAlign{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], 1.0, true, true}, p0, p1, p2, p3, p4);
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
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<5, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

}  // namespace mgx

#include "team.hpp"
#include "regions.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "linalg.hpp"

namespace mgx {
// nonmaxsuppression
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const int64_t* const p2 = reinterpret_cast<const int64_t*>(p[2]);
    const float* const p3 = reinterpret_cast<const float*>(p[3]);
    const float* const p4 = reinterpret_cast<const float*>(p[4]);
    int64_t* const p5 = reinterpret_cast<int64_t*>(p[5]);
    suppress(t, Suppression{a[0], a[1], a[2], true}, p0, p1, p2, p3, p4, p5, scratch);
}
int64_t k1_scratch(const int64_t* a) { return a[2] * int64_t(sizeof(regions::Box)); }

// copy
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<3, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// det
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    det(t, a[0], a[1], p0, p1, scratch);
}
int64_t k5_scratch(const int64_t* a) { return a[1] * a[1] * int64_t(sizeof(double)); }

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
int64_t k1_scratch(const int64_t*);
void k2(const Team&, char* const*, const int64_t*, char*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
int64_t k5_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, k1_scratch},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
    {k5, k5_scratch},
};

}  // namespace mgx

// bytes: arena 1344, status 64, input 0 1512, input 1 96, input 2 48, input 3 1280, input 4 960, input 5 672, input 6 360, input 7 384, output 0 432, output 1 5760, output 2 3168, output 3 24, weight 0 8, weight 1 4, weight 2 4
// step 0: k0 (6, 2, 3, 9, 7, 3, 2, 0, 0, 1, 4096), 995 ns
//     p0: input 0
//     p1: input 1
//     p2: input 2
//     p3: output 0
//     p4: status
// step 1: k1 (2, 3, 40), 600 ns
//     p0: input 3
//     p1: input 4
//     p2: weight 0
//     p3: weight 1
//     p4: weight 2
//     p5: output 1
// step 2: k2 (324, 1), 264 ns
//     p0: arena
// step 3: k3 (3, 7, 8, 56, 8, 1, 108, 12, 1), 267 ns
//     p0: input 5
//     p1: arena + 56
// step 4: k4 (4, 11, 3, 3, 2, 24, 1, 108, 12, 1, 198, 18, 6, 2, 1), 516 ns
//     p0: arena
//     p1: output 2
// step 5: k5 (6, 4), 220 ns
//     p0: input 7
//     p1: output 3

#include "team.hpp"
#include "indexing.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// topk
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    int64_t* const p2 = reinterpret_cast<int64_t*>(p[2]);
    topk(t, TopK{a[0], a[1], a[2], a[3], a[4] != 0}, p0, p1, p2, scratch);
}
int64_t k0_scratch(const int64_t* a) { return (a[3] + 1) * 8; }

// argmax
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    int64_t* const p1 = reinterpret_cast<int64_t*>(p[1]);
    arg_extreme<true, false>(t, a[0], a[1], a[2], p0, p1);
}

// nonzero
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    int64_t* const p1 = reinterpret_cast<int64_t*>(p[1]);
    non_zero(t, a[0], a + 1, p0, p1);
}

// copy
void k6(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* const p0 = reinterpret_cast<const int64_t*>(p[0]);
    int64_t* const p1 = reinterpret_cast<int64_t*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

}  // namespace mgx

#include "team.hpp"
#include "indexing.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// prefix_scan_sum
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    prefix_sum(t, Scan{a[0], a[1], a[2], a[3] != 0, a[4] != 0}, p0, p1);
}

// argmin
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    int64_t* const p1 = reinterpret_cast<int64_t*>(p[1]);
    arg_extreme<false, true>(t, a[0], a[1], a[2], p0, p1);
}

// copy
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

void k0(const Team&, char* const*, const int64_t*, char*);
int64_t k0_scratch(const int64_t*);
void k1(const Team&, char* const*, const int64_t*, char*);
void k2(const Team&, char* const*, const int64_t*, char*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
void k6(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, k0_scratch},
    {k1, nullptr},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
    {k5, nullptr},
    {k6, nullptr},
};

}  // namespace mgx

// bytes: arena 768, status 64, input 0 1800, output 0 240, output 1 480, output 2 120, output 3 720, output 4 1800, output 5 10800
// step 0: k0 (5, 30, 3, 4, 1), 866 ns
//     p0: input 0
//     p1: arena + 512
//     p2: arena
// step 1: k1 (5, 30, 3, 1, 0), 380 ns
//     p0: input 0
//     p1: output 4
// step 2: k2 (5, 30, 3), 296 ns
//     p0: input 0
//     p1: output 2
// step 3: k3 (1, 5, 90), 326 ns
//     p0: input 0
//     p1: output 3
// step 4: k4 (3, 5, 30, 3), 830 ns
//     p0: input 0
//     p1: output 5
// step 5: k5 (60, 1, 1), 224 ns
//     p0: arena + 512
//     p1: output 0
// step 6: k6 (60, 1, 1), 248 ns
//     p0: arena
//     p1: output 1

#include "team.hpp"
#include "random.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "indexing.hpp"

namespace mgx {
// random_seed
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    uint64_t* const p0 = reinterpret_cast<uint64_t*>(p[0]);
    random_seed(t, p0);
}

// random_uniform
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint64_t* const p0 = reinterpret_cast<const uint64_t*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    random_uniform(t, a[0], p0, p1);
}

// abs
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = mgx::abs(v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

// prefix_scan_sum
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    prefix_sum(t, Scan{a[0], a[1], a[2], a[3] != 0, a[4] != 0}, p0, p1);
}

// multinomial
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    int32_t* const p2 = reinterpret_cast<int32_t*>(p[2]);
    multinomial(t, a[0], a[1], a[2], p0, p1, p2);
}

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
void k2(const Team&, char* const*, const int64_t*, char*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
};

}  // namespace mgx

// bytes: arena 3648, status 64, input 0 1200, input 1 8, output 0 1200, output 1 1200
// step 0: k0 (), 200 ns
//     p0: arena + 1216
// step 1: k1 (300), 260 ns
//     p0: arena + 1216
//     p1: arena
// step 2: k2 (300, 1, 1), 380 ns
//     p0: input 0
//     p1: arena + 1216
// step 3: k3 (5, 60, 1, 0, 0), 320 ns
//     p0: arena + 1216
//     p1: arena + 2432
// step 4: k4 (5, 60, 60), 380 ns
//     p0: arena + 2432
//     p1: arena
//     p2: output 0
// step 5: k1 (300), 260 ns
//     p0: input 1
//     p1: output 1

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "scatter.hpp"

namespace mgx {
// convert
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const mgx::half* const p0 = reinterpret_cast<const mgx::half*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = mgx::cast<float>(v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

// scatter_add
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* const p0 = reinterpret_cast<const int64_t*>(p[0]);
    const mgx::half* const p1 = reinterpret_cast<const mgx::half*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    scatter<JoinAdd>(t, Scatter{a[0], a[1], a[2], a[3], a + 4}, p0, p1, p2, p3);
}

// convert
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    mgx::half* const p1 = reinterpret_cast<mgx::half*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = mgx::round_to<mgx::half>(v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

// copy elsewhere
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    copy_elsewhere(t, a[0], p0, p1);
}

// scatternd_none
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* const p0 = reinterpret_cast<const int64_t*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    scatter_nd<JoinReplace>(t, ScatterNd{a[0], a[1], a[2], a[3], a + 4}, p0, p1, p2, p3);
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

// bytes: arena 320, status 64, input 0 144, input 1 320, input 2 80, input 3 420, input 4 64, input 5 80, output 0 144, output 1 420
// step 0: k0 (72, 1, 1), 221 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (3, 1, 6, 0, 2, 5, 4, 24, 4, 1), 234 ns
//     p0: input 1
//     p1: input 2
//     p2: arena
//     p3: status
// step 2: k2 (72, 1, 1), 221 ns
//     p0: arena
//     p1: output 0
// step 3: k3 (105), 242 ns
//     p0: input 3
//     p1: output 1
// step 4: k4 (4, 2, 5, 1, 3, 7), 228 ns
//     p0: input 4
//     p1: input 5
//     p2: output 1
//     p3: status

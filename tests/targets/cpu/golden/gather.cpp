#include "team.hpp"
#include "indexing.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// gather
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int32_t* const p1 = reinterpret_cast<const int32_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather(t, Gather{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, p3);
}

// copy
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// gather_elements
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int64_t* const p1 = reinterpret_cast<const int64_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather_elements(t, Gather{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, p3);
}

// gathernd
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int64_t* const p1 = reinterpret_cast<const int64_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather_nd(t, GatherNd{a[0], a[1], a[2], a[3], a[4], a + 5}, p0, p1, p2, p3);
}

// onehot
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* const p0 = reinterpret_cast<const int64_t*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    one_hot(t, a[0], a[1], a[2], p0, p1, p2);
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

// bytes: arena 256, status 64, input 0 288, input 1 16, input 2 320, input 3 144, input 4 96, input 5 8, output 0 192, output 1 160, output 2 288, output 3 240
// step 0: k0 (3, 6, 4, 4, 0), 220 ns
//     p0: input 0
//     p1: input 1
//     p2: output 0
//     p3: status
// step 1: k1 (3, 20, 24, 1, 20, 1), 224 ns
//     p0: input 0
//     p1: arena
// step 2: k2 (1, 3, 20, 2, 1), 232 ns
//     p0: arena
//     p1: input 2
//     p2: output 1
//     p3: status
// step 3: k3 (3, 6, 1, 4, 2, 6), 236 ns
//     p0: input 0
//     p1: input 3
//     p2: output 2
//     p3: status
// step 4: k4 (3, 5, 4), 217 ns
//     p0: input 4
//     p1: input 5
//     p2: output 3

#include "team.hpp"
#include "indexing.hpp"

namespace mgx {
// gather
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int32_t* const p1 = reinterpret_cast<const int32_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather(t, Gather{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, p3);
}

// gather_elements
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int64_t* const p1 = reinterpret_cast<const int64_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather_elements(t, Gather{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, p3);
}

// embedding_bag
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int64_t* const p1 = reinterpret_cast<const int64_t*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    int64_t* const p4 = reinterpret_cast<int64_t*>(p[4]);
    embedding_bag(t, EmbeddingBag{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]}, p0, p1, p2, p3, p4);
}

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "indexing.hpp"

namespace mgx {
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

// gathernd
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const int64_t* const p1 = reinterpret_cast<const int64_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    int64_t* const p3 = reinterpret_cast<int64_t*>(p[3]);
    gather_nd(t, GatherNd{a[0], a[1], a[2], a[3], a[4], a + 5}, p0, p1, p2, p3);
}

// onehot
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
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
void k5(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
    {k5, nullptr},
};

}  // namespace mgx

// bytes: arena 256, status 64, input 0 288, input 1 16, input 2 320, input 3 144, input 4 240, input 5 120, input 6 96, input 7 8, output 0 192, output 1 160, output 2 288, output 3 96, output 4 240
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
// step 4: k4 (3, 2, 5, 4, 6, 3, 10, 5, 1, 10, 5, 1), 285 ns
//     p0: input 0
//     p1: input 4
//     p2: input 5
//     p3: output 3
//     p4: status
// step 5: k5 (3, 5, 4), 217 ns
//     p0: input 6
//     p1: input 7
//     p2: output 4

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// relu
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = mgx::fill(v0, 0);
            const auto v2 = mgx::max(v0, v1);
            put(p1 + o[1] + i, v2, n);
        });
    });
}

// copy
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// copy
void k6(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t s0 = a[3];
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// neg
void k9(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t s0 = a[3];
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            const auto v1 = (-v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "interleave.hpp"
#include "transpose.hpp"

namespace mgx {
// tanh
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = mgx::tanh(v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

// copy
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        const auto c0 = fetch_same(p0 + o[0]);
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, c0, n);
        });
    });
}

// copy of planes
void k7(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    interleave<3>(t, Interleave{a[0], a[1], a[2], a[3], a[4]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

// copy of rows as columns
void k10(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// copy
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// copy
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t s0 = a[1];
    const int64_t s1 = a[2];
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put_strided(p1 + o[1] + i * s1, s1, v0, n);
        });
    });
}

// neg
void k8(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = (-v0);
            put(p1 + o[1] + i, v1, n);
        });
    });
}

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
void k2(const Team&, char* const*, const int64_t*, char*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
void k6(const Team&, char* const*, const int64_t*, char*);
void k7(const Team&, char* const*, const int64_t*, char*);
void k8(const Team&, char* const*, const int64_t*, char*);
void k9(const Team&, char* const*, const int64_t*, char*);
void k10(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
    {k5, nullptr},
    {k6, nullptr},
    {k7, nullptr},
    {k8, nullptr},
    {k9, nullptr},
    {k10, nullptr},
};

}  // namespace mgx

// bytes: arena 1344, status 64, input 0 96, input 1 1188, output 0 156, output 1 208, output 2 120, output 3 96, output 4 1188, output 5 96, output 6 36
// step 0: k0 (3, 8, 8, 1, 13, 1), 214 ns
//     p0: input 0
//     p1: output 0
// step 1: k1 (3, 5, 8, 1, 13, 1), 209 ns
//     p0: input 0 + 8
//     p1: output 0 + 32
// step 2: k2 (3, 8, 8, 1, 13, 1), 209 ns
//     p0: input 0
//     p1: output 1 + 60
// step 3: k3 (8, 1, 1), 203 ns
//     p0: output 1 + 60
//     p1: output 1 + 8
// step 4: k4 (4, 2, 13, 0, 13, 1), 202 ns
//     p0: output 1 + 8
//     p1: output 1
// step 5: k4 (4, 3, 13, 0, 13, 1), 203 ns
//     p0: output 1 + 36
//     p1: output 1 + 40
// step 6: k2 (3, 8, 8, 1, 10, 1), 209 ns
//     p0: input 0
//     p1: output 2 + 4
// step 7: k5 (3, 10, 10), 201 ns
//     p0: output 2 + 8
//     p1: output 2
// step 8: k5 (3, 10, 10), 201 ns
//     p0: output 2 + 28
//     p1: output 2 + 36
// step 9: k6 (3, 8, 8, -1, 8, 1), 209 ns
//     p0: input 0 + 28
//     p1: arena + 1216
// step 10: k7 (1, 99, 0, 99, 0), 318 ns
//     p0: input 1
//     p1: arena
// step 11: k8 (24, 1, 1), 214 ns
//     p0: input 0
//     p1: output 5
// step 12: k9 (3, 3, 8, 3, 3, 1), 205 ns
//     p0: input 0
//     p1: output 6
// step 13: k7 (1, 8, 0, 8, 0), 209 ns
//     p0: arena + 1216
//     p1: output 3
// step 14: k10 (1, 99, 3, 0, 3, 0, 99), 318 ns
//     p0: arena
//     p1: output 4

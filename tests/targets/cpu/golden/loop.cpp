#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// 
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    float* const p0 = reinterpret_cast<float*>(p[0]);
    for_rows<1, 1>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(0.0);
            put(p0 + o[0] + i, v0, n);
        });
    });
}

// copy
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// convert
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* const p0 = reinterpret_cast<const int64_t*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        const auto c0 = fetch_same(p0 + o[0]);
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::cast<float>(c0);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// mul
void k6(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    for_rows<1, 3>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        const auto c1 = fetch_same(p1 + o[1]);
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = (v0 * c1);
            put(p2 + o[2] + i, v1, n);
        });
    });
}

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// copy
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const bool* const p0 = reinterpret_cast<const bool*>(p[0]);
    bool* const p1 = reinterpret_cast<bool*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        const auto c0 = fetch_same(p0 + o[0]);
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, c0, n);
        });
    });
}

// add tanh
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    for_rows<1, 3>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            const auto v1 = fetch(p1 + o[1] + i, n);
            const auto v2 = (v0 + v1);
            const auto v3 = mgx::tanh(v2);
            put(p2 + o[2] + i, v3, n);
        });
    });
}

// less
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    bool* const p1 = reinterpret_cast<bool*>(p[1]);
    for_rows<1, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        const auto c0 = fetch_same(p0 + o[0]);
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(4.0);
            const auto v1 = mgx::lt(c0, v0);
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
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
    {k3, nullptr},
    {k4, nullptr},
    {k5, nullptr},
    {k6, nullptr},
};

}  // namespace mgx

// bytes: arena 576, status 64, input 0 288, input 1 48, output 0 48, output 1 288, output 2 288, weight 0 1
// step 0: k0 (72, 1), 214 ns
//     p0: arena + 48
// step 1: k0 (72, 1), 214 ns
//     p0: output 2
// step 2: k1 (1, 0, 0), 200 ns
//     p0: weight 0
//     p1: arena + 512
// step 3: k2 (12, 1, 1), 204 ns
//     p0: input 1
//     p1: arena
// step 4: loop (2, 0, 11, 6, 0, 1), 0 ns
//     p0: arena + 512 + (trip 0 & 1) * 1
// step 5: number (4, 0, -1), 0 ns
//     p0: arena + 384
// step 6: k3 (12, 1, 1, 1), 212 ns
//     p0: arena + trip 0 * 48
//     p1: input 0 + 240 + trip 0 * -48
//     p2: arena + 48 + trip 0 * 48
// step 7: k4 (1, 0, 0), 200 ns
//     p0: arena + 384
//     p1: arena + 448
// step 8: k5 (1, 0, 0), 200 ns
//     p0: arena + 448
//     p1: arena + 512 + ((trip 0 + 1) & 1) * 1
// step 9: k6 (12, 1, 0, 1), 207 ns
//     p0: arena + 48 + trip 0 * 48
//     p1: arena + 448
//     p2: output 2 + 240 + trip 0 * -48
// step 10: again (3, 0, 5, 6, 0, 1), 0 ns
//     p0: arena + 512 + (trip 0 & 1) * 1
// step 11: k2 (12, 1, 1), 204 ns
//     p0: arena + trip 0 * 48
//     p1: output 0
// step 12: k2 (72, 1, 1), 228 ns
//     p0: arena + 48
//     p1: output 1

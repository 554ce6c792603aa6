#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"
#include "reduce.hpp"

namespace mgx {
// reduce_mean
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t* const b = a + 6;
    for_rows<2, 2>(t, a, product(a, 1) < 8 ? 64 : 1024, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, start_like<Sum, vec<float>>(), n);
        });
        for (int64_t r0 = 0; r0 < b[0]; ++r0) {
            for_lanes(begin, end, [&](int64_t i, auto n) {
                const auto v0 = fetch(p0 + o[0] + r0 * b[1] + i, n);
                put(p1 + o[1] + i, accumulate<Sum>(fetch(p1 + o[1] + i, n), v0, Full{}), n);
            });
        }
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, fetch(p1 + o[1] + i, n) / float(product(b, 1)), n);
        });
    });
}

// reduce_mean
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t* const b = a + 3;
    for_rows<1, 2>(t, a, product(a, 0) < 8 ? 64 : 1024, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, start_like<Sum, vec<float>>(), n);
        });
        for (int64_t r0 = 0; r0 < b[0]; ++r0) {
            for_lanes(begin, end, [&](int64_t i, auto n) {
                const auto v0 = fetch(p0 + o[0] + r0 * b[1] + i, n);
                put(p1 + o[1] + i, accumulate<Sum>(fetch(p1 + o[1] + i, n), v0, Full{}), n);
            });
        }
        for_lanes(begin, end, [&](int64_t i, auto n) {
            put(p1 + o[1] + i, fetch(p1 + o[1] + i, n) / float(product(b, 1)), n);
        });
    });
}

// reduce_mean
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int32_t* const p0 = reinterpret_cast<const int32_t*>(p[0]);
    int32_t* const p1 = reinterpret_cast<int32_t*>(p[1]);
    const int64_t* const b = a + 3;
    const Range mine = t.share(product(a, 1));
    int64_t o[2];
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        locate<1, 2>(a, 1, u, o);
        auto acc1_0 = start_like<Sum, vec<int64_t>>();
        for_pieces(t, b[0], [&](int64_t begin, int64_t end) {
            for_lanes(begin, end, [&](int64_t i, auto n) {
                const auto v1000 = fetch(p0 + o[0] + i, n);
                acc1_0 = accumulate<Sum>(acc1_0, mgx::cast<int64_t>(v1000), n);
            });
        });
        const auto v0 = mgx::cast<int32_t>(splat<int64_t>(Sum::fold(acc1_0)) / int64_t(product(b, 1)));
        p1[o[1]] = narrow_to<int32_t>(v0[0]);
    }
}

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
void k2(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
};

}  // namespace mgx

// bytes: arena 8192, status 64, input 0 262144, input 1 180, output 0 256, output 1 20
// step 0: k0 (32, 64, 2048, 1, 64, 1, 32, 64, 0), 13716 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (64, 1, 1, 32, 64, 0), 13729 ns
//     p0: arena
//     p1: output 0
// step 2: k2 (5, 9, 1, 9, 1, 0), 219 ns
//     p0: input 1
//     p1: output 1

#include "attention.hpp"

namespace mgx {
template void attention<Group::many, mgx::half, float>(const Team&, const Attention&, const mgx::half*, const mgx::half*, const mgx::half*, const float*, mgx::half*, char*);
}  // namespace mgx

#include "team.hpp"
#include "attention.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
extern template void attention<Group::many, mgx::half, float>(const Team&, const Attention&, const mgx::half*, const mgx::half*, const mgx::half*, const float*, mgx::half*, char*);
// attention
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const mgx::half* const p0 = reinterpret_cast<const mgx::half*>(p[0]);
    const mgx::half* const p1 = reinterpret_cast<const mgx::half*>(p[1]);
    const mgx::half* const p2 = reinterpret_cast<const mgx::half*>(p[2]);
    mgx::half* const p3 = reinterpret_cast<mgx::half*>(p[3]);
    attention<Group::many>(t, Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, false, 0}, p0, p1, p2, static_cast<const float*>(nullptr), p3, scratch);
}
int64_t k0_scratch(const int64_t* a) { return attention_scratch<mgx::half>(Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, false, 0}); }

// copy
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint16_t* const p0 = reinterpret_cast<const uint16_t*>(p[0]);
    uint16_t* const p1 = reinterpret_cast<uint16_t*>(p[1]);
    for_rows<4, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

void k0(const Team&, char* const*, const int64_t*, char*);
int64_t k0_scratch(const int64_t*);
void k1(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, k0_scratch},
    {k1, nullptr},
};

}  // namespace mgx

// bytes: arena 1152, status 64, input 0 1152, input 1 1408, output 0 1152
// step 0: k0 (2, 4, 4, 9, 11, 8, 8, 288, 8, 32, 352, 8, 32, 352, 8, 32, 288, 8, 32, 0, 0, 0, 0), 639 ns
//     p0: input 0
//     p1: input 1
//     p2: input 1
//     p3: arena
// step 1: k1 (2, 4, 9, 8, 288, 8, 32, 1, 288, 72, 8, 1), 315 ns
//     p0: arena
//     p1: output 0

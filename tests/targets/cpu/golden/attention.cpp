#include "attention.hpp"

namespace mgx {
template void attention<Group::many, float, float>(const Team&, const Attention&, const float*, const float*, const float*, const float*, float*, char*);
}  // namespace mgx

#include "attention.hpp"

namespace mgx {
template void attention<Group::many, float, uint8_t>(const Team&, const Attention&, const float*, const float*, const float*, const uint8_t*, float*, char*);
}  // namespace mgx

#include "team.hpp"
#include "attention.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
extern template void attention<Group::many, float, float>(const Team&, const Attention&, const float*, const float*, const float*, const float*, float*, char*);
extern template void attention<Group::many, float, uint8_t>(const Team&, const Attention&, const float*, const float*, const float*, const uint8_t*, float*, char*);
// attention
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    attention<Group::many>(t, Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, false, 0}, p0, p1, p2, static_cast<const float*>(nullptr), p3, scratch);
}
int64_t k0_scratch(const int64_t* a) { return attention_scratch<float>(Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, false, 0}); }

// attention
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    attention<Group::many>(t, Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), true, false, 0}, p0, p1, p2, static_cast<const float*>(nullptr), p3, scratch);
}
int64_t k1_scratch(const int64_t* a) { return attention_scratch<float>(Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), true, false, 0}); }

// attention
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    const float* const p3 = reinterpret_cast<const float*>(p[3]);
    float* const p4 = reinterpret_cast<float*>(p[4]);
    attention<Group::many>(t, Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, true, 0}, p0, p1, p2, p3, p4, scratch);
}
int64_t k2_scratch(const int64_t* a) { return attention_scratch<float>(Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, true, 0}); }

// attention
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    const bool* const p3 = reinterpret_cast<const bool*>(p[3]);
    float* const p4 = reinterpret_cast<float*>(p[4]);
    attention<Group::many>(t, Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, true, 0}, p0, p1, p2, reinterpret_cast<const uint8_t*>(p3), p4, scratch);
}
int64_t k3_scratch(const int64_t* a) { return attention_scratch<float>(Attention{a[0], a[1], a[2], a[3], a[4], a[5], a[6], {a[7], a[8], a[9]}, {a[10], a[11], a[12]}, {a[13], a[14], a[15]}, {a[16], a[17], a[18]}, a[19], a[20], a[21], a[22], float(0.25), false, true, 0}); }

// copy
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
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
int64_t k1_scratch(const int64_t*);
void k2(const Team&, char* const*, const int64_t*, char*);
int64_t k2_scratch(const int64_t*);
void k3(const Team&, char* const*, const int64_t*, char*);
int64_t k3_scratch(const int64_t*);
void k4(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, k0_scratch},
    {k1, k1_scratch},
    {k2, k2_scratch},
    {k3, k3_scratch},
    {k4, nullptr},
};

}  // namespace mgx

// bytes: arena 18432, status 64, input 0 2304, input 1 1408, input 2 2816, input 3 3168, input 4 22, output 0 4608, output 1 4608, output 2 4608, output 3 4608
// step 0: k0 (2, 4, 2, 9, 11, 8, 16, 288, 72, 8, 176, 88, 8, 352, 176, 16, 576, 16, 64, 0, 0, 0, 0), 1136 ns
//     p0: input 0
//     p1: input 1
//     p2: input 2
//     p3: arena
// step 1: k1 (2, 4, 2, 9, 11, 8, 16, 288, 72, 8, 176, 88, 8, 352, 176, 16, 576, 16, 64, 0, 0, 0, 0), 1136 ns
//     p0: input 0
//     p1: input 1
//     p2: input 2
//     p3: arena + 4608
// step 2: k2 (2, 4, 2, 9, 11, 8, 16, 288, 72, 8, 176, 88, 8, 352, 176, 16, 576, 16, 64, 396, 99, 11, 1), 1295 ns
//     p0: input 0
//     p1: input 1
//     p2: input 2
//     p3: input 3
//     p4: arena + 9216
// step 3: k3 (2, 4, 2, 9, 11, 8, 16, 288, 72, 8, 176, 88, 8, 352, 176, 16, 576, 16, 64, 11, 0, 0, 1), 1138 ns
//     p0: input 0
//     p1: input 1
//     p2: input 2
//     p3: input 4
//     p4: arena + 13824
// step 4: k4 (2, 4, 9, 16, 576, 16, 64, 1, 576, 144, 16, 1), 660 ns
//     p0: arena
//     p1: output 0
// step 5: k4 (2, 4, 9, 16, 576, 16, 64, 1, 576, 144, 16, 1), 660 ns
//     p0: arena + 4608
//     p1: output 1
// step 6: k4 (2, 4, 9, 16, 576, 16, 64, 1, 576, 144, 16, 1), 660 ns
//     p0: arena + 9216
//     p1: output 2
// step 7: k4 (2, 4, 9, 16, 576, 16, 64, 1, 576, 144, 16, 1), 660 ns
//     p0: arena + 13824
//     p1: output 3

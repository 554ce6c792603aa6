#include "quant.hpp"

namespace mgx {
template void run_engine<mgx::bf16>(const Team&, WordEngine<mgx::bf16>, char*);
template void row_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
}  // namespace mgx

#include "quant.hpp"

namespace mgx {
template void tap_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
template void run_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "conv.hpp"

namespace mgx {
template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "team.hpp"
#include "quant.hpp"
#include "access.hpp"
#include "math.hpp"
#include "conv.hpp"

namespace mgx {
extern template void run_engine<mgx::bf16>(const Team&, WordEngine<mgx::bf16>, char*);
extern template void row_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
extern template void tap_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
extern template void run_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// convolution
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const mgx::bf16* const p0 = reinterpret_cast<const mgx::bf16*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    mgx::bf16* const p2 = reinterpret_cast<mgx::bf16*>(p[2]);
    const int64_t e23 = a[23];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e23 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, reinterpret_cast<const Word<mgx::bf16>*>(p0), p1, epi, scratch);
}
int64_t h0_0_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

// convolution
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    mgx::half* const p2 = reinterpret_cast<mgx::half*>(p[2]);
    const int64_t e24 = a[24];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e24 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_1_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// copy
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint16_t* const p0 = reinterpret_cast<const uint16_t*>(p[0]);
    uint16_t* const p1 = reinterpret_cast<uint16_t*>(p[1]);
    const int64_t s1 = a[5];
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put_strided(p1 + o[1] + i * s1, s1, v0, n);
        });
    });
}

// 
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    mgx::bf16* const p0 = reinterpret_cast<mgx::bf16*>(p[0]);
    const int64_t s0 = a[1];
    for_rows<1, 1>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = mgx::splat<float>(0.0);
            put_strided(p0 + o[0] + i * s0, s0, v0, n);
        });
    });
}

// copy
void k2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint16_t* const p0 = reinterpret_cast<const uint16_t*>(p[0]);
    uint16_t* const p1 = reinterpret_cast<uint16_t*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// copy
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint16_t* const p0 = reinterpret_cast<const uint16_t*>(p[0]);
    uint16_t* const p1 = reinterpret_cast<uint16_t*>(p[1]);
    const int64_t s0 = a[3];
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch_strided(p0 + o[0] + i * s0, s0, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// convert
void k5(const Team& t, char* const* p, const int64_t* a, char* scratch) {
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

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
void k2(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void k4(const Team&, char* const*, const int64_t*, char*);
void k5(const Team&, char* const*, const int64_t*, char*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {k2, nullptr},
    {h0_0, h0_0_scratch},
    {k4, nullptr},
    {k5, nullptr},
    {h0_1, h0_1_scratch},
};

}  // namespace mgx

// bytes: arena 6592, status 64, input 0 1134, input 1 1296, output 0 1944, output 1 1944, weight 0 6272, weight 1 1024
// step 0: k0 (7, 81, 81, 1, 1, 7), 313 ns
//     p0: input 0
//     p1: arena + 1344
// step 1: k1 (81, 8), 208 ns
//     p0: arena + 14
// step 2: k2 (81, 7, 7, 1, 8, 1), 313 ns
//     p0: arena + 1344
//     p1: arena
// step 3: k3 (1, 4, 12, 1, 4, 1, 9, 9, 1, 9, 9, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 12), 1900 ns
//     p0: arena
//     p1: weight 0
//     p2: arena + 2624
// step 4: k4 (81, 8, 1, 81, 8, 1), 329 ns
//     p0: input 1
//     p1: arena + 4608
// step 5: k5 (648, 1, 1), 394 ns
//     p0: arena + 4608
//     p1: arena
// step 6: k6 (1, 8, 12, 1, 8, 1, 9, 9, 1, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 12), 633 ns
//     p0: arena
//     p1: weight 1
//     p2: arena + 4608
// step 7: k4 (12, 81, 1, 12, 81, 1), 394 ns
//     p0: arena + 2624
//     p1: output 0
// step 8: k4 (12, 81, 1, 12, 81, 1), 394 ns
//     p0: arena + 4608
//     p1: output 1

#include "gemm.hpp"

namespace mgx {
template void run_engine<float, mgx::half, mgx::half>(const Team&, const Engine<float, mgx::half, mgx::half>&, char*);
template void run_grid<float, mgx::half, mgx::half>(const Grid&, const Engine<float, mgx::half, mgx::half>&, char*);
template void run_micro<float, mgx::half, mgx::half>(int, int, const Micro<float, mgx::half, mgx::half>&);
template void row_pointers<mgx::half>(const void*, int64_t, const Tiles&, const mgx::half**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "quant.hpp"

namespace mgx {
template void run_engine<mgx::bf16>(const Team&, WordEngine<mgx::bf16>, char*);
template void row_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
}  // namespace mgx

#include "team.hpp"
#include "gemm.hpp"
#include "access.hpp"
#include "math.hpp"
#include "quant.hpp"

namespace mgx {
extern template void run_engine<float, mgx::half, mgx::half>(const Team&, const Engine<float, mgx::half, mgx::half>&, char*);
extern template void run_grid<float, mgx::half, mgx::half>(const Grid&, const Engine<float, mgx::half, mgx::half>&, char*);
extern template void run_micro<float, mgx::half, mgx::half>(int, int, const Micro<float, mgx::half, mgx::half>&);
extern template void row_pointers<mgx::half>(const void*, int64_t, const Tiles&, const mgx::half**);
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_engine<mgx::bf16>(const Team&, WordEngine<mgx::bf16>, char*);
extern template void row_pointers<Word<mgx::bf16>>(const void*, int64_t, const Tiles&, const Word<mgx::bf16>**);
// dot
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const mgx::half* const p0 = reinterpret_cast<const mgx::half*>(p[0]);
    const mgx::half* const p1 = reinterpret_cast<const mgx::half*>(p[1]);
    mgx::half* const p2 = reinterpret_cast<mgx::half*>(p[2]);
    const int64_t e5 = a[5];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e5 + col, v0, n);
    }};
    gemm<float>(t, Gemm{a[0], a[1], a[2], a[3]}, p0, p1, epi, scratch, a[4]);
}
int64_t h0_0_scratch(const int64_t* a) { return GEMM_SCRATCH; }

// dot
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    mgx::half* const p2 = reinterpret_cast<mgx::half*>(p[2]);
    const int64_t e5 = a[5];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e5 + col, v0, n);
    }};
    gemm<float>(t, Gemm{a[0], a[1], a[2], a[3]}, p0, p1, epi, scratch, a[4]);
}
int64_t h0_1_scratch(const int64_t* a) { return GEMM_SCRATCH; }

// dot
void h0_2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const mgx::bf16* const p0 = reinterpret_cast<const mgx::bf16*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    mgx::bf16* const p2 = reinterpret_cast<mgx::bf16*>(p[2]);
    const int64_t e4 = a[4];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e4 + col, v0, n);
    }};
    gemm<float>(t, Gemm{a[0], a[1], a[2], a[3]}, reinterpret_cast<const Word<mgx::bf16>*>(p0), p1, epi, scratch);
}
int64_t h0_2_scratch(const int64_t* a) { return GEMM_SCRATCH; }

}  // namespace mgx

#include "team.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// convert
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
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

// 
void k3(const Team& t, char* const* p, const int64_t* a, char* scratch) {
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
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint16_t* const p0 = reinterpret_cast<const uint16_t*>(p[0]);
    uint16_t* const p1 = reinterpret_cast<uint16_t*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void k1(const Team&, char* const*, const int64_t*, char*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void k3(const Team&, char* const*, const int64_t*, char*);
void k4(const Team&, char* const*, const int64_t*, char*);
void h0_2(const Team&, char* const*, const int64_t*, char*);
int64_t h0_2_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch},
    {k1, nullptr},
    {h0_1, h0_1_scratch},
    {k3, nullptr},
    {k4, nullptr},
    {h0_2, h0_2_scratch},
};

}  // namespace mgx

// bytes: arena 4800, status 64, input 0 144, input 1 2400, input 2 350, output 0 240, output 1 4000, output 2 126, weight 0 3072, weight 1 6144, weight 2 2176
// step 0: k0 (3, 40, 24, 24, 1, 40), 430 ns
//     p0: input 0
//     p1: weight 0
//     p2: output 0
// step 1: k1 (1200, 1, 1), 560 ns
//     p0: input 1
//     p1: arena
// step 2: k2 (50, 40, 24, 24, 1, 40), 1907 ns
//     p0: arena
//     p1: weight 1
//     p2: output 1
// step 3: k3 (7, 26), 200 ns
//     p0: arena + 50
// step 4: k4 (7, 25, 25, 1, 26, 1), 235 ns
//     p0: input 2
//     p1: arena
// step 5: k5 (7, 9, 13, 13, 9), 364 ns
//     p0: arena
//     p1: weight 2
//     p2: output 2

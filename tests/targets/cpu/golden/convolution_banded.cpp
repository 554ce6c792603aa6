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
#include "banded.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// convolution relu, depthwise relu
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e37 = a[37];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::fill(acc, 0);
        const auto v1 = mgx::max(acc, v0);
        put(p3 + row * e37 + col, v1, n);
    }};
    const auto first = [&](float* const p2) {
        const int64_t e35 = a[35];
        const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
            const auto v0 = mgx::fill(acc, 0);
            const auto v1 = mgx::max(acc, v0);
            put(p2 + row * e35 + col, v1, n);
        }};
        return epi;
    };
    banded<3, 2, 8, 1>(t, Pictures<1, 1, 6, 13>{Planar{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]}}, Depthwise{a[14], a[15], a[16], {a[17], a[18], a[19]}, {a[20], a[21], a[22]}, {a[23], a[24], a[25]}, {a[26], a[27], a[28]}, {a[29], a[30], a[31]}, {a[32], a[33], a[34]}}, p0, p1, first, p2, epi, scratch, a[36]);
}
int64_t h0_0_scratch(const int64_t* a) { return banded_scratch(Pictures<1, 1, 6, 13>{Planar{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]}}, Depthwise{a[14], a[15], a[16], {a[17], a[18], a[19]}, {a[20], a[21], a[22]}, {a[23], a[24], a[25]}, {a[26], a[27], a[28]}, {a[29], a[30], a[31]}, {a[32], a[33], a[34]}}); }

// convolution relu, depthwise relu, convolution add
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    const float* const p3 = reinterpret_cast<const float*>(p[3]);
    const float* const p4 = reinterpret_cast<const float*>(p[4]);
    float* const p5 = reinterpret_cast<float*>(p[5]);
    const int64_t e70 = a[70];
    const int64_t e71 = a[71];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = fetch(p4 + row * e70 + col, n);
        const auto v1 = (acc + v0);
        put(p5 + row * e71 + col, v1, n);
    }};
    const auto first = [&](float* const p2) {
        const int64_t e67 = a[67];
        const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
            const auto v0 = mgx::fill(acc, 0);
            const auto v1 = mgx::max(acc, v0);
            put(p2 + row * e67 + col, v1, n);
        }};
        return epi;
    };
    const auto second = [&](float* const p3) {
        const int64_t e68 = a[68];
        const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
            const auto v0 = mgx::fill(acc, 0);
            const auto v1 = mgx::max(acc, v0);
            put(p3 + row * e68 + col, v1, n);
        }};
        return epi;
    };
    banded<3, 1, 7, 1>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, Depthwise{a[23], a[24], a[25], {a[26], a[27], a[28]}, {a[29], a[30], a[31]}, {a[32], a[33], a[34]}, {a[35], a[36], a[37]}, {a[38], a[39], a[40]}, {a[41], a[42], a[43]}}, Conv{a[44], a[45], a[46], a[47], a[48], {a[49], a[50], a[51]}, {a[52], a[53], a[54]}, {a[55], a[56], a[57]}, {a[58], a[59], a[60]}, {a[61], a[62], a[63]}, {a[64], a[65], a[66]}}, p0, p1, first, p2, second, p3, epi, scratch, a[69]);
}
int64_t h0_1_scratch(const int64_t* a) { return banded_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, Depthwise{a[23], a[24], a[25], {a[26], a[27], a[28]}, {a[29], a[30], a[31]}, {a[32], a[33], a[34]}, {a[35], a[36], a[37]}, {a[38], a[39], a[40]}, {a[41], a[42], a[43]}}, Conv{a[44], a[45], a[46], a[47], a[48], {a[49], a[50], a[51]}, {a[52], a[53], a[54]}, {a[55], a[56], a[57]}, {a[58], a[59], a[60]}, {a[61], a[62], a[63]}, {a[64], a[65], a[66]}}); }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"

namespace mgx {
// copy of rows as columns
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void k1(const Team&, char* const*, const int64_t*, char*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch, true},
    {k1, nullptr},
    {h0_1, h0_1_scratch, true},
};

}  // namespace mgx

// bytes: arena 1105920, status 64, input 0 103680, input 1 276480, output 0 552960, output 1 276480, weight 0 768, weight 1 2304, weight 2 2048, weight 3 2304, weight 4 8192
// step 0: k0 (1, 3, 64, 25920, 8640, 90, 96, 90, 96, 90, 1, 1, 0, 0, 1, 64, 64, 1, 96, 90, 1, 48, 45, 1, 3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 64, 0, 64), 98158 ns
//     p0: input 0
//     p1: weight 0
//     p2: weight 1
//     p3: arena
// step 1: k1 (1, 8, 8640, 0, 8640, 0, 8), 27848 ns
//     p0: input 1
//     p1: arena + 552960
// step 2: k2 (1, 8, 64, 1, 8, 1, 96, 90, 1, 96, 90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 64, 64, 1, 96, 90, 1, 96, 90, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 64, 8, 1, 64, 1, 96, 90, 1, 96, 90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 64, 64, 1, 8, 8), 316705 ns
//     p0: arena + 552960
//     p1: weight 2
//     p2: weight 3
//     p3: weight 4
//     p4: arena + 552960
//     p5: arena + 829440
// step 3: k1 (1, 2160, 64, 0, 64, 0, 2160), 55496 ns
//     p0: arena
//     p1: output 0
// step 4: k1 (1, 8640, 8, 0, 8, 0, 8640), 27848 ns
//     p0: arena + 829440
//     p1: output 1

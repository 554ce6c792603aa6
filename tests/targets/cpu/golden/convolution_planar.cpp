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
#include "pooling.hpp"
#include "access.hpp"
#include "math.hpp"
#include "planar.hpp"
#include "conv.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// pooling
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    const int64_t e29 = a[29];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p1 + row * e29 + col, v0, n);
    }};
    pool<PoolMax>(t, Pool{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}, {a[21], a[22], a[23]}, {a[24], a[25], a[26]}, 0, a[27] != 0, double(a[28])}, p0, epi);
}
int64_t h0_0_scratch(const int64_t* a) { return 0; }

// convolution relu
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e14 = a[14];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::fill(acc, 0);
        const auto v1 = mgx::max(acc, v0);
        put(p2 + row * e14 + col, v1, n);
    }};
    planar<3, 2, 5, 8>(t, Planar{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]}, p0, p1, epi, scratch);
}
int64_t h0_1_scratch(const int64_t* a) { return planar_scratch<3, 2, 5, 8>(Planar{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]}); }

// convolution
void h0_2(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e24 = a[24];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e24 + col, v0, n);
    }};
    conv<float>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_2_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

}  // namespace mgx

#include "team.hpp"
#include "interleave.hpp"
#include "transpose.hpp"

namespace mgx {
// copy of planes
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    interleave<3>(t, Interleave{a[0], a[1], a[2], a[3], a[4]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

// copy of rows as columns
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void h0_2(const Team&, char* const*, const int64_t*, char*);
int64_t h0_2_scratch(const int64_t*);
void k4(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {h0_2, h0_2_scratch},
    {k4, nullptr},
};

}  // namespace mgx

// bytes: arena 90688, status 64, input 0 11880, input 1 23760, output 0 48960, output 1 26912, output 2 2880, weight 0 3456, weight 1 3840
// step 0: k0 (1, 990, 0, 990, 0), 1388 ns
//     p0: input 0
//     p1: arena + 75904
// step 1: k1 (1, 3, 2970, 0, 99, 3, 1, 30, 33, 1, 15, 16, 1, 2, 2, 1, 2, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3), 1514 ns
//     p0: arena + 75904
//     p1: arena + 87808
// step 2: k2 (2, 3, 24, 2970, 990, 30, 33, 30, 17, 15, 3, 2, 1, 1, 24), 10740 ns
//     p0: input 1
//     p1: weight 0
//     p2: arena
// step 3: k3 (1, 3, 8, 1, 3, 1, 30, 33, 1, 29, 29, 1, 2, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 8), 6368 ns
//     p0: arena + 75904
//     p1: weight 1
//     p2: arena + 48960
// step 4: k4 (2, 255, 24, 6120, 24, 6120, 255), 5096 ns
//     p0: arena
//     p1: output 0
// step 5: k4 (1, 841, 8, 0, 8, 0, 841), 2891 ns
//     p0: arena + 48960
//     p1: output 1
// step 6: k4 (1, 240, 3, 0, 3, 0, 240), 488 ns
//     p0: arena + 87808
//     p1: output 2

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
#include "depthwise.hpp"
#include "access.hpp"
#include "math.hpp"
#include "conv.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void tap_pointers<float>(const void*, int64_t, const Tiles&, const float**);
extern template void run_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// grouped convolution
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e21 = a[21];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e21 + col, v0, n);
    }};
    depthwise<3, 1, 7, 4, 0, 1, 0>(t, Depthwise{a[0], a[1], a[2], {a[3], a[4], a[5]}, {a[6], a[7], a[8]}, {a[9], a[10], a[11]}, {a[12], a[13], a[14]}, {a[15], a[16], a[17]}, {a[18], a[19], a[20]}}, p0, p1, epi);
}
int64_t h0_0_scratch(const int64_t* a) { return 0; }

// convolution
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
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
int64_t h0_1_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

void k0(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
};

}  // namespace mgx

// bytes: arena 10112, status 64, input 0 5040, input 1 600, output 0 5040, output 1 216, weight 0 2880, weight 1 6912
// step 0: k0 (1, 20, 63, 0, 63, 0, 20), 704 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (1, 20, 20, 1, 7, 9, 1, 7, 9, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 20), 1755 ns
//     p0: arena
//     p1: weight 0
//     p2: arena + 5056
// step 2: k0 (1, 6, 25, 0, 25, 0, 6), 260 ns
//     p0: input 1
//     p1: arena
// step 3: k2 (1, 6, 6, 2, 6, 1, 5, 5, 1, 3, 3, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 6), 615 ns
//     p0: arena
//     p1: weight 1
//     p2: arena + 640
// step 4: k0 (1, 63, 20, 0, 20, 0, 63), 704 ns
//     p0: arena + 5056
//     p1: output 0
// step 5: k0 (1, 9, 6, 0, 6, 0, 9), 221 ns
//     p0: arena + 640
//     p1: output 1

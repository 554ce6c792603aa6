#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "team.hpp"
#include "winograd.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// convolution relu
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e23 = a[23];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::fill(acc, 0);
        const auto v1 = mgx::max(acc, v0);
        put(p2 + row * e23 + col, v1, n);
    }};
    winograd(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch);
}
int64_t h0_0_scratch(const int64_t* a) { return winograd_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}); }

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
const Kernel kernels[] = {
    {k0, nullptr},
    {h0_0, h0_0_scratch, true},
};

}  // namespace mgx

// bytes: arena 43904, status 64, input 0 25088, output 0 18816, weight 0 147456
// step 0: k0 (1, 32, 196, 0, 196, 0, 32), 2708 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (1, 32, 24, 1, 32, 1, 14, 14, 1, 14, 14, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 24), 36910 ns
//     p0: arena
//     p1: weight 0
//     p2: arena + 25088
// step 2: k0 (1, 196, 24, 0, 24, 0, 196), 2081 ns
//     p0: arena + 25088
//     p1: output 0

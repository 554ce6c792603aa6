#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "team.hpp"
#include "int4.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// dot_int4 relu
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const uint8_t* const p1 = reinterpret_cast<const uint8_t*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e6 = a[6];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::fill(acc, 0);
        const auto v1 = mgx::max(acc, v0);
        put(p3 + row * e6 + col, v1, n);
    }};
    int4_gemm(t, Int4Gemm{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, nullptr, epi, scratch, a[5]);
}
int64_t h0_0_scratch(const int64_t* a) { return int4_scratch(a[2]); }

// dot_int4
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const uint8_t* const p1 = reinterpret_cast<const uint8_t*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    const int8_t* const p3 = reinterpret_cast<const int8_t*>(p[3]);
    float* const p4 = reinterpret_cast<float*>(p[4]);
    const int64_t e6 = a[6];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p4 + row * e6 + col, v0, n);
    }};
    int4_gemm(t, Int4Gemm{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, p3, epi, scratch, a[5]);
}
int64_t h0_1_scratch(const int64_t* a) { return int4_scratch(a[2]); }

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
};

}  // namespace mgx

// bytes: arena 0, status 64, input 0 1792, input 1 1792, output 0 1120, output 1 1120, weight 0 2048, weight 1 512, weight 2 128
// step 0: k0 (7, 40, 64, 64, 32, 1, 40), 834 ns
//     p0: input 0
//     p1: weight 0
//     p2: weight 1
//     p3: output 0
// step 1: k1 (7, 40, 64, 64, 32, 1, 40), 838 ns
//     p0: input 1
//     p1: weight 0
//     p2: weight 1
//     p3: weight 2
//     p4: output 1

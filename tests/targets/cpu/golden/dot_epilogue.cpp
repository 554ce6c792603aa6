#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "team.hpp"
#include "gemm.hpp"
#include "access.hpp"
#include "math.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
// dot add relu
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e5 = a[5];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = fetch(p2 + 0 + col, n);
        const auto v1 = (acc + v0);
        const auto v2 = mgx::fill(v1, 0);
        const auto v3 = mgx::max(v1, v2);
        put(p3 + row * e5 + col, v3, n);
    }};
    gemm<float>(t, Gemm{a[0], a[1], a[2], a[3]}, p0, p1, epi, scratch, a[4]);
}
int64_t h0_0_scratch(const int64_t* a) { return GEMM_SCRATCH; }

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch},
};

}  // namespace mgx

// bytes: arena 0, status 64, input 0 1120, output 0 672, weight 0 96, weight 1 5120
// step 0: k0 (7, 24, 40, 40, 1, 24), 688 ns
//     p0: input 0
//     p1: weight 1
//     p2: weight 0
//     p3: output 0

#include "gemm.hpp"

namespace mgx {
template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
extern template void run_engine<float, float, float>(const Team&, const Engine<float, float, float>&, char*);
extern template void run_grid<float, float, float>(const Grid&, const Engine<float, float, float>&, char*);
extern template void run_micro<float, float, float>(int, int, const Micro<float, float, float>&);
extern template void row_pointers<float>(const void*, int64_t, const Tiles&, const float**);
template void dot_one<float, float, float>(const BatchedDot&, const Grid&, const float*, const float*, Engine<float, float, float>, char*);
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
extern template void dot_one<float, float, float>(const BatchedDot&, const Grid&, const float*, const float*, Engine<float, float, float>, char*);
// dot add
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    const float* const p1 = reinterpret_cast<const float*>(p[1]);
    const float* const p2 = reinterpret_cast<const float*>(p[2]);
    float* const p3 = reinterpret_cast<float*>(p[3]);
    const int64_t e19 = a[19];
    const int64_t e20 = a[20];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = fetch(p2 + row * e19 + col, n);
        const auto v1 = (acc + v0);
        put(p3 + row * e20 + col, v1, n);
    }};
    batched_dot<float>(t, BatchedDot{a[0], a[1], a[2], {a[3], a[4], a[5], a[6]}, {a[7], a[8], a[9], a[10]}, a[11], a[12], {a[13], a[14], a[15], a[16]}, a[17], a[18]}, p0, p1, epi, scratch);
}
int64_t h0_0_scratch(const int64_t* a) { return dot_scratch(BatchedDot{a[0], a[1], a[2], {a[3], a[4], a[5], a[6]}, {a[7], a[8], a[9], a[10]}, a[11], a[12], {a[13], a[14], a[15], a[16]}, a[17], a[18]}, 4, 4); }

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch},
};

}  // namespace mgx

// bytes: arena 0, status 64, input 0 6336, input 1 4032, input 2 1848, output 0 1848
// step 0: k0 (7, 11, 24, 1, 1, 1, 6, 0, 0, 0, 168, 24, 1, 0, 0, 0, 264, 1, 24, 11, 11), 1129 ns
//     p0: input 1
//     p1: input 0
//     p2: input 2
//     p3: output 0

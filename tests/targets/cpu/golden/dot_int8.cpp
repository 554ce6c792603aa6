#include "quant.hpp"

namespace mgx {
template void run_engine<uint8_t>(const Team&, WordEngine<uint8_t>, char*);
template void row_pointers<Word<uint8_t>>(const void*, int64_t, const Tiles&, const Word<uint8_t>**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
template void run_engine<int32_t, int8_t, int8_t>(const Team&, const Engine<int32_t, int8_t, int8_t>&, char*);
template void run_grid<int32_t, int8_t, int8_t>(const Grid&, const Engine<int32_t, int8_t, int8_t>&, char*);
template void run_micro<int32_t, int8_t, int8_t>(int, int, const Micro<int32_t, int8_t, int8_t>&);
template void row_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
extern template void run_engine<int32_t, int8_t, int8_t>(const Team&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_grid<int32_t, int8_t, int8_t>(const Grid&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_micro<int32_t, int8_t, int8_t>(int, int, const Micro<int32_t, int8_t, int8_t>&);
extern template void row_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
template void dot_one<int32_t, int8_t, int8_t>(const BatchedDot&, const Grid&, const int8_t*, const int8_t*, Engine<int32_t, int8_t, int8_t>, char*);
}  // namespace mgx

#include "team.hpp"
#include "quant.hpp"
#include "access.hpp"
#include "math.hpp"
#include "gemm.hpp"

namespace mgx {
extern template void run_engine<uint8_t>(const Team&, WordEngine<uint8_t>, char*);
extern template void row_pointers<Word<uint8_t>>(const void*, int64_t, const Tiles&, const Word<uint8_t>**);
extern template void run_engine<int32_t, int8_t, int8_t>(const Team&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_grid<int32_t, int8_t, int8_t>(const Grid&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_micro<int32_t, int8_t, int8_t>(int, int, const Micro<int32_t, int8_t, int8_t>&);
extern template void row_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
extern template void dot_one<int32_t, int8_t, int8_t>(const BatchedDot&, const Grid&, const int8_t*, const int8_t*, Engine<int32_t, int8_t, int8_t>, char*);
// quant_dot convert
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const uint8_t* const p0 = reinterpret_cast<const uint8_t*>(p[0]);
    const int32_t* const p1 = reinterpret_cast<const int32_t*>(p[1]);
    float* const p2 = reinterpret_cast<float*>(p[2]);
    const int64_t e4 = a[4];
    const auto epi = Epilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<float>(acc);
        put(p2 + row * e4 + col, v0, n);
    }};
    gemm<int32_t>(t, Gemm{a[0], a[1], a[2], a[3]}, reinterpret_cast<const Word<uint8_t>*>(p0), p1, epi, scratch);
}
int64_t h0_0_scratch(const int64_t* a) { return GEMM_SCRATCH; }

// dot
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int8_t* const p0 = reinterpret_cast<const int8_t*>(p[0]);
    const int8_t* const p1 = reinterpret_cast<const int8_t*>(p[1]);
    int32_t* const p2 = reinterpret_cast<int32_t*>(p[2]);
    const int64_t e19 = a[19];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<int32_t>(acc);
        put(p2 + row * e19 + col, v0, n);
    }};
    batched_dot<int32_t>(t, BatchedDot{a[0], a[1], a[2], {a[3], a[4], a[5], a[6]}, {a[7], a[8], a[9], a[10]}, a[11], a[12], {a[13], a[14], a[15], a[16]}, a[17], a[18]}, p0, p1, epi, scratch);
}
int64_t h0_1_scratch(const int64_t* a) { return dot_scratch(BatchedDot{a[0], a[1], a[2], {a[3], a[4], a[5], a[6]}, {a[7], a[8], a[9], a[10]}, a[11], a[12], {a[13], a[14], a[15], a[16]}, a[17], a[18]}, 1, 1); }

void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
const Kernel kernels[] = {
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
};

}  // namespace mgx

// bytes: arena 0, status 64, input 0 168, input 1 45, input 2 63, output 0 1120, output 1 140, weight 0 4352
// step 0: k0 (7, 40, 6, 6, 40), 619 ns
//     p0: input 0
//     p1: weight 0
//     p2: output 0
// step 1: k1 (5, 7, 9, 1, 1, 1, 1, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 7, 1, 7), 218 ns
//     p0: input 1
//     p1: input 2
//     p2: output 1

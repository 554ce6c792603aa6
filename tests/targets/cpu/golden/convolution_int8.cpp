#include "quant.hpp"

namespace mgx {
template void run_engine<int8_t>(const Team&, WordEngine<int8_t>, char*);
template void row_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
}  // namespace mgx

#include "quant.hpp"

namespace mgx {
template void tap_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
template void run_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
}  // namespace mgx

#include "gemm.hpp"

namespace mgx {
template void run_engine<int32_t, int8_t, int8_t>(const Team&, const Engine<int32_t, int8_t, int8_t>&, char*);
template void run_grid<int32_t, int8_t, int8_t>(const Grid&, const Engine<int32_t, int8_t, int8_t>&, char*);
template void run_micro<int32_t, int8_t, int8_t>(int, int, const Micro<int32_t, int8_t, int8_t>&);
template void row_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
}  // namespace mgx

#include "conv.hpp"

namespace mgx {
template void tap_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
template void run_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
}  // namespace mgx

#include "team.hpp"
#include "quant.hpp"
#include "access.hpp"
#include "math.hpp"
#include "conv.hpp"

namespace mgx {
extern template void run_engine<int8_t>(const Team&, WordEngine<int8_t>, char*);
extern template void row_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
extern template void tap_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
extern template void run_pointers<Word<int8_t>>(const void*, int64_t, const Tiles&, const Word<int8_t>**);
extern template void run_engine<int32_t, int8_t, int8_t>(const Team&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_grid<int32_t, int8_t, int8_t>(const Grid&, const Engine<int32_t, int8_t, int8_t>&, char*);
extern template void run_micro<int32_t, int8_t, int8_t>(int, int, const Micro<int32_t, int8_t, int8_t>&);
extern template void row_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
extern template void tap_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
extern template void run_pointers<int8_t>(const void*, int64_t, const Tiles&, const int8_t**);
// quant_convolution relu
void h0_0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int8_t* const p0 = reinterpret_cast<const int8_t*>(p[0]);
    const int32_t* const p1 = reinterpret_cast<const int32_t*>(p[1]);
    int32_t* const p2 = reinterpret_cast<int32_t*>(p[2]);
    const int64_t e23 = a[23];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::fill(acc, 0);
        const auto v1 = mgx::max(acc, v0);
        put(p2 + row * e23 + col, v1, n);
    }};
    conv<int32_t>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, reinterpret_cast<const Word<int8_t>*>(p0), p1, epi, scratch);
}
int64_t h0_0_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 4); }

// convolution
void h0_1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int8_t* const p0 = reinterpret_cast<const int8_t*>(p[0]);
    const int8_t* const p1 = reinterpret_cast<const int8_t*>(p[1]);
    int32_t* const p2 = reinterpret_cast<int32_t*>(p[2]);
    const int64_t e24 = a[24];
    const auto epi = ShortEpilogue{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {
        const auto v0 = mgx::cast<int32_t>(acc);
        put(p2 + row * e24 + col, v0, n);
    }};
    conv<int32_t>(t, Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, p0, p1, epi, scratch, a[23]);
}
int64_t h0_1_scratch(const int64_t* a) { return conv_scratch(Conv{a[0], a[1], a[2], a[3], a[4], {a[5], a[6], a[7]}, {a[8], a[9], a[10]}, {a[11], a[12], a[13]}, {a[14], a[15], a[16]}, {a[17], a[18], a[19]}, {a[20], a[21], a[22]}}, 1); }

}  // namespace mgx

#include "team.hpp"
#include "transpose.hpp"
#include "loops.hpp"
#include "math.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint8_t*>(p[0]), reinterpret_cast<uint8_t*>(p[1]));
}

// copy
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int8_t* const p0 = reinterpret_cast<const int8_t*>(p[0]);
    int8_t* const p1 = reinterpret_cast<int8_t*>(p[1]);
    for_rows<2, 2>(t, a, 2048, [&](const int64_t* o, int64_t begin, int64_t end) {
        for_lanes(begin, end, [&](int64_t i, auto n) {
            const auto v0 = fetch(p0 + o[0] + i, n);
            put(p1 + o[1] + i, v0, n);
        });
    });
}

// copy of rows as columns
void k4(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
void h0_0(const Team&, char* const*, const int64_t*, char*);
int64_t h0_0_scratch(const int64_t*);
void h0_1(const Team&, char* const*, const int64_t*, char*);
int64_t h0_1_scratch(const int64_t*);
void k4(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, nullptr},
    {h0_0, h0_0_scratch},
    {h0_1, h0_1_scratch},
    {k4, nullptr},
};

}  // namespace mgx

// bytes: arena 5312, status 64, input 0 420, output 0 3360, output 1 1440, weight 0 4224, weight 1 1728
// step 0: k0 (2, 6, 35, 210, 35, 210, 6), 242 ns
//     p0: input 0
//     p1: arena + 4864
// step 1: k1 (70, 6, 6, 1, 8, 1), 242 ns
//     p0: arena + 4864
//     p1: arena + 3392
// step 2: k2 (2, 2, 12, 1, 2, 1, 7, 5, 1, 7, 5, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 12), 1522 ns
//     p0: arena + 3392
//     p1: weight 0
//     p2: arena
// step 3: k3 (2, 6, 12, 3, 6, 1, 7, 5, 1, 5, 3, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 12), 509 ns
//     p0: arena + 4864
//     p1: weight 1
//     p2: arena + 3392
// step 4: k4 (2, 35, 12, 420, 12, 420, 35), 536 ns
//     p0: arena
//     p1: output 0
// step 5: k4 (2, 15, 12, 180, 12, 180, 15), 344 ns
//     p0: arena + 3392
//     p1: output 1

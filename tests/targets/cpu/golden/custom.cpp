#include "team.hpp"
#include "vec.hpp"
#include "cmath"

namespace mgx {
// golden::scaled
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    [[maybe_unused]] const float* const in0 = reinterpret_cast<const float*>(p[0]);
    [[maybe_unused]] const int64_t* const in0_lens = a + 0;
    [[maybe_unused]] float* const out = reinterpret_cast<float*>(p[1]);
    [[maybe_unused]] const int64_t* const out_lens = a + 2;
    [[maybe_unused]] const double factor = 2.0;
    [[maybe_unused]] const int64_t steps[] = {1, 2};
    [[maybe_unused]] const char* const kind = "\044\160\154\141\151\156";
    const Range mine = t.share(a[4], 64);
    [[maybe_unused]] const int64_t begin = mine.begin, end = mine.end;
    {
    for (int64_t i = begin; i < end; ++i) out[i] = in0[i] * float(factor) + float(steps[1]);
    }
}

void k0(const Team&, char* const*, const int64_t*, char*);
const Kernel kernels[] = {
    {k0, nullptr},
};

}  // namespace mgx

// bytes: arena 0, status 64, input 0 96, output 0 96
// step 0: k0 (3, 8, 3, 8, 24), 1409 ns
//     p0: input 0
//     p1: output 0

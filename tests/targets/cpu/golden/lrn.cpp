#include "team.hpp"
#include "transpose.hpp"
#include "lrn.hpp"

namespace mgx {
// copy of rows as columns
void k0(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    transpose(t, Transpose{a[0], a[1], a[2], a[3], a[4], a[5], a[6]}, reinterpret_cast<const uint32_t*>(p[0]), reinterpret_cast<uint32_t*>(p[1]));
}

// lrn
void k1(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const float* const p0 = reinterpret_cast<const float*>(p[0]);
    float* const p1 = reinterpret_cast<float*>(p[1]);
    lrn<float>(t, Lrn{a[0], a[1], a[2], a[3], 0.01, 0.75, 1.5}, p0, p1, scratch);
}
int64_t k1_scratch(const int64_t* a) { return lrn_scratch(a[1], a[3]); }

void k0(const Team&, char* const*, const int64_t*, char*);
void k1(const Team&, char* const*, const int64_t*, char*);
int64_t k1_scratch(const int64_t*);
const Kernel kernels[] = {
    {k0, nullptr},
    {k1, k1_scratch},
};

}  // namespace mgx

// bytes: arena 11904, status 64, input 0 5920, output 0 5920
// step 0: k0 (2, 37, 20, 740, 20, 740, 37), 792 ns
//     p0: input 0
//     p1: arena
// step 1: k1 (40, 37, 37, 5), 792 ns
//     p0: arena
//     p1: arena + 5952
// step 2: k0 (2, 20, 37, 740, 37, 740, 20), 4640 ns
//     p0: arena + 5952
//     p1: output 0

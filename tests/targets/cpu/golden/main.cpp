#include "program.hpp"

namespace mgx {
void k0(const Team&, char* const*, const int64_t*, char*);
int64_t k0_scratch(const int64_t*);
constexpr Kernel kernels[] = {
    {k0, k0_scratch},
};
}  // namespace mgx

extern "C" {
int64_t mgx_scratch(const int64_t* table) { return mgx::largest_scratch(mgx::kernels, table); }
void mgx_run(const int64_t* table, char* const* buffers, char* scratch, int64_t stride, int threads,
             const mgx::OpenMP* omp, int64_t* nanoseconds, mgx::Stop* stop) {
    mgx::Program program{mgx::kernels, table, buffers, scratch, stride, nanoseconds, omp, stop, threads};
    mgx::run_program(program);
}
}

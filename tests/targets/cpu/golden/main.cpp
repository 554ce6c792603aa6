#include "program.hpp"

extern "C" {
int64_t mgx_scratch(const int64_t* table) { return mgx::largest_scratch(mgx::kernels, table); }
int64_t mgx_run(const int64_t* table, char* const* buffers, char* scratch, int64_t stride, int threads,
                const mgx::OpenMP* omp, int64_t* nanoseconds, mgx::Stop* stop, mgx::Repeat* repeat) {
    stop->begin();
    do {
        mgx::Program program{mgx::kernels, table, buffers, scratch, stride, nanoseconds, omp, stop, threads};
        mgx::run_program(program);
        stop->holds = nullptr;  // what is compared is so once a call
    } while (repeat && !stop->set() && repeat->goes_on());
    return stop->reason;
}
}

// How a generated program's run() is spread over the threads of an OpenMP runtime.
#pragma once

#include "team.hpp"

namespace mgx {

// Addresses in the runtime that the process already has (torch's, or the system's); null: one thread.
struct OpenMP {
    void (*parallel)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);
    int (*thread_num)();
    int (*num_threads)();
};

using Run = void (*)(const Team&, char* const* buffers, char* scratch);

struct Region {
    Run run;
    char* const* buffers;
    char* scratch;
    int64_t stride;
    const OpenMP* omp;
    Barrier barrier;
};

inline void region_thread(void* data) {
    Region& r = *static_cast<Region*>(data);
    const int tid = r.omp->thread_num(), size = r.omp->num_threads();
    __atomic_store_n(&r.barrier.size, size, __ATOMIC_RELAXED);  // every thread stores the same; the runtime may grant fewer
    const Team team{tid, size, &r.barrier};
    r.run(team, r.buffers, r.scratch + tid * r.stride);
}

inline void run_program(Run run, char* const* buffers, char* scratch, int64_t stride, int threads, const OpenMP& omp) {
    Region region{run, buffers, scratch, stride, &omp, {}};
    if (threads > 1 && omp.parallel) {
        omp.parallel(region_thread, &region, unsigned(threads), 0);
    } else {
        const Team alone{0, 1, &region.barrier};
        run(alone, buffers, scratch);
    }
}

inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace mgx

// A generated program is a table of steps; this runs it on the threads of an OpenMP runtime.
#pragma once

#include "team.hpp"

#include <time.h>

namespace mgx {

// Where a view starts: an entry of the pointer table, and bytes from there.
struct Place {
    int entry;
    int64_t offset;
};

// One kernel call: p points to its views, a to its numbers.
struct Step {
    void (*kernel)(const Team&, char* const* p, const int64_t* a, char* scratch);
    int64_t (*scratch)(const int64_t* a);  // bytes per thread; null where the kernel needs none
    const int64_t* numbers;
    const Place* places;
    int count;
};

// Addresses in the runtime that the process already has (torch's, or the system's); null: one thread.
struct OpenMP {
    void (*parallel)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);
    int (*thread_num)();
    int (*num_threads)();
};

struct Program {
    const Step* steps;
    int64_t count;
    char* const* buffers;
    char* scratch;
    int64_t stride;        // of scratch, from thread to thread
    int64_t* nanoseconds;  // where not null: added to, step by step
    const OpenMP* omp;
    Barrier barrier;
};

inline int64_t clock_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * int64_t(1000000000) + t.tv_nsec;
}

inline constexpr int MOST_VIEWS = 256;

inline void run_steps(const Program& g, const Team& team) {
    char* p[MOST_VIEWS];
    const bool timed = g.nanoseconds && team.tid == 0;
    int64_t last = timed ? clock_now() : 0;
    for (int64_t n = 0; n < g.count; ++n) {
        const Step& s = g.steps[n];
        for (int k = 0; k < s.count; ++k) p[k] = g.buffers[s.places[k].entry] + s.places[k].offset;
        s.kernel(team, p, s.numbers, g.scratch + team.tid * g.stride);
        if (n + 1 < g.count || g.nanoseconds) team.barrier();
        if (timed) {
            const int64_t now = clock_now();
            g.nanoseconds[n] += now - last;
            last = now;
        }
    }
}

inline void run_thread(void* data) {
    Program& g = *static_cast<Program*>(data);
    const int tid = g.omp->thread_num(), size = g.omp->num_threads();
    __atomic_store_n(&g.barrier.size, size, __ATOMIC_RELAXED);  // all store the same; the runtime may grant fewer
    run_steps(g, Team{tid, size, &g.barrier});
}

inline void run_program(Program& g, int threads) {
    if (threads > 1 && g.omp->parallel)
        g.omp->parallel(run_thread, &g, unsigned(threads), 0);
    else
        run_steps(g, Team{0, 1, &g.barrier});
}

inline int64_t largest_scratch(const Step* steps, int64_t count) {
    int64_t most = 64;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t bytes = steps[n].scratch ? steps[n].scratch(steps[n].numbers) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

}  // namespace mgx

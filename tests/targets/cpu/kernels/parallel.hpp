// Kernels as the threads of a run do them: of few threads each does its share, of many each part of it, the last one first.
#pragma once

#include "team.hpp"

#include <cstdlib>
#include <omp.h>

namespace mgx {

// f(team, scratch); each thread's scratch is `bytes`, NaN as any float, and f leaves what lies behind them as it is.
template <class F> void parallel(int threads, int64_t bytes, const F& f) {
#pragma omp parallel num_threads(threads)
    {
        const int64_t all = (bytes + 127) / 64 * 64;
        char* scratch = static_cast<char*>(aligned_alloc(64, all));
        __builtin_memset(scratch, 0x7b, all);
        __builtin_memset(scratch, 0xff, bytes);
        const Team team{omp_get_thread_num(), threads};
        const int parts = threads < MANY_THREADS ? 1 : 3;
        for (int i = parts; i-- > 0;) f(team.part(i, parts), scratch);
        for (int64_t i = bytes; i < all; ++i)
            if (scratch[i] != 0x7b) __builtin_trap();
        free(scratch);
    }
}

}  // namespace mgx

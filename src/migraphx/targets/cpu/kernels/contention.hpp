// What threads of a run do where other processes want their cores: they notice it, sleep at once where they would spin,
// and keep off each other's cores.
#pragma once

#include "stop.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace mgx {

// Until when threads of this program count as losing their cores: what one run has seen holds for its next ones, too.
static int64_t contended_until = 0;

inline bool contended(int64_t now) { return now < __atomic_load_n(&contended_until, __ATOMIC_RELAXED); }

// Whether a thread loses its core to others: time passes that it neither works nor sleeps.
struct Watch {
    static constexpr int64_t BETWEEN = 500'000;  // ns between two looks: each asks the system
    static constexpr int64_t LOST = 1'000'000, HOLDS = 50'000'000;
    int64_t looked = 0, used = -1;  // when, and the time that it had worked; negative: not known

    static int64_t worked() {
        timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return t.tv_sec * int64_t(1000000000) + t.tv_nsec;
    }

    void look(int64_t now) {
        if (!looked) looked = now;  // short runs need not ask
        if (now - looked >= BETWEEN) look(now, worked());
    }
    void look(int64_t now, int64_t work) {
        if (used >= 0 && (now - looked) - (work - used) > LOST)
            __atomic_store_n(&contended_until, now + HOLDS, __ATOMIC_RELAXED);
        looked = now, used = work;
    }
    void slept(int64_t now) { looked = now, used = worked(); }
};

#if defined(__linux__)
inline int current_core() { return sched_getcpu(); }

// Move this thread to a core that it may use and that is not `taken(core)`, if there is one. Which cores it may use stays
// as it is.
template <class Taken>
inline void leave_core(const Taken& taken) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &all) || taken(core)) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        if (!sched_setaffinity(0, sizeof one, &one)) sched_setaffinity(0, sizeof all, &all);
        return;
    }
}
#else
inline int current_core() { return -1; }
template <class Taken>
inline void leave_core(const Taken&) {}
#endif

}  // namespace mgx

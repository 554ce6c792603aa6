// A generated program is a table of steps; this runs it on the threads of an OpenMP runtime. Steps of control flow
// jump in the table: every thread takes the same way, as all read the same conditions, between two barriers.
#pragma once

#include "team.hpp"

#include <time.h>

namespace mgx {

// How a view moves with the trips of a loop: by ((trip + phase) & mask) * step bytes.
struct Move {
    int slot;  // the loop's
    int64_t phase, mask, step;
};

// Where a view starts: an entry of the pointer table, and bytes from there.
struct Place {
    int entry;
    int64_t offset;
    const Move* moves = nullptr;
    int count = 0;
};

// What a step without a kernel does; its numbers are {kind, slot, target, and for loops: most, trips, condition}.
enum Flow : int64_t {
    IF,      // to target where the bool at p[0] is false
    JUMP,    // to target
    LOOP,    // count from 0; to target, behind the loop, where there is no first trip
    AGAIN,   // count on; to target, the loop's first step, where there is another trip
    NUMBER,  // write the trip's number to p[0]
};

// One kernel call: p points to its views, a to its numbers. Without a kernel, control flow.
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

inline constexpr int MOST_VIEWS = 256, MOST_LOOPS = 1024;

inline char* address(const Program& g, const Place& place, const int64_t* trips) {
    int64_t offset = place.offset;
    for (int k = 0; k < place.count; ++k) {
        const Move& m = place.moves[k];
        offset += ((trips[m.slot] + m.phase) & m.mask) * m.step;
    }
    return g.buffers[place.entry] + offset;
}

// Whether a loop makes another trip: below `most`, below the number at p (if it is counted), with the condition true.
inline bool goes_on(const int64_t* a, char* const* p, int64_t trip) {
    if (trip >= a[3]) return false;
    if (a[4] && trip >= *reinterpret_cast<const int64_t*>(*p++)) return false;
    return !a[5] || **p;
}

// The number of the step after `n`, which has no kernel.
inline int64_t follow(const Step& s, int64_t n, char* const* p, const int64_t* trips, const Team& team) {
    const int64_t *a = s.numbers, trip = trips[a[1]], target = a[2];
    switch (a[0]) {
        case IF: return *p[0] ? n + 1 : target;
        case JUMP: return target;
        case LOOP: return goes_on(a, p, trip) ? n + 1 : target;
        case AGAIN: return goes_on(a, p, trip) ? target : n + 1;
        default:
            if (team.tid == 0) *reinterpret_cast<int64_t*>(p[0]) = trip;
            return n + 1;
    }
}

inline void run_steps(const Program& g, const Team& team) {
    char* p[MOST_VIEWS];
    int64_t trips[MOST_LOOPS];
    trips[0] = 0;  // what steps without a loop name
    const bool timed = g.nanoseconds && team.tid == 0;
    int64_t last = timed ? clock_now() : 0;
    for (int64_t n = 0; n < g.count;) {
        const Step& s = g.steps[n];
        const int64_t here = n++;
        if (!s.kernel && s.numbers[0] == LOOP) trips[s.numbers[1]] = 0;
        if (!s.kernel && s.numbers[0] == AGAIN) ++trips[s.numbers[1]];
        for (int k = 0; k < s.count; ++k) p[k] = address(g, s.places[k], trips);
        if (s.kernel) {
            s.kernel(team, p, s.numbers, g.scratch + team.tid * g.stride);
            if (n < g.count || g.nanoseconds) team.barrier();
        } else {
            n = follow(s, here, p, trips, team);
            if (s.count) team.barrier();  // before what was read is written again
        }
        if (timed) {
            const int64_t now = clock_now();
            g.nanoseconds[here] += now - last;
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

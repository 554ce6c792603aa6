// A program is kernels, which are code, and a table, which holds every number: what runs on what, in which order, for
// which sizes. This runs it on the threads of an OpenMP runtime. Steps of control flow jump in the table: every thread
// takes the same way, as all read the same conditions, between two barriers.
//
// The table is words of 64 bits: {steps, entries, bytes of each entry of the pointer table}, the steps, and then what
// they point to, by numbers of words from the table's beginning: numbers, moves, places.
#pragma once

#include "team.hpp"

namespace mgx {

// How a view moves with the trips of a loop: by ((trip + phase) & mask) * step bytes; `slot` is the loop's.
struct Move {
    int64_t slot, phase, mask, step;
};

// Where a view starts: an entry of the pointer table, and bytes from there; `count` moves from word `moves` on.
struct Place {
    int64_t entry, offset, moves, count;
};

// What a step without a kernel does; its numbers are {kind, slot, target, and for loops: most, trips, condition}.
enum Flow : int64_t {
    IF,      // to target where the bool at p[0] is false
    JUMP,    // to target
    LOOP,    // count from 0; to target, behind the loop, where there is no first trip
    AGAIN,   // count on; to target, the loop's first step, where there is another trip
    NUMBER,  // write the trip's number to p[0]
};

// One kernel call: its number, the words of its numbers and of its places, how many these are, and about how many
// nanoseconds it takes one thread. Without a kernel (its number is negative), control flow.
struct Step {
    int64_t kernel, numbers, places, count, work;
};

// p points to a call's views, a to its numbers.
struct Kernel {
    void (*run)(const Team&, char* const* p, const int64_t* a, char* scratch);
    int64_t (*scratch)(const int64_t* a);  // bytes per thread; null where the kernel needs none
};

// Addresses in the runtime that the process already has (torch's, or the system's); null: one thread.
struct OpenMP {
    void (*parallel)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);
    int (*thread_num)();
    int (*num_threads)();
};

struct Program {
    const Kernel* kernels;
    const int64_t* table;
    char* const* buffers;
    char* scratch;
    int64_t stride;        // of scratch, from thread to thread
    int64_t* nanoseconds;  // where not null: added to, step by step
    const OpenMP* omp;
    Barrier barrier;
};

template <class T>
inline const T* at(const int64_t* table, int64_t word) {
    return reinterpret_cast<const T*>(table + word);
}

inline const Step* steps_of(const int64_t* table) { return at<Step>(table, 2 + table[1]); }

inline constexpr int MOST_VIEWS = 256, MOST_LOOPS = 1024, MOST_PARTS = 1 << 18;
inline constexpr int64_t PART = 5'000'000;  // nanoseconds: a longer share of a step comes in parts

inline char* address(const Program& g, const Place& place, const int64_t* trips) {
    int64_t offset = place.offset;
    for (int64_t k = 0; k < place.count; ++k) {
        const Move& m = at<Move>(g.table, place.moves)[k];
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
inline int64_t follow(const int64_t* a, int64_t n, char* const* p, const int64_t* trips, const Team& team) {
    const int64_t trip = trips[a[1]], target = a[2];
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

// A thread's share of a kernel's work, in parts where that is long.
inline void run_kernel(const Program& g, const Step& s, const Team& team, char* const* p) {
    const auto run = g.kernels[s.kernel].run;
    const int64_t* const a = g.table + s.numbers;
    char* const scratch = g.scratch + team.tid * g.stride;
    int count = 1;  // a power of two: a matrix divides well among so many
    while (count < MOST_PARTS && s.work / team.size / count > PART) count *= 2;
    if (count == 1) return run(team, p, a, scratch);
    for (int i = 0; i < count && !team.stopped(); ++i) run(team.part(i, count), p, a, scratch);
}

inline void run_steps(const Program& g, const Team& team) {
    char* p[MOST_VIEWS];
    Patience patience;
    int64_t trips[MOST_LOOPS];
    trips[0] = 0;  // what steps without a loop name
    const bool timed = g.nanoseconds && team.tid == 0;
    int64_t last = timed ? clock_now() : 0;
    const Step* const steps = steps_of(g.table);
    const int64_t count = g.table[0];
    for (int64_t n = 0; n < count && !team.stopped();) {
        const Step& s = steps[n];
        const int64_t *const a = g.table + s.numbers, here = n++;
        const Place* const places = at<Place>(g.table, s.places);
        const bool flow = s.kernel < 0;
        if (flow && a[0] == LOOP) trips[a[1]] = 0;
        if (flow && a[0] == AGAIN) ++trips[a[1]];
        for (int64_t k = 0; k < s.count; ++k) p[k] = address(g, places[k], trips);
        if (flow) {
            n = follow(a, here, p, trips, team);
            if (s.count) team.b->wait(patience, team.caller);  // before what was read is written again
        } else {
            run_kernel(g, s, team, p);
            team.b->wait(patience, team.caller);  // behind the last step too: there nobody would look for a stop
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
    run_steps(g, Team{tid, size, &g.barrier, tid == 0});
}

inline void run_program(Program& g, int threads, Stop* stop) {
    g.barrier.stop = stop;
    stop->begin();
    if (threads > 1 && g.omp->parallel)
        g.omp->parallel(run_thread, &g, unsigned(threads), 0);
    else
        run_steps(g, Team{0, 1, &g.barrier, true});
}

inline int64_t largest_scratch(const Kernel* kernels, const int64_t* table) {
    int64_t most = 64;
    const Step* const steps = steps_of(table);
    for (int64_t n = 0; n < table[0]; ++n) {
        const auto scratch = steps[n].kernel < 0 ? nullptr : kernels[steps[n].kernel].scratch;
        const int64_t bytes = scratch ? scratch(table + steps[n].numbers) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

}  // namespace mgx

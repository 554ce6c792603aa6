// A program is kernels, which are code, and a table, which holds every number: what runs on what, in which order, for
// which sizes. This runs it on the threads of an OpenMP runtime. Between two kernels one
// thread alone goes on in the table: it follows the control flow, and runs kernels of little work itself.
//
// The table is words of 64 bits: {steps, entries, bytes of each entry of the pointer table}, the steps, and then what
// they point to, by numbers of words from the table's beginning: numbers, moves, places.
#pragma once

#include "board.hpp"

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

// Addresses in the runtime that the process already has (torch's, or the system's); null: one thread.
struct OpenMP {
    void (*parallel)(void (*fn)(void*), void* data, unsigned threads, unsigned flags);
    int (*thread_num)();
    int (*num_threads)();
};

// What a run is followed by: where `more` says so, another one of the same program. Behind `most` of them the caller has to
// go on, where `again` is set; `runs` is how many there were.
struct Repeat {
    int (*more)(void* state);
    void* state;
    int64_t most, runs, again;

    bool goes_on() {
        again = more(state);
        return ++runs < most && again;
    }
};

struct Program {
    const Kernel* kernels;
    const int64_t* table;
    char* const* buffers;
    char* scratch;         // of each thread: its Claim, then what kernels use
    int64_t stride;        // from thread to thread
    int64_t* nanoseconds;  // where not null: added to, step by step
    const OpenMP* omp;
    Stop* stop;            // which has begun
    int threads;           // how many shares a kernel has, however many threads come
    Board board = {};
    int64_t* trips = nullptr;
    int64_t last = 0;      // when the step before was done
};

template <class T>
inline const T* at(const int64_t* table, int64_t word) {
    return reinterpret_cast<const T*>(table + word);
}

inline const Step* steps_of(const int64_t* table) { return at<Step>(table, 2 + table[1]); }

inline constexpr int MOST_VIEWS = 256, MOST_LOOPS = 1024, MOST_PARTS = 1 << 18;

// Nanoseconds of work of one thread. Longer parts: nobody would look whether the run is to end. A longer share
// comes in parts, so that a thread that is ahead can take some of another's: cores that others share differ in speed from
// moment to moment, by a third on a Zen 3, where parts of a millisecond left products 8 to 15 % slower. Of many threads
// all wait for the slowest at each kernel, so that their parts are shorter. Of coarse kernels parts are longer and fewer.
// A kernel of up to LITTLE is not worth a word to the others, one of up to WAKING is not worth waking who sleeps.
struct Balance {
    int64_t longest;  // that a part is while there are
    int few;          // parts or less
};
inline constexpr Balance BALANCE{250'000, 16}, COARSE{1'000'000, 4}, MANY{25'000, 8}, MANY_COARSE{100'000, 2};
inline constexpr int64_t LONGEST = 5'000'000, LITTLE = 2'000, WAKING = 60'000;
inline constexpr int64_t SETTLED = 2'000'000;  // ns that a thread stays on the core that it went to

inline char* address(const Program& g, const Place& place) {
    int64_t offset = place.offset;
    for (int64_t k = 0; k < place.count; ++k) {
        const Move& m = at<Move>(g.table, place.moves)[k];
        offset += ((g.trips[m.slot] + m.phase) & m.mask) * m.step;
    }
    return g.buffers[place.entry] + offset;
}

inline void addresses(const Program& g, const Step& s, char** p) {
    const Place* const places = at<Place>(g.table, s.places);
    for (int64_t k = 0; k < s.count; ++k) p[k] = address(g, places[k]);
}

// Whether a loop makes another trip: below `most`, below the number at p (if it is counted), with the condition true.
inline bool goes_on(const int64_t* a, char* const* p, int64_t trip) {
    if (trip >= a[3]) return false;
    if (a[4] && trip >= *reinterpret_cast<const int64_t*>(*p++)) return false;
    return !a[5] || **p;
}

// The number of the step after `n`, which has no kernel.
inline int64_t follow(Program& g, int64_t n) {
    const Step& s = steps_of(g.table)[n];
    const int64_t* const a = g.table + s.numbers;
    int64_t& trip = g.trips[a[1]];
    if (a[0] == LOOP) trip = 0;
    if (a[0] == AGAIN) ++trip;
    char* p[MOST_VIEWS];
    addresses(g, s, p);
    switch (a[0]) {
        case IF: return *p[0] ? n + 1 : a[2];
        case JUMP: return a[2];
        case LOOP: return goes_on(a, p, trip) ? n + 1 : a[2];
        case AGAIN: return goes_on(a, p, trip) ? a[2] : n + 1;
        default: *reinterpret_cast<int64_t*>(p[0]) = trip; return n + 1;
    }
}

inline int64_t parts_of(const Program& g, const Step& s, int threads) {
    const bool coarse = g.kernels[s.kernel].coarse, many = threads >= MANY_THREADS;
    const Balance to = threads == 1 ? Balance{LONGEST, 1} : many ? (coarse ? MANY_COARSE : MANY) : coarse ? COARSE : BALANCE;
    const int64_t share = s.work / threads;
    int64_t parts = 1;  // a power of two: a matrix divides well among so many
    while (parts < MOST_PARTS && share / parts > (parts < to.few ? to.longest : LONGEST)) parts *= 2;
    return parts;
}

inline Claim& claim_of(const Program& g, int tid) { return *reinterpret_cast<Claim*>(g.scratch + tid * g.stride); }

inline void run_part(const Program& g, const Step& s, const Team& team, int tid, char* const* p) {
    g.kernels[s.kernel].run(team, p, g.table + s.numbers, g.scratch + tid * g.stride + sizeof(Claim));
}

// A kernel on one thread.
inline void run_alone(const Program& g, const Step& s, int tid, bool caller) {
    char* p[MOST_VIEWS];
    addresses(g, s, p);
    Kept kept;  // of this step alone: the next one uses the scratch for something else
    const Team team{0, 1, g.stop, caller, &kept};
    const int count = int(parts_of(g, s, 1));
    for (int i = 0; i < count && !team.stopped(); ++i) run_part(g, s, team.part(i, count), tid, p);
}

inline void note_time(Program& g, int64_t step) {
    if (!g.nanoseconds) return;
    const int64_t now = clock_now();
    g.nanoseconds[step] += now - g.last;
    g.last = now;
}

// From step `n` to the next kernel for all threads. One thread does this while the others have nothing to do.
inline void advance(Program& g, int64_t n, int tid) {
    const Step* const steps = steps_of(g.table);
    const Team me{tid, g.threads, g.stop, tid == 0};
    while (n < g.table[0] && !me.stopped()) {
        const Step& s = steps[n];
        const int64_t here = n;
        if (s.kernel < 0) {
            n = follow(g, n);
        } else if (g.threads == 1 || s.work <= LITTLE) {
            run_alone(g, s, tid, me.caller);
            ++n;
        } else {
            return g.board.open({n, parts_of(g, s, g.threads)}, s.work > WAKING);
        }
        note_time(g, here);
    }
    g.board.open({}, true);
}

// Parts of the current kernel, as long as there are some: of thread tid's share, then of the others'.
inline void work_on(Program& g, int64_t phase, const Job& job, int tid) {
    const Step& s = steps_of(g.table)[job.step];
    const bool caller = tid == 0;
    char* p[MOST_VIEWS];
    bool known = false;
    Kept kept;  // of this phase alone
    for (int k = 0; k < g.threads; ++k) {
        const int owner = tid + k < g.threads ? tid + k : tid + k - g.threads;
        const Team share{owner, g.threads, g.stop, caller, &kept};
        for (int64_t part; !share.stopped() && (part = claim_of(g, owner).take(phase, job.parts)) >= 0;) {
            if (!known) addresses(g, s, p);
            known = true;
            run_part(g, s, share.part(int(part), int(job.parts)), tid, p);
            if (!g.board.finish(job.parts * g.threads)) continue;
            note_time(g, job.step);
            return advance(g, job.step + 1, tid);
        }
    }
}

// The core that a thread is on, for the others to know.
inline int note_core(const Program& g, int tid) {
    const int core = current_core();
    __atomic_store_n(&claim_of(g, tid).core, core, __ATOMIC_RELAXED);
    return core;
}

// Where other processes run on this machine's cores, the system lets two threads of a run share one for tens of
// milliseconds, as that is fair to all: of these the later one goes to a core where none of them is. Where nobody takes cores
// away, a thread may still share one with whoever runs on its sibling, and looks for another.
inline void choose_core(const Program& g, int tid, int64_t now, int64_t& moved) {
    const auto is_on = [&](int other, int core) {
        return __atomic_load_n(&claim_of(g, other).core, __ATOMIC_RELAXED) == core;
    };
    const auto taken = [&](int core) {
        for (int k = 0; k < g.threads; ++k)
            if (is_on(k, core)) return true;
        return false;
    };
    const int mine = note_core(g, tid);
    CoreSearch& search = searches[tid % SEARCHES];
    if (!contended(now)) return search.look(now, taken);
    search.lost(now);
    int other = 0;
    while (other < tid && !is_on(other, mine)) ++other;
    if (other == tid || now - moved < SETTLED) return;
    moved = now;
    Cores cores;
    leave_core(cores, mine, taken);
}

inline void run_steps(Program& g, int tid) {
    const Team me{tid, g.threads, g.stop, tid == 0};
    Patience patience;
    int64_t moved = 0;
    note_core(g, tid);
    for (int64_t seen = 0, phase; (phase = g.board.await(seen, patience, me)) != seen; seen = phase) {
        Job job;
        if (!g.board.read(phase, job)) continue;
        if (job.step == Job::OVER) return;
        work_on(g, phase, job, tid);
        choose_core(g, tid, patience.left, moved);
    }
}

inline void run_thread(void* data) {
    Program& g = *static_cast<Program*>(data);
    const int tid = g.omp->thread_num();
    if (tid == 0) g.stop->ask();
    if (tid < g.threads) run_steps(g, tid);
    g.board.leave(g.omp->num_threads());
}

inline void run_program(Program& g) {
    int64_t trips[MOST_LOOPS];
    trips[0] = 0;  // what steps without a loop name
    g.trips = trips;
    if (!g.omp->parallel) g.threads = 1;
    for (int tid = 0; tid < g.threads; ++tid) claim_of(g, tid) = {};
    g.last = g.nanoseconds ? clock_now() : 0;
    advance(g, 0, 0);
    if (g.board.jobs[1].step == Job::OVER) return g.stop->ask();
    g.omp->parallel(run_thread, &g, unsigned(g.threads), 0);
}

inline int64_t largest_scratch(const Kernel* kernels, const int64_t* table) {
    int64_t most = 64;
    const Step* const steps = steps_of(table);
    for (int64_t n = 0; n < table[0]; ++n) {
        const auto scratch = steps[n].kernel < 0 ? nullptr : kernels[steps[n].kernel].scratch;
        const int64_t bytes = scratch ? scratch(table + steps[n].numbers) : 0;
        if (bytes > most) most = bytes;
    }
    return int64_t(sizeof(Claim)) + most;
}

}  // namespace mgx

// How the threads of a run share its kernels: each claims parts of the current one, of its own share first, then of the
// others', and the last part that is done opens the next kernel. A thread that lost its core, sleeps, or has not started
// yet is waited for only where it holds a part.
#pragma once

#include "contention.hpp"
#include "team.hpp"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif

namespace mgx {

// How many parts of one thread's share are claimed, and in which phase: phase << BITS | parts. Zero before a run.
struct alignas(64) Claim {
    static constexpr int BITS = 20;
    int64_t word = 0;
    int core = -1;  // that the thread was seen on

    // The number of a part that nobody has claimed; -1 where there is none of that phase.
    int64_t take(int64_t phase, int64_t parts) {
        int64_t old = __atomic_load_n(&word, __ATOMIC_RELAXED);
        for (;;) {
            if (old >> BITS > phase) return -1;  // the phase is over
            const int64_t next = old >> BITS == phase ? old & ((int64_t(1) << BITS) - 1) : 0;
            if (next >= parts) return -1;
            if (__atomic_compare_exchange_n(
                    &word, &old, phase << BITS | (next + 1), true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return next;
        }
    }
};

// How long one thread spins before it sleeps, from what it has seen in this run.
struct Patience {
    static constexpr int64_t LEAST = 5'000, FIRST = 50'000, MOST = 2'000'000;  // ns
    int64_t limit = MOST, left = 0;  // left: when it last found work
    Watch watch;

    // Threads have like shares: the others need about as long as this one did, unless they lost their cores.
    int64_t spin(int64_t now) const {
        if (contended(now)) return LEAST;  // who sleeps gives its core to the one that it waits for
        const int64_t own = left && now - left > FIRST ? now - left : FIRST;
        return own < limit ? own : limit;
    }
    void late(int64_t spun) { limit = spun / 2 > LEAST ? spun / 2 : LEAST; }
    void in_time() { limit = limit * 2 < MOST ? limit * 2 : MOST; }
};

// What all threads do in a phase: a step, and in how many parts each share of it comes.
struct Job {
    static constexpr int64_t OVER = -1;  // as a step: the run is over
    int64_t step = OVER, parts = 0;
};

// The current phase and its job. Phases take turns with two places for jobs, so that who comes late reads a job that is
// over, and no half of the next one. Waiting spins first, as a thread that sleeps takes tens of microseconds to come
// back, and then sleeps: where other processes want the cores, a spinning thread keeps the one it waits for from running.
struct alignas(64) Board {
    static constexpr int PAUSES = 16;             // between two looks at the clock
    static constexpr int64_t SLEEP = 20'000'000;  // ns at most, to look at `stop`

    int64_t phase = 0;
    Job jobs[2];
    alignas(64) int64_t done = 0;
    alignas(64) int sleepers = 0;
    alignas(64) int left = 0;  // threads that have nothing to do any more

    // Give a job to all threads; `waking` tells those that sleep. For the one thread that has found the last job done.
    void open(const Job& job, bool waking) {
        const int64_t next = phase + 1;
        __atomic_store_n(&done, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&jobs[next & 1].step, job.step, __ATOMIC_RELAXED);
        __atomic_store_n(&jobs[next & 1].parts, job.parts, __ATOMIC_RELAXED);
        __atomic_store_n(&phase, next, __ATOMIC_SEQ_CST);
        if (waking && __atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) wake(word());
    }

    // Whether this was the last of `all` parts.
    bool finish(int64_t all) { return __atomic_add_fetch(&done, 1, __ATOMIC_ACQ_REL) == all; }

    // The phase behind `seen`, or `seen` where the run is stopped.
    int64_t await(int64_t seen, Patience& patience, const Team& team) {
        const int64_t came = clock_now();
        patience.watch.look(came);
        const int64_t limit = patience.spin(came);
        if (spin(seen, came + limit, team)) {
            patience.in_time();
        } else {
            patience.late(limit);
            __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
            while (now() == seen && !team.stopped()) sleep(word(), int(seen));
            __atomic_sub_fetch(&sleepers, 1, __ATOMIC_RELAXED);
            patience.watch.slept(clock_now());
        }
        patience.left = clock_now();
        return now();
    }

    int64_t now() const { return __atomic_load_n(&phase, __ATOMIC_ACQUIRE); }

    // Wait until all threads that came to this run have nothing to do any more. Behind it an OpenMP runtime waits for them,
    // and spins for ten milliseconds: on the core, perhaps, that the last one waits for.
    void leave(int all) {
        int gone = __atomic_add_fetch(&left, 1, __ATOMIC_SEQ_CST);
        if (gone == all) {
            if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) wake(&left);
            return;
        }
        const int64_t came = clock_now(), until = came + (contended(came) ? Patience::LEAST : Patience::FIRST);
        while ((gone = __atomic_load_n(&left, __ATOMIC_ACQUIRE)) < all) {
            if (clock_now() < until) {
                pause();
                continue;
            }
            __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
            sleep(&left, gone);
            __atomic_sub_fetch(&sleepers, 1, __ATOMIC_RELAXED);
        }
    }

    // The job of a phase; false where that is over.
    bool read(int64_t of, Job& job) const {
        job.step = __atomic_load_n(&jobs[of & 1].step, __ATOMIC_RELAXED);
        job.parts = __atomic_load_n(&jobs[of & 1].parts, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return __atomic_load_n(&phase, __ATOMIC_RELAXED) == of;
    }

private:
    int* word() { return reinterpret_cast<int*>(&phase); }  // its low half

    // Whether phase `seen` ended before this time.
    bool spin(int64_t seen, int64_t until, const Team& team) const {
        do {
            for (int k = 0; k < PAUSES; ++k) {
                if (now() != seen) return true;
                pause();
            }
        } while (clock_now() < until && !(team.stop && team.stop->set()));
        return false;
    }

#if defined(__linux__)
    static void sleep(int* word, int seen) {
        const timespec most{0, SLEEP};
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
    }
    static void wake(int* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0); }
#else
    static void sleep(int*, int) { sched_yield(); }
    static void wake(int*) {}
#endif

    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};

}  // namespace mgx

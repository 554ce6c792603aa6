// The threads of one parallel region: who am I, what is my share, is the run to end, and a barrier.
//
// A kernel is called by every thread of the region with its own Team (same b, same size, tid 0 .. size-1),
// works on its share, and returns without waiting; the caller puts a barrier between a kernel and the ones
// that read its output.
#pragma once

#include "stop.hpp"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif

namespace mgx {

struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};

// The part of 0 .. total that thread tid of `size` threads takes: begins at multiples of grain; shares differ
// by at most one grain. Empty ranges are possible.
inline Range split(int64_t total, int64_t grain, int tid, int size) {
    const int64_t units = (total + grain - 1) / grain, base = units / size, extra = units % size;
    const int64_t first = tid * base + (tid < extra ? tid : extra), last = first + base + (tid < extra);
    const int64_t end = last * grain;
    return {first * grain < total ? first * grain : total, end < total ? end : total};
}

// How long one thread spins at barriers before it sleeps, from what it has seen in this run.
struct Patience {
    static constexpr int64_t LEAST = 5'000, FIRST = 50'000, MOST = 2'000'000;  // ns
    int64_t limit = MOST, left = 0;  // left: when it left the last barrier

    // Threads have like shares: the others need about as long as this one did, unless they lost their cores.
    int64_t spin(int64_t now) const {
        const int64_t own = left && now - left > FIRST ? now - left : FIRST;
        return own < limit ? own : limit;
    }
    void late(int64_t spun) { limit = spun / 2 > LEAST ? spun / 2 : LEAST; }
    void in_time() { limit = limit * 2 < MOST ? limit * 2 : MOST; }
};

// A sense-reversing barrier for `size` threads; every thread derives its sense from `phase`. Zero-initialise it (size
// set) before the region starts. Waiting spins first, as a thread that sleeps takes tens of microseconds to come back,
// and then sleeps: where other processes want the cores, a spinning thread keeps the one it waits for from running.
// A run that is stopped leaves barriers as they are: whoever waits goes on, and no barrier of that run counts any more.
struct alignas(64) Barrier {
    int size = 1;
    Stop* stop = nullptr;  // where not null: what ends the run
    alignas(64) int arrived = 0;
    alignas(64) int phase = 0;
    int sleepers = 0;
    static constexpr int PAUSES = 16;             // between two looks at the clock
    static constexpr int64_t SLEEP = 20'000'000;  // ns at most, to look at `stop`

    bool stopped(bool caller) const {
        if (!stop) return false;
        if (caller) stop->look();
        return stop->set();
    }

    void wait(Patience& patience, bool caller) {
        const int all = __atomic_load_n(&size, __ATOMIC_RELAXED);  // threads that start late may still be storing it
        if (all == 1) return;
        const int now = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == all) {
            __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&phase, now + 1, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) wake();
        } else if (const int64_t came = clock_now(), limit = patience.spin(came); spin(now, came + limit)) {
            patience.in_time();
        } else {
            patience.late(limit);
            __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == now && !stopped(caller)) sleep(now);
            __atomic_sub_fetch(&sleepers, 1, __ATOMIC_RELAXED);
        }
        patience.left = clock_now();
    }

private:
    // Whether phase `now` ended before this time.
    bool spin(int now, int64_t until) const {
        do {
            for (int k = 0; k < PAUSES; ++k) {
                if (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) != now) return true;
                pause();
            }
        } while (clock_now() < until && !stopped(false));
        return false;
    }

#if defined(__linux__)
    void sleep(int now) {
        const timespec most{0, SLEEP};
        syscall(SYS_futex, &phase, FUTEX_WAIT_PRIVATE, now, &most, nullptr, 0);
    }
    void wake() { syscall(SYS_futex, &phase, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0); }
#else
    void sleep(int) { sched_yield(); }
    void wake() {}
#endif

    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};

struct Team {
    int tid, size;
    Barrier* b;
    bool caller = false;  // the thread that called the run

    Range share(int64_t total, int64_t grain = 1) const { return split(total, grain, tid, size); }

    // As the i-th of `count` parts of this thread's share: shares of a team that is `count` times as large.
    Team part(int i, int count) const { return {tid + i * size, size * count, b, caller}; }
    // As a team of its own, which takes all.
    Team alone() const { return {0, 1, b, caller}; }

    // Whether the run is to end, and the kernel may leave its share undone. Steps that are known to be long come in
    // parts, between which this is asked; a kernel itself asks where work is not divided.
    bool stopped() const { return b->stopped(caller); }
    bool stopped_at(int64_t turn) const { return (turn & 0xffff) == 0xffff && stopped(); }
};

}  // namespace mgx

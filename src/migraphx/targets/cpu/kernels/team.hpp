// The threads of one parallel region: who am I, what is my share, and a barrier.
//
// A kernel is called by every thread of the region with its own Team (same b, same size, tid 0 .. size-1),
// works on its share, and returns without waiting; the caller puts a barrier between a kernel and the ones
// that read its output.
#pragma once

#include <cstdint>

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

// A sense-reversing barrier for `size` threads; every thread derives its sense from `phase`, so there is no
// per-thread state to lose. Zero-initialise it (size set) before the region starts. Waiting spins for some tens of
// microseconds, more than kernels' shares differ by, and then sleeps: where other processes want the cores, a
// spinning thread would keep the one it waits for from running.
struct alignas(64) Barrier {
    int size = 1;
    alignas(64) int arrived = 0;
    alignas(64) int phase = 0;
    int sleepers = 0;
    static constexpr int SPINS = 1024;

    void wait() {
        const int all = __atomic_load_n(&size, __ATOMIC_RELAXED);  // threads that start late may still be storing it
        if (all == 1) return;
        const int now = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == all) {
            __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&phase, now + 1, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) wake();
            return;
        }
        for (int spins = 0; spins < SPINS; ++spins) {
            if (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) != now) return;
            pause();
        }
        __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == now) sleep(now);
        __atomic_sub_fetch(&sleepers, 1, __ATOMIC_RELAXED);
    }

#if defined(__linux__)
    void sleep(int now) { syscall(SYS_futex, &phase, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0); }
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

    void barrier() const { b->wait(); }
    Range share(int64_t total, int64_t grain = 1) const { return split(total, grain, tid, size); }
};

}  // namespace mgx

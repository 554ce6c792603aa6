// What ends a run before its last step: a deadline, a signal handler of Python, what it depends on, or whoever stores a
// reason.
#pragma once

#include <cstdint>
#include <time.h>

namespace mgx {

// Nanoseconds of a clock that never goes back.
inline int64_t clock_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * int64_t(1000000000) + t.tv_nsec;
}

// Addresses in the interpreter: PyGILState_Ensure, PyErr_CheckSignals, PyErr_Fetch, PyGILState_Release.
struct Python {
    int (*ensure)();
    int (*check)();
    void (*fetch)(void** type, void** value, void** traceback);
    void (*release)(int state);
};

// One for each run, made by the caller. The thread that called the run looks for a reason to end it, all threads read
// what it found: between steps, between the parts of a long step, and while they wait for each other.
struct Stop {
    enum Reason : int64_t { NONE, TIMEOUT, SIGNAL, ASKED, CHANGED };
    static constexpr int64_t INTERVAL = 20'000'000;  // ns between two looks: each takes Python's lock

    int64_t timeout;       // nanoseconds; negative: none
    const Python* python;  // null where the calling thread runs no signal handlers
    int64_t reason;        // NONE while the run goes on; anybody may set it, the caller sets it back
    void* error[3];        // what a handler raised: type, value, traceback
    int64_t deadline, next;
    int (*holds)(const void* subject) = nullptr;  // where not null: says whether what the run depends on is as it was
    const void* subject = nullptr;

    void begin() {
        const int64_t now = clock_now();
        deadline = timeout < 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
        look_again(now);
    }
    bool set() const { return __atomic_load_n(&reason, __ATOMIC_RELAXED) != NONE; }

    // For the thread that called the run: asked once, while others begin.
    void ask() {
        if (holds && !set() && !holds(subject)) end(CHANGED);
    }

    // For the thread that called the run.
    void look() {
        const int64_t now = clock_now();
        if (now < next) return;
        look_again(now);
        if (now >= deadline) end(TIMEOUT);
        if (python && !set()) ask_python();
    }

private:
    void look_again(int64_t now) { next = deadline - now < INTERVAL ? deadline : now + INTERVAL; }
    void end(Reason why) { __atomic_store_n(&reason, why, __ATOMIC_RELAXED); }
    void ask_python() {
        const int state = python->ensure();
        if (python->check()) {  // a handler raised: the caller of the run raises it again
            python->fetch(&error[0], &error[1], &error[2]);
            end(SIGNAL);
        }
        python->release(state);
    }
};

}  // namespace mgx

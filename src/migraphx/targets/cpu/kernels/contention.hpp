// What threads of a run do where other processes want their cores: they notice it, sleep at once where they would spin,
// and keep off each other's cores. And where others use the other hardware thread of a core (its SMT sibling), which a
// virtual machine does not tell: they notice that, too, and go where nobody is.
#pragma once

#include "stop.hpp"

#if defined(__linux__)
#include <cstdio>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mgx {

// Until when threads of this program count as losing their cores, and when one last lost its own: what one run has seen
// holds for its next ones, too.
static int64_t contended_until = 0, last_lost = 0;

inline bool contended(int64_t now) { return now < __atomic_load_n(&contended_until, __ATOMIC_RELAXED); }

// Another process had a thread's core. Once means nothing: the system itself needs a core now and then, and to sleep at each
// kernel for a while costs more. A neighbour takes cores again and again. Two threads that report at once met the same event.
inline void lost_core(int64_t now) {
    static constexpr int64_t ONCE = 1'000'000, AGAIN = 100'000'000, HOLDS = 50'000'000;  // ns
    const int64_t since = now - __atomic_load_n(&last_lost, __ATOMIC_RELAXED);
    if (since < ONCE) return;
    __atomic_store_n(&last_lost, now, __ATOMIC_RELAXED);
    if (since < AGAIN) __atomic_store_n(&contended_until, now + HOLDS, __ATOMIC_RELAXED);
}

// What a thread has used: nanoseconds of processor time, and how often it was preempted. Negative: not known. A count of 0 is
// that, too, as a system that does not count gives it.
struct Usage {
    int64_t worked = -1, preempted = -1;

    static Usage now() {
        timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        Usage usage{t.tv_sec * int64_t(1000000000) + t.tv_nsec};
#if defined(RUSAGE_THREAD)
        rusage of;
        if (!getrusage(RUSAGE_THREAD, &of) && of.ru_nivcsw > 0) usage.preempted = of.ru_nivcsw;
#endif
        return usage;
    }
};

// Whether a thread loses its core to others: time passes that it neither works nor sleeps, and it was preempted. Where it was
// not, a hypervisor has the core, and who sleeps gives nobody anything.
struct Watch {
    static constexpr int64_t BETWEEN = 500'000;  // ns between two looks: each asks the system
    static constexpr int64_t LOST = 1'000'000;
    int64_t looked = 0;
    Usage used;

    void look(int64_t now) {
        if (!looked) looked = now;  // short runs need not ask
        if (now - looked >= BETWEEN) look(now, Usage::now());
    }
    void look(int64_t now, const Usage& usage) {
        const bool preempted = usage.preempted < 0 || usage.preempted > used.preempted;
        if (used.worked >= 0 && preempted && (now - looked) - (usage.worked - used.worked) > LOST) lost_core(now);
        looked = now, used = usage;
    }
    void slept(int64_t now) { looked = now, used = Usage::now(); }
};

#if defined(__linux__)
inline int current_core() { return sched_getcpu(); }

// The cores that this thread may use, of the NUMA node that it is on, where its memory lies. They are the same ones
// afterwards, wherever it went.
class Cores {
    cpu_set_t all;
    char node[192];  // the folder of the node, which has an entry for each core; empty where the system tells of none
    bool known, moved = false;

    bool is_of_node(int core) const {
        char path[256];
        snprintf(path, sizeof path, "%s/cpu%d", node, core);
        return !access(path, F_OK);
    }

public:
    static constexpr int MOST = CPU_SETSIZE;
    explicit Cores(const char* nodes = "/sys/devices/system/node") : known(!sched_getaffinity(0, sizeof all, &all)) {
        unsigned number = 0;
        if (syscall(SYS_getcpu, nullptr, &number, nullptr)) known = false;
        snprintf(node, sizeof node, "%s/node%u", nodes, number);
        if (access(node, F_OK)) *node = 0;
    }
    Cores(const Cores&) = delete;
    ~Cores() {
        if (!moved) return;
        cpu_set_t every, now;  // which follows its container's set where that is all that binds the thread
        __builtin_memset(&every, 0xff, sizeof every);
        sched_setaffinity(0, sizeof every, &every);
        if (sched_getaffinity(0, sizeof now, &now) || !CPU_EQUAL(&now, &all)) sched_setaffinity(0, sizeof all, &all);
    }
    bool may_use(int core) const { return known && CPU_ISSET(core, &all) && (!*node || is_of_node(core)); }
    bool go(int core) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        moved = true;
        return !sched_setaffinity(0, sizeof one, &one);
    }
};
#else
inline int current_core() { return -1; }
struct Cores {
    static constexpr int MOST = 0;
    bool may_use(int) const { return false; }
    bool go(int) { return false; }
};
#endif

// How a move to another core ends: there was none to go to; back on the own one; on a better one; back, as others run there.
enum class Went { STAYED, BACK, BETTER, LATE };

// Go from core `own` to those behind `last` that may be used and are not `taken(core)`, at most `tries`, until one is not to be
// left: once the thread is there `judge(took)` says how it went, BACK, BETTER or LATE, after so many nanoseconds on its way.
// `last` becomes the core tried last.
template <class Taken, class Judge>
inline Went change_core(auto& cores, int own, int& last, int tries, const Taken& taken, const Judge& judge) {
    const int start = last;
    Went went = Went::STAYED;
    for (int k = 1; k <= cores.MOST && tries > 0 && went <= Went::BACK; ++k) {
        const int core = (start + k) % cores.MOST;
        if (core == own || taken(core) || !cores.may_use(core)) continue;
        const int64_t began = clock_now();
        if (!cores.go(core)) break;
        last = core, --tries;
        went = judge(clock_now() - began);
    }
    if (went == Went::BACK || went == Went::LATE) cores.go(own);
    return went;
}

// Go to any core that is not taken, however long that takes.
template <class Taken> inline void leave_core(auto& cores, int own, const Taken& taken) {
    int last = -1;
    change_core(cores, own, last, 1, taken, [](int64_t) { return Went::BETTER; });
}

// ---- SMT siblings -------------------------------------------------------------------------------

// Nanoseconds of many independent instructions, and of a chain of dependent ones. What runs on the sibling takes places from
// the former and leaves the latter as they are; the clock changes both alike.
struct Pace {
    int64_t independent = INT64_MAX, dependent = INT64_MAX;
    int64_t crowding() const { return (independent << 20) / dependent; }

    static Pace measure() {
        Pace least;
        for (int turn = 0; turn < 3; ++turn) {  // an interrupt would count
            const int64_t begin = clock_now();
#if defined(__x86_64__)
            for (int k = 0; k < 40; ++k) asm volatile(".rept 32\n\tnopl 0(%%rax)\n\t.endr" : :);
#else
            for (int k = 0; k < 40; ++k) asm volatile(".rept 32\n\tnop\n\t.endr" : :);
#endif
            const int64_t middle = clock_now();
            uint64_t x = uint64_t(begin);
            for (int k = 0; k < 130; ++k) {
                x *= x;
                asm volatile("" : "+r"(x));
            }
            const int64_t end = clock_now() + 1;
            if (middle - begin < least.independent) least.independent = middle - begin;
            if (end - middle < least.dependent) least.dependent = end - middle;
        }
        return least;
    }
};

// The least that threads of this program have seen, lately: that of a core whose sibling is idle.
static int64_t least_crowding = INT64_MAX;

inline bool is_crowded(const Pace& pace) {
    const int64_t now = pace.crowding(), least = __atomic_load_n(&least_crowding, __ATOMIC_RELAXED);
    const bool fewer = now < least;
    __atomic_store_n(&least_crowding, fewer ? now : least + (least >> 16), __ATOMIC_RELAXED);
    return !fewer && now > least + least / 3;
}

// One thread's search for a core whose sibling is idle, from run to run.
struct CoreSearch {
    // Nanoseconds from look to look; from search to search, where all goes well; at most, where all cores are crowded, and
    // where others run on them or there are none; until a core counts as a good one.
    static constexpr int64_t BETWEEN = 500'000, PAUSE = 4'000'000, LONGEST = 128'000'000, BUSY = 2'000'000'000;
    static constexpr int64_t PROVEN = 20'000'000;
    static constexpr int64_t LATE = 1'000'000;  // ns that a move takes at most: an idle core takes about 0.1 ms to begin
    static constexpr int LOOKS = 2, TRIES = 4;
    int64_t looked = 0, next = 0, pause = PAUSE;
    int64_t came = 0;  // when it went to this core; 0: long ago
    int crowded = 0;   // looks, one after the other, that found this core so
    int last = -1;     // the core tried last

    // Whether to search, after a look that found the core crowded or not.
    bool due(int64_t now, bool found_crowded) {
        if (came && now - came > PROVEN) came = 0, pause = PAUSE, next = now;
        crowded = found_crowded ? crowded + 1 : 0;
        return crowded >= LOOKS && now >= next;
    }
    void ended(Went went, int64_t now) {
        crowded = 0, came = went == Went::BETTER ? now : 0;
        switch (went) {
            case Went::STAYED: looked = next = now + BUSY; break;
            case Went::BACK: rest(now, 2, LONGEST); break;
            case Went::BETTER: next = now + pause; break;
            case Went::LATE: rest(now, 8, BUSY); break;
        }
    }
    // Cores are being lost: where the thread has just come to this one, because of that.
    void lost(int64_t now) {
        if (came) rest(now, 8, BUSY);
        came = 0;
    }

    // How it went: whether a core to which the thread was on its way for so long is to be kept.
    static Went judge(int64_t took, const Pace& here, const Pace& there) {
        if (took > LATE) return Went::LATE;
        return !is_crowded(there) && there.independent < here.independent - here.independent / 5 ? Went::BETTER : Went::BACK;
    }

    template <class Taken> void look(int64_t now, const Taken& taken) {
        if (now - looked < BETWEEN) return;
        looked = now;
        const Pace here = Pace::measure();
        if (!due(now, is_crowded(here))) return;
        Cores cores;
        const auto judged = [&](int64_t took) { return judge(took, here, Pace::measure()); };
        const Went went = change_core(cores, current_core(), last, TRIES, taken, judged);
        ended(went, clock_now());
    }

private:
    void rest(int64_t now, int64_t times, int64_t most) {
        pause = pause * times < most ? pause * times : most;
        next = now + pause;
    }
};
// By the numbers of threads; runs beside each other share them, and at worst look less often.
inline constexpr int SEARCHES = 64;
static CoreSearch searches[SEARCHES];

}  // namespace mgx

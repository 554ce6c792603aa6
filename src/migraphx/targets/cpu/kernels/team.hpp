// What a kernel is told about the threads: which share of the work is its own, and whether the run is to end.
//
// A kernel is called once for every share (same size, tid 0 .. size-1), in any order, by any thread, and knows of no other
// call: who calls it waits until all shares are done before anything reads the output.
#pragma once

#include "stop.hpp"

namespace mgx {

struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
};

inline constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// What lies in both; empty where nothing does.
inline Range common(Range a, Range b) {
    const int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = least(a.end, b.end);
    return {begin, end > begin ? end : begin};
}

// The part of 0 .. total that thread tid of `size` threads takes: begins at multiples of grain; shares differ
// by at most one grain. Empty ranges are possible.
inline Range split(int64_t total, int64_t grain, int tid, int size) {
    const int64_t units = (total + grain - 1) / grain, base = units / size, extra = units % size;
    const int64_t first = tid * base + (tid < extra ? tid : extra), last = first + base + (tid < extra);
    const int64_t end = last * grain;
    return {first * grain < total ? first * grain : total, end < total ? end : total};
}
// The same of a range, counted from its begin.
inline Range split(const Range& all, int64_t grain, int tid, int size) {
    const Range own = split(all.size(), grain, tid, size);
    return {all.begin + own.begin, all.begin + own.end};
}

// What a thread's scratch still holds of the part before: these rows of this operand, split, in one pass over the depth.
// Whoever runs kernels has one for the parts of one call on one thread, and a new one when anything else may have used the
// scratch or written the operand.
struct Kept {
    const void* operand = nullptr;
    Range rows = {0, 0};
    int64_t pass = 0;

    // Whether it holds this; from now on it does.
    bool replace(const void* of, Range r, int64_t p) {
        const bool same = operand && operand == of && rows.begin == r.begin && rows.end == r.end && pass == p;
        operand = of, rows = r, pass = p;
        return same;
    }
};

// Of so many threads one is nearly always on a slower core: somebody uses its SMT sibling, or it is clocked lower.
inline constexpr int MANY_THREADS = 3;

struct Team {
    int tid, size;
    Stop* stop = nullptr;  // where not null: what ends the run
    bool caller = false;   // the thread that called the run
    Kept* kept = nullptr;  // where not null: what this thread's part before has left
    int parts = 1;         // of each thread's share: this is part tid % parts of that of thread tid / parts

    // A part has some of what its thread has: this is the same in however many parts it comes.
    Range share(int64_t total, int64_t grain = 1) const {
        return split(split(total, grain, tid / parts, threads()), grain, tid % parts, parts);
    }
    int threads() const { return size / parts; }

    // As the i-th of `count` parts of this thread's share: shares of a team that is `count` times as large, side by side,
    // so that a thread finds what it has in the cache of its own core.
    Team part(int i, int count) const { return {tid * count + i, size * count, stop, caller, kept, parts * count}; }
    // As the thread whose share this is a part of, with all of it.
    Team whole() const { return {tid / parts, threads(), stop, caller, kept}; }
    // As a team of its own, which takes all.
    Team alone() const { return {0, 1, stop, caller}; }

    // Whether the run is to end, and the kernel may leave its share undone. Steps that are known to be long come in
    // parts, between which this is asked; a kernel itself asks where work is not divided.
    bool stopped() const {
        if (!stop) return false;
        if (caller) stop->look();
        return stop->set();
    }
    bool stopped_at(int64_t turn) const { return (turn & 0xffff) == 0xffff && stopped(); }
};

// p points to a call's views, a to its numbers.
struct Kernel {
    void (*run)(const Team&, char* const* p, const int64_t* a, char* scratch);
    int64_t (*scratch)(const int64_t* a);  // bytes per thread; null where the kernel needs none
    bool coarse = false;                   // parts of a share do some of the same work, and so are to be few
};

// A program's kernels, by their numbers. What runs programs reads them, and is the same object in all of them.
extern const Kernel kernels[] __attribute__((visibility("hidden")));

}  // namespace mgx

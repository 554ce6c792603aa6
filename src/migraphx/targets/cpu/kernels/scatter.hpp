// Kernels that write elements at indices, into a copy of the data that the caller has made. Equal indices are
// taken in order. Indices are checked as in indexing.hpp; what is out of range is not written.
#pragma once

#include "indexing.hpp"

namespace mgx {

// How an update joins the element at its place; NaN wins.
struct JoinReplace {
    template <class T> static T join(T, T update) { return update; }
};
struct JoinAdd {
    template <class T> static T join(T x, T update) { return x + update; }
};
struct JoinMul {
    template <class T> static T join(T x, T update) { return x * update; }
};
struct JoinMin {
    template <class T> static T join(T x, T update) { return x < update || x != x ? x : update; }
};
struct JoinMax {
    template <class T> static T join(T x, T update) { return x > update || x != x ? x : update; }
};

template <class How, class T, class U> MGX_INLINE void join(T& at, U update) {
    if constexpr (same_v<T, U>)
        at = narrow_to<T>(How::join(scalar_of(at), scalar_of(update)));
    else
        at = How::join(at, T(scalar_of(update)));
}

// Whether the index is in range; reports it in status where it is not, see checked.
MGX_INLINE bool placed(int64_t& index, int64_t length, int64_t* status, int64_t check) {
    const int64_t given = index;
    index = checked(given, length, status, check);
    return given == index || given + length == index;
}

// out[.. indices[..] ..] joined by updates [..], elsewhere than at `axis` at the same place. lens: of the indices,
// then strides of out. A thread takes whole lines along the axis, so that no two meet.
struct Scatter {
    int64_t rank, axis, length, check;
    const int64_t* lens;
};
template <class How, class T, class I, class U>
void scatter(const Team& t, const Scatter& s, const I* indices, const U* updates, T* out, int64_t* status) {
    const int64_t *strides = s.lens + s.rank, count = s.lens[s.axis], step = strides[s.axis];
    int64_t inner = 1, outer = 1;
    for (int64_t d = s.axis + 1; d < s.rank; ++d) inner *= s.lens[d];
    for (int64_t d = 0; d < s.axis; ++d) outer *= s.lens[d];
    const Range mine = t.share(outer * inner);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t first = u / inner * count * inner + u % inner;
        int64_t base = 0, rest = u;
        for (int64_t d = s.rank - 1; d >= 0; --d) {
            if (d == s.axis) continue;
            base += rest % s.lens[d] * strides[d];
            rest /= s.lens[d];
        }
        for (int64_t k = 0; k < count; ++k) {
            int64_t at = int64_t(indices[first + k * inner]);
            if (placed(at, s.length, status, s.check)) join<How>(out[base + at * step], updates[first + k * inner]);
        }
    }
}

// out[outer][length][inner], row-major, joined by updates [outer][count][inner] at rows indices[outer / per][count]: `per`
// blocks have the same. A thread takes whole blocks [length][inner], so that no two meet.
struct ScatterRows {
    int64_t outer, length, inner, count, per, check;
};
template <class How, class T, class I, class U>
void scatter_rows(const Team& t, const ScatterRows& s, const I* indices, const U* updates, T* out, int64_t* status) {
    const Range mine = t.share(s.outer);
    for (int64_t o = mine.begin; o < mine.end && !t.stopped(); ++o)
        for (int64_t k = 0; k < s.count; ++k) {
            int64_t at = int64_t(indices[o / s.per * s.count + k]);
            if (!placed(at, s.length, status, s.check)) continue;
            T* row = out + (o * s.length + at) * s.inner;
            const U* update = updates + (o * s.count + k) * s.inner;
            for (int64_t i = 0; i < s.inner; ++i) join<How>(row[i], update[i]);
        }
}

// The data that is updated, where it does not lie in the output's memory already.
template <class T> void copy_elsewhere(const Team& t, int64_t count, const T* data, T* out) {
    if (data == out) return;
    const Range mine = t.share(count);
    __builtin_memcpy(static_cast<void*>(out + mine.begin), data + mine.begin, mine.size() * sizeof(T));
}

// Slices of out at index tuples joined by updates [tuples][inner]; lens: those of the `depth` indexed dimensions.
// A thread takes the slices of one part of the output, so that no two meet.
struct ScatterNd {
    int64_t tuples, depth, inner, check;
    const int64_t* lens;
};
template <class How, class T, class I, class U>
void scatter_nd(const Team& t, const ScatterNd& s, const I* indices, const U* updates, T* out, int64_t* status) {
    int64_t slices = 1;
    for (int64_t d = 0; d < s.depth; ++d) slices *= s.lens[d];
    const Range mine = t.share(slices);
    for (int64_t u = 0; u < s.tuples && !t.stopped_at(u); ++u) {
        int64_t at = 0;
        bool inside = true;
        for (int64_t d = 0; d < s.depth; ++d) {
            int64_t index = int64_t(indices[u * s.depth + d]);
            inside &= placed(index, s.lens[d], status, s.check);
            at = at * s.lens[d] + index;
        }
        if (!inside || at < mine.begin || at >= mine.end) continue;
        for (int64_t i = 0; i < s.inner; ++i) join<How>(out[at * s.inner + i], updates[u * s.inner + i]);
    }
}

}  // namespace mgx

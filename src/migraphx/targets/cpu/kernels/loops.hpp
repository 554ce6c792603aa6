// Loop nests over several strided views, shared by generated pointwise and reduction kernels.
//
// A nest has RANK loops, the last one vectorised. `a` holds RANK lens (outermost first), then for each of VIEWS
// views its RANK strides, in elements.
#pragma once

#include "access.hpp"
#include "team.hpp"

namespace mgx {

// Call f(i, Full{}) for whole vectors of begin .. end and f(i, n) for the rest.
template <class F> MGX_INLINE void for_lanes(int64_t begin, int64_t end, const F& f) {
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES) f(i, Full{});
    if (i < end) f(i, static_cast<int>(end - i));
}

// Call f(begin, end) for pieces of what is not divided otherwise, such as one long row. Sums that begin anew in each piece
// are right to about 1e-5 of the sum of the absolute values, however long the row. The rest is left undone where the run is
// to end.
template <class F> MGX_INLINE void for_pieces(const Team& t, int64_t length, const F& f) {
    constexpr int64_t PIECE = 1 << 14, LOOK = 1 << 20;
    for (int64_t begin = 0, end;; begin = end) {
        end = length - begin > PIECE ? begin + PIECE : length;
        f(begin, end);
        if (__builtin_expect(end == length, 1) || (end % LOOK == 0 && t.stopped())) return;
    }
}

// Element offsets of every view at position `index` of the loops before the last `inner` ones.
template <int RANK, int VIEWS> MGX_INLINE void locate(const int64_t* a, int outer, int64_t index, int64_t* offset) {
    for (int v = 0; v < VIEWS; ++v) offset[v] = 0;
    for (int d = outer - 1; d >= 0; --d) {
        const int64_t at = index % a[d];
        index /= a[d];
        for (int v = 0; v < VIEWS; ++v) offset[v] += at * a[RANK * (1 + v) + d];
    }
}

inline int64_t product(const int64_t* lens, int n) {
    int64_t p = 1;
    for (int d = 0; d < n; ++d) p *= lens[d];
    return p;
}

// A position in the loops before the last one, and where it is in every view. The next one is found by additions: rows may
// be so short that the divisions of `locate` would be most of their time.
template <int RANK, int VIEWS> struct Cursor {
    int64_t at[RANK], offset[VIEWS];
    MGX_INLINE Cursor(const int64_t* a, int64_t index) {
        locate<RANK, VIEWS>(a, RANK - 1, index, offset);
        for (int d = RANK - 2; d >= 0; --d) at[d] = index % a[d], index /= a[d];
    }
    MGX_INLINE void next(const int64_t* a) {
        for (int d = RANK - 2; d >= 0; --d) {
            const bool last = ++at[d] == a[d];
            const int64_t steps = last ? 1 - a[d] : 1;
            for (int v = 0; v < VIEWS; ++v) offset[v] += steps * a[RANK * (1 + v) + d];
            if (!last) return;
            at[d] = 0;
        }
    }
};

// Run body(offset, begin, end) over the whole nest: `offset` places the views, begin .. end is a run of the last
// loop. Rows are split over the team; long rows in pieces, so that few rows occupy every thread.
template <int RANK, int VIEWS, class Body> MGX_INLINE void for_rows(const Team& t, const int64_t* a, int64_t grain, const Body& body) {
    const int64_t rows = product(a, RANK - 1), length = a[RANK - 1];
    const int64_t pieces = (length + grain - 1) / grain;
    const Range mine = t.share(rows * pieces);
    if (mine.begin >= mine.end) return;
    Cursor<RANK, VIEWS> row(a, mine.begin / pieces);
    int64_t begin = mine.begin % pieces * grain;
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t end = begin + grain < length ? begin + grain : length;
        body(row.offset, begin, end);
        begin = end;
        if (end == length) row.next(a), begin = 0;
    }
}

}  // namespace mgx

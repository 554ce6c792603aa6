// Kernels that pick and place elements by index. Indices count from the end where they are negative; one out of
// range is reported in `status` and read as 0, so that nothing outside the buffers is touched.
#pragma once

#include "access.hpp"
#include "team.hpp"

namespace mgx {

// status[0]: 1 + the number of the check that failed, 0 while none has; status[1]: the index found there.
MGX_INLINE int64_t checked(int64_t index, int64_t length, int64_t* status, int64_t check) {
    const int64_t i = index < 0 ? index + length : index;
    if (__builtin_expect(uint64_t(i) < uint64_t(length), 1)) return i;
    int64_t none = 0;
    if (__atomic_compare_exchange_n(&status[0], &none, check + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) status[1] = index;
    return 0;
}

template <class T> MGX_INLINE void copy_run(T* to, const T* from, int64_t n) {
    if (n >= LANES)
        __builtin_memcpy(static_cast<void*>(to), from, n * sizeof(T));
    else
        for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// out[o][i][..] = data[o][indices[i]][..] for data [outer][length][inner], row-major as all here.
struct Gather {
    int64_t outer, length, inner, count, check;
};
template <class T, class I> void gather(const Team& t, const Gather& g, const T* data, const I* indices, T* out, int64_t* status) {
    const Range mine = t.share(g.outer * g.count);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t o = u / g.count, at = checked(int64_t(indices[u % g.count]), g.length, status, g.check);
        copy_run(out + u * g.inner, data + (o * g.length + at) * g.inner, g.inner);
    }
}

// out[o][k][i] = data[o][indices[o][k][i]][i] (ONNX GatherElements) for equal outer and inner.
template <class T, class I> void gather_elements(const Team& t, const Gather& g, const T* data, const I* indices, T* out, int64_t* status) {
    const Range mine = t.share(g.outer * g.count * g.inner, 16);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t i = u % g.inner, o = u / (g.inner * g.count);
        const int64_t at = checked(int64_t(indices[u]), g.length, status, g.check);
        out[u] = data[(o * g.length + at) * g.inner + i];
    }
}

// out[b][n][..] = the sum over k of weights[b][n][k] * data[b][indices[b][n][k]][..]: `bags` a batch, of `taps` rows of
// `width`. data, of `length` rows a batch, and out are row-major, the others lie at any strides.
struct EmbeddingBag {
    int64_t batches, bags, taps, width, length, check;
    int64_t index_batch, index_bag, index_tap, weight_batch, weight_bag, weight_tap;
};
template <class T, class I>
void embedding_bag(const Team& t, const EmbeddingBag& p, const T* data, const I* indices, const T* weights, T* out, int64_t* status) {
    const Range mine = t.share(p.batches * p.bags);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t batch = u / p.bags, bag = u % p.bags;
        const T* table = data + batch * p.length * p.width;
        const I* index = indices + batch * p.index_batch + bag * p.index_bag;
        const T* weight = weights + batch * p.weight_batch + bag * p.weight_bag;
        const auto sum = [&](auto vectors, int64_t col, auto n) {
            vec<compute_t<T>> acc[vectors]{};
            for (int64_t k = 0; k < p.taps; ++k) {
                const int64_t at = checked(int64_t(index[k * p.index_tap]), p.length, status, p.check);
                const compute_t<T> w = scalar_of(weight[k * p.weight_tap]);
                for (int v = 0; v < vectors; ++v) acc[v] += fetch(table + at * p.width + col + v * LANES, n) * w;
            }
            for (int v = 0; v < vectors; ++v) put(out + u * p.width + col + v * LANES, acc[v], n);
        };
        int64_t col = 0;
        for (; col + 4 * LANES <= p.width; col += 4 * LANES) sum(Int<4>{}, col, Full{});
        for (; col + LANES <= p.width; col += LANES) sum(Int<1>{}, col, Full{});
        if (col < p.width) sum(Int<1>{}, col, int(p.width - col));
    }
}

// The index of the largest (or smallest) along the middle of [outer][length][inner]; NaN wins. LAST: of equals, and
// of several NaN, the last.
template <bool LARGEST, bool LAST, class T, class I>
void arg_extreme(const Team& t, int64_t outer, int64_t length, int64_t inner, const T* x, I* out) {
    const Range mine = t.share(outer * inner);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const T* row = x + u / inner * length * inner + u % inner;
        int64_t best = LAST ? length - 1 : 0;
        auto top = scalar_of(row[best * inner]);
        for (int64_t n = 1; n < length && top == top && !t.stopped_at(n); ++n) {
            const int64_t k = LAST ? length - 1 - n : n;
            const auto v = scalar_of(row[k * inner]);
            const bool better = LARGEST ? v > top : v < top;
            if (better || v != v) best = k, top = v;
        }
        out[u] = I(best);
    }
}

// Running sums along the middle of [outer][length][inner], forwards or backwards, with or without the own element.
struct Scan {
    int64_t outer, length, inner;
    bool exclusive, reverse;
};
template <class T> void prefix_sum(const Team& t, const Scan& s, const T* x, T* out) {
    const Range mine = t.share(s.outer * s.inner);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t first = u / s.inner * s.length * s.inner + u % s.inner;
        compute_t<T> sum = 0;
        for (int64_t k = 0; k < s.length && !t.stopped_at(k); ++k) {
            const int64_t at = first + (s.reverse ? s.length - 1 - k : k) * s.inner;
            const compute_t<T> v = scalar_of(x[at]);
            out[at] = narrow_to<T>(s.exclusive ? sum : sum + v);
            sum += v;
        }
    }
}

// The k largest (or smallest) of every row, in order; equal values keep the order of their indices; NaN counts as
// largest. scratch: `length` int64 per thread.
struct TopK {
    int64_t outer, length, inner, k;
    bool largest;
};
template <class T, class I> void topk(const Team& t, const TopK& s, const T* x, T* values, I* indices, char* scratch) {
    int64_t* heap = reinterpret_cast<int64_t*>(scratch);
    const Range mine = t.share(s.outer * s.inner);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const T* row = x + u / s.inner * s.length * s.inner + u % s.inner;
        const auto before = [&](int64_t a, int64_t b) {  // a comes before b in the answer
            const auto va = scalar_of(row[a * s.inner]), vb = scalar_of(row[b * s.inner]);
            if (va != va || vb != vb) return (va != va) != (vb != vb) ? (va != va) == s.largest : a < b;
            return va != vb ? (s.largest ? va > vb : va < vb) : a < b;
        };
        int64_t n = 0;  // heap[0] is the last in the answer of the n <= k best so far
        const auto sink = [&](int64_t at) {
            for (int64_t child; (child = 2 * at + 1) < n; at = child) {
                if (child + 1 < n && before(heap[child], heap[child + 1])) ++child;
                if (!before(heap[at], heap[child])) return;
                const int64_t h = heap[at];
                heap[at] = heap[child], heap[child] = h;
            }
        };
        for (int64_t i = 0; i < s.length && s.k > 0 && !t.stopped_at(i); ++i) {
            if (n < s.k) {
                int64_t at = n++;
                heap[at] = i;
                for (int64_t parent; at && before(heap[parent = (at - 1) / 2], heap[at]); at = parent) {
                    const int64_t h = heap[at];
                    heap[at] = heap[parent], heap[parent] = h;
                }
            } else if (before(i, heap[0])) {
                heap[0] = i;
                sink(0);
            }
        }
        T* out = values + u / s.inner * s.k * s.inner + u % s.inner;
        I* picked = indices + u / s.inner * s.k * s.inner + u % s.inner;
        for (int64_t at = n - 1; at >= 0 && !t.stopped_at(at); --at) {
            out[at * s.inner] = row[heap[0] * s.inner];
            picked[at * s.inner] = I(heap[0]);
            heap[0] = heap[--n];
            sink(0);
        }
    }
}

// out[batch][tuple][..] = data[batch][index tuple][..]; lens: those of the `depth` indexed dimensions.
struct GatherNd {
    int64_t batches, tuples, depth, inner, check;
    const int64_t* lens;
};
template <class T, class I> void gather_nd(const Team& t, const GatherNd& g, const T* data, const I* indices, T* out, int64_t* status) {
    int64_t slices = 1;
    for (int64_t d = 0; d < g.depth; ++d) slices *= g.lens[d];
    const Range mine = t.share(g.batches * g.tuples);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        int64_t at = 0;
        for (int64_t d = 0; d < g.depth; ++d) at = at * g.lens[d] + checked(int64_t(indices[u * g.depth + d]), g.lens[d], status, g.check);
        copy_run(out + u * g.inner, data + (u / g.tuples * slices + at) * g.inner, g.inner);
    }
}

// out[..][d][..] = values[index == d] for indices [outer][inner].
template <class T, class I> void one_hot(const Team& t, int64_t outer, int64_t depth, int64_t inner, const I* indices, const T* values, T* out) {
    const Range mine = t.share(outer * depth * inner, 16);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const int64_t d = u / inner % depth, index = int64_t(indices[u / (depth * inner) * inner + u % inner]);
        out[u] = values[(index < 0 ? index + depth : index) == d];
    }
}

// The coordinates of the elements that are not 0 in the columns of out [rank][count], zeros behind them.
template <class T> void non_zero(const Team& t, int64_t rank, const int64_t* lens, const T* x, int64_t* out) {
    int64_t count = 1;
    for (int64_t d = 0; d < rank; ++d) count *= lens[d];
    const Range mine = t.share(count, 16);
    int64_t at = 0, total = 0;  // found before this thread's part, and in all
    for (int64_t i = 0; i < count && !t.stopped_at(i); ++i) {
        total += scalar_of(x[i]) != 0;
        if (i + 1 == mine.begin) at = total;
    }
    for (int64_t i = mine.begin; i < mine.end && !t.stopped_at(i); ++i) {
        if (!(scalar_of(x[i]) != 0)) continue;
        for (int64_t d = rank - 1, rest = i; d >= 0; rest /= lens[d], --d) out[d * count + at] = rest % lens[d];
        ++at;
    }
    for (int64_t i = mine.begin > total ? mine.begin : total; i < mine.end; ++i)
        for (int64_t d = 0; d < rank; ++d) out[d * count + i] = 0;
}

}  // namespace mgx

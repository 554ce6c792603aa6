// Linear algebra on small matrices.
#pragma once

#include "access.hpp"
#include "team.hpp"

namespace mgx {

// Determinants of x [count][n][n] by elimination with row pivots, in double. scratch: n * n doubles per thread.
template <class T> void det(const Team& t, int64_t count, int64_t n, const T* x, T* out, char* scratch) {
    double* m = reinterpret_cast<double*>(scratch);
    const Range mine = t.share(count);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        for (int64_t i = 0; i < n * n; ++i) m[i] = double(scalar_of(x[u * n * n + i]));
        double product = 1;
        for (int64_t k = 0; k < n; ++k) {
            int64_t best = k;
            for (int64_t i = k + 1; i < n; ++i)
                if (__builtin_fabs(m[i * n + k]) > __builtin_fabs(m[best * n + k])) best = i;
            if (best != k) {
                product = -product;
                for (int64_t j = k; j < n; ++j) {
                    const double kept = m[k * n + j];
                    m[k * n + j] = m[best * n + j], m[best * n + j] = kept;
                }
            }
            if (n - k > 64 && t.stopped()) return;
            const double pivot = m[k * n + k];
            product *= pivot;
            if (pivot == 0) break;
            for (int64_t i = k + 1; i < n; ++i) {
                const double factor = m[i * n + k] / pivot;
                for (int64_t j = k + 1; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
            }
        }
        out[u] = narrow_to<T>(compute_t<T>(product));
    }
}

}  // namespace mgx

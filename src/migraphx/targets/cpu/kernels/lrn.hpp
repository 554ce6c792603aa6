// Local response normalisation over neighbouring channels, channels last.
#pragma once

#include "loops.hpp"
#include "math.hpp"

namespace mgx {

// x [pixels][c], pixels `x_step` elements apart; out dense. A is the type of the sums.
struct Lrn {
    int64_t pixels, c, x_step, size;
    double alpha, beta, bias;
};
// Bytes per thread.
inline constexpr int64_t lrn_scratch(int64_t c, int64_t size) { return (c + size + LANES) * 8; }

template <class A, class T> void lrn(const Team& t, const Lrn& p, const T* x, T* out, char* scratch) {
    A* squares = reinterpret_cast<A*>(scratch);  // between zeros
    const int64_t below = (p.size - 1) / 2;
    for (int64_t i = 0; i < p.c + p.size; ++i) squares[i] = 0;
    const Range mine = t.share(p.pixels);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const T* from = x + u * p.x_step;
        T* to = out + u * p.c;
        for_lanes(0, p.c, [&](int64_t i, auto n) {
            const vec<A> v = cast<A>(fetch(from + i, n));
            put(squares + below + i, v * v, n);
        });
        for_lanes(0, p.c, [&](int64_t i, auto n) {
            vec<A> sum{};
            for (int64_t k = 0; k < p.size; ++k) sum += fetch(squares + i + k, n);
            const vec<A> base = fill(sum, A(p.bias)) + sum * fill(sum, A(p.alpha / double(p.size)));
            const vec<A> v = cast<A>(fetch(from + i, n));
            put(to + i, cast<compute_t<T>>(v / pow(base, fill(sum, A(p.beta)))), n);
        });
    }
}

}  // namespace mgx

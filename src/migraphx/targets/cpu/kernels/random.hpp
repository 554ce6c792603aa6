// Random numbers: the Mersenne twister MT19937 (Matsumoto and Nishimura, 1998), and draws from weights.
#pragma once

#include <time.h>

#include "access.hpp"
#include "team.hpp"

namespace mgx {

class Twister {
    static constexpr int N = 624, M = 397;
    uint32_t state[N];
    int at = N;

    void refill() {
        for (int i = 0; i < N; ++i) {
            const uint32_t y = (state[i] & 0x80000000u) | (state[(i + 1) % N] & 0x7fffffffu);
            state[i] = state[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0u);
        }
        at = 0;
    }

public:
    explicit Twister(uint32_t seed) {
        state[0] = seed;
        for (int i = 1; i < N; ++i) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + uint32_t(i);
    }
    uint32_t next() {
        if (at == N) refill();
        uint32_t y = state[at++];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        return y ^ (y >> 18);
    }
    double uniform() {  // 53 bits in [0, 1)
        const double high = next() >> 5, low = next() >> 6;
        return (high * 67108864.0 + low) / 9007199254740992.0;
    }
};

// A seed from the clock and a counter, so that runs at the same tick differ too.
template <class T> void random_seed(const Team& t, T* out) {
    static uint64_t runs = 0;
    if (t.tid) return;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t run = __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
    const uint64_t mixed = (uint64_t(now.tv_sec) * 1000000007u + uint64_t(now.tv_nsec) + run) * 0x9e3779b97f4a7c15u;
    out[0] = T(mixed >> 33);
}

// One stream of numbers, which one thread draws in order.
template <class T, class S> void random_uniform(const Team& t, int64_t count, const S* seed, T* out) {
    if (t.tid) return;
    Twister twister{uint32_t(seed[0])};
    for (int64_t i = 0; i < count && !t.stopped_at(i); ++i) out[i] = narrow_to<T>(compute_t<T>(twister.uniform()));
}

// out[n][s]: the first class whose cumulative weight sums[n][..] exceeds number[n][s] times the total.
template <class T, class U, class I>
void multinomial(const Team& t, int64_t rows, int64_t classes, int64_t samples, const T* sums, const U* numbers, I* out) {
    const Range mine = t.share(rows * samples, 16);
    for (int64_t u = mine.begin; u < mine.end; ++u) {
        const T* row = sums + u / samples * classes;
        const double wanted = double(scalar_of(numbers[u])) * double(scalar_of(row[classes - 1]));
        int64_t low = 0, high = classes - 1;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (double(scalar_of(row[middle])) > wanted)
                high = middle;
            else
                low = middle + 1;
        }
        out[u] = I(low);
    }
}

}  // namespace mgx

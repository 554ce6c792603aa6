// The kernels under measurement behind plain C functions; every call is one parallel region.
#include "planar.hpp"
#include "winograd.hpp"

#include <cstdlib>

#include <omp.h>

using namespace mgx;

struct Put {
    static constexpr bool in_registers = true;
    float* c;
    int64_t ldc;
    void operator()(int64_t r, int64_t j, vec<float> v) const { store(c + r * ldc + j, v); }
    void operator()(int64_t r, int64_t j, vec<float> v, int n) const { store_n(c + r * ldc + j, v, n); }
};

template <class F> static void parallel(int threads, char* scratch, int64_t bytes, F f) {
#pragma omp parallel num_threads(threads)
    {
        const int tid = omp_get_thread_num();
        f(Team{tid, threads}, scratch + tid * bytes);
    }
}

// With each filter that a first layer has, by K and S of planar.hpp.
template <int K, int S>
static void picture(const Planar* p, const float* x, const float* w, float* y, char* scratch, int threads) {
    const Put put{y, p->oc};
    parallel(threads, scratch, planar_scratch<K, S, FEW_PIXELS, MANY_PIXELS>(*p), [&](const Team& t, char* s) {
        planar<K, S, FEW_PIXELS, MANY_PIXELS>(t, *p, x, w, put, s);
    });
}

extern "C" {
int columns() { return NR; }
int64_t conv_bytes(const Conv* c) { return round64(conv_scratch(*c, sizeof(float))); }
int64_t planar_bytes(const Planar* p) { return planar_scratch<7, 4, FEW_PIXELS, MANY_PIXELS>(*p); }  // of all the most
int64_t winograd_bytes(const Conv* c) { return round64(winograd_scratch(*c)); }
int64_t gemm_bytes() { return GEMM_SCRATCH; }

void run_gemm(const Gemm* g, const float* a, const float* b, float* c, char* scratch, int threads) {
    const Put put{c, g->n};
    parallel(threads, scratch, GEMM_SCRATCH,
             [&](const Team& t, char* s) { gemm<float>(t, *g, a, b, put, s); });
}
void run_conv(const Conv* c, const float* x, const float* w, float* y, char* scratch, int threads) {
    const Put put{y, c->oc};
    parallel(threads, scratch, conv_bytes(c),
             [&](const Team& t, char* s) { conv<float>(t, *c, x, w, put, s); });
}
void run_planar(const Planar* p, const float* x, const float* w, float* y, char* scratch, int threads) {
    if (p->kernel_h == 7) picture<7, 2>(p, x, w, y, scratch, threads);
    if (p->kernel_h == 4) picture<4, 4>(p, x, w, y, scratch, threads);
    if (p->kernel_h == 3) picture<3, 2>(p, x, w, y, scratch, threads);
}
void run_winograd(const Conv* c, const float* x, const float* u, float* y, char* scratch, int threads) {
    const Put put{y, c->oc};
    parallel(threads, scratch, winograd_bytes(c),
             [&](const Team& t, char* s) { winograd(t, *c, x, u, put, s); });
}
}

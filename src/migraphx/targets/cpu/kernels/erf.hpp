// erf where the error of 1 + erf(x) counts, in half the time of a formula that is exact around 0, too.
//
//   V erf_quotient(V x)     erf(x) to 5e-7 for -ERF_END <= x <= ERF_END, at the ends a little more than 1: to be cut there
//   V erf_of_pieces(V u)    erf(u / ERF_SCALE) to 3e-7, exactly 1 in the last piece; V is vec<float>, where HAS_ERF_PIECES
//
// The quotient was fitted in double by Lawson's algorithm, to 4e-8. Of pieces of the domain each is a polynomial whose
// coefficients are picked from registers by one instruction each. Piece i is that round u = i, and its variable is u - i. A
// lane holds a piece, so there are as many as lanes; with 8 of them the quotient takes half the time of pieces on a Zen 3, and
// as long on an Emerald Rapids. Coefficients: interpolation at Chebyshev's points, in double. The table is static: a process
// may hold objects of several instruction sets.
#pragma once

#include "vec.hpp"

namespace mgx {

inline constexpr float ERF_END = 3.9f;
template <class V> MGX_INLINE V erf_quotient(V x) {
    const V s = x * x;
    const V above = (((((2.0116312e-8f * s - 2.001199e-6f) * s + 1.4847179e-4f) * s + 0.0039379005f) * s + 0.051283833f) * s +
        0.20520498f) * s + 1.1283787f;
    const V below = (((0.0010166217f * s + 0.014816102f) * s + 0.11719518f) * s + 0.515187f) * s + 1.0f;
    return x * above / below;
}

#if defined(__AVX512F__)
inline constexpr bool HAS_ERF_PIECES = true;
inline constexpr float ERF_SCALE = 3.86666656f;
alignas(64) static constexpr float ERF[5][16] = {
    {7.839849e-9f, 0.28544456f, 0.53551996f, 0.72746116f, 0.85652703f, 0.9325591f, 0.9717983f, 0.9895392f, 0.99656606f,
     0.9990042f, 0.99974525f, 0.9999426f, 0.9999886f, 0.99999803f, 0.9999997f, 1},
    {0.29182142f, 0.27294046f, 0.22332002f, 0.15984279f, 0.10008355f, 0.054819465f, 0.026266776f, 0.011009706f,
     0.004036807f, 0.0012947606f, 3.6326653e-4f, 8.915389e-5f, 1.9139392e-5f, 3.5940338e-6f, 5.903301e-7f, 0},
    {1.25593815e-5f, -0.018255405f, -0.029873088f, -0.032072697f, -0.026775857f, -0.018332722f, -0.010541084f,
     -0.0051547997f, -0.0021601545f, -7.7950425e-4f, -2.4302759e-4f, -6.561824e-5f, -1.5370362e-5f, -3.127589e-6f,
     -5.534112e-7f, 0},
    {-0.0065766275f, -0.0052431175f, -0.0023139718f, 7.0616335e-4f, 0.002519939f, 0.002850044f, 0.0022311679f,
     0.0013668535f, 6.85236e-4f, 2.8729916e-4f, 1.01996135e-4f, 3.090104e-5f, 8.031289e-6f, 1.7973807e-6f, 3.4732224e-7f,
     0},
    {1.6177064e-4f, 5.7942496e-4f, 8.16253e-4f, 6.399563e-4f, 2.573517e-4f, -6.828932e-5f, -2.1172402e-4f, -2.0365251e-4f,
     -1.3400368e-4f, -6.837645e-5f, -2.8341185e-5f, -9.763943e-6f, -2.833366e-6f, -6.984607e-7f, -1.4711952e-7f, 0},
};

// from[i] for every lane i of `piece`, whose upper bits do not matter.
template <class V, class I> MGX_INLINE V picked(const float* from, I piece) {
    V r;
    asm("vpermps %2, %1, %0" : "=v"(r) : "v"(piece), "m"(*reinterpret_cast<const V*>(from)));
    return r;
}

// 0 <= u < LANES - 1/2, or NaN.
template <class V> MGX_INLINE V erf_of_pieces(V u) {
    constexpr float WHOLE = 12582912.0f;  // 1.5 * 2^23: adding it leaves the number of the piece in the low bits
    constexpr int DEGREE = sizeof(ERF) / sizeof(ERF[0]) - 1;
    const V shifted = u + WHOLE, r = u - (shifted - WHOLE);
    const auto piece = bit_cast<vec<int32_t>>(shifted);
    V sum = picked<V>(ERF[DEGREE], piece);
    unroll<DEGREE>([&](auto k) { sum = sum * r + picked<V>(ERF[DEGREE - 1 - k], piece); });
    return sum;
}
#else
inline constexpr bool HAS_ERF_PIECES = false;
inline constexpr float ERF_SCALE = 0;
template <class V> V erf_of_pieces(V u);  // of too few lanes
#endif

}  // namespace mgx

// erf on pieces of its domain, each a polynomial whose coefficients are picked from registers by one instruction each: half
// the time of a formula that holds everywhere. A lane holds a piece, so there are as many as lanes.
//
//   V erf_of_pieces(V u)    erf(u / ERF_SCALE) to 3e-7, exactly 1 in the last piece; V is vec<float>, where HAS_ERF_PIECES
//
// Piece i is that round u = i, and its variable is u - i. Coefficients: interpolation at Chebyshev's points, in double.
// The table is static: a process may hold objects of several instruction sets.
#pragma once

#include "vec.hpp"

namespace mgx {

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
#elif defined(__AVX2__)
inline constexpr bool HAS_ERF_PIECES = true;
inline constexpr float ERF_SCALE = 1.69712794f;
alignas(32) static constexpr float ERF[7][8] = {
    {-5.5522226e-10f, 0.5953234f, 0.9044053f, 0.98757696f, 0.99914145f, 0.99996907f, 0.9999994f, 1},
    {0.6648758f, 0.46984753f, 0.16580798f, 0.029220065f, 0.0025715618f, 1.1303537e-4f, 2.4825383e-6f, 0},
    {-3.4962236e-6f, -0.16312738f, -0.11513464f, -0.030435234f, -0.0035712968f, -1.9619583e-4f, -5.1677707e-6f, 0},
    {-0.07690448f, -0.016633373f, 0.03409993f, 0.017759975f, 0.003008903f, 2.1336894e-4f, 6.81983e-6f, 0},
    {-2.4388965e-4f, 0.021757647f, 0.0014867798f, -0.0057234494f, -0.0016765355f, -1.6291373e-4f, -6.5531503e-6f, 0},
    {0.008742668f, -0.0011677332f, -0.003888544f, 4.720896e-4f, 6.1759923e-4f, 9.576799e-5f, 5.309538e-6f, 0},
    {-0.0010915993f, -0.0018165566f, 7.425619e-4f, 3.4920505e-4f, -1.2658504e-4f, -3.8382837e-5f, -2.8898512e-6f, 0},
};
#else
inline constexpr bool HAS_ERF_PIECES = false;
inline constexpr float ERF_SCALE = 1;
#endif

#if defined(__AVX2__)
// from[i] for every lane i of `piece`, whose upper bits do not matter.
template <class V, class I> MGX_INLINE V picked(const float* from, I piece) {
    V r;
    asm("vpermps %2, %1, %0" : "=v"(r) : "v"(piece), "m"(*reinterpret_cast<const V*>(from)));
    return r;
}
#endif

// 0 <= u < LANES - 1/2, or NaN.
template <class V> MGX_INLINE V erf_of_pieces(V u) {
#if defined(__AVX2__)
    constexpr float WHOLE = 12582912.0f;  // 1.5 * 2^23: adding it leaves the number of the piece in the low bits
    constexpr int DEGREE = sizeof(ERF) / sizeof(ERF[0]) - 1;
    const V shifted = u + WHOLE, r = u - (shifted - WHOLE);
    const auto piece = bit_cast<vec<int32_t>>(shifted);
    V sum = picked<V>(ERF[DEGREE], piece);
    unroll<DEGREE>([&](auto k) { sum = sum * r + picked<V>(ERF[DEGREE - 1 - k], piece); });
    return sum;
#endif
}

}  // namespace mgx

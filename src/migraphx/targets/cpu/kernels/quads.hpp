// Products of bytes, four to a 32-bit lane: what processors have for them.
#pragma once

#include "vec.hpp"

namespace mgx {

#if defined(MGX_PAIRS)

// The sums of the products of two 16-bit pairs, for each lane.
template <class V> MGX_INLINE V multiply_pairs(V x, V y) {
#if defined(__AVX__)
    V sum;
    asm("vpmaddwd %2, %1, %0" : "=v"(sum) : "v"(x), "v"(y));
    return sum;
#else
    asm("pmaddwd %1, %0" : "+x"(x) : "x"(y));
    return x;
#endif
}

// The bytes of words as 16-bit pairs of their sign: the first and the third, the second and the fourth.
template <class V> struct Pairs {
    V even, odd;
};
template <class S, class V> MGX_INLINE Pairs<V> pairs_of(V words) {
    using Wide = vec<int16_t, 2 * lanes_v<V>>;
    if constexpr (same_v<S, uint8_t>) {
        using Unsigned = vec<uint16_t, 2 * lanes_v<V>>;
        return {words & 0x00ff00ff, bit_cast<V>(bit_cast<Unsigned>(words) >> 8)};
    } else {
        const Wide wide = bit_cast<Wide>(words);
        return {bit_cast<V>((wide << 8) >> 8), bit_cast<V>(wide >> 8)};
    }
}
#endif

// acc + the products of four unsigned bytes with four signed ones, for each lane.
template <class V> MGX_INLINE V add_quads(V acc, V a, V b) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#if defined(__AVX512VNNI__)
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
#endif
    return acc;
#elif defined(MGX_PAIRS)
    const auto of_a = pairs_of<uint8_t>(a), of_b = pairs_of<int8_t>(b);
    return acc + (multiply_pairs(of_a.even, of_b.even) + multiply_pairs(of_a.odd, of_b.odd));
#else
    for (int i = 0; i < 4; ++i) acc += ((a >> 8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
    return acc;
#endif
}

}  // namespace mgx

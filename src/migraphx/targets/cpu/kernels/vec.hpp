// Vectors on compiler vector extensions: the one place that knows the instruction set.
//
//   LANES      float lanes of a native register: 16 (AVX-512), 8 (AVX), 4 (NEON, SSE).
//   vec<T, N>  N lanes of T (default LANES, whatever the width of T). half lanes are _Float16; bf16, bool and
//              what narrow.hpp adds have no vector arithmetic: vec<bf16> is vec<uint16_t>, vec<bool> is
//              vec<uint8_t> (0/1).
//   load<N>(p)  load_n<N>(p, n, fill)  store(p, v)  store_n(p, v, n)
//              p needs no alignment; 0 <= n <= N, and a partial access touches no memory at or past p + n.
//              Lanes past n read as `fill` (default 0).
//   splat<T, N>(x)  all lanes x        iota<T, N>()  lanes 0, 1, 2 ...
//   cast<U>(v)  convertvector (float to integer truncates); cast<bool>(v) is v != 0 as 0/1.
//   select(m, a, b)  lane-wise m ? a : b; m: a comparison or any integer vector (non-zero is true).
//   shuffle(a, b, m)  lanes of a and b by constant indices.
//   hsum hmax hmin hprod  horizontal reductions, tree order; hmax and hmin give NaN if any lane is NaN.
//
// Arithmetic and comparison operators are those of the compiler: a + b, a < b (lanes 0/-1, integers as wide
// as T). Functions take the vector type itself (V); lane_t<V> and lanes_v<V> give its element and count.
// Compile with -Wno-psabi: what the convention of calls that it warns about hands over stays within one object.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC diagnostic ignored "-Wpsabi"

#ifdef __NO_INLINE__  // -O0 or -fno-inline: a function is compiled once, not wherever it is used; answers are the same
#define MGX_INLINE inline
#else
#define MGX_INLINE inline __attribute__((always_inline))
#endif
#define MGX_NOINLINE __attribute__((noinline))

namespace mgx {

#if defined(__AVX512F__)
#define MGX_LANES 16
#elif defined(__AVX__)
#define MGX_LANES 8
#else
#define MGX_LANES 4
#endif
inline constexpr int LANES = MGX_LANES;  // a macro too: whoever packs weights asks the preprocessor
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int REGISTERS = 32;  // of vectors
#else
inline constexpr int REGISTERS = 16;
#endif
#if defined(__AVX512BF16__)
#define MGX_BF16_WORDS 1  // pairs of bf16 are multiplied as they are: quant.hpp
#else
#define MGX_BF16_WORDS 0
#endif
#if defined(__x86_64__) && defined(__linux__) && defined(__AVX512BW__) && \
    (defined(__AMX_BF16__) || defined(__AMXBF16__))
#define MGX_AMX 1
#endif
#if !defined(__AVX512VNNI__) && !defined(__AVXVNNI__) && \
    (defined(__AVX512BW__) || (defined(__SSE2__) && !defined(__AVX512F__)))
#define MGX_PAIRS 1  // products of bytes are those of 16-bit pairs: quant.hpp
#endif

using half = _Float16;
struct bf16 {
    uint16_t bits;
};
template <int E, int M, int BIAS, class S> struct tiny_float {  // sign, E bits of exponent, M of mantissa
    uint8_t bits;
};
struct fp8e8m0fnu {  // 2 to the power of bits - 127; 255 is NaN
    uint8_t bits;
};
template <int BITS, class T> struct tiny_int {  // computed in T
    uint8_t bits;
};

// ---- types --------------------------------------------------------------------------------------

template <class T> struct lane_of { using type = T; };
template <> struct lane_of<bf16> { using type = uint16_t; };
template <> struct lane_of<bool> { using type = uint8_t; };
template <int E, int M, int BIAS, class S> struct lane_of<tiny_float<E, M, BIAS, S>> { using type = uint8_t; };
template <> struct lane_of<fp8e8m0fnu> { using type = uint8_t; };
template <int BITS, class T> struct lane_of<tiny_int<BITS, T>> { using type = uint8_t; };

template <class T, int N> struct vec_of {
    using lane = typename lane_of<T>::type;
    typedef lane type __attribute__((vector_size(N * sizeof(lane))));
    typedef lane unaligned __attribute__((vector_size(N * sizeof(lane)), aligned(sizeof(lane)), may_alias));
};
template <class T, int N = LANES> using vec = typename vec_of<T, N>::type;

template <class T> struct bare { using type = T; };
template <class T> struct bare<T&> { using type = T; };
template <class T> struct bare<const T> { using type = T; };
template <class T> struct bare<const T&> { using type = T; };
template <class T> struct bare<T&&> { using type = T; };  // what clang says of an element of a temporary
template <class V> using lane_t = typename bare<decltype(V{}[0])>::type;
template <class V> inline constexpr int lanes_v = int(sizeof(V) / sizeof(lane_t<V>));

template <int BYTES> struct int_of;
template <> struct int_of<1> { using type = int8_t; };
template <> struct int_of<2> { using type = int16_t; };
template <> struct int_of<4> { using type = int32_t; };
template <> struct int_of<8> { using type = int64_t; };

template <class A, class B> inline constexpr bool same_v = false;
template <class A> inline constexpr bool same_v<A, A> = true;
template <class T>
inline constexpr bool is_float_v = same_v<T, float> || same_v<T, double> || same_v<T, half>;

template <class To, class From> MGX_INLINE To bit_cast(const From& v) {
    static_assert(sizeof(To) == sizeof(From));
    return __builtin_bit_cast(To, v);
}

template <class V> struct Halves {
    vec<lane_t<V>, lanes_v<V> / 2> low, high;
};
template <class V> MGX_INLINE Halves<V> halves(V v) { return bit_cast<Halves<V>>(v); }

// v, loaded once: compilers would make the load an operand of each instruction that uses it.
template <class V> MGX_INLINE V in_register(V v) {
#if defined(__AVX__)
    asm("" : "+v"(v));
#endif
    return v;
}

// n, of which the compiler does not know that it is the same each time: what is computed of it is not computed ahead.
MGX_INLINE int64_t hidden(int64_t n) {
#if defined(__x86_64__)
    asm volatile("" : "+r"(n));
#endif
    return n;
}

// ---- constant indices -------------------------------------------------------------------------------------

// Ints<0, 1, ... N - 1>: a statement for each of a pack, so that an array of vectors stays in registers from the first
// pass of the compiler on, which a loop that is unrolled later does not achieve.
template <int... I> struct Ints {};
#if defined(__clang__)
template <class T, T... I> using IntsOf = Ints<I...>;
template <int N> using UpTo = __make_integer_seq<IntsOf, int, N>;
#else
template <int N> using UpTo = Ints<__integer_pack(N)...>;
#endif

// f(Int<0>), f(Int<1>), ... f(Int<N - 1>). Each is a function to be compiled, which takes longer than to put it in its place.
template <int I> struct Int {
    static constexpr int value = I;
    constexpr operator int() const { return I; }
};
template <class F, int... I> MGX_INLINE void unroll(F& f, Ints<I...>) { (f(Int<I>{}), ...); }
template <int N, class F> MGX_INLINE void unroll(F f) { unroll(f, UpTo<N>{}); }

// Both one behind the other, by an instruction: two stores and a load of both would wait for the stores to end.
template <class V, int... I> MGX_INLINE vec<lane_t<V>, 2 * lanes_v<V>> join(V low, V high, Ints<I...>) {
    return __builtin_shufflevector(low, high, I...);
}
template <class V> MGX_INLINE vec<lane_t<V>, 2 * lanes_v<V>> join(V low, V high) {
    return join(low, high, UpTo<2 * lanes_v<V>>{});
}

// ---- whole loads and stores, splat --------------------------------------------------------------

template <int N = LANES, class T> MGX_INLINE vec<T, N> load(const T* p) {
    return *reinterpret_cast<const typename vec_of<T, N>::unaligned*>(p);
}

template <class T, class V> MGX_INLINE void store(T* p, V v) {
    static_assert(same_v<lane_t<V>, typename lane_of<T>::type>, "store converts nothing");
    *reinterpret_cast<typename vec_of<T, lanes_v<V>>::unaligned*>(p) = v;
}

template <class T, int N = LANES> MGX_INLINE vec<T, N> splat(T x) {
    if constexpr (same_v<T, bf16>)
        return vec<T, N>{} + x.bits;
    else if constexpr (is_float_v<T>)
        return x - vec<T, N>{};  // not 0 + x, which would lose the sign of -0
    else
        return vec<T, N>{} + static_cast<typename lane_of<T>::type>(x);
}

template <class T, int N = LANES> MGX_INLINE vec<T, N> iota() {
    vec<T, N> v{};
    for (int i = 0; i < N; ++i) v[i] = static_cast<lane_t<vec<T, N>>>(i);
    return v;
}

// ---- select and cast ----------------------------------------------------------------------------

// Small integers as 4-byte ones of their sign. No compiler makes one instruction of it.
template <class V> MGX_INLINE vec<int32_t, lanes_v<V>> widen(V v) {
    using T = lane_t<V>;
    using to = vec<int32_t, lanes_v<V>>;
    constexpr bool sign = static_cast<T>(-1) < static_cast<T>(0);
#if defined(__AVX2__)
    if constexpr (lanes_v<V> == LANES) {
        to r;
        if constexpr (sizeof(T) == 1 && sign)
            asm("vpmovsxbd %1, %0" : "=v"(r) : "v"(v));
        else if constexpr (sizeof(T) == 1)
            asm("vpmovzxbd %1, %0" : "=v"(r) : "v"(v));
        else if constexpr (sign)
            asm("vpmovsxwd %1, %0" : "=v"(r) : "v"(v));
        else
            asm("vpmovzxwd %1, %0" : "=v"(r) : "v"(v));
        return r;
    }
#endif
    if constexpr (sizeof(T) == 1)
        return __builtin_convertvector(__builtin_convertvector(v, vec<int16_t, lanes_v<V>>), to);
    else
        return __builtin_convertvector(v, to);
}

#if !defined(__AVX512F__)
// The lowest byte of each 4-byte integer.
template <class B, class V> MGX_INLINE B lowest_bytes(V v) {
#if defined(__AVX2__)
    if constexpr (lanes_v<V> == 8) {
        vec<int16_t, 8> packed;
        asm("vextracti128 $1, %1, %0\n\tvpackusdw %0, %x1, %0\n\tvpackuswb %0, %0, %0" : "=&x"(packed) : "x"(v & 255));
        return bit_cast<B>(halves(packed).low);
    }
#endif
    return __builtin_convertvector(__builtin_convertvector(v, vec<uint16_t, lanes_v<V>>), B);
}
#endif

// Steps that compilers have instructions for; others they take lane by lane.
template <class U, class V> MGX_INLINE vec<U, lanes_v<V>> cast(V v) {
    using T = lane_t<V>;
    using to = vec<U, lanes_v<V>>;
    constexpr int from_size = sizeof(T), to_size = sizeof(lane_t<to>);
    constexpr bool from_float = same_v<T, float> || same_v<T, double>, to_float = same_v<U, float> || same_v<U, double>;
    if constexpr (same_v<U, bool>)
        return bit_cast<to>(cast<int8_t>(v != 0)) & uint8_t(1);
    else if constexpr (same_v<lane_t<to>, T>)
        return v;
    else if constexpr (!is_float_v<T> && from_size < 4 && (to_float || to_size > from_size))
        return __builtin_convertvector(widen(v), to);
    else if constexpr (from_float && !is_float_v<lane_t<to>> && to_size < 4)
        return cast<U>(__builtin_convertvector(v, vec<int32_t, lanes_v<V>>));
#if !defined(__AVX512F__)
    else if constexpr (!is_float_v<T> && from_size == 4 && to_size == 1)
        return lowest_bytes<to>(v);
#endif
    else
        return __builtin_convertvector(v, to);
}

template <class M, class V> MGX_INLINE V select(M m, V a, V b) {
    static_assert(lanes_v<M> == lanes_v<V>);
    using I = typename int_of<sizeof(lane_t<V>)>::type;
    if constexpr (same_v<M, vec<I, lanes_v<V>>>)
        return (m != 0) ? a : b;
    else
        return (cast<I>(m != 0) != 0) ? a : b;
}

// Lanes of a (0 .. N-1) and b (N .. 2N-1) by the constant indices m, integers as wide as the lanes.
template <class V, class M> MGX_INLINE V shuffle(V a, V b, M m) {
#if defined(__clang__)
    V v{};
    for (int i = 0; i < lanes_v<V>; ++i) v[i] = m[i] < lanes_v<V> ? a[m[i]] : b[m[i] - lanes_v<V>];
    return v;
#else
    return __builtin_shuffle(a, b, m);
#endif
}

// ---- partial loads and stores -------------------------------------------------------------------

// One masked move of V; only the first n lanes of p are touched. Inline assembly, because the header of the
// intrinsics costs more compile time than a whole model's code.
template <class V> inline constexpr bool has_masked_load_v =
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    sizeof(V) == 16 || sizeof(V) == 32 || sizeof(V) == 64;
#elif defined(__AVX__)
    (sizeof(V) == 16 || sizeof(V) == 32) && sizeof(lane_t<V>) >= 4;
#else
    false;
#endif
template <class V> inline constexpr bool has_masked_store_v =
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    has_masked_load_v<V>;
#else
    false;  // AVX has them: a Zen 3 takes tens of nanoseconds for each
#endif

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define MGX_BY_WIDTH(ASM)                                 \
    if constexpr (sizeof(lane_t<V>) == 1) ASM("8")        \
    else if constexpr (sizeof(lane_t<V>) == 2) ASM("16")  \
    else if constexpr (sizeof(lane_t<V>) == 4) ASM("32")  \
    else ASM("64")
template <int N> struct mask_of { using type = uint16_t; };
template <> struct mask_of<32> { using type = uint32_t; };
template <> struct mask_of<64> { using type = uint64_t; };
template <class V> MGX_INLINE auto mask_n(int n) {
    constexpr int N = lanes_v<V> < 16 ? 16 : lanes_v<V>;
    return static_cast<typename mask_of<N>::type>(n >= 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1);
}
template <class V, class T> MGX_INLINE V masked_load(const T* p, int n, V fill) {
    auto k = mask_n<V>(n);
    auto& m = *reinterpret_cast<const typename vec_of<lane_t<V>, lanes_v<V>>::unaligned*>(p);
#define MGX_ASM(W) { asm("vmovdqu" W " %1, %0%{%2%}" : "+v"(fill) : "m"(m), "Yk"(k)); }
    MGX_BY_WIDTH(MGX_ASM)
#undef MGX_ASM
    return fill;
}
template <class V, class T> MGX_INLINE void masked_store(T* p, V v, int n) {
    auto k = mask_n<V>(n);
    auto& m = *reinterpret_cast<typename vec_of<lane_t<V>, lanes_v<V>>::unaligned*>(p);
#define MGX_ASM(W) { asm("vmovdqu" W " %1, %0%{%2%}" : "+m"(m) : "v"(v), "Yk"(k)); }
    MGX_BY_WIDTH(MGX_ASM)
#undef MGX_ASM
}
#undef MGX_BY_WIDTH
#elif defined(__AVX__)
template <class V> MGX_INLINE auto mask_n(int n) {
    using I = typename int_of<sizeof(lane_t<V>)>::type;
    return iota<I, lanes_v<V>>() < static_cast<I>(n);
}
template <class V, class T> MGX_INLINE V masked_load(const T* p, int n, V fill) {
    auto k = mask_n<V>(n);
    auto& m = *reinterpret_cast<const typename vec_of<lane_t<V>, lanes_v<V>>::unaligned*>(p);
    V v;
    if constexpr (sizeof(lane_t<V>) == 4)
        asm("vmaskmovps %1, %2, %0" : "=x"(v) : "m"(m), "x"(k));
    else
        asm("vmaskmovpd %1, %2, %0" : "=x"(v) : "m"(m), "x"(k));
    return select(k, v, fill);
}
#else
template <class V, class T> V masked_load(const T* p, int n, V fill);
#endif

template <int N = LANES, class T> MGX_INLINE vec<T, N> load_n(const T* p, int n, T fill = T{}) {
    vec<T, N> v = splat<T, N>(fill);
    if constexpr (has_masked_load_v<vec<T, N>>) {
        return masked_load(p, n, v);
    } else if constexpr (N == 1) {
        return n > 0 ? load<1>(p) : v;
    } else {
        constexpr int H = N / 2;
        if (n >= N) return load<N>(p);
        const bool low = n >= H;
        const auto rest = load_n<H>(low ? p + H : p, low ? n - H : n, fill);
        return low ? join(load<H>(p), rest) : join(rest, halves(v).high);
    }
}

template <class T, class V> MGX_INLINE void store_n(T* p, V v, int n) {
    static_assert(same_v<lane_t<V>, typename lane_of<T>::type>, "store_n converts nothing");
    if constexpr (has_masked_store_v<V>) {
        masked_store(p, v, n);
    } else if constexpr (lanes_v<V> == 1) {
        if (n > 0) store(p, v);
    } else {
        constexpr int H = lanes_v<V> / 2;
        const auto parts = halves(v);
        if (n >= 2 * H) return store(p, v);
        const bool low = n & H;
        if (low) store(p, parts.low);
        store_n(low ? p + H : p, low ? parts.high : parts.low, n & (H - 1));
    }
}

// ---- horizontal reductions ----------------------------------------------------------------------

template <class V, class F> MGX_INLINE lane_t<V> fold(V v, F f) {
    if constexpr (lanes_v<V> == 1) {
        return v[0];
    } else {
        const auto parts = halves(v);
        return fold(f(parts.low, parts.high), f);
    }
}
template <class V> MGX_INLINE lane_t<V> hsum(V v) {
    return fold(v, [](auto a, auto b) { return a + b; });
}
template <class V> MGX_INLINE lane_t<V> hprod(V v) {
    return fold(v, [](auto a, auto b) { return a * b; });
}
template <class V> MGX_INLINE lane_t<V> hmax(V v) {  // a != a keeps a NaN of a; b wins a comparison with NaN
    return fold(v, [](auto a, auto b) { return ((a > b) | (a != a)) ? a : b; });
}
template <class V> MGX_INLINE lane_t<V> hmin(V v) {
    return fold(v, [](auto a, auto b) { return ((a < b) | (a != a)) ? a : b; });
}

}  // namespace mgx

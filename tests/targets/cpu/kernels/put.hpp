// The epilogue that stores sums as they are: rows of C, `ldc` elements apart.
#pragma once

#include "vec.hpp"

namespace mgx {

template <class T> struct Put {
    T* c;
    int64_t ldc;
    void operator()(int64_t r, int64_t j, vec<T> v) const { store(c + r * ldc + j, v); }
    void operator()(int64_t r, int64_t j, vec<T> v, int n) const { store_n(c + r * ldc + j, v, n); }
};

}  // namespace mgx

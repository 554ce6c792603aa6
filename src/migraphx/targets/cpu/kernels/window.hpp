// The taps of a sliding window (convolution, pooling) that lie within the input, along one axis.
#pragma once

#include <cstdint>

namespace mgx {

struct Window {
    int64_t first, count;  // taps first .. first + count - 1 are inside
    int64_t start;         // the input index of tap 0; negative in the padding
};

// For output index o; `pad` elements lie before the input of length `in`.
inline Window window(int64_t o, int64_t stride, int64_t pad, int64_t dilation, int64_t kernel, int64_t in) {
    const int64_t start = o * stride - pad;
    int64_t first = start < 0 ? -start : 0, end = in > start ? in - start : 0;  // in elements, then in taps
    if (dilation != 1) first = (first + dilation - 1) / dilation, end = (end + dilation - 1) / dilation;
    const int64_t last = end < kernel ? end : kernel;
    return {first, last > first ? last - first : 0, start};
}

}  // namespace mgx

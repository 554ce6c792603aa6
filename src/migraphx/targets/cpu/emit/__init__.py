"""C++ text: the words of pointwise bodies, kernels and calls of them."""

"""Products of 8-bit integers with their epilogues: shells round quant.hpp."""

from __future__ import annotations

from migraphx.targets.common.views import View
from migraphx.targets.cpu.calls import Call
from migraphx.targets.cpu.gen_contract import Epilogue, Window, contract, window_text
from migraphx.targets.cpu.scalar import STORAGE_TYPES


def quads(a: View) -> str:
    """p0 as quads of the view's type."""
    return f"reinterpret_cast<const Quad<{STORAGE_TYPES[a.type]}>*>(p0)"


def quant_gemm_call(
    a: View, packed: View, sizes: tuple[int, int, int, int], epilogue: Epilogue, origin: str = ""
) -> Call:
    """Rows of `a` times weights packed ahead; sizes: m, n, and k and the step between rows in quads."""
    head = f"gemm<int32_t>(t, Gemm{{a[0], a[1], a[2], a[3]}}, {quads(a)}, p1, epi, scratch);"
    return contract(head, "GEMM_SCRATCH", "quant.hpp", (a, packed), sizes, epilogue, "quant_dot", origin)


def quant_conv_call(x: View, packed: View, window: Window, group: int, epilogue: Epilogue, origin: str = "") -> Call:
    """`x` {N, C, spatial...} in channels-last memory, channels and pixels in whole quads; weights packed ahead."""
    n, c, *_ = x.lens
    numbers = (n, c // 4, epilogue.write.lens[1], group, x.strides[-1] // 4, *window.numbers)
    fill = f"Conv{{a[0], a[1], a[2], a[3], a[4], {window_text(5)}}}"
    head = f"conv<int32_t>(t, {fill}, {quads(x)}, p1, epi, scratch);"
    scratch = f"conv_scratch({fill}, 4)"
    return contract(head, scratch, "quant.hpp", (x, packed), numbers, epilogue, "quant_convolution", origin)


def int4_gemm_call(
    a: View, packed: tuple[View, View], sizes: tuple[int, int, int, int, int], epilogue: Epilogue, fast: bool,
    origin: str = "",
) -> Call:  # fmt: skip
    """Rows of `a` times weights of 4 bits: codes and scales; sizes: m, n, k, elements between rows, block."""
    head = "int4_gemm(t, Int4Gemm{a[0], a[1], a[2], a[3], a[4]}, p0, p1, p2, epi, scratch, a[5]);"
    views, numbers = (a, *packed), (*sizes, int(fast))
    return contract(head, "int4_scratch(a[2])", "int4.hpp", views, numbers, epilogue, "dot_int4", origin)

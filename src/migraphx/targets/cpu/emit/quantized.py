"""Products of narrow numbers with their epilogues: shells round quant.hpp and int4.hpp."""

from __future__ import annotations

from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import accumulator, contract, engine, window_text
from migraphx.targets.cpu.emit.kernel import Instances
from migraphx.targets.cpu.emit.scalar import STORAGE_TYPES


def words(a: View) -> str:
    """p0 as words of the view's type."""
    return f"reinterpret_cast<const Word<{STORAGE_TYPES[a.type]}>*>(p0)"


def word_engine(type: str) -> Instances:
    """The engine for products of words of this type."""
    word = STORAGE_TYPES[type]
    return Instances("quant.hpp", (f"void run_engine<{word}>(const Team&, WordEngine<{word}>, char*)",))


def word_gemm_call(
    a: View, packed: View, sizes: tuple[int, int, int, int], epilogue: Epilogue, label: str, origin: str = ""
) -> Call:
    """Rows of `a` times weights packed ahead; sizes: m, n, and k and the step between rows in words."""
    head = f"gemm<{accumulator(a.type)}>(t, Gemm{{a[0], a[1], a[2], a[3]}}, {words(a)}, p1, epi, scratch);"
    return contract(head, "GEMM_SCRATCH", "quant.hpp", (a, packed), sizes, epilogue, label, origin, word_engine(a.type))


def word_conv_call(
    x: View, packed: View, window: Window, group: int, epilogue: Epilogue, label: str, origin: str = ""
) -> Call:
    """`x` {N, C, spatial...} in channels-last memory, channels and pixels in whole words; weights packed ahead."""
    n, c, *_ = x.lens
    each = 4 // x.itemsize
    numbers = (n, c // each, epilogue.write.lens[1], group, x.strides[-1] // each, *window.numbers)
    fill = f"Conv{{a[0], a[1], a[2], a[3], a[4], {window_text(5)}}}"
    head = f"conv<{accumulator(x.type)}>(t, {fill}, {words(x)}, p1, epi, scratch);"
    scratch = f"conv_scratch({fill}, 4)"
    return contract(head, scratch, "quant.hpp", (x, packed), numbers, epilogue, label, origin, word_engine(x.type))


def int4_gemm_call(
    a: View, packed: tuple[View, ...], sizes: tuple[int, int, int, int, int], epilogue: Epilogue, fast: bool,
    origin: str = "",
) -> Call:  # fmt: skip
    """Rows of `a` times weights of 4 bits: codes, scales and perhaps zeros; sizes: m, n, k, elements between rows,
    block."""
    zeros = "p3" if len(packed) == 3 else "nullptr"
    head = f"int4_gemm(t, Int4Gemm{{a[0], a[1], a[2], a[3], a[4]}}, p0, p1, p2, {zeros}, epi, scratch, a[5]);"
    views, numbers = (a, *packed), (*sizes, int(fast))
    whole = engine(a, a)  # for many rows the weights become floats, panel by panel
    return contract(head, "int4_scratch(a[2])", "int4.hpp", views, numbers, epilogue, "dot_int4", origin, whole)

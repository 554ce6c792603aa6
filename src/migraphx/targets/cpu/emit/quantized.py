"""Products of narrow numbers with their epilogues: shells round quant.hpp and int4.hpp."""

from __future__ import annotations

from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import accumulator, contract, engine, taps
from migraphx.targets.cpu.emit.kernel import Instances
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.scalar import STORAGE_TYPES
from migraphx.targets.cpu.emit.structs import Conv, Gemm, Int4Gemm, PickedGemm


def vnni_operand(a: View) -> str:
    """p0 as 32-bit lanes of the view's type."""
    return f"reinterpret_cast<const Word<{STORAGE_TYPES[a.type]}>*>(p0)"


def vnni_engine(type: str) -> Instances:
    """The engine for products of 32-bit lanes of this type."""
    word = STORAGE_TYPES[type]
    team = f"void run_engine<{word}>(const Team&, WordEngine<{word}>, char*)"
    rows = f"void row_pointers<Word<{word}>>(const void*, int64_t, const Tiles&, const Word<{word}>**)"
    return Instances("quant.hpp", (team, rows), stops=True)


def vnni_gemm_call(
    a: View, packed: View, sizes: tuple[int, int, int, int], epilogue: Epilogue, label: str, origin: str = ""
) -> Call:
    """Rows of `a` times weights packed ahead; sizes: m, n, and, in 32-bit lanes, k and the step between rows."""
    numbers, views = Numbers(), (a, packed)
    head = f"gemm<{accumulator(a.type)}>(t, {Gemm(*sizes).cpp(numbers)}, {vnni_operand(a)}, p1, epi, scratch);"
    return contract(head, "GEMM_SCRATCH", "quant.hpp", views, numbers, epilogue, label, origin, (vnni_engine(a.type),))


def picked_gemm_call(
    a: View, packed: View, picks: View, sizes: tuple[int, ...], epilogue: Epilogue, words: bool, fast: bool,
    origin: str = "",
) -> Call:  # fmt: skip
    """`a` {T, M, K} times T matrices packed ahead, which `picks` names.

    `sizes`: T, m, n, k, elements between rows and between batches of `a`, of a packed matrix; with `words`, all along
    the depth in 32-bit lanes.
    """
    numbers, views = Numbers(), (a, packed, picks)
    fill, rows = PickedGemm(*sizes).cpp(numbers), vnni_operand(a) if words else "p0"
    how = "" if words else f", {numbers.one(fast)}"
    head = f"picked_gemm<{accumulator(a.type)}>(t, {fill}, {rows}, p1, p2, epi, scratch{how});"
    header, own = ("quant.hpp", vnni_engine(a.type)) if words else ("gemm.hpp", engine(a, packed))
    return contract(head, "GEMM_SCRATCH", header, views, numbers, epilogue, "picked dot", origin, (own,))


def vnni_conv_call(x: View, packed: View, params: Conv, epilogue: Epilogue, label: str, origin: str = "") -> Call:
    """`x` {N, C, spatial...} in channels-last memory, channels and pixels fill 32-bit lanes; weights packed ahead."""
    numbers = Numbers()
    fill = params.cpp(numbers)
    head = f"conv<{accumulator(x.type)}>(t, {fill}, {vnni_operand(x)}, p1, epi, scratch);"
    scratch = f"conv_scratch({fill}, 4)"
    own = vnni_engine(x.type), taps(f"Word<{STORAGE_TYPES[x.type]}>", "quant.hpp")
    return contract(head, scratch, "quant.hpp", (x, packed), numbers, epilogue, label, origin, own)


def vnni_winograd_call(x: View, packed: View, params: Conv, epilogue: Epilogue, label: str, origin: str = "") -> Call:
    """A 3x3 convolution of stride 1 of bytes by Winograd's F(2x2, 3x3); weights transformed and packed ahead."""
    numbers = Numbers()
    fill = params.cpp(numbers)
    head = f"winograd_words(t, {fill}, {vnni_operand(x)}, p1, epi, scratch);"
    micro = "int32_t, Pair, int32_t"
    engine = Instances("quant.hpp", (f"void run_micro<{micro}>(int, int, const Micro<{micro}>&)",), stops=True)
    scratch, header = f"winograd_words_scratch({fill})", "winograd_words.hpp"
    return contract(head, scratch, header, (x, packed), numbers, epilogue, label, origin, (engine,), coarse=True)


def int4_gemm_call(
    a: View, packed: tuple[View, ...], sizes: tuple[int, int, int, int, int], epilogue: Epilogue, fast: bool,
    origin: str = "",
) -> Call:  # fmt: skip
    """Rows of `a` times weights of 4 bits: codes, scales and perhaps zeros.

    `sizes`: m, n, k, elements between rows, block.
    """
    zeros = "p3" if len(packed) == 3 else "nullptr"
    numbers, views = Numbers(), (a, *packed)
    fill = Int4Gemm(*sizes).cpp(numbers)
    head = f"int4_gemm(t, {fill}, p0, p1, p2, {zeros}, epi, scratch, {numbers.one(fast)});"
    whole = engine(a, a)  # for many rows the weights become floats, panel by panel
    scratch = f"int4_scratch({fill['k']})"
    return contract(head, scratch, "int4.hpp", views, numbers, epilogue, "dot_int4", origin, (whole,))

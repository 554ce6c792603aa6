"""Dots and convolutions with their epilogues: shells round gemm.hpp, conv.hpp and depthwise.hpp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.scalar import Cost
from migraphx.targets.common.body import Scope, pointwise_body
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.views import View, loops
from migraphx.targets.cpu.emit.body import CPP, load_text, pointers, store_text
from migraphx.targets.cpu.emit.kernel import Instances, Kernel
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES, STORAGE_TYPES, cpp_type
from migraphx.targets.cpu.emit.structs import BatchedDot, Conv, Depthwise, Gemm, Planar, Pool, Resize

SHORT = 4  # operators, most of an epilogue whose code is written once for every register of a tile
TAPS = ("tap_pointers", "run_pointers")  # of conv.hpp
SIMPLE = frozenset({Cost.ARITHMETIC, Cost.DIVISION})  # an instruction a word


def is_short(epilogue: Epilogue) -> bool:
    """Whether an epilogue's code may be written once for every register of a tile."""
    operators = epilogue.operators
    simple = all(isinstance(op, Pointwise) and op.costs <= SIMPLE for op in operators)
    return simple and len(operators) <= SHORT


def accumulator(type: str) -> str:
    """The C++ type in which products of this type are summed: integers wrap, and wide enough ones wrap alike."""
    if type in dtypes.INTEGERS:
        return type + "_t" if type in ("uint32", "int64", "uint64") else "int32_t"
    return "double" if type == "double" else "float"


@dataclass
class _Constants:
    """Numbers of a call, each in a variable of its own: stores might change `a` for all a compiler knows."""

    numbers: Numbers
    lines: list[str] = field(default_factory=list)

    def bind(self, value: int) -> str:
        name = f"e{len(self.numbers)}"
        self.lines.append(f"const int64_t {name} = {self.numbers.one(value)};")
        return name


def epilogue_lines(epilogue: Epilogue, first: int, numbers: Numbers) -> list[str]:
    """The C++ that defines `epi`; what it reads is added to `numbers`.

    Its views are pointers p<first>, p<first + 1>, ...; the last one is written.
    """
    constants = _Constants(numbers)
    setup: list[str] = []
    scope = Scope(CPP)
    acc_type = cpp_type(COMPUTE_TYPES, epilogue.write.type)
    names: list[str] = []
    k = first
    for position, view in enumerate(epilogue.reads):
        if view is None:
            names.append(_sum_text(epilogue, position))
            continue
        step, at = _place(view, epilogue, k, constants, setup)
        names.append(scope.bind(load_text(k, view.strides[epilogue.col_dim], step, at, "col")))
        k += 1
    value = "acc"
    if epilogue.module is not None:
        value = pointwise_body(epilogue.module, dict(zip(epilogue.module.parameters, names, strict=True)), scope)
    else:
        value = scope.bind(f"mgx::cast<{acc_type}>(acc)")
    step, at = _place(epilogue.write, epilogue, k, constants, setup)
    scope.lines.append(store_text(k, epilogue.write.strides[epilogue.col_dim], step, at, "col", value))
    kind = "ShortEpilogue" if is_short(epilogue) else "Epilogue"
    return [  # inlined always: g++ 12 misaligns the stack of a function that takes vectors of doubles
        *constants.lines,
        f"const auto epi = {kind}{{[=](int64_t row, int64_t col, auto acc, auto n) __attribute__((always_inline)) {{",
        *(f"    {line}" for line in (*setup, *scope.lines)),
        "}};",
    ]


def _sum_text(epilogue: Epilogue, position: int) -> str:
    """The sums as the body's parameter at `position` takes them: narrow integers are summed in wider ones."""
    if epilogue.module is None:
        return "acc"
    type = [*epilogue.module.parameters.values()][position].shape.type
    own = cpp_type(COMPUTE_TYPES, type)
    return "acc" if own == accumulator(type) else f"mgx::cast<{own}>(acc)"


def _place(view: View, epilogue: Epilogue, k: int, constants: _Constants, setup: list[str]) -> tuple[str, str]:
    """The texts of a view's step along the columns, where that is neither 0 nor 1, and of its offset at `row`."""
    step = view.strides[epilogue.col_dim]
    step_text = "" if step in (0, 1) else constants.bind(step)
    nest = loops([view], None, epilogue.row_dims)
    (strides,) = nest.strides
    if not any(strides):
        one_row = any(view.strides[d] for d in epilogue.row_dims)  # of as many as there are: the text of more of them
        return step_text, f"row * {constants.bind(0)}" if one_row else "0"
    if nest.rank == 1:
        return step_text, f"row * {constants.bind(strides[0])}"
    setup.append(f"int64_t q{k} = row, r{k} = 0;")
    for d in reversed(range(1, nest.rank)):
        n = constants.bind(nest.lens[d])
        setup.append(f"r{k} += q{k} % {n} * {constants.bind(strides[d])}; q{k} /= {n};")
    setup.append(f"r{k} += q{k} * {constants.bind(strides[0])};")
    return step_text, f"r{k}"


def contract(
    head: str,
    scratch: str,
    header: str,
    operands: Sequence[View],
    numbers: Numbers,
    epilogue: Epilogue,
    label: str,
    origin: str,
    instances: tuple[Instances, ...] = (),
    coarse: bool = False,
) -> Call:
    """A call of `head(t, ..., p0, p1, epi, scratch)`, which reads `numbers` and those of the epilogue."""
    views = (*operands, *epilogue.views, epilogue.write)
    lines = epilogue_lines(epilogue, len(operands), numbers)
    label = " ".join((label, *(op.name for op in epilogue.operators)))
    body = "\n    ".join([*pointers(views), *lines, head])
    text = (
        f"// {label}\nvoid $name(const Team& t, char* const* p, const int64_t* a, char* scratch) {{\n    {body}\n}}\n"
        f"int64_t ${{name}}_scratch(const int64_t* a) {{ return {scratch}; }}\n"
    )
    headers = (header, "access.hpp", "math.hpp")
    kernel = Kernel(text, headers, scratch=True, instances=instances, heavy=True, coarse=coarse)
    return Call(kernel, views[:-1], (epilogue.write,), numbers.values, label, origin)


@dataclass(frozen=True)
class Engine:
    """How gemm.hpp goes about a product: `fast` allows AMX; `block` rows are taken together, 0: its own number."""

    fast: bool
    block: int = 0

    def cpp(self, numbers: Numbers) -> str:
        """The last arguments of a call."""
        fast = numbers.one(self.fast)
        return f"{fast}, {numbers.one(self.block)}" if self.block else fast


def _types(a: View, b: View) -> str:
    return f"{accumulator(a.type)}, {STORAGE_TYPES[a.type]}, {STORAGE_TYPES[b.type]}"


def engine(a: View, b: View) -> Instances:
    """The engine for products of these types: most of a program's code, and the same in all."""
    types, type = _types(a, b), STORAGE_TYPES[a.type]
    team = f"void run_engine<{types}>(const Team&, const Engine<{types}>&, char*)"
    grid = f"void run_grid<{types}>(const Grid&, const Engine<{types}>&, char*)"
    micro = f"void run_micro<{types}>(int, int, const Micro<{types}>&)"
    rows = f"void row_pointers<{type}>(const void*, int64_t, const Tiles&, const {type}**)"
    return Instances("gemm.hpp", (team, grid, micro, rows), stops=True)


def taps(type: str, header: str = "conv.hpp") -> Instances:
    """How the engine finds what a convolution reads: elements of this C++ type."""
    finders = (f"void {name}<{type}>(const void*, int64_t, const Tiles&, const {type}**)" for name in TAPS)
    return Instances(header, tuple(finders))


def gemm_call(
    a: View, packed: View, sizes: tuple[int, int, int, int], epilogue: Epilogue, how: Engine, origin: str = ""
) -> Call:
    """Rows of `a` times weights packed ahead; sizes: m, n, k, elements between rows."""
    numbers = Numbers()
    fill = Gemm(*sizes).cpp(numbers)
    head = f"gemm<{accumulator(a.type)}>(t, {fill}, p0, p1, epi, scratch, {how.cpp(numbers)});"
    own = (engine(a, packed),)
    return contract(head, "GEMM_SCRATCH", "gemm.hpp", (a, packed), numbers, epilogue, "dot", origin, own)


def dot_call(a: View, b: View, epilogue: Epilogue, origin: str = "") -> Call:
    """Batches of a {.., M, K} times b {.., K, N}, both as they lie; their batch dimensions merge to four at most."""
    nest = loops([a, b], None, range(len(a.lens) - 2))
    numbers, pad = Numbers(), 4 - nest.rank
    of_a, of_b = ((0,) * pad + s for s in nest.strides)
    fill = BatchedDot(
        a.lens[-2], b.lens[-1], a.lens[-1], (1,) * pad + nest.lens,
        of_a, a.strides[-2], a.strides[-1], of_b, b.strides[-2], b.strides[-1],
    ).cpp(numbers)  # fmt: skip
    head = f"batched_dot<{accumulator(a.type)}>(t, {fill}, p0, p1, epi, scratch);"
    scratch = f"dot_scratch({fill}, {a.itemsize}, {b.itemsize})"
    types, of_a, of_b = _types(a, b), STORAGE_TYPES[a.type], STORAGE_TYPES[b.type]
    one = f"const BatchedDot&, const Grid&, const {of_a}*, const {of_b}*, Engine<{types}>, char*"
    products = engine(a, b)
    own = products, Instances("gemm.hpp", (f"void dot_one<{types}>({one})",), calls=products.functions)
    return contract(head, scratch, "gemm.hpp", (a, b), numbers, epilogue, "dot", origin, own)


def conv_call(x: View, packed: View, params: Conv, epilogue: Epilogue, how: Engine, origin: str = "") -> Call:
    """`x` {N, C, spatial...} in channels-last memory; weights packed ahead."""
    numbers = Numbers()
    fill = params.cpp(numbers)
    head = f"conv<{accumulator(x.type)}>(t, {fill}, p0, p1, epi, scratch, {how.cpp(numbers)});"
    scratch = f"conv_scratch({fill}, {x.itemsize})"
    own = engine(x, packed), taps(STORAGE_TYPES[x.type])
    return contract(head, scratch, "conv.hpp", (x, packed), numbers, epilogue, "convolution", origin, own)


def conv_of(x: View, window: Window, group: int, epilogue: Epilogue, each: int = 1) -> Conv:
    """The parameters of a convolution of `x`, of which `each` channels are one element to the kernel."""
    n, c, *_ = x.lens
    return Conv(n, c // each, epilogue.write.lens[1], group, x.strides[-1] // each, *astuple(window))


def planar_call(
    x: View, packed: View, params: Planar, shape: tuple[int, int, int, int], epilogue: Epilogue, origin: str = ""
) -> Call:
    """A convolution of `x` {N, C, H, W} in planes; `shape`: K, S, FEW and MANY of planar.hpp."""
    numbers, of = Numbers(), ", ".join(map(str, shape))
    fill = params.cpp(numbers)
    head, scratch = f"planar<{of}>(t, {fill}, p0, p1, epi, scratch);", f"planar_scratch<{of}>({fill})"
    return contract(head, scratch, "planar.hpp", (x, packed), numbers, epilogue, "convolution", origin)


def winograd_call(
    x: View, packed: View, params: Conv, epilogue: Epilogue, origin: str = "", taps: bool = False
) -> Call:
    """A 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3); packed weights are `taps` or transformed ones."""
    numbers, name = Numbers(), "winograd_of_taps" if taps else "winograd"
    fill = params.cpp(numbers)
    head = f"{name}(t, {fill}, p0, p1, epi, scratch);"
    scratch, views = f"{name}_scratch({fill})", (x, packed)
    label, own = "convolution", (engine(*views),)
    return contract(head, scratch, "winograd.hpp", views, numbers, epilogue, label, origin, own, coarse=True)


def depthwise_call(x: View, weights: View, window: Window, epilogue: Epilogue, whole: bool, origin: str = "") -> Call:
    """A convolution of each group's channels with its own filters; `weights` {spatial..., group's channels, C}.

    `whole`: C fills registers.
    """
    numbers, (n, channels, *_), (width, c) = Numbers(), x.lens, weights.lens[-2:]
    params = Depthwise(n, c, x.strides[-1], *astuple(window))
    of = ", ".join(map(str, (*params.special, width, int(params.planes), c // channels, int(whole))))
    head = f"depthwise<{of}>(t, {params.cpp(numbers)}, p0, p1, epi);"
    label = "grouped convolution" if width > 1 else "depthwise"
    return contract(head, "0", "depthwise.hpp", (x, weights), numbers, epilogue, label, origin)


@dataclass(frozen=True)
class Convolution:
    """What a call of conv.hpp or planar.hpp was made of, for one together with the depthwise convolution behind it."""

    call: Call
    x: View
    packed: View
    params: Conv | Planar
    epilogue: Epilogue
    how: Engine = Engine(False)
    shape: tuple[int, ...] = ()  # of planar.hpp

    @property
    def depth(self) -> int:
        """Multiply-adds that make an element."""
        return prod(self.packed.lens[1 if self.shape else 2 : -1])

    def cpp(self, numbers: Numbers) -> str:
        """What banded.hpp is told of it."""
        fill = str(self.params.cpp(numbers))
        return f"Pictures<{', '.join(map(str, self.shape))}>{{{fill}}}" if self.shape else fill


@dataclass(frozen=True)
class Bands:
    """What a call of banded.hpp was made of, for one together with the 1x1 convolution behind it.

    `whole`: channels of the depthwise one fill registers; `flops`: those of all but the last convolution.
    """

    before: Convolution
    weights: View
    window: Window
    epilogue: Epilogue
    whole: bool
    flops: int
    call: Call | None = None


def banded_call(bands: Bands, origin: str, last: Convolution | None = None) -> Call:
    """A convolution, the depthwise one behind it, and the 1x1 one behind that, as banded.hpp has them.

    The pointers that all epilogues but the last one write to are parameters, of the numbers that the next views have
    outside.
    """
    numbers, before, first = Numbers(), bands.before, bands.before.epilogue
    n, c, *_ = first.write.lens
    params = Depthwise(n, c, c, *astuple(bands.window))
    fills = [before.cpp(numbers), str(params.cpp(numbers)), *([last.cpp(numbers)] if last else [])]
    views, lines, args = [before.x, before.packed], list[str](), ["p0", "p1"]
    stages = [("first", first, bands.weights), *([("second", bands.epilogue, last.packed)] if last else [])]
    for name, epilogue, weights in stages:
        to = len(views) + len(epilogue.views)
        inner = (f"    {line}" for line in epilogue_lines(epilogue, len(views), numbers))
        lines += [f"const auto {name} = [&](float* const p{to}) {{", *inner, "    return epi;", "};"]
        views += [*epilogue.views, weights]
        args += [name, f"p{to}"]
    fill, kernel = ", ".join(fills), ", ".join(map(str, (*params.special, int(bands.whole))))
    lines.append(f"banded<{kernel}>(t, {fill}, {', '.join(args)}, epi, scratch, {before.how.cpp(numbers)});")
    label = f"{before.call.label}, depthwise" if bands.call is None else f"{bands.call.label}, convolution"
    epilogue = last.epilogue if last else bands.epilogue
    own = (engine(before.x, before.packed), taps("float")) if last or not before.shape else ()
    text, scratch = "\n    ".join(lines), f"banded_scratch({fill})"
    call = contract(text, scratch, "banded.hpp", views, numbers, epilogue, label, origin, own, coarse=True)
    return replace(call, also=bands.flops)


def pool_call(
    kind: str, x: View, window: Window, behind: Sequence[int], count_pad: bool, order: int, epilogue: Epilogue,
    origin: str = "",
) -> Call:  # fmt: skip
    """Pooling of `x` {N, C, spatial...} with contiguous channels; `kind` is a struct of pooling.hpp.

    `behind`: padding behind each spatial axis; `count_pad`: whether padding counts; `order` of a norm.
    """
    numbers, (n, c, *_) = Numbers(), x.lens
    lead = (0,) * (3 - len(behind))
    steps, pad_end = (*lead, *x.strides[2:]), (*lead, *behind)
    sizes = (n, c, x.strides[0], steps, *astuple(window))
    fill = Pool(*sizes, pad_end=pad_end, divisor=0, count_pad=count_pad, p=order).cpp(numbers)
    head = f"pool<{kind}>(t, {fill}, p0, epi);"
    return contract(head, "0", "pooling.hpp", (x,), numbers, epilogue, "pooling", origin)


def resize_call(
    x: View, indices: Sequence[np.ndarray], weights: Sequence[View], epilogue: Epilogue, origin: str = ""
) -> Call:
    """Both axes of `x` {N, C, H, W} with contiguous channels; indices and weights {out, taps} of H, then of W."""
    numbers, (n, c, *_) = Numbers(), x.lens
    _, _, out_h, out_w = epilogue.write.lens
    fill = Resize(n, c, out_h, out_w, x.strides[0], *x.strides[2:]).cpp(numbers)
    rows, columns = (numbers.tail(i.ravel()) for i in indices)
    head = f"resize<{indices[0].shape[1]}>(t, {fill}, p0, {{{rows}, p1}}, {{{columns}, p2}}, epi);"
    return contract(head, "0", "resize.hpp", (x, *weights), numbers, epilogue, "resize", origin)


def resize_planes_call(
    x: View, indices: Sequence[np.ndarray], weights: Sequence[View], epilogue: Epilogue, origin: str = ""
) -> Call:
    """As `resize_call`, of row-major `x`: columns are side by side."""
    numbers, (n, c, h, w), taps = Numbers(), x.lens, indices[0].shape[1]
    _, _, out_h, out_w = epilogue.write.lens
    fill = Resize(n * c, 1, out_h, out_w, h * w, w, 1).cpp(numbers)
    rows, columns = (numbers.tail(i.ravel()) for i in indices)
    head = f"resize_planes<{taps}>(t, {fill}, p0, {{{rows}, p1}}, {{{columns}, p2}}, epi, scratch);"
    scratch = f"planes_scratch<{taps}>({fill})"
    return contract(head, scratch, "resize.hpp", (x, *weights), numbers, epilogue, "resize", origin)

"""Products and convolutions that a library may compute: candidates beside our own kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.ir.size import divides, hint_of, is_open
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View, loops
from migraphx.targets.gpu.choices import DNN, LIBRARY, NOTHING, Choices, Config, Offer, Problem
from migraphx.targets.gpu.costs.convolutions import library_conv_cost
from migraphx.targets.gpu.emit.contract import Operands
from migraphx.targets.gpu.emit.spatial import Conv
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.libraries.blas import SCALED, Gemm, fits
from migraphx.targets.gpu.libraries.dnn import ALIGNED, TYPES, WANTED, ConvGraph, Plans
from migraphx.targets.gpu.library import Library, LibraryCall, at, is_open_library

LEAST_ROWS, LEAST_FLOPS = 64, 5e8  # below, our kernels are as quick, and fused

Build = Callable[[Config], list[GpuCall | LibraryCall]]


@dataclass(frozen=True)
class Fused:
    """An epilogue that the library computes: a bias {N}, a matrix that is added, ReLU."""

    bias: View | None = None
    residual: View | None = None
    relu: bool = False

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(v for v in (self.bias, self.residual) if v is not None)

    @property
    def kind(self) -> str:
        return " ".join([*(["bias"] if self.bias else []), *(["relu"] if self.relu else [])])


def library_products(
    ctx: LoweringContext, o: Operands, epilogue: Epilogue, algorithms: Callable[[Gemm], list[Gemm]] | None, label: str,
    origin: str,
) -> tuple[list[Config], Build, bool]:  # fmt: skip
    """Candidates, what builds the calls of one, and whether the library computes the epilogue too."""
    scaled = scaled_sums(epilogue) if o.a.type == SCALED and not o.batch and not is_open(o.m) else None
    if scaled is not None:
        epilogue = scaled.rest
    type = o.a.type if scaled is None else scaled.type
    fused = fused_epilogue(epilogue, type)
    lost = fused is None and epilogue.module is None  # a result of another type, and nothing that converts it
    gemm = None if algorithms is None or lost or type == SCALED else _gemm(o, epilogue, fused, type)
    if algorithms is None or gemm is None:
        return [], lambda config: [], False
    found = algorithms(at(gemm, hint_of))
    if found and is_open_library(gemm):  # which is asked again at each length
        found = [replace(gemm, version=found[0].version)]

    def build(config: Config) -> list[GpuCall | LibraryCall]:
        chosen = found[config.group]
        operands = (o.a, o.b) if scaled is None else (o.a, o.b, scaled.factors, _ones(ctx, o.m))
        if fused is not None:
            reads = (*operands, *fused.views)
            return [_call(chosen, reads, (epilogue.write,), f"cublasLt {label}", origin)]
        assert epilogue.module is not None
        made = ctx.temporary(_by_rows(epilogue, type))
        product = _call(chosen, operands, (made,), "cublasLt product", origin)
        reads = [made if v is None else v for v in epilogue.reads]
        return [product, ctx.emit.pointwise(epilogue.module, reads, epilogue.write, origin)]

    return [Config(LIBRARY, 0, 0, 0, group=n) for n in range(len(found))], build, fused is not None


@dataclass(frozen=True)
class Scaled:
    """The sums, times a float of `factors` {N} each, as `type`; and what follows."""

    factors: View
    type: str
    rest: Epilogue


def scaled_sums(epilogue: Epilogue) -> Scaled | None:
    """The epilogue behind a scale a column and the conversion to half or bf16 that it begins with; None where none."""
    if epilogue.module is None:
        return None
    parameters = [*epilogue.module.parameters.values()]
    reads = dict(zip(parameters, epilogue.reads, strict=True))
    (sums,) = (p for p, view in reads.items() if view is None)
    product = _only_user(sums, "mul")
    narrow = product and _only_user(product, "convert")
    if product is None or narrow is None or narrow.shape.type not in ("half", "bf16"):
        return None
    factor = next((i for i in product.inputs if i is not sums), None)
    view = reads.get(factor) if factor is not None else None
    if factor is None or view is None or len(factor.users) > 1 or not _is_bias(view, epilogue):
        return None
    n, col = view.lens[epilogue.col_dim], epilogue.col_dim
    factors = View(view.buffer, view.type, (n,), (view.strides[col],), view.offset, view.moves)
    kept = {p: v for p, v in reads.items() if p not in (sums, factor)}
    rest = Module(epilogue.module.name)
    first = rest.add_parameter("sums", Shape(narrow.shape.type, sums.shape.lens, sums.shape.strides))
    env = {narrow: first} | {
        p: rest.add_parameter(name, p.shape) for name, p in epilogue.module.parameters.items() if p in kept
    }
    for ins in epilogue.module:
        if ins not in env and ins not in (sums, factor, product):
            env[ins] = rest.append(Instruction(ins.op, [env[i] for i in ins.inputs], ins.shape, (), ins.origin))
    plain = rest.outputs == (first,)
    return Scaled(
        factors, narrow.shape.type, replace(epilogue, module=None if plain else rest, reads=(None, *kept.values()))
    )


def _only_user(ins: Instruction, name: str) -> Instruction | None:
    """What alone reads a value, where it is called so."""
    users = [*ins.users]
    return users[0] if len(users) == 1 and users[0].name == name else None


def _ones(ctx: LoweringContext, rows: int) -> View:
    return ctx.packed(("ones", rows), lambda: np.ones(rows, np.float32))


def _by_rows(epilogue: Epilogue, type: str) -> Shape:
    """What the epilogue reads, as the product writes it: rows in order, the columns of each one after another."""
    lens = epilogue.write.lens
    strides, step = [0] * len(lens), 1
    for d in (epilogue.col_dim, *reversed(epilogue.row_dims)):
        strides[d], step = step, step * lens[d]
    return Shape(type, lens, tuple(strides))


def _call(library: Library, reads: tuple[View, ...], writes: tuple[View, ...], label: str, origin: str) -> LibraryCall:
    return Call(library, reads, writes, (), label, origin)


def fused_epilogue(epilogue: Epilogue, type: str) -> Fused | None:
    """The epilogue as the library computes it; None where it has none that is just ours."""
    names = [op.name for op in epilogue.operators]
    if epilogue.module is None:
        return Fused() if epilogue.write.type == type else None
    plain = all(i.shape.type == type for i in epilogue.module if not i.name.startswith("@return"))
    literals = any(i.name == "@literal" for i in epilogue.module)
    if not plain or literals:
        return None
    relu = names[-1:] == ["relu"]
    adds = names[: len(names) - relu]
    if set(adds) - {"add"} or len(epilogue.views) != len(adds):
        return None  # else the sum of all that is read
    bias = [v for v in epilogue.views if _is_bias(v, epilogue)]
    residual = [v for v in epilogue.views if _is_matrix(v, epilogue)]
    if len(bias) > 1 or len(residual) > 1 or len(bias) + len(residual) < len(adds):
        return None
    return Fused(bias[0] if bias else None, residual[0] if residual else None, relu)


def _is_bias(view: View, epilogue: Epilogue) -> bool:
    rows = any(view.strides[d] for d in epilogue.row_dims if view.lens[d] > 1)
    return not rows and view.strides[epilogue.col_dim] == 1 and divides(16, view.byte_offset) and not view.moves


def _is_matrix(view: View, epilogue: Epilogue) -> bool:
    """Whether it is laid out so that the library can add it: rows at one distance, elements of a row in turn."""
    steps = loops([view], None, epilogue.row_dims).strides[0]
    whole = all(view.strides[d] for d in epilogue.row_dims if view.lens[d] > 1)
    aligned = divides(16, view.byte_offset) and not view.moves
    return whole and aligned and view.strides[epilogue.col_dim] == 1 and len(steps) <= 2


def _gemm(o: Operands, epilogue: Epilogue, fused: Fused | None, type: str) -> Gemm | None:
    """The product without an algorithm; None where the library cannot take it, or is not worth asking."""
    batches, m, n, k = map(hint_of, (o.batches, o.m, o.n, o.k))
    worth = m >= LEAST_ROWS and 2.0 * batches * m * n * k >= LEAST_FLOPS
    if not worth or len(o.batch) > 1:
        return None
    added: tuple[int, ...] | None = ()
    if fused is None:
        c, result = View(epilogue.write.buffer, type, (o.m, o.n), (o.n, 1)), (o.n, o.m * o.n)
    else:
        write = epilogue.write
        found = _matrix_steps(o, write, epilogue)
        added = () if fused.residual is None else _matrix_steps(o, fused.residual, epilogue)
        if found is None or added is None or (added and not divides(16, added[0] * write.itemsize)):
            return None
        result = found
        strides = (result[0], write.strides[epilogue.col_dim])
        c = View(write.buffer, write.type, (o.m, o.n), strides, write.offset, write.moves)
    a, b = o.a, o.b
    if not fits(a, b, c):
        return None
    (a_m, a_k), (b_k, b_n) = a.strides[-2:], b.strides[-2:]
    a_batch, b_batch = (o.a_batch[0], o.b_batch[0]) if o.batch else (0, 0)
    sizes = (o.batches, o.m, o.n, o.k)
    kind = fused.kind if fused else ""
    outer = "" if type == a.type else type
    return Gemm(a.type, sizes, (a_m, a_k, a_batch), (b_k, b_n, b_batch), result, kind, added, result=outer)


def _matrix_steps(o: Operands, view: View, epilogue: Epilogue) -> tuple[int, int] | None:
    """Elements between rows and between matrices of the batch; None where they are not so."""
    nest = loops([view], None, epilogue.row_dims)
    (steps,) = nest.strides
    if nest.rank > 2 or (nest.rank == 2 and nest.lens != (o.batches, o.m)):
        return None
    return steps[-1], steps[0] if nest.rank == 2 else steps[0] * o.m


# ---- convolutions ---------------------------------------------------------------------------------------------------


def library_convolutions(
    ctx: LoweringContext, conv: Conv, epilogue: Epilogue, choices: Choices, problem: Problem, label: str, origin: str
) -> Offer:
    """What cuDNN has for a convolution, with its epilogue where that is just the library's."""
    flops = 2.0 * conv.group * conv.rows * conv.columns * conv.taps * conv.channels
    if choices.plans is None or not choices.asks_library(problem, flops, DNN):
        return NOTHING
    known, whole = choices.known(problem), fused_epilogue(epilogue, conv.x.type)
    most = WANTED if choices.measure else known.group + 1 if known else 1
    fused, found = whole, _planned(choices.plans, conv_graph(conv, epilogue, whole), most)
    if whole is not None and not found and epilogue.module is not None:  # as into a part of a concatenation
        fused, found = None, _planned(choices.plans, conv_graph(conv, epilogue, None), most)
    if fused is None and epilogue.module is None:
        return NOTHING

    def build(config: Config) -> list[GpuCall | LibraryCall]:
        chosen = found[config.group]
        workspace = ctx.temporary(Shape("uint8", (max(1, chosen.workspace),)))
        reads = (conv.x, conv.tight() if conv.tight else conv.w)
        if fused is not None:
            return [_call(chosen, (*reads, *fused.views), (workspace, epilogue.write), f"cudnn {label}", origin)]
        assert epilogue.module is not None
        made = ctx.temporary(_by_rows(epilogue, conv.x.type))
        sums = _call(chosen, reads, (workspace, made), "cudnn convolution", origin)
        more = [made if v is None else v for v in epilogue.reads]
        return [sums, ctx.emit.pointwise(epilogue.module, more, epilogue.write, origin)]

    result = epilogue.write.itemsize + sum(v.itemsize for v in epilogue.views if v.strides[epilogue.col_dim])
    configs = [Config(DNN, 0, 0, 0, group=n) for n in range(len(found))]
    return Offer(configs, build, library_conv_cost(conv, choices.facts, result, fused is not None))


def _planned(plans: Plans, graph: ConvGraph | None, most: int) -> list[ConvGraph]:
    return plans(graph, most) if graph is not None else []


def conv_graph(conv: Conv, epilogue: Epilogue, fused: Fused | None) -> ConvGraph | None:
    """The convolution as cuDNN takes it, without a plan; None where it does not: results must begin on whole lines."""
    x, window, axes = conv.x, conv.window, max(2, len(conv.x.lens) - 2)
    if fused is None:
        strides = _by_rows(epilogue, x.type).strides
        y, residual = replace(epilogue.write, type=x.type, strides=strides, offset=0, moves=()), None
    else:
        y, residual = epilogue.write, fused.residual
    images = [_images(v, axes) for v in (x, y, *([residual] if residual else []))]
    lines = [conv.columns * x.itemsize]
    lines += [s * x.itemsize for _, strides in images[1:] for d, s in enumerate(strides) if d != 1]
    plain = x.type == conv.w.type == y.type and x.type in TYPES and epilogue.col_dim == 1
    apart = all(strides[1] == 1 and min(strides) > 0 for _, strides in images)
    begin = all(v.byte_offset % ALIGNED == 0 and not v.moves for v in (x, conv.w, y))
    if not (plain and apart and begin) or min(window.pad) < 0 or any(n % ALIGNED for n in lines):
        return None
    kernel, stride, dilation, before = (n[-axes:] for n in (window.kernel, window.stride, window.dilation, window.pad))
    size, out = window.size[-axes:], window.out[-axes:]
    ends = ((o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(out, stride, dilation, kernel, strict=True))
    after = tuple(max(0, e - n - b) for e, n, b in zip(ends, size, before, strict=True))
    steps = [conv.channels if conv.tight else conv.w.strides[1]]
    for k in kernel[:0:-1]:
        steps.insert(0, steps[0] * k)
    row = conv.taps * conv.channels if conv.tight else conv.w.strides[0]
    w_lens, w_strides = (conv.w.lens[0], conv.channels, *kernel), (row, 1, *steps)
    biased, relu = fused is not None and fused.bias is not None, fused is not None and fused.relu
    return ConvGraph(
        x.type, *images[0], w_lens, w_strides, *images[1], stride, dilation, before, after, biased,
        images[2][1] if residual else (), relu,
    )  # fmt: skip


def _images(view: View, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lens and strides of channels-last images with so many axes; what has length 1 has the stride of packed ones."""
    lead = axes + 2 - len(view.lens)
    lens = (*view.lens[:2], *(1,) * lead, *view.lens[2:])
    strides, packed = [*view.strides[:2], *(0,) * lead, *view.strides[2:]], 1
    for d in (1, *range(axes + 1, 1, -1), 0):
        strides[d] = packed if lens[d] == 1 else strides[d]
        packed = strides[d] * lens[d]
    return lens, tuple(strides)

"""Products that a library may compute: candidates beside our own kernels."""

from __future__ import annotations

from collections.abc import Callable

from migraphx.ir.shape import Shape
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View, loops
from migraphx.targets.gpu.choices import LIBRARY, Config
from migraphx.targets.gpu.emit.contract import Operands
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.libraries.blas import WORKSPACE, Gemm, fits
from migraphx.targets.gpu.library import Library, LibraryCall

LEAST_ROWS, LEAST_FLOPS = 64, 5e8  # below, our kernels are as quick, and fused

Build = Callable[[Config], list[GpuCall | LibraryCall]]


def library_products(
    ctx: LoweringContext, o: Operands, epilogue: Epilogue, algorithms: Callable[[Gemm], list[Gemm]] | None, label: str,
    origin: str,
) -> tuple[list[Config], Build, bool]:  # fmt: skip
    """Candidates, what builds the calls of one, and whether the library computes the epilogue too."""
    kind = fused_kind(epilogue, o.a.type)
    gemm = None if algorithms is None else _gemm(o, epilogue, kind)
    if algorithms is None or gemm is None:
        return [], lambda config: [], False
    found = algorithms(gemm)

    def build(config: Config) -> list[GpuCall | LibraryCall]:
        workspace = ctx.temporary(Shape("uint8", (WORKSPACE,)))
        chosen = found[config.group]
        if kind is not None:
            reads = (o.a, o.b, *epilogue.views)
            return [_call(chosen, reads, (workspace, epilogue.write), f"cublasLt {label}", origin)]
        assert epilogue.module is not None
        made = ctx.temporary(Shape(o.a.type, epilogue.write.lens))
        product = _call(chosen, (o.a, o.b), (workspace, made), "cublasLt product", origin)
        reads = [made if v is None else v for v in epilogue.reads]
        return [product, ctx.emit.pointwise(epilogue.module, reads, epilogue.write, origin)]

    return [Config(LIBRARY, 0, 0, 0, group=n) for n in range(len(found))], build, kind is not None


def _call(library: Library, reads: tuple[View, ...], writes: tuple[View, ...], label: str, origin: str) -> LibraryCall:
    return Call(library, reads, writes, (), label, origin)


def fused_kind(epilogue: Epilogue, type: str) -> str | None:
    """What the library calls the epilogue; None where it has none that is just ours."""
    names = [op.name for op in epilogue.operators]
    if epilogue.module is None:
        return "" if epilogue.write.type == type else None
    plain = all(i.shape.type == type for i in epilogue.module if not i.name.startswith("@return"))
    literals = any(i.name == "@literal" for i in epilogue.module)
    if not plain or literals:
        return None
    if names == ["relu"]:
        return "relu"
    if names in (["add"], ["add", "relu"]) and len(epilogue.views) == 1:
        (bias,) = epilogue.views
        rows = any(bias.strides[d] for d in epilogue.row_dims if bias.lens[d] > 1)
        if not rows and bias.strides[epilogue.col_dim] == 1 and bias.byte_offset % 16 == 0:
            return "bias" if len(names) == 1 else "bias relu"
    return None


def _gemm(o: Operands, epilogue: Epilogue, kind: str | None) -> Gemm | None:
    """The product without an algorithm; None where the library cannot take it, or is not worth asking."""
    worth = o.m >= LEAST_ROWS and 2.0 * o.batches * o.m * o.n * o.k >= LEAST_FLOPS
    if not worth or len(o.batch) > 1:
        return None
    if kind is None:
        c, result = View(epilogue.write.buffer, o.a.type, (o.m, o.n), (o.n, 1)), (o.n, o.m * o.n)
    else:
        nest = loops([epilogue.write], None, epilogue.row_dims)
        (steps,) = nest.strides
        if nest.rank > 2 or (nest.rank == 2 and nest.lens != (o.batches, o.m)):
            return None
        result = (steps[-1], steps[0] if nest.rank == 2 else steps[0] * o.m)
        write = epilogue.write
        strides = (steps[-1], write.strides[epilogue.col_dim])
        c = View(write.buffer, write.type, (o.m, o.n), strides, write.offset, write.moves)
    a, b = o.a, o.b
    if not fits(a, b, c):
        return None
    (a_m, a_k), (b_k, b_n) = a.strides[-2:], b.strides[-2:]
    a_batch, b_batch = (o.a_batch[0], o.b_batch[0]) if o.batch else (0, 0)
    sizes = (o.batches, o.m, o.n, o.k)
    return Gemm(a.type, sizes, (a_m, a_k, a_batch), (b_k, b_n, b_batch), result, kind or "")

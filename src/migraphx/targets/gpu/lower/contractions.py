"""Matrix products with their epilogues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.origin import joined
from migraphx.ir.refusal import Refuse
from migraphx.ir.shape import Shape
from migraphx.ir.size import hint_of, is_open, note_class
from migraphx.passes.manager import graphs
from migraphx.targets.common.constants import shared_matrix
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.choices import APART, NOTHING, Build, Choices, Config, Offer, Problem
from migraphx.targets.gpu.costs.products import (
    FINISH_GATED,
    apart_cost,
    chained_cost,
    chained_products,
    described_products,
    is_tall,
    library_cost,
    product_cost,
    products,
)
from migraphx.targets.gpu.emit.chained import Link, begins, chained_call, follows
from migraphx.targets.gpu.emit.contract import (
    FP8,
    NOT_COMPUTED,
    Beside,
    Operands,
    label_of,
    product_calls,
    sums_type,
)
from migraphx.targets.gpu.emit.described import describable, described_call, gateable
from migraphx.targets.gpu.emit.emitter import Sums, TritonEmitter
from migraphx.targets.gpu.emit.row_product import constant_columns, row_product_call
from migraphx.targets.gpu.emit.rows import Row
from migraphx.targets.gpu.facts import Facts
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.library import LibraryCall
from migraphx.targets.gpu.lower.library import library_products
from migraphx.targets.gpu.lower.registry import GPU

SMALL = 1 << 20  # elements of a product beside which others may run in one launch
ALIGNED = 16  # elements: rows of packed weights begin at multiples of these
MULTIPLIED = {"half", "bf16", "float", "double"} | dtypes.INTEGERS - dtypes.NARROW_INTEGERS.keys()


def emitter_of(ctx: LoweringContext) -> TritonEmitter:
    """What this target's lowerings know of one another."""
    assert isinstance(ctx.emit, TritonEmitter)
    return ctx.emit


def choices_of(ctx: LoweringContext) -> Choices:
    """The device's facts and what has been measured on it."""
    return emitter_of(ctx).choices


@GPU.of_contraction("dot")
def dot(ctx: LoweringContext, c: Contraction) -> None:
    rank = len(c.write.lens)
    a, constant = ctx.view(c.operands[0]), ctx.constant(c.operands[1])
    matrix = None if constant is None else shared_matrix(constant[0])
    if matrix is None:
        b = ctx.view(c.operands[1])
    else:
        b = packed_weights(ctx, matrix, multiplied(ctx, matrix_type(matrix)))
        b = b.expanded((*a.lens[:-2], *b.lens))
    a, b = (as_multiplied(ctx, v, c.origin) for v in (a, b))
    count = _alike(ctx) if b.buffer.kind == "input" else 1
    lower_product(ctx, a, b, c.epilogue(range(rank - 1), rank - 1), c.anchor.name, c.origin, count=count)


quant_dot = GPU.of_contraction("quant_dot")(dot)


def _alike(ctx: LoweringContext) -> int:
    """How many instructions multiply the same left side by as large a right side: `merge_alike` makes one launch."""
    ins = ctx.instruction
    assert ins is not None
    shapes = [i.shape.lens for i in ins.inputs]
    users = [u for u in ins.inputs[0].users if u.op == ins.op and u.inputs[0] is ins.inputs[0]]
    return sum([i.shape.lens for i in u.inputs] == shapes for u in users)


def lower_product(
    ctx: LoweringContext, a: View, b: View, epilogue: Epilogue, name: str, origin: str,
    offered: Callable[[Problem], Offer] = lambda problem: NOTHING, count: int = 1,
) -> Config | None:  # fmt: skip
    """a {.., M, K} times b {.., K, N}, both of types that kernels multiply, with the best configuration, returned.

    None where another product's kernel computes it, or there is nothing to compute. `offered`: what a library has for
    it beside products. `count`: so many of its kind may run in one launch.
    """
    if not epilogue.write.elements:
        return None
    operands, label = Operands.of(a, b), label_of(name, epilogue)
    choices = choices_of(ctx)
    sizes = (operands.batches, operands.m, operands.n, operands.k)
    batches, m, n, k = map(hint_of, sizes)
    shape = (batches, m, n, k)  # of the lengths at hand, whose configuration is right at all
    for n in sizes:
        note_class(n)
    types = (a.type, b.type, epilogue.write.type, *(() if b.strides[-2] == 1 else ("rows",)))
    problem = Problem("product", shape, types, label)
    result = epilogue.write.itemsize + sum(v.itemsize for v in epilogue.views if v.strides[epilogue.col_dim])

    row = norm_of(ctx, operands)
    beside = gate_of(ctx, operands, epilogue, row is not None)

    def build(config: Config) -> list[GpuCall]:
        if config.kernel == "vector" and config.split == 1 and row is not None:
            whole = row_product_call(operands, row, epilogue, config, label, origin, beside)
            if whole is not None:
                return [whole]
        if config.kernel == "described":
            return [described_call(operands, epilogue, config, choices.facts, label, origin)]
        return product_calls(operands, epilogue, config, parts_of(ctx, operands, config), label, origin)

    flops = 2.0 * prod(shape)
    algorithms = choices.algorithms if choices.algorithms and choices.asks_library(problem, flops) else None
    more, build_library, fused = library_products(ctx, operands, epilogue, algorithms, label, origin)
    count = count if m * shape[2] <= SMALL else 1
    guess = library_cost(shape, a.type, a.itemsize, choices.facts, result, fused)
    offers = Offer(more, build_library, guess * count), offered(problem)

    together = (batches * count, *shape[1:])

    def cost(config: Config) -> float:
        return product_cost(config, together, a.type, a.itemsize, choices.facts, result)

    before = len(ctx.calls)
    candidates = own_products(operands, together, count > 1, choices.facts, epilogue.write.itemsize)
    chosen = choose(ctx, problem, candidates, cost, build, *offers)
    if beside is not None and row is None:
        chosen = or_gated(ctx, problem, operands, epilogue, beside, chosen, origin)
    if into_chain(ctx, operands, epilogue, label, chosen, origin):
        return None
    for call in chosen.build():
        ctx.call(call)
    if len(ctx.calls) == before + 1:
        keep_gate(ctx, a, b, epilogue, row is not None)
        keep_link(ctx, operands, epilogue)
    return chosen.config


def own_products(
    o: Operands, shape: tuple[int, int, int, int], several: bool, facts: Facts, written: int
) -> list[Config]:
    """Candidates for a product of this shape; `several`: of as many products in one launch as its batch counts."""
    candidates = products(shape, o.a.type, o.a.itemsize, facts, o.b.strides[-2] == 1)
    if several:
        candidates = [c for c in candidates if c.tail == 1]
    elif describable(o):
        candidates += described_products(shape, o.a.type, o.a.itemsize, facts, written)
    if is_open((o.batches, o.m, o.n, o.k)):  # how many tiles there are, or parts of the depth
        candidates = [c for c in candidates if c.tail == 1 and (c.split == 1 or not is_open(o.k))]
    return candidates


def parts_of(ctx: LoweringContext, o: Operands, config: Config) -> View | None:
    """Memory for sums of parts of the depth, of all tiles or of the last ones."""
    if config.split > 1:
        return ctx.temporary(Shape(sums_type(o.a.type), (config.split, o.batches * o.m, o.n)))
    if config.tail > 1:
        left = -(-o.m // config.m) * -(-o.n // config.n) - config.whole
        return ctx.temporary(Shape(sums_type(o.a.type), (left, config.tail, config.m, config.n)))
    return None


def keep_gate(ctx: LoweringContext, a: View, b: View, epilogue: Epilogue, of_row: bool) -> None:
    """Remember the last call, a product of a norm's row or of many rows, for who alone reads it: `gate_of`."""
    write = epilogue.write
    alone = write.buffer.kind == "arena" and not write.moves and epilogue.module is None
    if alone and (constant_columns(b) if of_row else b.buffer.kind in NOT_COMPUTED):
        assert ctx.instruction is not None
        emitter_of(ctx).gates[write.buffer] = ctx.instruction, a, b, write, ctx.calls[-1]


def gate_of(ctx: LoweringContext, o: Operands, epilogue: Epilogue, of_row: bool) -> Beside | None:
    """Another product of the same left side that only this epilogue reads, so that one kernel may compute both."""
    for beside in read_alone(ctx, epilogue, emitter_of(ctx).gates):
        a, b = beside.a, beside.b
        same = (a.buffer, a.offset) == (o.a.buffer, o.a.offset) and b.type == o.b.type
        # beside control flow nothing is dropped: the first product would be computed twice
        if same and (of_row or (gateable(o, beside) and len(graphs(ctx.module)) == 1)):
            return beside
    return None


def read_alone(ctx: LoweringContext, epilogue: Epilogue, products: Mapping[Buffer, Sums]) -> Iterator[Beside]:
    """Of these products, by what they write, those that only this epilogue reads."""
    assert ctx.instruction is not None
    for position, view in enumerate(epilogue.reads):
        if view is not None and view.buffer in products:
            made, a, b, write, _ = products[view.buffer]
            once = made in ctx.instruction.inputs and len(made.users) == 1  # here, and not in a branch before
            if once and view == write:
                yield Beside(a, b, position)


def or_gated(
    ctx: LoweringContext, problem: Problem, o: Operands, epilogue: Epilogue, beside: Beside, chosen: Chosen,
    origin: str,
) -> Chosen:  # fmt: skip
    """One kernel for both products where that takes less time than the other one, seen before, and the one `chosen`."""
    facts, type, size, view = choices_of(ctx).facts, o.a.type, o.a.itemsize, epilogue.reads[beside.position]
    batches, m, n, k = problem.shape
    shape = (batches, m, 2 * n, k)
    candidates = [c for c in described_products(shape, type, size, facts, epilogue.write.itemsize) if not is_tall(c)]
    if not candidates:
        return chosen
    assert view is not None
    first = emitter_of(ctx).gates[view.buffer][-1]
    origin = joined((first.origin, origin))
    more = library_cost((batches, m, n, k), type, size, facts, size, True)  # about what the first one takes
    both = Offer([Config(APART, 0, 0, 0)], lambda config: [first, *chosen.build()], more + chosen.cost)

    def build(config: Config) -> list[GpuCall]:
        return [described_call(o, epilogue, config, facts, problem.epilogue, origin, beside)]

    def cost(config: Config) -> float:
        return product_cost(config, shape, type, size, facts, epilogue.write.itemsize // 2, FINISH_GATED)

    gated = choose(ctx, replace(problem, family="gated", shape=shape), candidates, cost, build, both)
    return chosen if gated.config.kernel == APART else gated


def keep_link(ctx: LoweringContext, o: Operands, epilogue: Epilogue) -> None:
    """Remember the last call, a product of many rows that several read, for who multiplies these: `into_chain`."""
    assert ctx.instruction is not None
    several = len(ctx.instruction.users) > 1  # else what is between need not be written, and others do that
    if several and begins(o, epilogue) and len(graphs(ctx.module)) == 1:
        emitter_of(ctx).links[epilogue.write.buffer] = Link(o, epilogue, ctx.calls[-1])


def into_chain(ctx: LoweringContext, o: Operands, epilogue: Epilogue, label: str, chosen: Chosen, origin: str) -> bool:
    """Let the kernel of the product that made the rows compute this one too, where both take longer apart."""
    link = emitter_of(ctx).links.get(o.a.buffer)
    if link is None or not follows(link, o, epilogue):
        return False
    at = next((k for k, call in enumerate(ctx.calls) if call is link.call), None)  # another may stand there by now
    if at is None:
        return False
    since = ctx.calls[at + 1 :]  # among which weights may be computed
    late = any(v.buffer in {o.b.buffer, *(e.buffer for e in epilogue.views)} for call in since for v in call.writes)
    if late and any(v.buffer is o.a.buffer for call in since for v in call.views):
        return False
    facts, one, size = choices_of(ctx).facts, link.operands, o.a.itemsize
    shape = (one.m, one.n, one.k, o.n)
    candidates = chained_products(shape, size, facts)
    if not candidates:
        return False
    label, origin = f"{link.call.label} {label}", joined((link.call.origin, origin))
    apart = apart_cost(shape, size, facts, size * link.passes)
    both = Offer([Config(APART, 0, 0, 0)], lambda config: [link.call, *chosen.build()], apart)

    other = one if late else o  # whose place the kernel does not take

    def build(config: Config) -> list[GpuCall]:
        return [chained_call(link, o, epilogue, config, label, origin, 2 * other.m * other.n * other.k)]

    def cost(config: Config) -> float:
        return chained_cost(config, shape, size, facts, size * link.passes)

    problem = Problem("chained", shape, (o.a.type, o.b.type, epilogue.write.type), label)
    found = choose(ctx, problem, candidates, cost, build, both)
    if found.config.kernel == APART:
        return False
    (call,) = found.build()
    if late:
        emitter_of(ctx).needless.append(ctx.calls[at])
        ctx.call(call)
    else:
        ctx.replace_call(at, call)
    return True


def norm_of(ctx: LoweringContext, o: Operands) -> Row | None:
    """The norm whose only row is the left side."""
    row, call = emitter_of(ctx).rows.get(o.a.buffer, (None, None))
    whole = call is not None and o.a.offset == call.writes[-1].offset and o.a.type == call.writes[-1].type
    return row if whole and o.m == 1 and o.a.strides[-1] == 1 and not o.a.moves else None


@dataclass(frozen=True)
class Chosen:
    """A configuration, about how many microseconds it takes, and what builds its calls."""

    config: Config
    cost: float
    build: Callable[[], Sequence[GpuCall | LibraryCall]]


def call_best(
    ctx: LoweringContext, problem: Problem, own: Sequence[Config], own_cost: Callable[[Config], float],
    build_own: Build, *offers: Offer,
) -> Config:  # fmt: skip
    """Append the calls of the configuration that is chosen, ours or a library's, and return it."""
    chosen = choose(ctx, problem, own, own_cost, build_own, *offers)
    for call in chosen.build():
        ctx.call(call)
    return chosen.config


def choose(
    ctx: LoweringContext, problem: Problem, own: Sequence[Config], own_cost: Callable[[Config], float],
    build_own: Build, *offers: Offer,
) -> Chosen:  # fmt: skip
    """The configuration to use, ours or a library's."""
    choices, by_config = choices_of(ctx), {c: offer for offer in offers for c in offer.configs}

    def cost(config: Config) -> float:
        return by_config[config].cost if config in by_config else own_cost(config)

    def build(config: Config) -> Sequence[GpuCall | LibraryCall]:
        return by_config[config].build(config) if config in by_config else build_own(config)

    config = choices.pick(problem, [*own, *by_config], cost, build)
    assert ctx.instruction is not None
    for made in choices.made[-1:]:
        for other, estimate in made.others:
            ctx.refuse(ctx.instruction, problem.family, Refuse(made.against(other, estimate)))
    return Chosen(config, cost(config), partial(build, config))


def matrix_type(matrix: np.ndarray) -> str:
    return dtypes.from_numpy(matrix.dtype)


def packed_weights(ctx: LoweringContext, matrix: np.ndarray, type: str) -> View:
    """Weights {K, N} whose depth is contiguous, as all kernels like them best, each column at an aligned address."""
    k, n = matrix.shape
    step = -(-k // ALIGNED) * ALIGNED

    def make() -> np.ndarray:
        packed = np.zeros((n, step), dtypes.to_numpy(type))
        packed[:, :k] = matrix.T
        return packed

    view = ctx.packed((ctx.identity(matrix), "columns", type), make)
    return replace(view.transposed((1, 0)), lens=(k, n))


def multiplied(ctx: LoweringContext, type: str) -> str:
    """The type as which operands of this type are multiplied: one that holds all its numbers."""
    if type in MULTIPLIED:
        return type
    if type in FP8:
        return type if choices_of(ctx).facts.fp8 else "half"
    return "float" if type in dtypes.FLOATS else dtypes.NARROW_INTEGERS[type]


def as_multiplied(ctx: LoweringContext, view: View, origin: str) -> View:
    """The operand, a copy in another type where kernels do not multiply its own."""
    type = multiplied(ctx, view.type)
    if type == view.type:
        return view
    wide = ctx.temporary(Shape(type, view.lens))
    ctx.convert(view, wide, origin)
    return wide

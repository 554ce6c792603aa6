"""The steps by which random graphs grow: operators on values that fit, attributes at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import OPERATIONS, ShapeError
from migraphx.ir.shape import Shape
from migraphx.ops.pointwise import Pointwise
from tools.graphs import TYPES, Graph, random_shape

Step = Callable[[Graph, Instruction], Any]
STEPS: list[Step] = []
"""Called with a graph and one of its values, each adds others made of it; None or ShapeError where it cannot."""

POINTWISE = {
    count: [n for n, c in OPERATIONS.items() if issubclass(c, Pointwise) and c.arity == count and n != "convert"]
    for count in (1, 2)
}
COMMON = ("add", "mul", "sub", "max", "min", "add", "mul", "div", "less", "equal")
COMPOSITES = (
    "gelu", "silu", "hardswish", "hardsigmoid", "softplus", "mish", "logsigmoid", "celu", "selu", "softsign",
    "tanhshrink", "softshrink", "hardshrink", "quick_gelu",
)  # fmt: skip
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any")
PLAIN_FLOATS = ("float", "double", "half", "bf16")


def step(grow: Step) -> Step:
    STEPS.append(grow)
    return grow


def need(fits: bool) -> None:
    if not fits:
        raise ShapeError("does not fit")


# ---- elementwise ----


@step
def unary(g: Graph, x: Instruction) -> Any:
    names = [n for n in POINTWISE[1] if x.shape.type in OPERATIONS[n].accepts]  # type: ignore[attr-defined]
    need(bool(names))
    return g.b.instruction(g.pick(names), [x])


@step
def activation(g: Graph, x: Instruction) -> Any:
    need(x.shape.type in PLAIN_FLOATS)
    return getattr(g.b, g.pick(COMPOSITES))(x)


def operand(g: Graph, x: Instruction) -> Instruction:
    """Something of x's type whose lens broadcast to x's."""
    fits = [p for p in g.pool if p.shape.type == x.shape.type and broadcasts(p, x)]
    if fits and g.chance(0.7):
        return g.pick(fits)
    lens = [n if g.chance(0.6) else 1 for n in x.shape.lens]
    return g.weight(x.shape.type, *lens[g.upto(len(lens)) if g.chance(0.3) else 0 :])


def broadcasts(p: Instruction, x: Instruction) -> bool:
    pairs = zip(p.shape.lens[::-1], x.shape.lens[::-1], strict=False)
    return p.shape.ndim <= x.shape.ndim and all(n in (1, m) for n, m in pairs)


@step
def binary(g: Graph, x: Instruction) -> Any:
    names = [n for n in POINTWISE[2] if x.shape.type in OPERATIONS[n].accepts]  # type: ignore[attr-defined]
    common = [n for n in COMMON if n in names]
    pair = g.b.common(x, operand(g, x))
    return g.b.instruction(g.pick(common if common and g.chance(0.7) else names), pair[:: g.pick((1, -1))])


@step
def mixed(g: Graph, x: Instruction) -> Any:
    """Two values of any types."""
    fits = [p for p in g.pool if broadcasts(p, x)]
    return g.b.instruction(g.pick(("add", "mul", "max", "sub")), g.b.common(x, g.pick(fits)))


@step
def choose(g: Graph, x: Instruction) -> Any:
    conditions = [p for p in g.pool if p.shape.type == "bool" and broadcasts(p, x)]
    condition = g.pick(conditions) if conditions else g.weight("bool", *x.shape.lens)
    x, y = g.b.common(x, operand(g, x))
    return g.b.where(g.b.broadcast_to(condition, x.shape.lens), x, y)


@step
def clip(g: Graph, x: Instruction) -> Any:
    return g.b.clip(x, g.b.full(0 if x.shape.type in dtypes.UNSIGNED else -1, x), g.b.full(1, x))


@step
def convert(g: Graph, x: Instruction) -> Any:
    return g.b.convert(x, target_type=g.pick(g.types))


# ---- places ----


@step
def transpose(g: Graph, x: Instruction) -> Any:
    return g.b.transpose(x, permutation=[int(d) for d in g.rng.permutation(x.shape.ndim)])


@step
def reshape(g: Graph, x: Instruction) -> Any:
    """Dimensions merged, split, or of length 1 added."""
    lens = list(x.shape.lens)
    for _ in range(g.upto(3, 1)):
        at = g.upto(len(lens))
        if g.chance(0.5) and at + 1 < len(lens):
            lens[at : at + 2] = [lens[at] * lens[at + 1]]
        elif at < len(lens) and g.chance(0.7):
            factors = [n for n in range(2, lens[at]) if lens[at] % n == 0]
            if factors:
                n = g.pick(factors)
                lens[at : at + 1] = [n, lens[at] // n]
        else:
            lens.insert(at, 1)
    if x.shape.elements and lens and g.chance(0.3):
        lens[g.upto(len(lens) - 1)] = -1
    return g.b.reshape(x, dims=lens)


@step
def slice_(g: Graph, x: Instruction) -> Any:
    axes = g.axes(x)
    starts = [g.upto(max(0, x.shape.lens[d] - 1)) for d in axes]
    ends = [g.upto(x.shape.lens[d], min(s + 1, x.shape.lens[d])) for d, s in zip(axes, starts, strict=True)]
    return g.b.slice(x, axes=axes, starts=starts, ends=ends)


@step
def every_second(g: Graph, x: Instruction) -> Any:
    axes = g.axes(x)
    return g.b.step(x, axes=axes, steps=[g.upto(3, 1) for _ in axes])


@step
def concat(g: Graph, x: Instruction) -> Any:
    d = g.axis(x)
    key = lambda p: (p.shape.type, p.shape.lens[:d], p.shape.lens[d + 1 :])  # noqa: E731
    fits = [p for p in g.pool if p.shape.ndim == x.shape.ndim and key(p) == key(x)]
    parts = [g.pick(fits) for _ in range(g.upto(3))]
    parts.insert(g.upto(len(parts)), x)
    return g.b.concat(*parts, axis=d)


@step
def split(g: Graph, x: Instruction) -> Any:
    d = g.axis(x)
    need(x.shape.lens[d] >= 2)
    cut = g.upto(x.shape.lens[d] - 1, 1)
    return g.b.split(x, sizes=(cut, x.shape.lens[d] - cut), axis=d)


@step
def pad(g: Graph, x: Instruction) -> Any:
    mode = g.pick(("constant", "constant", *OPERATIONS["pad"].MODES))  # type: ignore[attr-defined]
    value = 0.0 if g.chance(0.5) else 1.0
    return g.b.pad(x, pads=[g.upto(2) if g.chance(0.5) else 0 for _ in range(2 * x.shape.ndim)], mode=mode, value=value)


@step
def moved(g: Graph, x: Instruction) -> Any:
    """An operator that moves elements, with few attributes."""
    kind = g.pick(("reverse", "layout", "contiguous", "flatten", "squeeze", "unsqueeze", "expand", "tile"))
    if kind == "reverse":
        return g.b.reverse(x, axes=g.axes(x))
    if kind == "layout":
        return g.b.layout(x, permutation=[int(d) for d in g.rng.permutation(x.shape.ndim)])
    if kind == "flatten":
        return g.b.flatten(x, axis=g.upto(x.shape.ndim))
    if kind == "squeeze":
        return g.b.squeeze(x, axes=[d for d, n in enumerate(x.shape.lens) if n == 1 and g.chance(0.7)])
    if kind == "unsqueeze":
        return g.b.unsqueeze(x, axes=[g.upto(x.shape.ndim)])
    if kind == "expand":
        lead = (2,) if g.chance(0.3) else ()
        return g.b.multibroadcast(x, out_lens=[*lead, *(g.upto(5, 1) if n == 1 else n for n in x.shape.lens)])
    if kind == "tile":
        return g.b.tile(x, repeats=[g.upto(2, 1) for _ in x.shape.lens])
    return g.b.contiguous(x)


# ---- along axes ----


@step
def reduce(g: Graph, x: Instruction) -> Any:
    return g.b.instruction(f"reduce_{g.pick(REDUCTIONS)}", [x], axes=g.axes(x) if x.shape.ndim else ())


@step
def centred(g: Graph, x: Instruction) -> Any:
    """What a reduction gives meets what it came from."""
    small = g.b.instruction(f"reduce_{g.pick(('sum', 'mean', 'max', 'min'))}", [x], axes=g.axes(x))
    return g.b.instruction(g.pick(("sub", "mul", "add")), g.b.common(x, small))


@step
def along(g: Graph, x: Instruction) -> Any:
    name = g.pick(("softmax", "softmax", "logsoftmax", "prefix_scan_sum", "argmax", "argmin", "topk", "lrn"))
    d = g.axis(x)
    if name == "prefix_scan_sum":
        return g.b.prefix_scan_sum(x, axis=d, exclusive=g.chance(0.3), reverse=g.chance(0.3))
    if name in ("argmax", "argmin"):
        return g.b.instruction(name, [x], axis=d, select_last_index=g.chance(0.3))
    if name == "lrn":
        return g.b.lrn(x, size=g.upto(4, 1), alpha=0.3, bias=1.5)
    if name == "topk":
        return g.b.outputs(g.b.topk(x, k=g.upto(x.shape.lens[d]), axis=d, largest=g.chance(0.5)), 2)
    return g.b.instruction(name, [x], axis=d)


@step
def norm(g: Graph, x: Instruction) -> Any:
    need(x.shape.ndim > 0 and x.shape.type in PLAIN_FLOATS)
    kind, n, type = g.pick(("layer", "rms", "var", "logsumexp", "group", "batch")), x.shape.lens[-1], x.shape.type
    if kind == "var":
        return g.b.var(x, axes=g.axes(x), keepdims=g.chance(0.5))
    if kind == "logsumexp":
        return g.b.logsumexp(x, axes=g.axes(x), keepdims=g.chance(0.5))
    if kind in ("layer", "rms"):
        weights = [g.weight(type, n), g.weight(type, n)][: 2 if kind == "layer" else 1]
        return getattr(g.b, f"{kind}_norm")(x, *weights, axes=(-1,), epsilon=0.1)
    need(x.shape.ndim >= 2)
    c = x.shape.lens[1]
    scale, bias = (g.weight(type, c) for _ in range(2))
    if kind == "group":
        groups = g.pick([k for k in range(1, c + 1) if c % k == 0] or [1])
        return g.b.group_norm(x, scale, bias, num_groups=groups, epsilon=0.1)
    return g.b.batchnorm(x, scale, bias, g.weight(type, c), g.b.abs(g.weight(type, c)), epsilon=0.1)


# ---- contractions and windows ----


@step
def dot(g: Graph, x: Instruction) -> Any:
    need(x.shape.ndim >= 2 and x.shape.type != "bool")
    k, n, lead = x.shape.lens[-1], g.upto(40, 1), x.shape.lens[:-2]
    w = g.weight(x.shape.type, *((1 if g.chance(0.5) else m for m in lead) if g.chance(0.3) else ()), k, n)
    if g.chance(0.3):
        w = g.b.transpose(w, permutation=[*range(w.shape.ndim - 2), w.shape.ndim - 1, w.shape.ndim - 2])
        x = g.b.transpose(x, permutation=[*range(x.shape.ndim - 2), x.shape.ndim - 1, x.shape.ndim - 2])
        return g.b.matmul(w, x)
    made = g.b.matmul(x, w)
    return g.b.add(*g.b.common(made, g.weight(x.shape.type, n))) if g.chance(0.4) else made


@step
def of_itself(g: Graph, x: Instruction) -> Any:
    """x x^T, perhaps through softmax to x again: attention."""
    need(x.shape.ndim >= 2 and x.shape.type in PLAIN_FLOATS)
    order = (*range(x.shape.ndim - 2), x.shape.ndim - 1, x.shape.ndim - 2)
    scores = g.b.mul(*g.b.common(g.b.dot(x, g.b.transpose(x, permutation=order)), g.literal(np.full(1, 0.25, np.half))))
    scores = g.b.cast(scores, x.shape.type)
    if g.chance(0.5):
        return scores
    if g.chance(0.5):
        scores = g.b.add(*g.b.common(scores, operand(g, scores)))
    return g.b.dot(g.b.softmax(scores, axis=x.shape.ndim - 1), x)


@step
def quantized_dot(g: Graph, x: Instruction) -> Any:
    need(x.shape.type in ("int8", "uint8") and x.shape.ndim == 2)
    return g.b.quant_dot(x, g.weight(g.pick(("int8", x.shape.type)), x.shape.lens[1], g.upto(20, 1)))


@step
def image(g: Graph, x: Instruction) -> Any:
    """Any value as an image."""
    need(x.shape.ndim in (2, 3, 5) and x.shape.type in PLAIN_FLOATS)
    lens = x.shape.lens
    return g.b.reshape(x, dims=(1,) * (4 - len(lens)) + lens if len(lens) < 4 else (lens[0] * lens[1], *lens[2:]))


def windows(g: Graph, x: Instruction, largest: int) -> dict[str, Any]:
    n = x.shape.ndim - 2
    stride = (1,) * n if g.chance(0.6) else tuple(g.upto(3, 1) for _ in range(n))
    dilation = (1,) * n if g.chance(0.8) else tuple(g.upto(2, 1) for _ in range(n))
    padding = tuple(g.upto(largest - 1) for _ in range(n if g.chance(0.7) else 2 * n))
    return {"stride": stride, "padding": padding, "dilation": dilation}


@step
def convolution(g: Graph, x: Instruction) -> Any:
    need(3 <= x.shape.ndim <= 5 and x.shape.type in (*PLAIN_FLOATS, "int8", "uint8"))
    c, k = x.shape.lens[1], g.pick((1, 1, 2, 3, 3, 3, 5))
    need(c > 0)
    group = g.pick([n for n in range(1, c + 1) if c % n == 0] + [c])
    kernel = [k if g.chance(0.8) else 1 for _ in range(x.shape.ndim - 2)]
    around = windows(g, x, k) | {"group": group}
    if x.shape.type in ("int8", "uint8"):
        return g.b.quant_convolution(x, g.weight("int8", group * g.upto(3, 1), c // group, *kernel), **around)
    if g.chance(0.2):
        return g.b.convolution_backwards(x, g.weight(x.shape.type, c, g.upto(3, 1), *kernel), **around)
    made = g.b.convolution(x, g.weight(x.shape.type, group * g.upto(5, 1), c // group, *kernel), **around)
    bias = g.weight(x.shape.type, made.shape.lens[1], *[1] * len(kernel))
    made = g.b.add(made, g.b.broadcast_to(bias, made.shape.lens))
    return g.b.relu(made) if g.chance(0.5) else made


@step
def pooling(g: Graph, x: Instruction) -> Any:
    need(3 <= x.shape.ndim <= 5)
    k = g.upto(3, 1)
    around = windows(g, x, k)
    around["dilations"] = around.pop("dilation")
    more = {"ceil_mode": g.chance(0.3), "count_include_pad": g.chance(0.3)}
    mode = g.pick(("max", "average", "lpnorm"))
    return g.b.pooling(x, mode=mode, lengths=(k,) * (x.shape.ndim - 2), **around, **more)


@step
def resize(g: Graph, x: Instruction) -> Any:
    need(3 <= x.shape.ndim <= 4)
    scales = [1.0, 1.0, *(g.pick((0.5, 0.75, 1.0, 1.5, 2.0)) for _ in range(x.shape.ndim - 2))]
    transform = g.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    mode = g.pick(("nearest", "linear", "cubic"))
    return g.b.resize(x, scales=scales, mode=mode, coordinate_transformation_mode=transform)


@step
def recurrent(g: Graph, x: Instruction) -> Any:
    need(x.shape.ndim == 3 and x.shape.type == "float")
    name, h = g.pick(("rnn", "gru", "lstm")), g.upto(5, 1)
    rows, direction = {"rnn": 1, "gru": 3, "lstm": 4}[name] * h, g.pick(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    weights = [g.weight("float", ways, rows, n) for n in (x.shape.lens[2], h)]
    made = g.b.instruction(name, [x, *weights], hidden_size=h, direction=direction)
    return g.b.outputs(made, len(made.shape.sub_shapes))


# ---- indices ----


def indices(g: Graph, n: int, *lens: int) -> Instruction:
    """Numbers from -n to n - 1."""
    need(n > 0)
    made = g.rng.integers(-n, n, lens).astype(g.pick((np.int32, np.int64)))
    if g.chance(0.6):
        return g.literal(made)
    return g.parameter(Shape.of(made), made)


@step
def gather(g: Graph, x: Instruction) -> Any:
    d = g.axis(x)
    if g.chance(0.3):
        return g.b.gather(x, g.choose("int32", "int64"), axis=d)
    return g.b.gather(x, indices(g, x.shape.lens[d], *(g.upto(4, 1) for _ in range(g.upto(2)))), axis=d)


@step
def gather_elements(g: Graph, x: Instruction) -> Any:
    d = g.axis(x)
    lens = [g.upto(n, 1) if k != d else g.upto(5, 1) for k, n in enumerate(x.shape.lens)]
    return g.b.gather_elements(x, indices(g, x.shape.lens[d], *lens), axis=d)


@step
def gathernd(g: Graph, x: Instruction) -> Any:
    need(x.shape.ndim > 0)
    depth = g.upto(min(2, x.shape.ndim), 1)
    return g.b.gathernd(x, indices(g, min(x.shape.lens[:depth]), g.upto(4, 1), depth))


@step
def scatter(g: Graph, x: Instruction) -> Any:
    d, kind = g.axis(x), g.pick(("none", "add", "mul", "min", "max"))
    need(x.shape.type != "bool" or kind == "none")
    if g.chance(0.5):
        lens = [g.upto(n, 1) for n in x.shape.lens]
        n = x.shape.lens[d]
        found = indices(g, n, *lens) if kind != "none" else distinct(g, n, lens, d)
        return g.b.instruction(f"scatter_{kind}", [x, found, g.weight(x.shape.type, *lens)], axis=d)
    need(x.shape.lens[0] > 0)
    rows = g.literal(g.rng.permutation(x.shape.lens[0])[: g.upto(3, 1)].reshape(-1, 1).astype(np.int64))
    updates = g.weight(x.shape.type, rows.shape.lens[0], *x.shape.lens[1:])
    return g.b.instruction(f"scatternd_{kind}", [x, rows, updates])


def distinct(g: Graph, n: int, lens: list[int], d: int) -> Instruction:
    """Indices along d that name no place twice."""
    need(n > 0)
    order = g.rng.permutation(n)[: lens[d]].reshape([-1 if k == d else 1 for k in range(len(lens))])
    return g.literal(np.broadcast_to(order, lens).astype(np.int64))


@step
def onehot(g: Graph, x: Instruction) -> Any:
    need(x.shape.type in dtypes.INTEGERS)
    return g.b.onehot(x, g.weight("float", 2), depth=g.upto(5), axis=g.pick((-1, 0)))


# ---- numbers in few bits, control flow ----


@step
def quantize(g: Graph, x: Instruction) -> Any:
    need(x.shape.type == "float")
    type = g.pick(("int8", "uint8"))
    scale = g.b.broadcast_to(g.literal(np.full((1,) * x.shape.ndim, 0.25, np.float32)), x.shape.lens)
    point = g.b.full(3, g.b.convert(x, target_type=type))
    made = g.b.quantizelinear(x, scale, point)
    return (made, g.b.dequantizelinear(made, scale, point))


@step
def if_(g: Graph, x: Instruction) -> Any:
    conditions = [p for p in g.pool if p.shape.type == "bool" and p.shape.elements == 1]
    condition = g.pick(conditions) if conditions else g.weight("bool", 1)
    branches = []
    for k, name in enumerate(("relu", "neg")):
        need(x.shape.type in OPERATIONS[name].accepts)  # type: ignore[attr-defined]
        inner = Module(f"{g.name}.{'else' if k else 'then'}{len(g.values)}")
        made = inner.add_instruction(OPERATIONS[name](), [x])
        inner.add_return([made])
        branches.append(inner)
    g.branches += branches
    return g.b.outputs(g.b.instruction("if", [condition], branches), 1)


STEPS += (binary, binary, binary, unary, activation, centred, norm, dot, of_itself, image, convolution, convolution)


def random_graph(module: Module, name: str, seed: Sequence[int], count: int) -> Graph:
    """A few parameters, `count` steps, and `outputs`; the module has no return yet."""
    rng = np.random.default_rng(seed)
    graph = Graph(module, name, rng)
    graph.pool += [graph.parameter(random_shape(rng, TYPES)) for _ in range(graph.upto(5, 2))]
    graph.pool.append(graph.parameter(random_shape(rng, ("float",), 4)))
    graph.outputs = graph.grow(STEPS, count)
    return graph

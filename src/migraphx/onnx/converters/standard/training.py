"""Training: steps of optimizers, gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from migraphx.ir.module import Instruction
from migraphx.ir.operation import operators
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter
from migraphx.ops.movement import Contiguous, Reshaping
from migraphx.ops.pointwise import Identity

Value = Instruction
DOMAIN = "ai.onnx.preview.training"


def columns(tensors: tuple[Value, ...], kinds: int) -> list[tuple[Value, ...]]:
    """Inputs that come kind by kind (all weights, all gradients, ...), put together weight by weight."""
    if not tensors or len(tensors) % kinds:
        raise OnnxError(f"takes {kinds} inputs for each weight, got {len(tensors)}")
    count = len(tensors) // kinds
    return [tensors[k::count] for k in range(count)]


def rows(results: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    """The outputs kind by kind again."""
    return tuple(v for kind in zip(*results, strict=True) for v in kind)


def at(b: OnnxBuilder, word: str, x: Value, number: float) -> Value:
    """`word`(x, number)"""
    return getattr(b, word)(x, b.full(number, x))


def like(b: OnnxBuilder, scalar: Value, x: Value) -> Value:
    """A number of one element with x's type and lens."""
    return b.broadcast_to(b.cast(b.reshape(scalar, dims=(1,) * x.shape.ndim), x.shape.type), x.shape.lens)


@converter("Adagrad", domain=DOMAIN)
def adagrad(
    b: OnnxBuilder,
    rate: Value,
    step: Value,
    *tensors: Value,
    decay_factor: float,
    epsilon: float,
    norm_coefficient: float,
) -> tuple[Value, ...]:
    """Of weights x, gradients g and accumulated squares h: the new x, then the new h (Duchi, 2011)."""
    made = []
    for x, g, h in columns(tensors, 3):
        decay = at(b, "add", at(b, "mul", like(b, step, x), decay_factor), 1.0)
        g = b.add(at(b, "mul", x, norm_coefficient), g)
        h = b.add(h, b.mul(g, g))
        move = b.div(b.mul(b.div(like(b, rate, x), decay), g), at(b, "add", b.sqrt(h), epsilon))
        made.append((b.sub(x, move), h))
    return rows(made)


@converter("Adam", domain=DOMAIN)
def adam(
    b: OnnxBuilder,
    rate: Value,
    step: Value,
    *tensors: Value,
    alpha: float,
    beta: float,
    epsilon: float,
    norm_coefficient: float,
    norm_coefficient_post: float,
) -> tuple[Value, ...]:
    """Of weights x, gradients g, first and second moments v and h: the new x, v and h (1412.6980)."""
    made = []
    for x, g, v, h in columns(tensors, 4):
        t = like(b, step, x)
        g = b.add(at(b, "mul", x, norm_coefficient), g)
        v = b.add(at(b, "mul", v, alpha), at(b, "mul", g, 1 - alpha))
        h = b.add(at(b, "mul", h, beta), at(b, "mul", b.mul(g, g), 1 - beta))
        left = [b.sub(b.full(1.0, x), b.pow(b.full(f, x), t)) for f in (beta, alpha)]
        adjusted = b.div(b.mul(like(b, rate, x), b.sqrt(left[0])), left[1])
        adjusted = b.where(at(b, "greater", t, 0.0), adjusted, like(b, rate, x))
        moved = b.sub(x, b.div(b.mul(adjusted, v), at(b, "add", b.sqrt(h), epsilon)))
        made.append((at(b, "mul", moved, 1 - norm_coefficient_post), v, h))
    return rows(made)


@converter("Momentum", domain=DOMAIN)
def momentum(
    b: OnnxBuilder,
    rate: Value,
    step: Value,
    *tensors: Value,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Value, ...]:
    """Of weights x, gradients g and momenta v: the new x, then the new v."""
    if mode not in ("standard", "nesterov"):
        raise OnnxError(f"mode must be standard or nesterov, is {mode!r}")
    made = []
    for x, g, v in columns(tensors, 3):
        g = b.add(at(b, "mul", x, norm_coefficient), g)
        first = at(b, "greater", like(b, step, x), 0.0)
        v = b.add(at(b, "mul", v, alpha), b.mul(b.where(first, b.full(beta, x), b.full(1.0, x)), g))
        move = v if mode == "standard" else b.add(g, at(b, "mul", v, alpha))
        made.append((b.sub(x, b.mul(like(b, rate, x), move)), v))
    return rows(made)


# ---- gradients ----

Rule = Callable[[OnnxBuilder, Instruction, Value], list[Value | None]]
"""rule(b, instruction, gradient of it) -> the gradient of each input; None: it has no say."""


def summed_to(b: OnnxBuilder, g: Value, x: Value) -> Value:
    """The gradient of what was broadcast from x: sums over what each element became."""
    ahead = g.shape.ndim - x.shape.ndim
    axes = [*range(ahead), *(ahead + d for d, n in enumerate(x.shape.lens) if n != g.shape.lens[ahead + d])]
    total = b.reduce_sum(g, axes=tuple(axes)) if axes else g
    return b.reshape(total, dims=x.shape.lens)


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def swapped(b: OnnxBuilder, x: Value) -> Value:
    return b.transpose(x, permutation=(*range(x.shape.ndim - 2), x.shape.ndim - 1, x.shape.ndim - 2))


RULES: dict[str, Rule] = {
    "add": lambda b, i, g: [g, g],
    "sub": lambda b, i, g: [g, b.neg(g)],
    "mul": lambda b, i, g: [b.mul(g, i.inputs[1]), b.mul(g, i.inputs[0])],
    "div": lambda b, i, g: [b.div(g, i.inputs[1]), b.neg(b.div(b.mul(g, i), i.inputs[1]))],
    "neg": lambda b, i, g: [b.neg(g)],
    "exp": lambda b, i, g: [b.mul(g, i)],
    "log": lambda b, i, g: [b.div(g, i.inputs[0])],
    "sqrt": lambda b, i, g: [b.div(at(b, "mul", g, 0.5), i)],
    "sin": lambda b, i, g: [b.mul(g, b.cos(i.inputs[0]))],
    "cos": lambda b, i, g: [b.neg(b.mul(g, b.sin(i.inputs[0])))],
    "tanh": lambda b, i, g: [b.mul(g, b.sub(b.full(1.0, i), b.mul(i, i)))],
    "sigmoid": lambda b, i, g: [b.mul(g, b.mul(i, b.sub(b.full(1.0, i), i)))],
    "relu": lambda b, i, g: [b.where(at(b, "greater", i, 0.0), g, b.full(0.0, g))],
    "dot": lambda b, i, g: [b.dot(g, swapped(b, i.inputs[1])), b.dot(swapped(b, i.inputs[0]), g)],
    "reduce_sum": lambda b, i, g: [b.multibroadcast(g, out_lens=i.inputs[0].shape.lens)],
    "multibroadcast": lambda b, i, g: [summed_to(b, g, i.inputs[0])],
    "transpose": lambda b, i, g: [b.transpose(g, permutation=inverse(i.op.attributes()["permutation"]))],
    **dict.fromkeys(
        operators(lambda op: issubclass(op, (Reshaping, Contiguous, Identity))),
        lambda b, i, g: [b.reshape(g, dims=i.inputs[0].shape.lens)],
    ),
}


@converter("Gradient", domain=DOMAIN)
def gradient(
    b: OnnxBuilder, *inputs: Value, xs: tuple[str, ...], y: str, zs: tuple[str, ...] = ()
) -> tuple[Value, ...]:
    """The derivatives of the sum of `y`, made earlier in this graph, by each of `xs`, in reverse order of the graph."""
    wanted, target = [b.scope[n] for n in xs], b.scope[y]
    order = depending(target, set(wanted))
    gradients: dict[Instruction, list[Value]] = {target: [b.full(1.0, target)]}
    for ins in order:
        if ins not in gradients or ins in wanted:
            continue
        if ins.name not in RULES:
            raise OnnxError(f"no derivative of {ins.name} is known")
        total = reduce(b.add, gradients.pop(ins))
        for source, part in zip(ins.inputs, RULES[ins.name](b, ins, total), strict=True):
            if part is not None and source in order:
                gradients.setdefault(source, []).append(part)
    return tuple(reduce(b.add, gradients[x]) if x in gradients else b.full(0.0, x) for x in wanted)


def depending(target: Instruction, sources: set[Instruction]) -> dict[Instruction, None]:
    """What lies on the way from the sources to the target, both included: users first."""
    assert target.owner is not None
    ahead = set(sources)
    for ins in target.owner:
        if any(i in ahead for i in ins.inputs):
            ahead.add(ins)
    found = {target}
    order: dict[Instruction, None] = {}
    for ins in reversed(target.owner):
        if ins in found and ins in ahead:
            order[ins] = None
            if ins not in sources:
                found.update(ins.inputs)
    return order

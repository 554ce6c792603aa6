"""Algebraic identities, and scales folded into weights.

What they refuse, and why: what changes an answer for NaN, inf or -0 (x - x, x * 0, x + 0, pow(x, 0.5)),
reciprocals that narrow floats would round twice, weights that several instructions share (they would be
stored twice), and products of constants that overflow or underflow.
"""

from __future__ import annotations

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operation, operators
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ops.convolution import CONVOLUTIONS, Convolution, ConvolutionBackwards
from migraphx.passes.constants import broadcast_literal, compact, folded, scalar_of, source_of
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import Rule, rewrite, rewrites
from migraphx.passes.sums_of_convolutions import SUMS_OF_CONVOLUTIONS
from migraphx.passes.trim_windows import trim_window

Answer = Instruction | Refuse
WIDE = frozenset({"float", "double"})
INFINITE = WIDE | {"half", "bf16"}
NOT_FLOAT = Mismatch("only for floats")
OUT_OF_RANGE = Refuse("the product of the constants overflows or underflows")
NO_BETWEEN = {"bool", *dtypes.NARROW_INTEGERS, *(t for t in dtypes.FLOATS if t.startswith("fp"))}
IDEMPOTENT = operators(lambda op: op.idempotent)


def is_float(ins: Instruction) -> bool:
    return ins.shape.type in dtypes.FLOATS


# ---- chains of constants ----


def loses_range(a: Instruction, c: Instruction, underflow: bool = True) -> bool:
    """Whether a * c of normal numbers overflows, or underflows, where (x * a) * c need not."""
    if not is_float(a):
        return False
    values = np.broadcast_arrays(compact(a), compact(c))
    first, second, product = (np.abs(v.astype(np.float64)) for v in (*values, operation("mul").compute(*values)))
    tiny = dtypes.smallest_normal(a.shape.type)
    normal = (first >= tiny) & (second >= tiny) & np.isfinite(first) & np.isfinite(second)
    return bool((normal & (np.isinf(product) | (underflow & (product < tiny)))).any())


@rewrites(lambda b, x, a, c: b.mul(b.mul(x, b.constant("a")), b.constant("c")))
def mul_of_mul(b: Builder, x: Instruction, a: Instruction, c: Instruction) -> Answer:
    """(x * a) * c -> x * (a * c)"""
    return OUT_OF_RANGE if loses_range(a, c) else b.mul(x, folded(b, "mul", a, c))


@rewrites(lambda b, x, a, c: b.add(b.add(x, b.constant("a")), b.constant("c")))
def add_of_add(b: Builder, x: Instruction, a: Instruction, c: Instruction) -> Answer:
    """(x + a) + c -> x + (a + c)"""
    return b.add(x, folded(b, "add", a, c))


@rewrites(lambda b, x, a, y, c: b.add(b.once(b.add(x, b.constant("a"))), b.once(b.add(y, b.constant("c")))))
def add_of_biased(b: Builder, x: Instruction, a: Instruction, y: Instruction, c: Instruction) -> Answer:
    """(x + a) + (y + c) -> (x + y) + (a + c)"""
    return b.add(b.add(x, y), folded(b, "add", a, c))


@rewrites(lambda b, x, a, y, c: b.sub(b.once(b.add(x, b.constant("a"))), b.once(b.add(y, b.constant("c")))))
def sub_of_biased(b: Builder, x: Instruction, a: Instruction, y: Instruction, c: Instruction) -> Answer:
    """(x + a) - (y + c) -> (x - y) + (a - c)"""
    return b.add(b.sub(x, y), folded(b, "sub", a, c))


@rewrites(lambda b, x, a, c: b.mul(b.once(b.add(x, b.constant("a"))), b.constant("c")))
def mul_of_add(b: Builder, x: Instruction, a: Instruction, c: Instruction) -> Answer:
    """(x + a) * c -> x * c + a * c, so that the scale reaches the weights behind x"""
    if x.shape.type not in WIDE:
        return Refuse("narrow types round a * c once more")
    if loses_range(a, c, underflow=False):  # what underflows is lost beside x * c, or as small as an error may be
        return OUT_OF_RANGE
    return b.add(b.mul(x, c), folded(b, "mul", a, c))


@rewrites(lambda b, x, a: b.sub(x, b.constant("a")))
def sub_of_constant(b: Builder, x: Instruction, a: Instruction) -> Answer:
    """x - a -> x + -a"""
    return b.add(x, folded(b, "neg", a)) if is_float(x) else NOT_FLOAT


@rewrites(lambda b, x, a: b.div(x, b.constant("a")))
def div_by_constant(b: Builder, x: Instruction, a: Instruction) -> Answer:
    """x / a -> x * (1 / a): exact for powers of two, else off by at most one unit in the last place"""
    if not is_float(x):
        return NOT_FLOAT
    value = compact(a).astype(np.float64)
    exact = bool((np.abs(np.frexp(value)[0]) == 0.5).all())
    if x.shape.type not in WIDE and not exact:
        return Refuse("narrow floats round 1 / a")
    limits = np.finfo(np.float64 if x.shape.type == "double" else np.float32)
    size = np.abs(value)
    if not (np.isfinite(value).all() and (size >= 4 * limits.tiny).all() and (size <= limits.max / 8).all()):
        return Refuse("1 / a is not a normal number")
    return b.mul(x, folded(b, "recip", a))


# ---- scales into weights ----


def scaled_weights(b: Builder, w: Instruction, factor: np.ndarray) -> Answer:
    """w * factor as a literal broadcast as `w` is; `factor` has w's rank."""
    if len(w.users) > 1 or len(source_of(w).users) > 1:
        return Refuse("the weights are shared")
    value = operation("mul").compute(*np.broadcast_arrays(compact(w), factor))
    if not np.isfinite(value.astype(np.float32, copy=False)).all():
        return Refuse("the scaled weights overflow")
    return broadcast_literal(b, value, w.shape.lens)


def _only_along(value: np.ndarray, axis: int) -> bool:
    """Whether a compact constant varies along no other dimension."""
    return value.size == value.shape[axis]


@rewrites(lambda b, x, w, a: b.mul(b.once(b.one_of(CONVOLUTIONS, x, b.constant("w"))), b.constant("a")))
def scale_of_convolution(b: Builder, x: Instruction, w: Instruction, a: Instruction, root: Instruction) -> Answer:
    """convolution(x, w) * a -> convolution(x, w * a), a a constant for each output channel; of transposed ones, too"""
    scale = compact(a)
    if not _only_along(scale, 1):
        return Refuse("the scale is not one for each channel")
    op = next(i.op for i in root.inputs if i.name in CONVOLUTIONS)
    assert isinstance(op, Convolution | ConvolutionBackwards)
    ones = (1,) * (scale.ndim - 2)
    each = np.broadcast_to(scale.reshape(-1, 1, *ones), (root.shape.lens[1], x.shape.lens[1] // op.group, *ones))
    weights = scaled_weights(b, w, op.by_output(each))
    return weights if isinstance(weights, Refuse) else b.instruction(op.name, (x, weights), **op.attributes())


@rewrites(lambda b, x, w, a: b.convolution(b.once(b.mul(x, b.constant("a"))), b.constant("w")))
def scale_before_convolution(b: Builder, x: Instruction, w: Instruction, a: Instruction, root: Instruction) -> Answer:
    """convolution(x * a, w) -> convolution(x, w * a), a a constant for each input channel"""
    scale = compact(a)
    if not _only_along(scale, 1):
        return Refuse("the scale is not one for each channel")
    attributes = root.op.attributes()
    if attributes["group"] > 1 and scale.size > 1:
        return Refuse("the weights are grouped")
    weights = scaled_weights(b, w, scale)
    return weights if isinstance(weights, Refuse) else b.convolution(x, weights, **attributes)


@rewrites(lambda b, x, w, a: b.mul(b.once(b.dot(x, b.constant("w"))), b.constant("a")))
def scale_of_dot(b: Builder, x: Instruction, w: Instruction, a: Instruction) -> Answer:
    """dot(x, w) * a -> dot(x, w * a), a a constant for each column"""
    scale = compact(a)
    if not _only_along(scale, -1):
        return Refuse("the scale is not one for each column")
    weights = scaled_weights(b, w, scale)
    return weights if isinstance(weights, Refuse) else b.dot(x, weights)


@rewrites(lambda b, x, w, a: b.mul(b.once(b.dot(b.constant("w"), x)), b.constant("a")))
def scale_of_left_dot(b: Builder, x: Instruction, w: Instruction, a: Instruction) -> Answer:
    """dot(w, x) * a -> dot(w * a, x), a a constant for each row"""
    scale = compact(a)
    if not _only_along(scale, -2):
        return Refuse("the scale is not one for each row")
    weights = scaled_weights(b, w, scale)
    return weights if isinstance(weights, Refuse) else b.dot(weights, x)


@rewrites(lambda b, x, w, a: b.dot(b.once(b.mul(x, b.constant("a"))), b.constant("w")))
def scale_before_dot(b: Builder, x: Instruction, w: Instruction, a: Instruction) -> Answer:
    """dot(x * a, w) -> dot(x, w * a), a a constant for each row of w"""
    scale = compact(a)
    if not _only_along(scale, -1):
        return Refuse("the scale is not one for each row of the weights")
    weights = scaled_weights(b, w, scale.swapaxes(-1, -2))
    return weights if isinstance(weights, Refuse) else b.dot(x, weights)


# ---- neutral elements ----


@rewrites(lambda b, x, a: b.mul(x, b.constant("a")))
def mul_by_one(b: Builder, x: Instruction, a: Instruction) -> Answer:
    """x * 1 -> x"""
    return x if (compact(a) == 1).all() and x.shape.type != "bool" else Mismatch("the factor is not 1")


@rewrites(lambda b, x, a: b.add(x, b.constant("a")))
def add_of_zero(b: Builder, x: Instruction, a: Instruction) -> Answer:
    """x + -0.0 -> x, and x + 0 of integers -> x; x + 0.0 would keep a -0 that the sum does not"""
    value = compact(a)
    if (value != 0).any():
        return Mismatch("the term is not 0")
    if is_float(x) and not np.signbit(value.astype(np.float32)).all():
        return Refuse("x + 0.0 is 0.0 for x = -0.0")
    return x


@rewrites(lambda b, x, a: b.one_of(("logical_and", "logical_or"), x, b.constant("a")))
def logical_of_neutral(b: Builder, x: Instruction, a: Instruction, root: Instruction) -> Answer:
    """x and true -> x, x or false -> x, of bools"""
    value = compact(a)
    neutral = value.all() if root.name == "logical_and" else not value.any()
    return x if neutral and x.shape.type == "bool" else Mismatch("not a neutral constant")


@rewrites(lambda b, x, a: b.pow(x, b.constant("a")))
def pow_of_whole(b: Builder, x: Instruction, a: Instruction) -> Answer:
    """pow(x, 1) -> x, pow(x, 2) -> x * x, pow(x, 3) -> x * x * x, pow(x, -1) -> 1 / x"""
    exponent = scalar_of(a)
    if exponent == 1:
        return x
    if exponent == 2:
        return b.mul(x, x)
    if exponent == 3 and x.shape.type not in dtypes.NARROW_FLOATS:
        return b.mul(b.mul(x, x), x)
    if exponent == -1 and is_float(x):
        return b.recip(x)
    return Mismatch(f"no product for the exponent {exponent}")


# ---- compositions ----


@rewrites(lambda b, x: b.one_of(IDEMPOTENT, b.one_of(IDEMPOTENT, x)))
def idempotent(b: Builder, root: Instruction) -> Answer:
    """relu(relu(x)) -> relu(x), and so for abs, floor ..."""
    inner = root.inputs[0]
    return inner if inner.op == root.op else Mismatch("two different functions")


@rewrites(lambda b, x: b.neg(b.neg(x)))
def neg_of_neg(b: Builder, x: Instruction) -> Answer:
    """-(-x) -> x"""
    return x


@rewrites(lambda b, x: b.one_of(("max", "min"), x, x))
def extreme_of_same(b: Builder, x: Instruction) -> Answer:
    """max(x, x) -> x"""
    return x


@rewrites(lambda b, x: b.convert(x))
def convert_to_same(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """convert(x) -> x where x has the type already"""
    return x if x.shape.type == root.shape.type else Mismatch("another type")


@rewrites(lambda b, x: b.isnan(b.convert(x)))
def isnan_of_convert(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """isnan(convert(x)) -> isnan(x) between floats whose range ends in infinity"""
    plain = {x.shape.type, root.inputs[0].shape.type} <= INFINITE
    return b.isnan(x) if plain else Refuse("a type that turns numbers into NaN, or has none")


@rewrites(lambda b, x: b.convert(b.convert(x)))
def convert_of_convert(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """convert(convert(x)) -> convert(x) where the type between holds x exactly"""
    between = root.inputs[0].shape
    # NumPy calls it safe, too, to cast int64 to double and anything to a one-byte type of ml_dtypes
    lost = between.type in NO_BETWEEN or (x.shape.type in ("int64", "uint64") and between.type in dtypes.FLOATS)
    if lost or not np.can_cast(x.shape.numpy_dtype, between.numpy_dtype, "safe"):
        return Refuse(f"{between.type} does not hold every {x.shape.type}")
    return b.cast(x, root.shape.type)


@rewrites(lambda b, x: b.recip(b.sqrt(x)))
def recip_of_sqrt(b: Builder, x: Instruction) -> Answer:
    """1 / sqrt(x) -> rsqrt(x)"""
    return b.rsqrt(x)


@rewrites(lambda b, x, y: b.div(y, b.once(b.sqrt(x))))
def div_by_sqrt(b: Builder, x: Instruction, y: Instruction) -> Answer:
    """y / sqrt(x) -> y * rsqrt(x)"""
    return b.mul(y, b.rsqrt(x)) if x.shape.type in WIDE else Refuse("narrow floats round rsqrt(x)")


@rewrites(lambda b, x, y: b.div(y, b.multibroadcast(b.once(b.sqrt(x)))))
def div_by_broadcast_sqrt(b: Builder, x: Instruction, y: Instruction, root: Instruction) -> Answer:
    """y / broadcast(sqrt(x)) -> y * broadcast(rsqrt(x)), which is a normal number of every x but 0 (1 / x is not)"""
    if x.shape.type not in WIDE:
        return Refuse("narrow floats round rsqrt(x)")
    return b.mul(y, b.multibroadcast(b.rsqrt(x), out_lens=root.shape.lens))


@rewrites(lambda b, a, x: b.div(b.constant("a"), x))
def one_by(b: Builder, a: Instruction, x: Instruction) -> Answer:
    """1 / x -> recip(x)"""
    return b.recip(x) if is_float(x) and (compact(a) == 1).all() else Mismatch("the dividend is not 1")


# ---- choices ----


@rewrites(lambda b, c, x, y: b.where(b.constant("c"), x, y))
def where_known(b: Builder, c: Instruction, x: Instruction, y: Instruction) -> Answer:
    """where(true, x, y) -> x, where(false, x, y) -> y"""
    condition = compact(c)
    if condition.all():
        return x
    return Mismatch("the condition varies") if condition.any() else y


@rewrites(lambda b, c, x: b.where(c, x, x))
def where_same(b: Builder, x: Instruction) -> Answer:
    """where(c, x, x) -> x"""
    return x


@rewrites(lambda b, c, x, y: b.where(getattr(b, "not")(c), x, y))
def where_not(b: Builder, c: Instruction, x: Instruction, y: Instruction) -> Answer:
    """where(not c, x, y) -> where(c, y, x)"""
    return b.where(c, y, x) if c.shape.type == "bool" else Mismatch("not of a number")


RULES: list[Rule] = [
    mul_by_one,
    add_of_zero,
    logical_of_neutral,  # first: what goes away needs no other rule
    mul_of_mul,
    add_of_add,
    add_of_biased,
    sub_of_biased,
    mul_of_add,
    sub_of_constant,
    div_by_constant,
    scale_of_convolution,
    scale_before_convolution,
    scale_of_dot,
    scale_of_left_dot,
    scale_before_dot,
    *SUMS_OF_CONVOLUTIONS,
    trim_window,
    pow_of_whole,
    idempotent,
    neg_of_neg,
    extreme_of_same,
    convert_to_same,
    convert_of_convert,
    isnan_of_convert,
    recip_of_sqrt,
    one_by,
    div_by_sqrt,
    div_by_broadcast_sqrt,
    where_known,
    where_same,
    where_not,
]


def simplify_algebra(module: Module) -> Refusals:
    """Apply the algebraic identities above, and those of sums of convolutions, until none is left.

    A batch norm behind a convolution (here a scale and an offset) goes into its weights:

    before:
        x = @param:x -> float_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @1 = @literal{1, 2} -> float_type, {2, 1, 1, 1}, {1, 1, 1, 1}
        @2 = @literal{3, 5} -> float_type, {1, 2, 1, 1}, {2, 1, 1, 1}
        @3 = @literal{7, 9} -> float_type, {1, 2, 1, 1}, {2, 1, 1, 1}
        @4 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@1)
        @5 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@3)
        @6 = add(@4,@5)
        @7 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@2)
        @8 = mul(@6,@7)
        @9 = @return(@8)

    after:
        @0 = @literal{3, 10} -> float_type, {2, 1, 1, 1}, {1, 1, 1, 1}
        @1 = @literal{21, 45} -> float_type, {2, 1, 1}, {1, 1, 1}
        x = @param:x -> float_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @3 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@0)
        @4 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@1)
        @5 = add(@3,@4)
        @6 = @return(@5)

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @1 = @literal{2} -> float_type, {1}, {1}
        @2 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1)
        @3 = pow(x,@2)
        @4 = div(@3,@2)
        @5 = sub(@4,@2)
        @6 = relu(@5)
        @7 = relu(@6)
        @8 = @return(@7)

    after:
        @0 = @literal{-2} -> float_type, {1}, {1}
        @1 = @literal{0.5} -> float_type, {1}, {1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @3 = mul(x,x)
        @4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1)
        @5 = mul(@3,@4)
        @6 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@0)
        @7 = add(@5,@6)
        @8 = relu(@7)
        @9 = @return(@8)
    """
    return rewrite(module, RULES)

"""Support vector machines (libsvm's): one machine for a regression, one for each pair of classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.ml.features import DOMAIN, best_label, chosen_label, linear, transformed
from migraphx.onnx.converters.standard.control import module_of
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter

Value = Instruction
MOST_STEPS = 100  # of the coupling of probabilities; or as many as there are classes


@converter("SVMRegressor", domain=DOMAIN)
def svm_regressor(
    b: OnnxBuilder,
    x: Value,
    *,
    coefficients: Sequence[float],
    kernel_type: str,
    n_supports: int,
    one_class: int,
    post_transform: str,
    rho: Sequence[float],
    kernel_params: Sequence[float] = (0.0, 0.0, 0.0),
    support_vectors: Sequence[float] = (),
) -> Value:
    """The kernel's products with the support vectors, weighted: {N, 1}."""
    x = b.cast(x, "float")
    if not n_supports:
        y = linear(b, x, coefficients, rho, 1)
    else:
        vectors = np.array(support_vectors, np.float32).reshape(n_supports, -1)
        y = linear(b, kernel(b, x, vectors, kernel_type, *kernel_params), coefficients, rho, 1)
    if one_class:
        y = b.where(b.greater(y, b.full(0.0, y)), b.full(1.0, y), b.full(-1.0, y))
    return transformed(b, y, post_transform)


def kernel(
    b: OnnxBuilder, x: Value, vectors: np.ndarray, how: str, gamma: float, constant: float, degree: float
) -> Value:
    """The kernel of every row of x with every vector: {N, vectors}."""
    products = b.linear(x, b.literal(vectors))
    if how == "LINEAR":
        return products
    if how == "RBF":  # |x - v|^2 by differences: the expanded form cancels
        lens = (x.shape.lens[0], *vectors.shape)
        apart = b.sub(b.broadcast_to(b.unsqueeze(x, axes=(1,)), lens), b.broadcast_to(b.literal(vectors), lens))
        distance = b.squeeze(b.reduce_sum(b.mul(apart, apart), axes=(2,)), axes=(2,))
        return b.exp(b.mul(distance, b.full(-gamma, distance)))
    scaled = b.add(b.mul(products, b.full(gamma, products)), b.full(constant, products))
    if how == "POLY":
        return b.pow(scaled, b.full(int(degree), scaled))
    if how == "SIGMOID":
        return b.tanh(scaled)
    raise OnnxError(f"kernel_type must be LINEAR, RBF, POLY or SIGMOID, is {how!r}")


# ---- classes ----


@converter("SVMClassifier", domain=DOMAIN)
def svm_classifier(
    b: OnnxBuilder,
    x: Value,
    *,
    coefficients: Sequence[float],
    kernel_type: str,
    post_transform: str,
    rho: Sequence[float],
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    kernel_params: Sequence[float] = (0.0, 0.0, 0.0),
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
) -> tuple[Any, Value]:
    """The label and the scores {N, classes}.

    Scores are probabilities where there are `prob_a`, else what each pair of classes says {N, pairs}. Without support
    vectors it is a linear model.
    """
    names = classlabels_strings or classlabels_ints
    x = b.cast(x, "float")
    if not vectors_per_class:
        scores = linear(b, x, coefficients, [rho[0]] * len(names), len(names))
        return best_label(b, scores, names), transformed(b, scores, post_transform)
    classes = len(vectors_per_class)
    if len(names) != classes or classes < 2 or len(rho) != classes * (classes - 1) // 2:
        raise OnnxError(f"{len(names)} labels, {classes} classes and {len(rho)} values of rho do not fit together")
    vectors = np.array(support_vectors, np.float32).reshape(sum(vectors_per_class), -1)
    products = kernel(b, x, vectors, kernel_type, *kernel_params)
    weights = pair_weights(np.array(coefficients, np.float32).reshape(classes - 1, -1), vectors_per_class)
    pairs = b.linear(products, b.literal(weights), b.literal(np.array(rho, np.float32)))
    label = chosen_label(b, b.squeeze(b.argmax(votes(b, pairs, classes), axis=1), axes=(1,)), names)
    if len(prob_a):
        scores = coupled(b, pair_probabilities(b, pairs, prob_a, prob_b), classes)
    elif classes > 2:
        scores = pairs
    else:
        return label, decided(b, pairs, post_transform)
    return label, transformed(b, scores, post_transform)


def pair_weights(coefficients: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """{pairs, vectors} of coefficients {classes - 1, vectors}: a vector has one for each class but its own."""
    ends = np.cumsum(counts)
    made = np.zeros((len(counts) * (len(counts) - 1) // 2, ends[-1]), np.float32)
    for row, (i, j) in zip(made, combinations(range(len(counts)), 2), strict=True):
        for own, row_of in ((i, j - 1), (j, i)):
            part = slice(ends[own] - counts[own], ends[own])
            row[part] = coefficients[row_of, part]
    return made


def votes(b: OnnxBuilder, pairs: Value, classes: int) -> Value:
    """How many pairs {N, pairs} each class wins: {N, classes}. A pair above 0 is its first class's."""
    won = np.zeros((2, classes, pairs.shape.lens[1]), np.float32)
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        won[0, i, k] = won[1, j, k] = 1
    above = b.cast(b.greater(pairs, b.full(0.0, pairs)), "float")
    sides = (above, b.sub(b.full(1.0, above), above))
    return b.add(*(b.linear(s, b.literal(w)) for s, w in zip(sides, won, strict=True)))


def decided(b: OnnxBuilder, pair: Value, post_transform: str) -> Value:
    """Scores of two classes {N, 2} from their one pair {N, 1}, as ONNX Runtime gives them.

    Above 0 is the first class, whose score comes last.
    """
    if post_transform == "NONE":
        return b.concat(b.neg(pair), pair, axis=1)
    if post_transform == "PROBIT":
        raise OnnxError("post_transform PROBIT of two classes without probabilities is not supported")
    y = b.sigmoid(pair) if post_transform == "LOGISTIC" else pair
    return b.concat(b.sub(b.full(1.0, y), y), y, axis=1)


def pair_probabilities(b: OnnxBuilder, pairs: Value, slopes: Sequence[float], shifts: Sequence[float]) -> Value:
    """That a sample is of the first class of each pair, if of either (Platt 2000): {N, pairs}."""
    scaled = b.mul(pairs, b.broadcast_to(b.literal(np.array(slopes, np.float32)), pairs.shape.lens))
    shifted = b.add(scaled, b.broadcast_to(b.literal(np.array(shifts, np.float32)), pairs.shape.lens))
    return b.clamp(b.sigmoid(b.neg(shifted)), 1e-7, 1 - 1e-7)


def coupled(b: OnnxBuilder, pairs: Value, classes: int) -> Value:
    """Probabilities {N, classes} from those of pairs, by the second method of Wu, Lin and Weng (2004).

    Iterates as libsvm does: each sample until its largest error is below 0.005 / classes.
    """
    samples = pairs.shape.lens[0]
    matrix = quadratic(b, pairs, classes)  # {N, classes, classes}
    start = b.broadcast_to(b.literal(np.full(1, 1 / classes, np.float32)), (samples, classes))

    def error(inner: OnnxBuilder, p: Value) -> tuple[Value, Value, Value]:
        """Q p {N, classes}, p Q p {N, 1}, and whether the sample goes on {N, 1}."""
        product = inner.squeeze(inner.dot(matrix, inner.unsqueeze(p, axes=(2,))), axes=(2,))
        total = inner.reduce_sum(inner.mul(p, product), axes=(1,))
        apart = inner.abs(inner.sub(product, inner.broadcast_to(total, product.shape.lens)))
        most = inner.reduce_max(apart, axes=(1,))
        return product, total, inner.greater_or_equal(most, inner.full(0.005 / classes, most))

    def write(inner: OnnxBuilder) -> list[Value]:
        add = inner.module.add_parameter
        add("trip", Shape("int64"))
        add("condition", Shape("bool"))
        p = add("state0", Shape("float", (samples, classes)))
        product, total, going = error(inner, p)
        new = p
        for t in range(classes):
            new, product, total = improved(inner, matrix, new, product, total, t)
        kept = inner.where(inner.broadcast_to(going, p.shape.lens), new, p)
        again = inner.reduce_any(error(inner, kept)[2], axes=(0, 1))
        return [inner.reshape(again, dims=(1,)), kept]

    steps = max(MOST_STEPS, classes)
    module = module_of(b, "coupled_", write)
    first = [b.literal(np.array([steps])), b.literal(np.array([True])), b.contiguous(start)]
    (made,) = b.outputs(b.instruction("loop", first, [module], max_iterations=steps), 1)
    return made


def quadratic(b: OnnxBuilder, pairs: Value, classes: int) -> Value:
    """Q {N, classes, classes}: on the diagonal the sum of r[j, t] ** 2 over j, elsewhere - r[j, t] r[t, j].

    r[i, j] is the probability of i against j.
    """
    r: dict[tuple[int, int], Value] = {}
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        r[i, j] = b.slice(pairs, axes=(1,), starts=(k,), ends=(k + 1,))
        r[j, i] = b.sub(b.full(1.0, r[i, j]), r[i, j])
    cells = []
    for t in range(classes):
        others = [r[j, t] for j in range(classes) if j != t]
        total = None
        for v in others:
            square = b.mul(v, v)
            total = square if total is None else b.add(total, square)
        cells += [total if j == t else b.neg(b.mul(r[j, t], r[t, j])) for j in range(classes)]
    return b.reshape(b.concat(*cells, axis=1), dims=(-1, classes, classes))


def improved(
    b: OnnxBuilder, matrix: Value, p: Value, product: Value, total: Value, t: int
) -> tuple[Value, Value, Value]:
    """p, Q p and p Q p after the best change of p[t], normalized again."""
    row = b.squeeze(b.slice(matrix, axes=(1,), starts=(t,), ends=(t + 1,)), axes=(1,))
    own, at = (b.slice(v, axes=(1,), starts=(t,), ends=(t + 1,)) for v in (row, product))
    change = b.div(b.sub(total, at), own)
    scale = b.add(change, b.full(1.0, change))
    twice = b.add(b.mul(change, own), b.mul(at, b.full(2.0, at)))
    total = b.div(b.div(b.add(total, b.mul(change, twice)), scale), scale)
    wide, divisor = (b.broadcast_to(v, p.shape.lens) for v in (change, scale))
    unit = b.literal(np.eye(p.shape.lens[1], dtype=np.float32)[t : t + 1])
    p = b.div(b.add(p, b.mul(wide, b.broadcast_to(unit, p.shape.lens))), divisor)
    return p, b.div(b.add(product, b.mul(wide, row)), divisor), total

"""Classical machine learning: the domain ai.onnx.ml, but for trees, support vectors and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, parameters
from migraphx.onnx.graph import DeferredStrings, OnnxError, Strings
from migraphx.onnx.registry import converter

Value = Instruction
DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


# ---- features ----


@converter("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(b: OnnxBuilder, x: Value | Strings, indices: Value) -> Value | Strings | DeferredStrings:
    """Columns of the last dimension; a vector gives one row."""
    if isinstance(x, Strings):
        columns = b.constant(indices)
        return deferred_strings(indices) if columns is None else Strings(x.value[..., columns.reshape(-1)])
    made = b.gather(x, b.reshape(indices, dims=(-1,)), axis=x.shape.ndim - 1)
    return b.unsqueeze(made, axes=(0,)) if x.shape.ndim == 1 else made


@converter("Binarizer", domain=DOMAIN)
def binarizer(b: OnnxBuilder, x: Value, *, threshold: float) -> Value:
    return b.cast(b.greater(x, b.full(threshold, x)), x.shape.type)


@converter("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(b: OnnxBuilder, *inputs: Value, inputdimensions: Sequence[int]) -> Value:
    """Columns of several inputs side by side, each cut or padded with zeros to its number of them."""
    parts = []
    for x, width in zip(inputs, inputdimensions, strict=True):
        x = b.cast(b.unsqueeze(x, axes=(1,)) if x.shape.ndim == 1 else x, "float")
        have = x.shape.lens[1]
        x = b.slice(x, axes=(1,), starts=(0,), ends=(width,)) if have > width else x
        parts.append(b.pad(x, pads=(0, 0, 0, width - have)) if have < width else x)
    return b.concat(*parts, axis=1) if len(parts) > 1 else parts[0]


@converter("Imputer", domain=DOMAIN)
def imputer(
    b: OnnxBuilder,
    x: Value,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    """`replaced_value` replaced, by one value or by one a column."""
    values, old = imputed_value_floats, replaced_value_float
    if x.shape.type not in dtypes.FLOATS:
        values, old = imputed_value_int64s, replaced_value_int64
    if len(values) not in (1, x.shape.lens[-1]):
        raise OnnxError(f"{len(values)} values for {x.shape.lens[-1]} columns of {x.shape.type}")
    gone = b.isnan(x) if old != old else b.equal(x, b.full(old, x))
    return b.where(gone, b.broadcast_to(b.literal(np.array(values), x.shape.type), x.shape.lens), x)


@converter("Normalizer", domain=DOMAIN)
def normalizer(b: OnnxBuilder, x: Value, *, norm: str) -> Value:
    """Each row over its largest element (MAX) or its norm (L1, L2), unless that is 0."""
    x = b.cast(x, "float")
    axes = (x.shape.ndim - 1,)
    sizes = {
        "MAX": lambda: b.reduce_max(x, axes=axes),
        "L1": lambda: b.reduce_sum(b.abs(x), axes=axes),
        "L2": lambda: b.sqrt(b.reduce_sum(b.mul(x, x), axes=axes)),
    }
    if norm not in sizes:
        raise OnnxError(f"norm must be {', '.join(sizes)}, is {norm!r}")
    size = sizes[norm]()
    size = b.where(b.equal(size, b.full(0.0, size)), b.full(1.0, size), size)
    return b.div(x, b.broadcast_to(size, x.shape.lens))


@converter("Scaler", domain=DOMAIN)
def scaler(b: OnnxBuilder, x: Value, *, offset: Sequence[float], scale: Sequence[float]) -> Value:
    """(x - offset) * scale, one number or one a column."""
    x = x if x.shape.type == "double" else b.cast(x, "float")
    terms = (b.broadcast_to(b.literal(np.array(v), x.shape.type), x.shape.lens) for v in (offset, scale))
    return b.mul(b.sub(x, next(terms)), next(terms))


# ---- labels ----


def deferred_strings(x: Any) -> DeferredStrings:
    """Strings that a value of a run decides."""
    return DeferredStrings(parameters(x))


def looked_up(
    b: OnnxBuilder, x: Value | Strings, keys: np.ndarray, values: np.ndarray, default: Any
) -> Value | Strings | DeferredStrings:
    """values[k] where x is keys[k], else the default. Keys and values are numbers, or strings as objects."""
    table = np.concatenate([values, np.array([default], values.dtype)])
    if isinstance(x, Strings) or values.dtype == object:
        given = x.value if isinstance(x, Strings) else b.constant(x)
        if given is None:
            return deferred_strings(x)
        index_of = {key: k for k, key in enumerate(keys.tolist())}
        index = np.array([index_of.get(v, len(keys)) for v in given.reshape(-1).tolist()], np.int64)
        made = table[index].reshape(given.shape)
        return Strings.of(made) if values.dtype == object else b.literal(made)
    lens = (*x.shape.lens, len(keys))
    wide = b.broadcast_to(b.unsqueeze(x, axes=(x.shape.ndim,)), lens)
    found = b.equal(wide, b.broadcast_to(b.literal(keys, x.shape.type), lens))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        found = b.logical_or(found, b.logical_and(b.isnan(wide), b.broadcast_to(b.literal(np.isnan(keys)), lens)))
    last = len(lens) - 1
    place = b.squeeze(b.argmax(b.cast(found, "float"), axis=last), axes=(last,))
    known = b.squeeze(b.reduce_any(found, axes=(last,)), axes=(last,))
    return b.gather(b.literal(table), b.where(known, place, b.full(len(keys), place)), axis=0)


@converter("LabelEncoder", domain=DOMAIN, since=2)
def label_encoder(
    b: OnnxBuilder,
    x: Value | Strings,
    *,
    default_float: float = 0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: np.ndarray | None = None,
    **given: Any,
) -> Any:
    """`keys_*` to `values_*`."""
    sides = []
    for side in ("keys", "values"):
        found = {n.removeprefix(f"{side}_"): v for n, v in given.items() if n.startswith(side)}
        if len(found) != 1:
            raise OnnxError(f"needs one attribute {side}_*, has {', '.join(found) or 'none'}")
        sides.append(next(iter(found.items())))
    (_, keys), (kind, values) = sides
    defaults = {"floats": default_float, "int64s": default_int64, "strings": default_string}
    if kind == "tensor":
        plain = {"f": -0.0, "O": "_Unused"}.get(values.dtype.kind, -1)
        default = plain if default_tensor is None else default_tensor.reshape(-1)[0]
    else:
        default = defaults[kind]
    return looked_up(b, x, labels(keys), labels(values), default)


@converter("LabelEncoder", domain=DOMAIN)
def label_encoder_1(
    b: OnnxBuilder,
    x: Value | Strings,
    *,
    classes_strings: Sequence[str],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:
    """Strings to their indices in `classes_strings`, or indices to strings."""
    names, numbers = labels(classes_strings), np.arange(len(classes_strings), dtype=np.int64)
    if isinstance(x, Strings):
        return looked_up(b, x, names, numbers, default_int64)
    return looked_up(b, x, numbers, names, default_string)


def labels(values: Any) -> np.ndarray:
    """An attribute's labels: float, int64, a tensor's type, or str objects."""
    if isinstance(values, np.ndarray):
        return Strings.of(values).value if values.dtype == object else values
    if isinstance(values[0], str):
        return Strings.of(values).value
    return np.array(values, np.float32 if isinstance(values[0], float) else np.int64)


@converter("CategoryMapper", domain=DOMAIN)
def category_mapper(
    b: OnnxBuilder,
    x: Value | Strings,
    *,
    cats_int64s: Sequence[int],
    cats_strings: Sequence[str],
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:
    """Strings to their numbers, or numbers to their strings."""
    names, numbers = labels(cats_strings), labels(cats_int64s)
    if isinstance(x, Strings):
        return looked_up(b, x, names, numbers, default_int64)
    return looked_up(b, x, numbers, names, default_string)


@converter("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(
    b: OnnxBuilder,
    x: Value | Strings,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    zeros: int = 1,
) -> Value:
    """1 at the category, along a new last dimension; for one that is not known all 0, or if not `zeros` an error."""
    keys = labels(cats_strings or cats_int64s)
    place = looked_up(b, x, keys, np.arange(len(keys), dtype=np.int64), len(keys))
    assert isinstance(place, Instruction)
    if not zeros:  # the place of what is not known is out of range
        return b.gather(b.literal(np.eye(len(keys), dtype=np.float32)), place, axis=0)
    return b.onehot(place, b.literal(np.array([0, 1], np.float32)), axis=-1, depth=len(keys))


@converter("ZipMap", domain=DOMAIN)
def zip_map(
    b: OnnxBuilder, x: Value, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> Value:
    """The scores {N, classes} as they are: there are no maps here, column k is the k-th label's."""
    count = len(classlabels_strings or classlabels_int64s)
    if x.shape.lens[-1:] != (count,):
        raise OnnxError(f"{count} labels for scores of lens {x.shape.lens}")
    return x


# ---- linear models ----


def transformed(b: OnnxBuilder, x: Value, how: str) -> Value:
    """Scores {N, classes} after `post_transform`."""
    if how == "NONE":
        return x
    if how == "SOFTMAX":
        return b.softmax(x, axis=1)
    if how == "LOGISTIC":
        return b.sigmoid(x)
    if how == "PROBIT":
        return probit(b, x)
    if how != "SOFTMAX_ZERO":
        raise OnnxError(f"post_transform must be one of {', '.join(TRANSFORMS)}, is {how!r}")
    most = b.broadcast_to(b.reduce_max(x, axes=(1,)), x.shape.lens)  # scores of 0 keep no share
    away = b.greater(b.abs(x), b.full(1e-7, x))
    parts = b.where(away, b.exp(b.sub(x, most)), b.mul(x, b.exp(b.neg(most))))
    return b.div(parts, b.broadcast_to(b.reduce_sum(parts, axes=(1,)), x.shape.lens))


def probit(b: OnnxBuilder, x: Value) -> Value:
    """The quantile of the normal distribution, by Winitzki's inverse of erf (2008)."""
    a = 0.147
    y = b.sub(b.mul(x, b.full(2.0, x)), b.full(1.0, x))
    log = b.log(b.sub(b.full(1.0, y), b.mul(y, y)))
    half = b.add(b.full(2 / (np.pi * a), y), b.mul(log, b.full(0.5, log)))
    root = b.sqrt(b.sub(b.mul(half, half), b.mul(log, b.full(1 / a, log))))
    return b.mul(b.full(np.sqrt(2), y), b.mul(b.sign(y), b.sqrt(b.sub(root, half))))


def best_label(b: OnnxBuilder, scores: Value, names: Sequence[int] | Sequence[str]) -> Any:
    """The name of the highest score of each row."""
    return chosen_label(b, b.squeeze(b.argmax(scores, axis=1), axes=(1,)), names)


def chosen_label(b: OnnxBuilder, index: Value, names: Sequence[int] | Sequence[str]) -> Any:
    """names[index]; `LaterStrings` where these are strings and the index is not known."""
    values = labels(names)
    return looked_up(b, index, np.arange(len(values), dtype=np.int64), values, values[0])


def linear(b: OnnxBuilder, x: Value, coefficients: Sequence[float], intercepts: Sequence[float], rows: int) -> Value:
    """x {N, features} times `rows` rows of coefficients, plus intercepts."""
    weights = np.array(coefficients, np.float32).reshape(rows, -1)
    bias = np.array(intercepts or (0.0,) * rows, np.float32)
    return b.linear(x, b.literal(weights, x.shape.type), b.literal(bias, x.shape.type))


@converter("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    b: OnnxBuilder,
    x: Value,
    *,
    coefficients: Sequence[float],
    targets: int,
    post_transform: str,
    intercepts: Sequence[float] = (),
) -> Value:
    return transformed(b, linear(b, b.cast(x, "float"), coefficients, intercepts, targets), post_transform)


@converter("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    b: OnnxBuilder,
    x: Value,
    *,
    coefficients: Sequence[float],
    post_transform: str,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
) -> tuple[Any, Value]:
    """The label and the scores {N, classes}; two classes may have one row of coefficients."""
    names = classlabels_strings or classlabels_ints
    rows = len(coefficients) // x.shape.lens[1]
    scores = linear(b, b.cast(x, "float"), coefficients, intercepts, rows)
    if rows == 1 and len(names) == 2:
        scores = b.concat(b.neg(scores), scores, axis=1)
    if scores.shape.lens[1] != len(names):
        raise OnnxError(f"{len(names)} labels for {scores.shape.lens[1]} rows of coefficients")
    return best_label(b, scores, names), transformed(b, scores, post_transform)

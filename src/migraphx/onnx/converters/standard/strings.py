"""Operators on strings. They are computed while the model is read: what is not known then is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.standard.pointwise import binary
from migraphx.onnx.graph import OnnxError, Strings
from migraphx.onnx.registry import converter

Value = Instruction


def mapped(function: Callable[..., str], *tensors: Strings) -> Strings:
    """An elementwise function of strings."""
    if not all(isinstance(t, Strings) for t in tensors):
        raise OnnxError("takes tensors of strings")
    return Strings.of(np.frompyfunc(function, len(tensors), 1)(*(t.value for t in tensors)))


@converter("Equal", since=19)
def equal(b: OnnxBuilder, x: Value | Strings, y: Value | Strings) -> Value:
    if isinstance(x, Strings) and isinstance(y, Strings):
        return b.literal(np.asarray(x.value == y.value, np.bool_))
    if isinstance(x, Strings) or isinstance(y, Strings):
        raise OnnxError("strings and numbers cannot be compared")
    return binary("equal")(b, x, y)


@converter("StringConcat")
def string_concat(b: OnnxBuilder, x: Strings, y: Strings) -> Strings:
    return mapped(str.__add__, x, y)


@converter("StringSplit")
def string_split(
    b: OnnxBuilder, x: Strings, *, delimiter: str = "", maxsplit: int | None = None
) -> tuple[Strings, Value]:
    """The parts of each string, along a new dimension padded with empty ones; and how many each has."""
    most = -1 if maxsplit is None else maxsplit
    parts = [s.split(delimiter or None, most) for s in x.value.reshape(-1).tolist()]
    counts, rows, lens = np.array([len(p) for p in parts], np.int64), padded(parts, ""), x.value.shape
    return Strings.of(rows.reshape(*lens, rows.shape[1])), b.literal(counts.reshape(lens))


# ---- regular expressions ----


def expression(pattern: str, longest: bool = False) -> Any:
    """A pattern of RE2, as the standard says: it takes linear time, where Python's can take forever.

    `longest`: the longest of all matches that begin at one position. Needs google-re2.
    """
    try:
        import re2
    except ImportError:
        raise OnnxError("regular expressions need google-re2: pip install google-re2") from None
    options = re2.Options()
    options.log_errors = False  # they are raised
    options.longest_match = longest
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise OnnxError(f"pattern {pattern!r}: {error.args[0].decode()}") from None


@converter("RegexFullMatch")
def regex_full_match(b: OnnxBuilder, x: Strings, *, pattern: str) -> Value:
    """Whether each string matches as a whole."""
    whole = expression(pattern)
    found = [whole.fullmatch(s) is not None for s in x.value.reshape(-1).tolist()]
    return b.literal(np.array(found, np.bool_).reshape(x.value.shape))


@converter("Tokenizer", domain="com.microsoft")
def tokenizer(
    b: OnnxBuilder,
    x: Strings,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] = (),
    tokenexp: str = "",
) -> Strings:
    """The tokens of each string of {C} or {N, C}, along a new dimension (ONNX Runtime's own operator).

    Tokens are what matches `tokenexp` or lies between `separators`, of `mincharnum` letters or more; with `mark`, they
    stand between 0x02 and 0x03.
    """
    if (not separators) == (not tokenexp) or mincharnum < 1 or x.value.ndim not in (1, 2):
        raise OnnxError(
            f"separators {list(separators)}, tokenexp {tokenexp!r}, mincharnum {mincharnum}, lens "
            f"{x.value.shape}: needs one of the first two, letters, and one or two dimensions"
        )
    texts = x.value.reshape(-1).tolist()
    if tokenexp == "." or list(separators) == [""]:
        if mincharnum > 1:
            raise OnnxError(f"tokens of one letter never have the {mincharnum} of mincharnum")
        rows = [list(text) for text in texts]
    elif tokenexp:
        token = expression(tokenexp, longest=True)
        rows = [tokens(token.search, text, mincharnum) for text in texts]
    else:
        rows = [[text] for text in texts]
        for gaps in (expression(s, longest=True).finditer for s in separators):
            rows = [[part for text in row for part in between(text, gaps(text))] for row in rows]
        rows = [[word for word in row if len(word) >= mincharnum] for row in rows]
    rows = [["\x02", *row, "\x03"] for row in rows] if mark and any(rows) else rows
    made = padded(rows, pad_value)
    return Strings.of(made.reshape(*x.value.shape, made.shape[1]) if rows else x.value)


def tokens(search: Callable[[str, int], Any], text: str, fewest: int) -> list[str]:
    """Matches of `fewest` letters or more, one behind the other; a shorter one gives way to what begins in it."""
    found, at = [], 0
    while at < len(text) and (match := search(text, at)) is not None:
        word, at = match.group(), match.start() + 1
        if len(word) >= fewest:
            found.append(word)
            at = match.end()
    return found


def between(text: str, gaps: Iterable[Any]) -> list[str]:
    """What lies before, between and behind matches."""
    ends = [0, *(e for m in gaps for e in m.span()), len(text)]
    return [text[a:e] for a, e in zip(ends[::2], ends[1::2], strict=True)]


def padded(rows: Sequence[Sequence[str]], fill: str) -> np.ndarray:
    """{rows, length of the longest}, `fill` behind the others."""
    made = np.full((len(rows), max(map(len, rows), default=0)), fill, object)
    for row, words in zip(made, rows, strict=True):
        row[: len(words)] = words
    return made


# ---- whole strings ----


@converter("StringNormalizer")
def string_normalizer(
    b: OnnxBuilder,
    x: Strings,
    *,
    case_change_action: str,
    is_case_sensitive: int,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Strings:
    """Stop words removed from {C} or {1, C}, one empty string where nothing is left; letters changed.

    Unicode's case rules hold whatever the locale.
    """
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}.get(case_change_action)
    if change is None or x.value.ndim not in (1, 2) or (x.value.ndim == 2 and x.value.shape[0] != 1):
        raise OnnxError(f"case_change_action {case_change_action!r} on strings of lens {x.value.shape}")
    same = str if is_case_sensitive else str.lower
    stops = {same(w) for w in stopwords}
    left = [change(t) for t in x.value.reshape(-1).tolist() if same(t) not in stops] or [""]
    return Strings.of(np.array(left, object).reshape(*x.value.shape[:-1], len(left)))


# ---- n-grams ----


@converter("TfIdfVectorizer")
def tfidf_vectorizer(
    b: OnnxBuilder,
    x: Value | Strings,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Value:
    """How often each n-gram of the pool occurs in x {C} or {N, C}, its elements up to `max_skip_count` apart."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise OnnxError(f"mode must be TF, IDF or TFIDF, is {mode!r}")
    numbers = {word: k for k, word in enumerate(pool_strings)}
    pool = np.array([numbers[w] for w in pool_strings] if pool_strings else pool_int64s, np.int64)
    if isinstance(x, Strings):
        known = [numbers.get(w, -1) for w in x.value.reshape(-1).tolist()]
        x = b.literal(np.array(known, np.int64).reshape(x.value.shape))
    rows = b.unsqueeze(x, axes=(0,)) if x.shape.ndim == 1 else x
    width = max(ngram_indexes) + 1
    total = b.full(0.0, b.literal(np.zeros((rows.shape.lens[0], width), np.float32)))
    for first, size, grams in grams_of(pool, ngram_counts):
        if not min_gram_length <= size <= max_gram_length or not len(grams):
            continue
        target = np.zeros((len(grams), width), np.float32)  # adds each n-gram's count to its column
        target[np.arange(len(grams)), list(ngram_indexes[first : first + len(grams)])] = 1
        for skip in range(1, 2 if size == 1 else min(max_skip_count + 2, rows.shape.lens[1] + 1)):
            counts = occurrences(b, b.cast(rows, "int64"), grams, skip)
            if counts is not None:
                total = b.add(total, b.dot(counts, b.literal(target)))
    if mode != "TF":
        total = total if mode == "TFIDF" else b.cast(b.greater(total, b.full(0.0, total)), "float")
        factor = np.array(weights or (1.0,) * width, np.float32)
        total = b.mul(total, b.broadcast_to(b.literal(factor), total.shape.lens))
    return b.reshape(total, dims=(width,)) if x.shape.ndim == 1 else total


def grams_of(pool: np.ndarray, starts: Sequence[int]) -> Iterator[tuple[int, int, np.ndarray]]:
    """(number of the first, length, n-grams {count, length}) for each length of n-gram in the pool."""
    first = 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        grams = pool[start:end].reshape(-1, size)
        yield first, size, grams
        first += len(grams)


def occurrences(b: OnnxBuilder, rows: Value, grams: np.ndarray, skip: int) -> Value | None:
    """How often each n-gram {count, size} occurs in rows {N, C} with its elements `skip` apart: float {N, count}."""
    count, size = grams.shape
    count_of_starts = rows.shape.lens[1] - skip * (size - 1)
    if count_of_starts < 1:
        return None
    found = None
    for k in range(size):
        part = b.slice(rows, axes=(1,), starts=(k * skip,), ends=(k * skip + count_of_starts,))
        lens = (*part.shape.lens, count)
        same = b.equal(
            b.broadcast_to(b.unsqueeze(part, axes=(2,)), lens),
            b.broadcast_to(b.literal(np.ascontiguousarray(grams[:, k])), lens),
        )
        found = same if found is None else b.logical_and(found, same)
    assert found is not None
    return b.squeeze(b.reduce_sum(b.cast(found, "float"), axes=(1,)), axes=(1,))

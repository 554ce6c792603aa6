"""einsum: any sum of products over named dimensions, as transposes, reshapes and dots."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction

ELLIPSIS = "".join(map(chr, range(0x3B1, 0x3B1 + 24)))  # the names of the dimensions that `...` stands for


@dataclass(frozen=True)
class LabelledValue:
    """A value whose dimensions have one-letter names."""

    value: Instruction
    names: str

    def lens_of(self, names: str) -> tuple[int, ...]:
        return tuple(self.value.shape.lens[self.names.index(n)] for n in names)


@composite
def einsum(b: Builder, *operands: Instruction, equation: str) -> Instruction:
    """Sum of products over the dimensions that the output does not name (numpy.einsum, ONNX Einsum).

    Takes `...`, an output left out, and a letter twice in one operand (its diagonal). Lengths of 1 broadcast.
    """
    terms, out = parsed(equation, [x.shape.ndim for x in operands])
    named = [diagonal(b, LabelledValue(x, term)) for x, term in zip(operands, terms, strict=True)]
    lens = common_lens(equation, named)
    named = [widened(b, x, lens) for x in named]
    while len(named) > 1:
        first, second, *rest = named
        needed = set(out).union(*(x.names for x in rest))
        named = [contracted(b, first, second, needed), *rest]
    last = summed(b, named[0], set(out))
    return ordered(b, last, out).value


def parsed(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Names of every operand's dimensions and of the output's; ValueError says what is wrong."""
    text = equation.replace(" ", "").replace("...", ".")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", text):
        raise ValueError(f"einsum: {equation!r} is no equation")
    inputs, arrow, out = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {equation!r} names {len(terms)} operands, got {len(ranks)}")
    hidden = 0
    for n, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        extra = rank - len(term.replace(".", ""))
        if extra < 0 or term.count(".") > 1 or (extra and "." not in term):
            raise ValueError(f"einsum: {term.replace('.', '...')!r} does not fit an operand of rank {rank}")
        hidden = max(hidden, extra)
        terms[n] = term.replace(".", ELLIPSIS[len(ELLIPSIS) - extra :])
    dots = ELLIPSIS[len(ELLIPSIS) - hidden :]
    if arrow:
        out = out.replace(".", dots)
    else:
        count = Counter("".join(terms))
        out = dots + "".join(sorted(n for n in count if count[n] == 1 and n not in dots))
    if len(set(out)) != len(out) or not set(out) <= set("".join(terms)):
        raise ValueError(f"einsum: the output of {equation!r} repeats a name or has a new one")
    return terms, out


def common_lens(equation: str, operands: Sequence[LabelledValue]) -> dict[str, int]:
    """The length of every name; ValueError where two differ and neither is 1."""
    lens: dict[str, int] = {}
    for x in operands:
        for name, n in zip(x.names, x.value.shape.lens, strict=True):
            known = lens.setdefault(name, n)
            if n == known:  # asked first: of open lengths that are one it is certain, and which are 1 need not be known
                continue
            if known == 1:
                lens[name] = n
            elif n != 1:
                raise ValueError(f"einsum: {equation!r}: {name} is both {known} and {n}")
    return lens


def widened(b: Builder, x: LabelledValue, lens: dict[str, int]) -> LabelledValue:
    return LabelledValue(b.broadcast_to(x.value, [lens[n] for n in x.names]), x.names)


def diagonal(b: Builder, x: LabelledValue) -> LabelledValue:
    """x with each name once: of the dimensions that share one, the elements whose indices are equal."""
    names, value = x.names, x.value
    for name in [n for n, count in Counter(names).items() if count > 1]:
        while names.count(name) > 1:
            first, second = names.index(name), names.rindex(name)
            n, m = value.shape.lens[first], value.shape.lens[second]
            if n != m:
                raise ValueError(f"einsum: the diagonal over {name} of lengths {n} and {m}")
            square = [n if d in (first, second) else 1 for d in range(len(names))]
            eye = b.literal(np.eye(n, dtype=np.bool_).reshape(square))
            inside = b.where(b.broadcast_to(eye, value.shape.lens), value, b.full(0, value))
            value = b.squeeze(b.reduce_sum(inside, axes=(second,)), axes=(second,))
            names = names[:second] + names[second + 1 :]
    return LabelledValue(value, names)


def summed(b: Builder, x: LabelledValue, needed: set[str]) -> LabelledValue:
    """x summed over the names that nobody needs."""
    axes = tuple(d for d, n in enumerate(x.names) if n not in needed)
    if not axes:
        return x
    value = b.squeeze(b.reduce_sum(x.value, axes=axes), axes=axes)
    return LabelledValue(value, "".join(n for n in x.names if n in needed))


def ordered(b: Builder, x: LabelledValue, names: str) -> LabelledValue:
    """x with its dimensions in the order of `names`."""
    if x.names == names:
        return x
    return LabelledValue(b.transpose(x.value, permutation=[x.names.index(n) for n in names]), names)


def shaped(b: Builder, x: Instruction, lens: Sequence[int]) -> Instruction:
    same = x.shape.ndim == len(lens) and x.shape.lens == tuple(lens)  # tuples compare elements before their lengths
    return x if same else b.reshape(x, dims=tuple(lens))


def contracted(b: Builder, x: LabelledValue, y: LabelledValue, needed: set[str]) -> LabelledValue:
    """The product of two, summed over the shared names that nobody needs: one dot, or one mul."""
    x, y = summed(b, x, needed | set(y.names)), summed(b, y, needed | set(x.names))
    batch = "".join(n for n in x.names if n in y.names and n in needed)
    inner = "".join(n for n in x.names if n in y.names and n not in needed)
    rows = "".join(n for n in x.names if n not in y.names)
    columns = "".join(n for n in y.names if n not in x.names)
    if not inner:
        return multiplied(b, x, y, batch + rows + columns)
    outer = x.lens_of(batch)
    m, k, n = math.prod(x.lens_of(rows)), math.prod(x.lens_of(inner)), math.prod(y.lens_of(columns))
    left = shaped(b, ordered(b, x, batch + rows + inner).value, (*outer, m, k))
    right = shaped(b, ordered(b, y, batch + inner + columns).value, (*outer, k, n))
    lens = (*outer, *x.lens_of(rows), *y.lens_of(columns))
    return LabelledValue(shaped(b, b.dot(left, right), lens), batch + rows + columns)


def multiplied(b: Builder, x: LabelledValue, y: LabelledValue, names: str) -> LabelledValue:
    """The elementwise product, dimensions in the order of `names`."""
    lens = {n: size for v in (x, y) for n, size in zip(v.names, v.value.shape.lens, strict=True)}
    factors: list[Instruction] = []
    for v in (x, y):
        value = ordered(b, v, "".join(n for n in names if n in v.names)).value
        missing = tuple(d for d, n in enumerate(names) if n not in v.names)
        value = b.unsqueeze(value, axes=missing) if missing else value
        factors.append(b.broadcast_to(value, [lens[n] for n in names]))
    return LabelledValue(b.mul(*factors), names)

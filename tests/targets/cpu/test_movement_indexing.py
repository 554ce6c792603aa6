"""Views, copies and index operators on cpu against ref."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape, permuted
from tests.targets.cpu.side_by_side import Case, check


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


def nested_concats(b, x, y, z):
    """As in a dense block: each concat is a prefix of the next."""
    first = b.concat(x, b.relu(y), axis=1)
    second = b.concat(x, b.relu(y), b.tanh(z), axis=1)
    return [b.exp(first), b.abs(second), second]


def bags(b, x, i, w):
    """As they lie, and transposed."""
    turned = (b.transpose(v, permutation=(0, 2, 1)) for v in (i, w))
    return [b.embedding_bag(x, i, w), b.embedding_bag(b.relu(x), *turned)]


def test_movement(target: str = "cpu") -> None:
    cases = [
        Case("transpose", lambda b, x: b.transpose(x, permutation=(2, 0, 1)), (shape(3, 17, 20),)),
        Case(
            "reshape", lambda b, x: b.reshape(b.transpose(x, permutation=(1, 0, 2)), dims=(17, 60)), (shape(3, 17, 20),)
        ),
        Case(
            "reshape_view",
            lambda b, x: b.reshape(b.slice(x, axes=(1,), starts=(2,), ends=(8,)), dims=(3, 2, 3)),
            (shape(3, 9),),
        ),
        Case("squeeze", lambda b, x: b.unsqueeze(b.squeeze(x, axes=(1,)), axes=(0, 3)), (shape(3, 1, 8),)),
        Case("broadcast", lambda b, x: b.broadcast(x, axis=1, out_lens=(2, 5, 3)), (shape(5),)),
        Case("layout", lambda b, x: b.layout(x, permutation=(0, 2, 3, 1)), (shape(2, 5, 3, 4),)),
        Case("bytes_back", lambda b, x: b.contiguous(x), (permuted("int8", (2, 33, 5, 4), (0, 2, 3, 1)),)),
        Case("contiguous", lambda b, x: b.contiguous(x), (permuted("float", (2, 5, 3, 4), (0, 2, 3, 1)),)),
        Case("concat", lambda b, x, y: b.concat(x, y, axis=1), (shape(3, 5), shape(3, 9))),
        Case("concat_last", lambda b, x, y: b.concat(b.relu(x), y, b.relu(x), axis=-1), (shape(3, 5), shape(3, 9))),
        Case("nested", nested_concats, (shape(2, 3, 4), shape(2, 5, 4), shape(2, 2, 4))),
        Case("pad", lambda b, x: b.pad(x, pads=(1, 0, 2, 3), value=1.5), (shape(4, 6),)),
        Case("pad_edge", lambda b, x: b.pad(x, pads=(1, 0, 2, 3), mode="edge"), (shape(4, 6),)),
        Case("pad_edge_of_many", lambda b, x: b.pad(x, pads=(0, 0, 0, 10**5), mode="edge"), (shape(2, 3),)),
        Case("pad_reflect", lambda b, x: b.pad(x, pads=(1, 2, 3, 3), mode="reflect"), (shape(4, 6),)),
        Case("out_of_views", lambda b, x: [x, b.transpose(x, permutation=(1, 0)), x], (shape(4, 6),)),
        Case("literal_out", lambda b, x: [b.literal(np.arange(6, dtype=np.int64)), b.relu(x)], (shape(4, 6),)),
    ]
    check(cases, target=target)


@pytest.mark.slow
def test_rows_that_become_columns(target: str = "cpu") -> None:
    """Planes as pixels, matrices of bytes and of words: whole squares, and what is left of them."""
    images = (
        ("float", (1, 3, 9, 11)), ("int32", (3, 3, 5, 7)), ("half", (2, 3, 8, 8)), ("float", (3, 2, 5, 9)),
        ("int8", (1, 16, 9, 11)), ("int8", (1, 40, 21, 31)), ("uint8", (3, 9, 5, 7)), ("bool", (2, 24, 8, 8)),
        ("fp8e4m3fn", (5, 8, 8, 1)), ("float", (1, 40, 13, 17)), ("int32", (3, 9, 5, 8)), ("uint32", (2, 8, 11, 67)),
        ("float", (1, 31, 8, 33)), ("float", (2, 4, 9, 30)),
    )  # fmt: skip
    cases = [
        Case(f"{type}_{lens}_{order}", lambda b, x, o=order: b.layout(x, permutation=o), (shape(*lens, type=type),))
        for order in ((0, 2, 3, 1), (0, 3, 1, 2))
        for type, lens in images
    ]
    cases += [
        Case(
            "columns_of_some_rows",
            lambda b, x: b.contiguous(b.transpose(b.slice(x, axes=(0,), starts=(3,), ends=(80,)), permutation=(1, 0))),
            (shape(90, 41),),
        ),
        Case(
            "bytes_of_some_channels",
            lambda b, x: b.layout(b.slice(x, axes=(1,), starts=(2,), ends=(19,)), permutation=(0, 2, 3, 1)),
            (shape(3, 20, 4, 5, type="int8"),),
        ),
    ]
    check(cases, target=target)


def test_indexing() -> None:
    def indices(*lens: int, type: str = "int64") -> Shape:
        return Shape(type, lens)

    cases = [
        Case(
            "embedding",
            lambda b, i: b.gather(b.literal(np.random.default_rng(1).random((9, 33), np.float32)), i, axis=0),
            (indices(4, 5),),
        ),
        Case("gather", lambda b, x, i: b.gather(x, i, axis=1), (shape(3, 6, 4), indices(2, 2, type="int32"))),
        Case(
            "gather_transposed",
            lambda b, x, i: b.gather(b.transpose(x, permutation=(1, 0)), i, axis=0),
            (shape(4, 6), indices(3)),
        ),
        Case("gather_elements", lambda b, x, i: b.gather_elements(x, i, axis=1), (shape(3, 6), indices(2, 5))),
        *(
            Case(
                f"bags_{type}_{width}",
                bags,
                (shape(2, 9, width, type=type), indices(2, 3, 5), shape(2, 3, 5, type=type)),
            )
            for type, width in (("float", 71), ("float", 3), ("half", 9), ("double", 16))
        ),
        Case("argmax", lambda b, x: [b.argmax(x, axis=1), b.argmin(x, axis=0)], (shape(5, 30, 3),)),
        Case(
            "argmax_ties",
            lambda b, x: [b.argmax(x, axis=1, select_last_index=k) for k in (False, True)],
            (shape(5, 30, type="int32"),),
        ),
        Case(
            "argmax_nan",
            lambda b, x: [
                write(x, axis=1, select_last_index=k) for write in (b.argmax, b.argmin) for k in (False, True)
            ],
            (shape(25, 9),),
            special=True,
        ),
        Case(
            "cumsum",
            lambda b, x: [
                b.prefix_scan_sum(x, axis=1, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)
            ],
            (shape(3, 9, 2),),
        ),
        Case("topk", lambda b, x: b.outputs(b.topk(x, k=4, axis=1), 2), (shape(5, 30, 2),)),
        Case(
            "topk_small", lambda b, x: b.outputs(b.topk(x, k=7, axis=0, largest=False), 2), (shape(7, 3, type="int32"),)
        ),
        Case("topk_nan", lambda b, x: b.outputs(b.topk(x, k=5, axis=1), 2), (shape(9, 12),), special=True),
    ]
    check(cases)


@pytest.mark.parametrize("bad", [9, -10])
def test_index_out_of_range(bad: int) -> None:
    program = migraphx.program()
    main = program.graph.main
    i = main.add_parameter("i", Shape("int64", (3,)))
    b = Builder(main, origin="model.py:12")
    main.add_return([b.gather(b.literal(np.ones((9, 4), np.float32)), i, axis=0)])
    program.compile(migraphx.get_target("cpu"))
    with pytest.raises(IndexError, match=rf"gather \(model.py:12\).*length of 9.*{bad}"):
        program.run({"i": np.array([0, bad, 1])})
    assert np.array(program.run({"i": np.array([0, -9, 8])})[0]).shape == (3, 4)

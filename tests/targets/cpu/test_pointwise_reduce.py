"""Generated pointwise and reduction kernels against ref: every layout, broadcast and element type."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.ir.shape import Shape, permuted
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

FLOATS = ("float", "double", "half", "bf16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


def channels_last(*lens: int, type: str = "float") -> Shape:
    return permuted(type, lens, (0, *range(2, len(lens)), 1))


def repeated(*lens: int) -> tuple[Shape, ...]:
    """Five dimensions none of which can be joined, for parts of them are repeated."""
    plane, row = lens[2] * lens[4], lens[4]
    return shape(*lens), Shape("float", lens, (0, 0, row, 0, 1)), Shape("float", lens, (plane, 0, row, 0, 1))


def test_pointwise_layouts(target: str = "cpu") -> None:
    cases = [
        Case("same", lambda b, x, y: b.add(x, y), (shape(5, 37), shape(5, 37))),
        Case("long", lambda b, x: b.relu(x), (shape(20011),)),
        Case("scalar", lambda b, x: b.exp(x), (Shape("float", (), ()),)),
        Case("one", lambda b, x: b.tanh(x), (shape(1, 1, 1),)),
        Case("row", lambda b, x, y: b.mul(*b.common(x, y)), (shape(7, 33), shape(33))),
        Case("column", lambda b, x, y: b.mul(*b.common(x, y)), (shape(7, 33), shape(7, 1))),
        Case("short rows", lambda b, x, y, z: b.add(b.mul(x, y), z), repeated(5, 8, 4, 4, 2)),
        Case("long rows", lambda b, x, y, z: b.add(b.mul(x, y), z), repeated(2, 3, 2, 1, 5001)),
        Case("outer", lambda b, x, y: b.sub(*b.common(x, y)), (shape(6, 1, 19), shape(1, 5, 19))),
        Case(
            "transposed", lambda b, x, y: b.add(b.transpose(x, permutation=(1, 0)), y), (shape(18, 23), shape(23, 18))
        ),
        Case("nhwc", lambda b, x, y: b.relu(b.add(x, y)), (channels_last(2, 19, 5, 6), channels_last(2, 19, 5, 6))),
        Case("mixed", lambda b, x, y: b.add(x, y), (channels_last(2, 19, 5, 6), shape(2, 19, 5, 6))),
        Case("strided", lambda b, x: b.neg(x), (Shape("float", (4, 9), (40, 3)),)),
        Case("slice", lambda b, x: b.abs(b.slice(x, axes=(1,), starts=(3,), ends=(20,))), (shape(6, 40),)),
        Case("step", lambda b, x: b.sqrt(b.abs(b.step(x, axes=(1,), steps=(3,)))), (shape(6, 40),)),
        Case("reverse", lambda b, x: b.reverse(x, axes=(0, 1)), (shape(6, 40),)),
        Case("twice", lambda b, x: b.mul(b.sigmoid(x), b.sigmoid(x)), (shape(3, 50),)),
        Case("chain", lambda b, x, y: b.add(b.relu(b.mul(x, y)), b.tanh(b.sub(x, y))), (shape(40, 50), shape(40, 50))),
        Case(
            "special",
            lambda b, x, y: [b.max(x, y), b.min(x, y), b.relu(x), b.div(x, y)],
            (shape(9, 50), shape(9, 50)),
            special=True,
        ),
        Case("where", lambda b, c, x, y: b.where(c, x, y), (shape(5, 44, type="bool"), shape(5, 44), shape(5, 44))),
        Case(
            "compare",
            lambda b, x, y: b.convert(b.logical_and(b.less(x, y), b.greater(y, x)), target_type="float"),
            (shape(5, 44), shape(5, 44)),
        ),
    ]
    check(cases, target=target)


@pytest.mark.usefixtures("portable")
@pytest.mark.parametrize("types", few([FLOATS, INTEGERS], FLOATS))
def test_pointwise_types(types: tuple[str, ...]) -> None:
    cases = []
    for t in types:
        cases.append(Case(f"add_{t}", lambda b, x, y: b.add(x, y), (shape(3, 41, type=t),) * 2))
        cases.append(
            Case(f"mul_{t}", lambda b, x, y: b.mul(*b.common(x, y)), (shape(3, 41, type=t), shape(3, 1, type=t)))
        )
        cases.append(Case(f"equal_{t}", lambda b, x, y: b.equal(x, y), (shape(3, 41, type=t),) * 2))
        for u in dict.fromkeys((*types, "float", "int32", "bool")):
            cases.append(
                Case(f"convert_{t}_{u}", lambda b, x, u=u: b.convert(b.abs(x), target_type=u), (shape(2, 35, type=t),))
            )
    check(cases)


REDUCERS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")


@pytest.mark.slow
def test_reductions(target: str = "cpu") -> None:
    cases = []
    for name in REDUCERS:
        for axes in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
            cases.append(
                Case(
                    f"{name}_{axes}",
                    lambda b, x, n=name, a=axes: getattr(b, n)(x, axes=a),
                    (shape(3, 7, 21),),
                    scale=20,
                )
            )
        cases.append(
            Case(
                f"{name}_nhwc",
                lambda b, x, n=name: getattr(b, n)(x, axes=(2, 3)),
                (channels_last(2, 21, 4, 5),),
                scale=20,
            )
        )
        cases.append(
            Case(f"{name}_special", lambda b, x, n=name: getattr(b, n)(x, axes=(1,)), (shape(40, 19),), special=True)
        )
    for name in ("reduce_mean", "reduce_max"):  # large enough for two steps
        for lens in ((1, 40, 48, 37), (2, 19, 9, 400)):
            cases.append(
                Case(
                    f"{name}_{lens}",
                    lambda b, x, n=name: getattr(b, n)(x, axes=(2, 3)),
                    (channels_last(*lens),),
                    special=name == "reduce_max",
                )
            )
    for name in REDUCERS:  # of many columns, whose sums are in memory
        for lens, axes in (((3, 70, 5), (0, 2)), ((9, 7, 65), (1,)), ((2, 7, 131), (0, 1)), ((9, 2, 2100), (1,))):
            read = lambda b, x, n=name, a=axes: b.relu(getattr(b, n)(b.relu(x), axes=a))  # noqa: E731
            cases.append(Case(f"{name}_{lens}_columns", read, (shape(*lens),), scale=20, special=len(axes) == 1))
    for type in ("half", "double"):
        read = lambda b, x: b.reduce_sum(x, axes=(1,))  # noqa: E731
        cases.append(Case(f"columns_{type}", read, (shape(9, 7, 65, type=type),), scale=10))
    norm = lambda b, x: b.silu(b.group_norm(x, num_groups=20))  # noqa: E731
    for type in ("float", "half"):  # pixels first
        cases.append(Case(f"groups_{type}", norm, (channels_last(1, 60, 37, 31, type=type),), scale=20))
    each = lambda b, x: b.silu(b.instance_norm(x))  # noqa: E731
    cases.append(Case("channels", each, (channels_last(2, 12, 59, 53),), scale=20))
    cases.append(Case("any", lambda b, x: b.reduce_any(x, axes=(1,)), (shape(40, 19, type="bool"),)))
    cases.append(Case("all", lambda b, x: b.reduce_all(x, axes=(0,)), (shape(4, 19, type="bool"),)))
    for t in ("int32", "int64", "uint8", "half", "double"):
        cases.append(Case(f"sum_{t}", lambda b, x: b.reduce_sum(x, axes=(1,)), (shape(4, 50, type=t),), scale=10))
        cases.append(Case(f"max_{t}", lambda b, x: b.reduce_max(x, axes=(0,)), (shape(4, 50, type=t),)))
    check(cases, target=target)


@pytest.mark.slow
def test_fused_reductions(target: str = "cpu") -> None:
    def norm(b, x, w, v):
        return b.layer_norm(x, w, v, axes=(-1,), epsilon=1e-5)

    cases = [
        Case("softmax", lambda b, x: b.softmax(x, axis=2), (shape(3, 5, 37),)),
        Case("softmax_middle", lambda b, x: b.softmax(x, axis=1), (shape(3, 5, 37),)),
        Case("softmax_special", lambda b, x: b.softmax(x, axis=1), (shape(30, 7),), special=True),
        Case("softmax_half", lambda b, x: b.softmax(x, axis=1), (shape(30, 70, type="half"),)),
        Case("logsoftmax", lambda b, x: b.logsoftmax(x, axis=1), (shape(4, 100),)),
        Case("layer_norm", norm, (shape(2, 9, 48), shape(48), shape(48)), scale=4),
        Case("layer_norm_bf16", norm, tuple(shape(*s, type="bf16") for s in ((2, 9, 48), (48,), (48,)))),
        Case(
            "residual_norm",
            lambda b, x, y, w, v: norm(b, b.add(x, y), w, v),
            (shape(2, 9, 48),) * 2 + (shape(48),) * 2,
            scale=4,
        ),
        Case(
            "group_norm",
            lambda b, x, w, v: b.group_norm(x, w, v, num_groups=4),
            (shape(2, 16, 5, 5), shape(16), shape(16)),
            scale=4,
        ),
        Case(
            "instance_norm",
            lambda b, x, w, v: b.instance_norm(x, w, v),
            (shape(2, 6, 5, 7), shape(6), shape(6)),
            scale=4,
        ),
        Case("logsumexp", lambda b, x: b.logsumexp(x, axes=(1,)), (shape(4, 100),)),
    ]
    check(cases, target=target)


@pytest.mark.slow
def test_values_that_wait_in_the_output(target: str = "cpu") -> None:
    """Costly values that several stages need, of the output's type and of others, along rows and across them."""

    def twice(b, x, axis):
        y = b.tanh(x)
        return b.mul(b.softmax(y, axis=axis), y)

    def other_type(b, x, axis):
        y = b.exp(x)
        return b.convert(b.div(*b.common(y, b.reduce_sum(y, axes=(axis,)))), target_type="half")

    cases = [
        Case(f"{build.__name__}_{type}_{axis}", lambda b, x, f=build, a=axis: f(b, x, a), (shape(5, 6, 37, type=type),))
        for build in (twice, other_type)
        for type in ("float", "double", "half")
        for axis in (1, 2)
    ]
    check(cases, target=target)


@pytest.mark.slow
def test_empty(target: str = "cpu") -> None:
    cases = [
        Case("softmax", lambda b, x: b.softmax(b.relu(x), axis=1), (shape(3, 0),)),
        Case("logsoftmax", lambda b, x: b.logsoftmax(x, axis=0), (shape(0, 3, type="half"),)),
        Case("add", lambda b, x, y: b.add(x, y), (shape(0, 4), shape(0, 4))),
        Case("sum", lambda b, x: b.reduce_sum(x, axes=(1,)), (shape(3, 0),)),
        Case("concat", lambda b, x, y: b.concat(x, y, axis=0), (shape(0, 4), shape(3, 4))),
        Case("dot", lambda b, x: b.dot(x, b.literal(np.ones((0, 4), np.float32))), (shape(3, 0),)),
    ]
    check(cases, target=target)


def test_a_long_row_is_summed_exactly_enough():
    """A tenth does not add up exactly: one chain of float additions is wrong by 1e-3, more the longer it is."""
    n = (1 << 22) + 7
    p = migraphx.program()
    main = p.get_main_module()
    x = main.add_parameter("x", migraphx.shape("float", [n]))
    total = main.add_instruction(migraphx.op("reduce_sum", axes=[0]), [x])
    main.add_return([total, main.add_instruction(migraphx.op("reduce_mean", axes=[0]), [x])])
    p.compile(migraphx.get_target("cpu"))
    tenths = np.full(n, 0.1, np.float32)
    exact = float(tenths.astype(np.float64).sum())
    got, mean = (float(np.array(y)[0]) for y in p.run({"x": tenths}))
    assert abs(got / exact - 1) < 2e-5 and abs(mean / (exact / n) - 1) < 2e-5

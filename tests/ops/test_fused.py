"""The fused forms against the operators that they stand for, and attention against torch."""

import numpy as np
import pytest
import torch

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir.builder import Builder
from migraphx.ir.module import Module
from migraphx.ir.operation import ShapeError, operation
from migraphx.ir.shape import Shape
from migraphx.ir.text import parse_program, program_text
from migraphx.ir.verify import verify_program
from migraphx.targets.ref.evaluate import evaluate
from tests.ops.one_operator import FLOATS, apply, infer, random, tensor
from tests.tolerances import assert_close

POINTWISE = """
module: "main"
y = @param:y -> float_type, {2, 3}, {3, 1}
x = @param:x -> float_type, {2, 3}, {3, 1}
@2 = pointwise(x,y), [p0] -> float_type, {2, 3}, {3, 1}
@3 = @return(@2)

module: "p0"
p0:x1 = @param:x1 -> float_type, {1}, {0}
p0:x0 = @param:x0 -> float_type, {1}, {0}
p0:@2 = @literal{2} -> float_type, {1}, {0}
p0:@3 = mul(p0:x0,p0:@2) -> float_type, {1}, {0}
p0:@4 = add(p0:@3,p0:x1) -> float_type, {1}, {0}
p0:@5 = relu(p0:@4) -> float_type, {1}, {0}
p0:@6 = @return(p0:@5)
"""

SOFTMAX = """
module: "main"
x = @param:x -> float_type, {4, 5}, {5, 1}
@1 = fused_reduce[axes={1}](x), [r0] -> float_type, {4, 5}, {5, 1}
@2 = @return(@1)

module: "r0"
r0:x0 = @param:x0 -> float_type, {4, 5}, {5, 1}
r0:@1 = reduce_max[axes={1}](r0:x0) -> float_type, {4, 1}, {1, 1}
r0:@2 = multibroadcast[out_lens={4, 5},out_dyn_dims={}](r0:@1) -> float_type, {4, 5}, {1, 0}
r0:@3 = sub(r0:x0,r0:@2) -> float_type, {4, 5}, {5, 1}
r0:@4 = exp(r0:@3) -> float_type, {4, 5}, {5, 1}
r0:@5 = reduce_sum[axes={1}](r0:@4) -> float_type, {4, 1}, {1, 1}
r0:@6 = multibroadcast[out_lens={4, 5},out_dyn_dims={}](r0:@5) -> float_type, {4, 5}, {1, 0}
r0:@7 = div(r0:@4,r0:@6) -> float_type, {4, 5}, {5, 1}
r0:@8 = @return(r0:@7)
"""


def test_pointwise_of_scalars():
    main = parse_program(POINTWISE.replace("{2, 3}, {3, 1}", "{}, {}")).main
    (got,) = evaluate(main, {"x": np.array(3, np.float32), "y": np.array(-1, np.float32)})
    assert got.shape == () and got == 5


@pytest.mark.parametrize("text", [POINTWISE, SOFTMAX])
def test_text_is_read_back(text):
    program = parse_program(text)
    verify_program(program)
    assert program_text(parse_program(program_text(program, full=True))) == program_text(program)


def test_pointwise_is_its_body():
    rng = np.random.default_rng(1)
    x, y = random(rng, (2, 3)), random(rng, (2, 3))
    (got,) = evaluate(parse_program(POINTWISE).main, {"x": x, "y": y})
    assert_close(got, np.maximum(x * 2 + y, 0))
    assert got.dtype == np.float32


def test_fused_reduce_is_its_body():
    x = random(np.random.default_rng(2), (4, 5))
    (got,) = evaluate(parse_program(SOFTMAX).main, {"x": x})
    assert_close(got, torch.softmax(tensor(x), 1).numpy())


def body(inputs: list[Shape], reduce: tuple[int, ...] = ()) -> Module:
    """exp of the first input; summed where `reduce` names axes."""
    module = Module("body")
    params = [module.add_parameter(f"x{k}", s) for k, s in reversed(list(enumerate(inputs)))]
    b = Builder(module)
    y = b.exp(params[-1])
    module.add_return([b.reduce_sum(y, axes=reduce) if reduce else y])
    return module


SCALAR = Shape("float", (1,), (0,))
CHANNELS_LAST = Shape("float", (2, 3, 4, 5), (60, 1, 15, 3))


def test_fused_shapes():
    pointwise = operation("pointwise")
    assert pointwise.infer_with([CHANNELS_LAST], [body([SCALAR])]) == CHANNELS_LAST
    spread = Shape("float", (2, 3, 4, 5), (0, 1, 0, 0))
    assert pointwise.infer_with([spread, CHANNELS_LAST], [body([SCALAR, SCALAR])]) == CHANNELS_LAST
    reduce = operation("fused_reduce", axes=(2, 3))
    out = reduce.infer_with([CHANNELS_LAST], [body([CHANNELS_LAST], (2, 3))])
    assert out == Shape("float", (2, 3, 1, 1), (3, 1, 3, 3))
    assert reduce.infer_with([CHANNELS_LAST], [body([CHANNELS_LAST])]) == CHANNELS_LAST


def test_bad_fusions_are_refused():
    pointwise, x = operation("pointwise"), Shape("float", (2, 3))
    for inputs, modules, why in (
        ([x], [], "takes one module"),
        ([], [Module("empty")], "at least one input"),
        ([x, Shape("float", (3,))], [body([SCALAR, SCALAR])], "differ in lens"),
        ([x.with_type("half")], [body([SCALAR])], "the module takes float"),
        ([x, x], [body([SCALAR])], "the module takes float"),
    ):
        with pytest.raises(ShapeError, match=why):
            pointwise.infer_with(inputs, modules)
    with pytest.raises(ShapeError, match="the module takes"):
        operation("fused_reduce", axes=(1,)).infer_with([x], [body([Shape("float", (2, 4))])])
    with pytest.raises(ShapeError, match="axis 5"):
        operation("fused_reduce", axes=(5,)).infer_with([x], [body([x])])


# ---- attention ----


def attention_inputs(type: str = "float", heads: int = 4, dv: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    lens = ((2, 4, 5, 8), (2, heads, 7, 8), (2, heads, 7, dv))
    return [random(rng, n, type) for n in lens]


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize(("heads", "dv"), [(4, 8), (2, 8), (1, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_torch(type, heads, dv, causal):
    q, k, v = attention_inputs(type, heads, dv)
    got = apply("attention", q, k, v, scale=0.3, causal=causal)
    want = torch.nn.functional.scaled_dot_product_attention(
        tensor(q), tensor(k), tensor(v), scale=0.3, is_causal=causal, enable_gqa=heads != 4
    )
    assert_close(got, want.numpy(), got.dtype, scale=3)


@pytest.mark.parametrize("kind", ["bool", "float", "half"])
def test_attention_mask(kind):
    q, k, v = attention_inputs()
    mask = random(np.random.default_rng(4), (2, 1, 5, 7), kind)
    if kind == "bool":
        mask[..., 2] = True
        mask[1, 0, 3] = False  # a query that sees no key
    else:
        mask[1, 0, 3, 1:] = -np.inf
        mask[0, 0, 0] = -np.inf
    got = apply("attention", q, k, v, np.broadcast_to(mask, (2, 4, 5, 7)), scale=0.3, zero_rows=True)
    want = torch.nn.functional.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(mask), scale=0.3)
    assert_close(got, want.numpy())
    assert not got[1, :, 3].any() if kind == "bool" else not got[0, :, 0].any()


def test_attention_of_a_query_without_keys_is_nan_as_from_softmax():
    q, k, v = attention_inputs()
    mask = np.zeros((2, 4, 5, 7), np.float32)
    mask[0, 0, 2] = -np.inf
    got = apply("attention", q, k, v, mask)
    assert np.isnan(got[0, 0, 2]).all() and np.isnan(got).sum() == got.shape[3]


def test_attention_keeps_nan():
    q, k, v = attention_inputs()
    q[0, 0, 0, 0] = np.nan
    got = apply("attention", q, k, v)
    assert np.isnan(got[0, 0, 0]).all() and np.isfinite(got[1]).all() and np.isfinite(got[0, 0, 1:]).all()


def test_attention_shape():
    q, k = Shape("float", (2, 4, 5, 8)), Shape("float", (2, 4, 7, 8))
    out = infer("attention", q, k, k)
    assert out == Shape("float", (2, 4, 5, 8), (160, 8, 32, 1))
    bad = [
        ((q, k), "takes q, k, v"),
        ((q, k, Shape("float", (2, 4, 6, 8))), "do not fit"),
        ((q, Shape("float", (2, 3, 7, 8)), Shape("float", (2, 3, 7, 8))), "do not fit"),
        ((q, k, k.with_type("half")), "differ in type"),
        ((q, k, k, Shape("bool", (5, 7))), "the mask must be"),
        ((q, k, k, Shape("int32", (2, 4, 5, 7))), "mask of int32"),
        ((Shape("float", (2, 4, 5)), k, k), "rank 4"),
        ((q.with_type("int32"), k.with_type("int32"), k.with_type("int32")), "does not take int32"),
    ]
    for shapes, why in bad:
        with pytest.raises(ShapeError, match=why):
            infer("attention", *shapes)

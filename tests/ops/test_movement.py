import numpy as np
import pytest
import torch

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import NUMBERS, apply, infer, random, tensor
from tests.tolerances import assert_close

EVERY_TYPE = (*NUMBERS, "bool", "uint8")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# ---- shapes, as MIGraphX prints them ----

SHAPES = [
    ("transpose", {"permutation": (1, 0)}, "{5, 4}", "{4, 5}, {1, 4}"),
    ("transpose", {"permutation": (0, 2, 3, 1)}, "{2, 3, 4, 5}", "{2, 4, 5, 3}, {60, 5, 1, 20}"),
    ("multibroadcast", {"out_lens": (3, 5)}, "{5}", "{3, 5}, {0, 1}"),
    ("multibroadcast", {"out_lens": (2, 3, 4)}, "{3, 1}", "{2, 3, 4}, {0, 1, 0}"),
    ("multibroadcast", {"out_lens": (2, 3)}, "{}", "{2, 3}, {0, 0}"),
    ("broadcast", {"axis": 1, "out_lens": (2, 3, 4)}, "{3}", "{2, 3, 4}, {0, 1, 0}"),
    ("broadcast", {"axis": 0, "out_lens": (2, 3, 4)}, "{2, 3}", "{2, 3, 4}, {3, 1, 0}"),
    ("scalar", {"scalar_bcst_dims": (2, 3)}, "{1}", "{2, 3}, {0, 0}"),
    ("squeeze", {"axes": (1,)}, "{3, 1, 4, 1}", "{3, 4, 1}, {4, 1, 1}"),
    ("squeeze", {}, "{3, 1, 4, 1}", "{3, 4}, {4, 1}"),
    ("squeeze", {"axes": (-1,)}, "{1}", "{}, {}"),
    ("unsqueeze", {"axes": (0, 3)}, "{3, 4}", "{1, 3, 4, 1}, {12, 4, 1, 1}"),
    ("unsqueeze", {"axes": (1,), "steps": (2,)}, "{3, 4}", "{3, 2, 2}, {4, 2, 1}"),
    ("unsqueeze", {"axes": (0,)}, "{}", "{1}, {1}"),
    ("slice", {"axes": (0, 1), "starts": (1, 1), "ends": (3, -1)}, "{4, 5}", "{2, 3}, {5, 1}"),
    ("slice", {"axes": (1,), "starts": (-2,), "ends": (99,)}, "{4, 5}", "{4, 2}, {5, 1}"),
    ("slice", {"axes": (0,), "starts": (3,), "ends": (1,)}, "{4, 5}", "{0, 5}, {5, 1}"),
    ("step", {"axes": (1,), "steps": (2,)}, "{4, 5}", "{4, 3}, {5, 2}"),
    ("reshape", {"dims": (0, -1)}, "{2, 3, 4}", "{2, 12}, {12, 1}"),
    ("reshape", {"dims": (4, 6)}, "{2, 3, 4}", "{4, 6}, {6, 1}"),
    ("reshape", {"dims": ()}, "{1, 1}", "{}, {}"),
    ("reshape", {"dims": (0, 7)}, "{2, 0}", "{0, 7}, {7, 1}"),
    ("reshape", {"dims": (0, 0)}, "{2, 0}", "{2, 0}, {1, 1}"),
    ("flatten", {}, "{2, 3, 4}", "{2, 12}, {12, 1}"),
    ("flatten", {"axis": -1}, "{2, 3, 4}", "{6, 4}, {4, 1}"),
    ("flatten", {"axis": 0}, "{2, 3}", "{1, 6}, {6, 1}"),
    ("layout", {"permutation": (0, 2, 3, 1)}, "{2, 3, 4, 5}", "{2, 3, 4, 5}, {60, 1, 15, 3}"),
    ("contiguous", {}, "{2, 3}", "{2, 3}, {3, 1}"),
]


@pytest.mark.parametrize(("name", "attributes", "given", "want"), SHAPES)
def test_shape_and_numpy_agree(name, attributes, given, want, rng):
    lens = tuple(int(n) for n in given.strip("{}").split(",") if n.strip())
    shape = infer(name, Shape("float", lens), **attributes)
    assert str(shape) == f"float_type, {want}"
    assert apply(name, random(rng, lens), **attributes).shape == shape.lens


def test_views_give_the_strides_that_numpy_gives(rng):
    """Our strides are those of NumPy's own views, on inputs that are views themselves."""
    base = random(rng, (3, 1, 6, 4))
    for x in (base, base.transpose(3, 1, 0, 2), base[:, :, ::2, 1:3]):
        views = {
            "transpose": ({"permutation": (2, 0, 3, 1)}, x.transpose(2, 0, 3, 1)),
            "slice": ({"axes": (0, 2), "starts": (1, -2), "ends": (9, 9)}, x[1:, :, -2:]),
            "step": ({"axes": (2,), "steps": (2,)}, x[:, :, ::2]),
            "squeeze": ({"axes": (1,)}, x.squeeze(1)),
            "multibroadcast": ({"out_lens": (5, x.shape[0], 7, *x.shape[2:])},
                               np.broadcast_to(x, (5, x.shape[0], 7, *x.shape[2:]))),
        }  # fmt: skip
        for name, (attributes, want) in views.items():
            got = infer(name, Shape.of(x), **attributes)
            assert (got.lens, got.strides) == (want.shape, Shape.of(want).strides), name
            np.testing.assert_array_equal(apply(name, x, **attributes), want)


@pytest.mark.parametrize("type", EVERY_TYPE)
def test_against_torch(type, rng):
    x = random(rng, (2, 3, 4, 5), type)
    t = tensor(x)
    cases = {
        "transpose": ({"permutation": (3, 0, 2, 1)}, t.permute(3, 0, 2, 1)),
        "multibroadcast": ({"out_lens": (6, 2, 3, 4, 5)}, t.expand(6, 2, 3, 4, 5)),
        "broadcast": ({"axis": 1, "out_lens": (7, 2, 3, 4, 5, 6)}, t[None, ..., None].expand(7, *t.shape, 6)),
        "reshape": ({"dims": (4, -1, 6)}, t.reshape(4, 5, 6)),
        "flatten": ({"axis": 2}, t.reshape(6, 20)),
        "unsqueeze": ({"axes": (1, -1)}, t.reshape(2, 1, 3, 4, 5, 1)),
        "slice": ({"axes": (-1,), "starts": (1,), "ends": (4,)}, t[..., 1:4]),
        "step": ({"axes": (3,), "steps": (3,)}, t[..., ::3]),
        "reverse": ({"axes": (0, -1)}, t.flip(0, -1)),
        "contiguous": ({}, t),
        "layout": ({"permutation": (0, 2, 3, 1)}, t),
    }
    for name, (attributes, want) in cases.items():
        assert_close(apply(name, x, **attributes).astype(want.numpy().dtype), want.numpy(), x.dtype)


@pytest.mark.parametrize("type", EVERY_TYPE)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(type, axis, rng):
    lens = [[2, 3, 4] for _ in range(3)]
    for n, some in enumerate(lens):
        some[axis] = n  # the first is empty
    parts = [random(rng, tuple(some), type) for some in lens]
    got = apply("concat", *parts, axis=axis)
    np.testing.assert_array_equal(got, np.concatenate(parts, axis))


def test_concat_keeps_the_layout_that_its_inputs_share():
    nhwc = Shape("float", (1, 3, 4, 4), (48, 1, 12, 3))
    assert infer("concat", nhwc, nhwc, axis=1).strides == (96, 1, 24, 6)
    assert infer("concat", nhwc, Shape("float", (1, 3, 4, 4)), axis=1).strides == (96, 16, 4, 1)


@pytest.mark.parametrize("type", ["float", "half", "bf16", "int32", "bool"])
def test_pad(type, rng):
    x = random(rng, (2, 3, 4, 5), type)
    t = tensor(x)[None]  # torch pads 3 dimensions by reflection of a rank of 5
    pads = (0, 1, 2, 1, 0, 0, 3, 4)
    widths = (1, 4, 2, 3, 1, 0)
    got = apply("pad", x, pads=pads, value=1.0)
    assert_close(got.astype(t.numpy().dtype), torch.nn.functional.pad(t[0], widths, value=1).numpy(), x.dtype)
    if type == "float":
        for mode, theirs in (("edge", "replicate"), ("reflect", "reflect")):
            want = torch.nn.functional.pad(t, widths, mode=theirs)[0]
            np.testing.assert_array_equal(apply("pad", x, pads=pads, mode=mode), want.numpy())


def test_pad_keeps_channels_last():
    nhwc = Shape("float", (1, 3, 4, 4), (48, 1, 12, 3))
    assert infer("pad", nhwc, pads=(0, 0, 1, 1, 0, 0, 1, 1)).strides == (108, 1, 18, 3)


def test_pad_with_infinity(rng):
    got = apply("pad", random(rng, (2,)), pads=(1, 0), value=-np.inf)
    assert got[0] == -np.inf


BAD = [
    ("transpose", ((2, 3),), {"permutation": (0, 0)}),
    ("transpose", ((2, 3),), {"permutation": (0,)}),
    ("multibroadcast", ((2, 3),), {"out_lens": (3,)}),
    ("multibroadcast", ((2, 3),), {"out_lens": (2, 4)}),
    ("multibroadcast", ((2, 3),), {"out_lens": (2, 3), "out_dyn_dims": (1,)}),
    ("broadcast", ((3,),), {"axis": 2, "out_lens": (2, 3, 4)}),
    ("broadcast", ((3,),), {"axis": 5, "out_lens": (2, 3, 4)}),
    ("scalar", ((2,),), {"scalar_bcst_dims": (2,)}),
    ("squeeze", ((2, 3),), {"axes": (0,)}),
    ("squeeze", ((2, 1),), {"axes": (2,)}),
    ("unsqueeze", ((2, 3),), {"axes": (4,)}),
    ("unsqueeze", ((2, 3),), {"axes": (0, 0)}),
    ("unsqueeze", ((2, 3),), {"axes": (1,), "steps": (2,)}),
    ("unsqueeze", ((2, 3),), {"axes": (1,), "steps": (1, 1)}),
    ("slice", ((2, 3),), {"axes": (2,), "starts": (0,), "ends": (1,)}),
    ("slice", ((2, 3),), {"axes": (0, 1), "starts": (0,), "ends": (1,)}),
    ("slice", ((2, 3),), {"axes": (0, -2), "starts": (0, 0), "ends": (1, 1)}),
    ("step", ((2, 3),), {"axes": (0,), "steps": (0,)}),
    ("reshape", ((2, 3),), {"dims": (4, -1)}),
    ("reshape", ((2, 3),), {"dims": (-1, -1)}),
    ("reshape", ((2, 3),), {"dims": (2, 3, 0)}),
    ("reshape", ((2, 3),), {"dims": (7,)}),
    ("flatten", ((2, 3),), {"axis": 3}),
    ("layout", ((2, 3),), {"permutation": (1, 1)}),
    ("reverse", ((2, 3),), {"axes": (2,)}),
    ("concat", ((2, 3), (2, 4)), {"axis": 0}),
    ("concat", ((2, 3), (2,)), {"axis": 0}),
    ("concat", ((2, 3),), {"axis": 2}),
    ("concat", (), {"axis": 0}),
    ("pad", ((2, 3),), {"pads": (1, 1)}),
    ("pad", ((2, 3),), {"pads": (0, -1, 0, 0)}),
    ("pad", ((2, 3),), {"pads": (0, 3, 0, 0), "mode": "reflect"}),
    ("pad", ((2, 0),), {"pads": (0, 1, 0, 0), "mode": "edge"}),
    ("pad", ((2, 3),), {"pads": (0, 0, 0, 0), "mode": "wrap"}),
    ("contiguous", ((2,), (2,)), {}),
]


@pytest.mark.parametrize(("name", "lens", "attributes"), BAD)
def test_bad_input_is_a_shape_error_that_names_operator_and_shapes(name, lens, attributes):
    shapes = [Shape("float", some) for some in lens]
    with pytest.raises(ShapeError) as error:
        infer(name, *shapes, **attributes)
    assert str(error.value).startswith(f"{name}: ")
    assert all(str(s) in str(error.value) for s in shapes)


def test_concat_refuses_different_types():
    with pytest.raises(ShapeError, match="concat: inputs differ in type"):
        infer("concat", Shape("float", (2,)), Shape("half", (2,)))

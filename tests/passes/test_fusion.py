"""Kernels that fusion makes: norms in one, nothing computed twice, one form for targets."""

import copy

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.origin import DebugSymbols, joined, parts_of, symbols_of
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.fuse_dots import fuse_dots
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_pointwise import fuse_pointwise
from migraphx.passes.layout import layout
from migraphx.passes.pipeline import optimize
from migraphx.passes.shapes import same_memory
from migraphx.passes.simplify_reshapes import simplify_reshapes
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)


def const(b: Builder, *lens: int, type: str = "float") -> Value:
    return b.literal(rng.standard_normal(lens), type)


def kernels(program: Program, scale: float = 10) -> dict[str, int]:
    """What is left after the pipeline, views apart."""
    views = {"multibroadcast", "transpose", "reshape", "squeeze", "unsqueeze", "slice"}
    return {name: n for name, n in checked(program, optimize, scale=scale).items() if name not in views}


NORMS = {
    "layer_norm": lambda b, x: b.layer_norm(x, const(b, 8), const(b, 8)),
    "rms_norm": lambda b, x: b.rms_norm(x, const(b, 8)),
    "softmax of another axis": lambda b, x: b.softmax(x, axis=1),
    "logsoftmax": lambda b, x: b.logsoftmax(x, axis=2),
    "softmax of a product, halved": lambda b, x: b.mul(b.softmax(b.mul(x, x), axis=2), b.full(0.5, x)),
    "normalize": lambda b, x: b.normalize(x, axis=2),
    "logsumexp": lambda b, x: b.logsumexp(x, axes=(2,)),
    "two means of one axis": lambda b, x: b.add(b.reduce_mean(x, axes=(1,)), b.reduce_mean(b.exp(x), axes=(1,))),
    "lone": lambda b, x: b.reduce_max(x, axes=(0, 2)),
    "of all": lambda b, x: b.reduce_sum(x, axes=()),
    "group_norm": lambda b, x: b.group_norm(x, const(b, 4), const(b, 4), num_groups=2),
    "instance_norm": lambda b, x: b.instance_norm(x, const(b, 4), const(b, 4)),
}


@pytest.mark.parametrize("name", NORMS)
def test_one_kernel(name: str):
    assert kernels(program_of(NORMS[name], x=(2, 4, 8))) == {"fused_reduce": 1}


def test_layer_norm_written_out():
    def build(b: Builder, x: Value) -> Value:
        def spread(v: Value) -> Value:
            return b.multibroadcast(v, out_lens=x.shape.lens)

        d = b.sub(x, spread(b.reduce_mean(x, axes=(-1,))))
        variance = b.reduce_mean(b.pow(d, b.full(2.0, d)), axes=(-1,))
        y = b.div(d, spread(b.sqrt(b.add(variance, b.full(1e-5, variance)))))
        return b.add(b.mul(y, spread(const(b, 8))), spread(const(b, 8)))

    assert kernels(program_of(build, x=(2, 4, 8))) == {"fused_reduce": 1}


@pytest.mark.parametrize("type", ["half", "bf16"])
def test_narrow_norms_convert_inside(type: str):
    def build(b: Builder, x: Value) -> list[Value]:
        return [b.layer_norm(x, const(b, 8, type=type), const(b, 8, type=type)), b.softmax(x, axis=1)]

    assert kernels(program_of(build, x=Shape(type, (4, 8)))) == {"fused_reduce": 2}


def test_other_axes_are_another_kernel():
    def build(b: Builder, x: Value) -> Value:
        return b.softmax(b.softmax(x, axis=1), axis=2)

    assert kernels(program_of(build, x=(2, 4, 8))) == {"fused_reduce": 2}


def test_a_value_that_is_used_elsewhere_is_computed_once():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        z = b.exp(b.add(x, y))
        return [b.layer_norm(z), b.tanh(z), z]

    assert kernels(program_of(build, x=(4, 8), y=(4, 8))) == {"fused_reduce": 1, "pointwise": 2}


def test_a_dot_keeps_its_epilogue_before_a_norm():
    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.layer_norm(b.add(y, b.linear(x, const(b, 8, 4), const(b, 8))))

    program = program_of(build, x=(3, 4), y=(3, 8))
    assert kernels(program) == {"dot": 1, "pointwise": 1, "fused_reduce": 1}
    norm = next(i for i in program.main if i.name == "fused_reduce")
    assert [i.name for i in norm.inputs] == ["pointwise"]


def test_a_norm_widens_what_an_epilogue_stores():
    """The residual is stored narrow, once, whoever else reads it; the norm's own kernel makes floats of it."""

    def build(b: Builder, x: Value, z: Value) -> list[Value]:
        y = b.add(b.dot(x, const(b, 6, 8, type="half")), z)
        return [b.layer_norm(y, const(b, 8, type="half"), const(b, 8, type="half")), b.exp(y)]

    program = program_of(build, x=Shape("half", (4, 6)), z=Shape("half", (4, 8)))
    assert kernels(program, scale=20) == {"dot": 1, "fused_reduce": 1, "pointwise": 2}
    (norm,) = [i for i in program.main if i.name == "fused_reduce"]
    assert norm.inputs[0].shape.type == "half"


def test_what_follows_attention_is_no_epilogue():
    """Its kernels take none: a residual is part of the norm behind it."""

    def build(b: Builder, q: Value, y: Value) -> Value:
        return b.layer_norm(b.add(b.attention(q, q, q), y), const(b, 8), const(b, 8))

    assert kernels(program_of(build, q=(2, 4, 5, 8), y=(2, 4, 5, 8))) == {"attention": 1, "fused_reduce": 1}


def test_a_dot_that_is_used_elsewhere_keeps_no_epilogue():
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.dot(x, const(b, 4, 3))
        return [b.add(y, const(b, 2, 3)), y]

    program = program_of(build, x=(2, 4))
    checked(program, [fuse_pointwise, fuse_epilogue])
    assert [i.name for i in program.main if i.inputs][:-1] == ["dot", "pointwise"]


def test_a_convert_that_widens_is_repeated():
    def build(b: Builder, x: Value) -> list[Value]:
        wide = b.convert(x, target_type="float")
        return [b.exp(wide), b.relu(wide)]

    program = program_of(build, x=Shape("half", (8,)))
    assert kernels(program) == {"pointwise": 2}
    assert all(i.inputs[0].name == "@param" for i in program.main if i.name == "pointwise")


def test_pointwise_bodies_are_of_one_element():
    program = program_of(lambda b, x: b.mul(b.relu(x), b.full(0.1, x)), x=(3, 4))
    assert kernels(program) == {"pointwise": 1}
    body = program.modules["main:pointwise0"]
    assert all(i.shape.lens == (1,) for i in body if i.name != "@return")
    assert all(i.shape.strides == (0,) for i in body if i.name in ("@param", "@literal"))


def test_only_numbers_as_inputs():
    def build(b: Builder, x: Value) -> list[Value]:
        zero = b.literal(np.zeros(1, np.float32))
        return [b.neg(b.multibroadcast(b.convert(zero, target_type="float"), out_lens=(700, 900))), b.neg(x)]

    assert kernels(program_of(build, x=(4,))) == {"pointwise": 2}


def test_empty_tensors():
    def build(b: Builder, x: Value) -> list[Value]:
        return [b.relu(b.add(x, x)), b.reduce_sum(x, axes=(0,)), b.reshape(b.neg(x), dims=(4, 0))]

    checked(program_of(build, x=(0, 4)), optimize)


# ---- dots ----


def linears(*widths: int, bias: tuple[bool, ...]):
    def build(b: Builder, x: Value) -> list[Value]:
        found = []
        for n, has in zip(widths, bias, strict=True):
            y = b.linear(x, const(b, n, 4), const(b, n) if has else None)
            found.append(b.transpose(y, permutation=(0, 2, 1)))
        return found

    return build


@pytest.mark.parametrize("bias", [(True, True, True), (False, False, False), (True, False, True)])
def test_dots_of_one_input(bias: tuple[bool, ...]):
    program = program_of(linears(3, 5, 2, bias=bias), x=(2, 6, 4))
    left = checked(program, [fuse_dots])
    assert left["dot"] == 1 and left["slice"] == 3
    assert left["add"] == any(bias)  # one that has none gets -0


def test_a_wider_product_comes_from_all_that_became_it():
    program = program_of(linears(3, 5, bias=(True, True)), x=(2, 6, 4))
    for n, dot in enumerate(i for i in program.main if i.name == "dot"):
        dot.origin = f"line {n}"
    fuse_dots(program.main)
    (dot,) = (i for i in program.main if i.name == "dot")
    assert dot.origin == "line 0, line 1" and parts_of(dot.origin) == ("line 0", "line 1")
    assert joined([dot.origin, "line 1", "", "line 2"]) == "line 0, line 1, line 2"


def test_names_of_several_instructions_stay_names():
    both = joined([DebugSymbols(["a", "b"]), DebugSymbols(["b", "c"])])
    assert symbols_of(both) == ("a", "b", "c")
    for origin in (both, DebugSymbols(["a", "b"])):
        twin = copy.deepcopy(origin)
        assert (twin, parts_of(twin), symbols_of(twin)) == (origin, parts_of(origin), symbols_of(origin))


def test_dots_with_epilogues_of_their_own_stay_apart():
    def build(b: Builder, x: Value) -> Value:
        gate, up = (b.linear(x, const(b, 6, 4)) for _ in range(2))
        return b.mul(b.silu(gate), up)

    assert kernels(program_of(build, x=(2, 3, 4))) == {"dot": 2, "pointwise": 1}


def test_any_view_reads_a_wider_product_as_well():
    def build(b: Builder, x: Value) -> list[Value]:
        gate, up = (b.linear(x, const(b, 6, 4)) for _ in range(2))
        wide = b.multibroadcast(b.unsqueeze(up, axes=(0,)), out_lens=(2, 2, 3, 6))
        return [b.step(gate, axes=(2,), steps=(2,)), wide]

    assert checked(program_of(build, x=(2, 3, 4)), [fuse_dots])["dot"] == 1


def test_shared_weights_stay():
    def build(b: Builder, x: Value) -> list[Value]:
        w = const(b, 4, 4)
        return [b.transpose(b.dot(v, w), permutation=(1, 0)) for v in (x, x, b.relu(x))]

    assert checked(program_of(build, x=(3, 4)), [fuse_dots])["dot"] == 3


# ---- layout ----


def conv(b: Builder, x: Value, channels: int = 4) -> Value:
    spatial = x.shape.ndim - 2
    w, ones = const(b, channels, x.shape.lens[1], *(1,) * spatial), (1,) * spatial
    return b.convolution(x, w, padding=(0,) * spatial, stride=ones, dilation=ones)


@pytest.mark.parametrize("lens", [(2, 3, 6), (2, 3, 6, 5), (1, 3, 4, 5, 6)])
def test_one_layout_at_the_start(lens: tuple[int, ...]):
    def build(b: Builder, x: Value) -> Value:
        y = conv(b, b.relu(conv(b, x)))
        return b.reduce_max(b.concat(y, b.sigmoid(y), axis=1), axes=tuple(range(2, len(lens))))

    program = program_of(build, x=lens)
    assert checked(program, [layout])["layout"] == 1
    want = (0, *range(2, len(lens)), 1)
    assert all(i.shape.permutation == want for i in program.main if i.name == "convolution")


def test_a_residual_from_outside_is_laid_out_once():
    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.reduce_sum(b.add(conv(b, b.add(conv(b, x), y)), y), axes=(2, 3))

    assert checked(program_of(build, x=(1, 3, 4, 4), y=(1, 4, 4, 4)), [layout])["layout"] == 2


def test_pixels_that_become_tokens_are_rows():
    """A residual of tokens is added where it is made: it lies as products write it, and needs no copy."""

    def build(b: Builder, x: Value) -> Value:
        y = b.transpose(b.reshape(conv(b, conv(b, x)), dims=(2, 4, 20)), permutation=(0, 2, 1))
        y = b.add(y, b.dot(y, b.broadcast_to(const(b, 4, 4), (2, 4, 4))))
        return conv(b, b.reshape(b.transpose(y, permutation=(0, 2, 1)), dims=(2, 4, 5, 4)))

    left = checked(program_of(build, x=(2, 3, 5, 4)), optimize)
    assert left["layout"] == 2  # of the input and the output


def test_no_layout_without_convolutions():
    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.relu(b.add(b.transpose(x, permutation=(0, 3, 1, 2)), y))

    assert not checked(program_of(build, x=(1, 4, 4, 3), y=(1, 3, 4, 4)), [layout])["layout"]


def test_a_value_that_is_channels_last_needs_none():
    def build(b: Builder, x: Value) -> Value:
        y = conv(b, b.transpose(x, permutation=(0, 3, 1, 2)))
        return b.relu(b.transpose(y, permutation=(0, 2, 3, 1)))

    left = checked(program_of(build, x=(2, 4, 4, 3)), [layout, simplify_reshapes])
    assert not left["layout"]


@pytest.mark.parametrize(("lens", "groups"), [((2, 6, 5, 4), 2), ((1, 6, 5, 4), 3), ((2, 6, 7), 2)])
def test_channels_are_shuffled_and_sliced_pixel_by_pixel(lens: tuple[int, ...], groups: int):
    """One copy, of the pixels' channels: neither the shuffle nor the halves are laid out anew."""

    def build(b: Builder, x: Value) -> Value:
        y = b.reshape(conv(b, x, 6), dims=(lens[0], groups, 6 // groups, *lens[2:]))
        y = b.transpose(y, permutation=(0, 2, 1, *range(3, len(lens) + 1)))
        y = b.reshape(y, dims=lens)
        halves = [b.slice(y, axes=(1,), starts=(k,), ends=(k + 3,)) for k in (0, 3)]
        return b.reduce_sum(b.concat(halves[0], conv(b, halves[1]), axis=1), axes=tuple(range(2, len(lens))))

    left = checked(program_of(build, x=lens), [layout, simplify_reshapes])
    assert left["layout"] == 1 and left["reshape"] == 2


@pytest.mark.parametrize("lens", [(2, 3, 5, 4), (2, 3, 7)])
def test_gates_of_channels_keep_their_place(lens: tuple[int, ...]):
    """Halves of an image's channels that are multiplied are an image, which the next convolution takes as it is."""

    def build(b: Builder, x: Value) -> Value:
        y = conv(b, x, 8)
        a, c = (b.slice(y, axes=(1,), starts=(k,), ends=(k + 4,)) for k in (0, 4))
        return b.reduce_sum(conv(b, b.mul(b.tanh(a), b.sigmoid(c))), axes=tuple(range(2, len(lens))))

    assert checked(program_of(build, x=lens), [layout, simplify_reshapes])["layout"] == 1


@pytest.mark.parametrize("lens", [(2, 1, 5, 4), (1, 1, 7), (1, 1, 3, 4, 5)])
def test_what_is_made_of_one_channel_is_channels_last(lens: tuple[int, ...]):
    """Both orders of such a picture are the same memory: a `layout`, which moves nothing, names the right one."""

    def build(b: Builder, x: Value) -> Value:
        return b.reduce_sum(conv(b, conv(b, x, 6)), axes=tuple(range(2, len(lens))))

    program = program_of(build, x=lens)
    assert checked(program, [layout, simplify_reshapes])["layout"] == 1
    (made,) = (i for i in program.main if i.name == "layout")
    assert same_memory(made.shape, made.inputs[0].shape)


def test_a_reshape_that_moves_pixels_is_none():
    """Pixels that become channels are laid out anew."""

    def build(b: Builder, x: Value) -> Value:
        y = b.reshape(conv(b, x, 4), dims=(1, 4, 2, 2, 3, 2))
        y = b.reshape(b.transpose(y, permutation=(0, 1, 3, 5, 2, 4)), dims=(1, 16, 2, 3))
        return b.reduce_sum(conv(b, y), axes=(2, 3))

    assert checked(program_of(build, x=(1, 3, 4, 6)), [layout, simplify_reshapes])["layout"] == 2


def test_groups_have_an_end():
    """A kernel has so many operands at most, whatever is fused into it."""

    def long(b: Builder, x: Value) -> Value:
        for _ in range(300):
            x = b.tanh(b.add(x, b.broadcast_to(const(b, 8), (4, 8))))
        return x

    program = program_of(long, x=(4, 8))
    assert kernels(program, scale=1000)["pointwise"] == 6

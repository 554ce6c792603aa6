"""The passes that every target runs first, in order."""

from __future__ import annotations

from migraphx.passes.common_subexpressions import common_subexpressions
from migraphx.passes.dead_code import dead_code
from migraphx.passes.drop_clamps import drop_clamps
from migraphx.passes.fold_constants import fold_constants
from migraphx.passes.fuse_attention import fuse_attention
from migraphx.passes.fuse_dots import fuse_dots
from migraphx.passes.fuse_int4 import fuse_int4
from migraphx.passes.fuse_pointwise import fuse_pointwise
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.interface import Pass
from migraphx.passes.layout import layout
from migraphx.passes.rewrite_memory import rewrite_memory
from migraphx.passes.rewrite_quantization import rewrite_quantization
from migraphx.passes.rewrite_rnn import rewrite_rnn
from migraphx.passes.simplify_algebra import simplify_algebra
from migraphx.passes.simplify_control_flow import simplify_control_flow
from migraphx.passes.simplify_qdq import simplify_qdq
from migraphx.passes.simplify_requantize import simplify_requantize
from migraphx.passes.simplify_reshapes import simplify_reshapes
from migraphx.passes.slice_first import slice_first
from migraphx.passes.transposed_products import transposed_products

SIMPLIFY: list[Pass] = [
    dead_code,  # first: what is not used needs no work
    fuse_int4,  # weights of 4 bits stay so
    simplify_requantize,  # what is only moved between products stays integers
    transposed_products,  # transposed convolutions of codes: convolutions from here on
    simplify_qdq,  # products of integers, before constants are folded into floats
    fold_constants,  # weights as they are used: transposed, reshaped, converted
    simplify_reshapes,  # views out of the way, so that arithmetic meets
    slice_first,  # no rows that nobody reads
    simplify_algebra,  # batch norm and scales into weights
    fold_constants,  # what the two left between literals
    common_subexpressions,  # equal masks, equal broadcasts
    simplify_reshapes,  # what folded weights let meet
    simplify_algebra,  # scales that reached their weights now
]


optimize: list[Pass] = [
    rewrite_memory,  # buffers and caches are values from here on
    rewrite_rnn,  # recurrent layers are loops from here on
    simplify_control_flow,  # what is known is no branch, what is alike in every trip is computed once
    *SIMPLIFY,
    rewrite_quantization,  # after the algebra, which would round a division by a scale otherwise
    fuse_attention,  # before softmax is taken apart
    fuse_dots,  # queries, keys and values: one product
    simplify_reshapes,  # the slices that it made become views of heads
    layout,  # channels-last: strides are final from here on
    simplify_reshapes,  # transposes that the new order made free
    common_subexpressions,  # layouts of one value, broadcasts of one bias
    drop_clamps,  # every operator of an epilogue counts where results are bytes
    fuse_reduce,  # before pointwise: a norm takes its own arithmetic
    fuse_pointwise,  # all that is left
    common_subexpressions,  # the broadcasts that feed the kernels
]


def optimize_with(attention: Pass) -> list[Pass]:
    """`optimize` for a target that fuses attention in its own way."""
    return [attention if one is fuse_attention else one for one in optimize]

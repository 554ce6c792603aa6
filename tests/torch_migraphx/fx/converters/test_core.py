"""The core ATen operators that no converter has to itself run in the engine, too."""

from typing import Any

import pytest
import torch

from tests.tolerances import assert_close
from tests.torch_migraphx.fx.converters.samples import f, i
from tests.torch_migraphx.fx.converters.test_converters import graph_of
from tools.support import RELEASE, core_operators
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.graph_info import draws
from torch_migraphx.fx.lower_graph import FallbackError, lower
from torch_migraphx.options import Options

aten = torch.ops.aten
MASK = [True, True, True]
Y, WHERE = torch.nn.functional.max_pool2d(f(2, 3, 7, 6), 3, 2, 1, return_indices=True)
COLUMNS = {"output_size": [6, 5], "kernel_size": [3, 2], "dilation": [1, 2], "padding": [1, 1], "stride": [2, 1]}
POOL = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "ceil_mode": False}
BAGS = {"weight": f(6, 3), "indices": i(7, low=0, high=6), "offsets": torch.tensor([0, 2, 2]), "mode": 1}
ROWS = {"grad_output": f(2, 3, 4), "indices": i(2, 3, low=0, high=5), "num_weights": 5, "padding_idx": 2}
SAMPLES: dict[Any, tuple[dict[str, Any], int]] = {
    # the operator, its arguments, and how many of its results are compared; those behind are for a backward of maxima
    aten._embedding_bag.default: (BAGS, 3),
    aten.col2im.default: ({"self": f(2, 18, 15)} | COLUMNS, 1),
    aten.embedding_dense_backward.default: (ROWS | {"scale_grad_by_freq": False}, 1),
    aten.max_pool2d_with_indices_backward.default: (
        {"grad_output": f(*Y.shape), "self": f(2, 3, 7, 6), "indices": WHERE} | POOL, 1
    ),
    aten.native_group_norm_backward.default: (
        {
            "grad_out": f(2, 6, 4), "input": f(2, 6, 4, low=0), "mean": f(2, 3), "rstd": f(2, 3, low=1),
            "weight": f(6), "N": 2, "C": 6, "HxW": 4, "group": 3, "output_mask": MASK,
        }, 3
    ),
    aten.native_layer_norm_backward.default: (
        {
            "grad_out": f(4, 6), "input": f(4, 6, low=0), "normalized_shape": [6], "mean": f(4, 1),
            "rstd": f(4, 1, low=1), "weight": f(6), "bias": f(6), "output_mask": MASK,
        }, 3
    ),
    aten.var.dim: ({"self": f(3, 4, 5), "dim": [0, 2], "unbiased": False, "keepdim": True}, 1),
    aten._fft_r2c.default: ({"self": f(3, 6), "dim": [0, 1], "normalization": 1, "onesided": True}, 1),
    aten._fft_c2r.default: (
        {"self": torch.complex(f(3, 4), f(3, 4, low=0)), "dim": [0, 1], "normalization": 2, "last_dim_size": 7}, 1
    ),
}  # fmt: skip


def test_none_is_forgotten() -> None:
    left = [o for o in core_operators() if o not in CONVERTERS and o not in SAMPLES and not draws(o)]
    if RELEASE == "2.13":
        assert all(o._schema.is_mutable for o in left)


@pytest.mark.parametrize("operator", SAMPLES, ids=str)
def test_against_torch(operator: Any) -> None:
    arguments, compared = SAMPLES[operator]
    gm, tensors, _ = graph_of([(operator, arguments)])
    output = gm.graph.output_node()
    output.args = (output.args[0][:compared],)  # type: ignore[index]
    gm.recompile()
    lowered = lower(gm, tensors, Options(target="ref", fallback="error"))
    for got, want in zip(lowered(*tensors), gm(*tensors), strict=True):
        got, want = (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in (got, want))
        assert_close(got.numpy(), want.numpy(), scale=8)


def test_random_numbers_are_said_to_be_drawn_by_torch() -> None:
    gm, tensors, _ = graph_of([(aten.native_dropout.default, {"input": f(4, 5), "p": 0.5, "train": True})])
    with pytest.raises(FallbackError, match="torch draws the random numbers, so that they are eager's"):
        lower(gm, tensors, Options(target="ref", fallback="error"))

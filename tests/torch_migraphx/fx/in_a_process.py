"""What a process does that is given a lowered module; in a file of its own, as that process imports it."""

import sys
from typing import Any

import torch

from tests.tolerances import assert_close


def run(module: Any, x: torch.Tensor, want: torch.Tensor) -> None:
    """Running needs neither what lowers nor what it reads; a converter of the user's comes after ours."""
    with torch.no_grad():
        got = module(x)
    unneeded = {"migraphx.ops", "sympy", "torch_migraphx.fx.converters"} & sys.modules.keys()
    assert not unneeded, unneeded
    assert_close(got.numpy(), want.numpy())

    from torch_migraphx.fx.converter_registry import CONVERTERS, migraphx_converter

    @migraphx_converter(torch.ops.aten.relu.default)
    def ours(*_: Any) -> None: ...

    assert len(CONVERTERS) > 100 and CONVERTERS[torch.ops.aten.relu.default].function is ours

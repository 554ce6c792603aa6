"""What the installed torch declares of its operators' results."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def _of_unique() -> torch.dtype:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        return torch.ops.aten._unique2.default(mode.from_tensor(torch.zeros(3)), True, True)[1].dtype


aten = torch.ops.aten
OTHER_TYPES = (
    ()
    if _of_unique() == torch.int64
    else (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default, aten.bincount.default)
)
"""Operators whose results have other types than torch (2.11) declares: graphs with them run in torch."""

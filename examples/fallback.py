"""What runs where: a model with an operator that the engine lacks, by three choices.

python -m examples.fallback
"""

import logging
import sys

import torch
from torch import Tensor, nn

from torch_migraphx.fx import lower_to_mgx


class Model(nn.Module):
    """Two linear layers round a QR decomposition, which the engine does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """{16, 16} to {16, 10}"""
        return self.last(torch.geqrf(self.first(x).relu())[0])


def main() -> None:
    """Lower it, list what stays in torch, then forbid that."""
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")
    model, x = Model().eval(), torch.randn(16, 16)
    lowered = lower_to_mgx(model, [x], target="ref")
    print("pieces:", ", ".join(type(part).__name__ for part in lowered.children()))
    for refusal in lowered.refusals:
        print("stays in torch:", refusal.why)
    try:
        lower_to_mgx(model, [x], target="ref", fallback="error")
    except RuntimeError as error:
        print(type(error).__name__, error, sep=": ")


if __name__ == "__main__":
    main()

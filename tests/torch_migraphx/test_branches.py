"""Blocks as RepVGG, MobileOne and FastViT are trained with: one convolution in the engine, eager's answer."""

import pytest
import torch
from torch import Tensor, nn

from tests.tiers import few
from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.mgx_module import MGXModule


def norm(channels: int) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(channels)
    for of in (made.weight, made.running_var):
        nn.init.uniform_(of, 0.5, 1.5)  # type: ignore[arg-type]
    for of in (made.bias, made.running_mean):
        nn.init.normal_(of, 0, 0.3)  # type: ignore[arg-type]
    return made


class Branches(nn.Module):
    """Two windows of 3 x 3, one of 1 x 1, and the input where it has the lens of the sum."""

    def __init__(self, channels: int, out: int, stride: int, group: int, window: int = 3) -> None:
        super().__init__()
        few = {"stride": stride, "groups": group, "bias": False}
        windows = [nn.Conv2d(channels, out, k, padding=k // 2, **few) for k in (window, window, 1)]
        self.branches = nn.ModuleList([nn.Sequential(conv, norm(out)) for conv in windows])
        if (channels, stride) == (out, 1):
            self.branches.append(norm(out))

    def sums(self, x: Tensor) -> Tensor:
        first, *others = (branch(x) for branch in self.branches)
        for other in others:
            first = first + other
        return first

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.sums(x))


class Mixer(nn.Module):
    """Tokens mixed by branches of depthwise windows, less a norm, scaled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mixer, self.norm = Branches(channels, channels, 1, channels), norm(channels)
        self.scale = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * (self.mixer.sums(x) - self.norm(x))


BLOCKS = {
    "dense": lambda: Branches(16, 16, 1, 1),
    "fewer pixels": lambda: Branches(16, 24, 2, 1),
    "depthwise": lambda: Branches(20, 20, 1, 20),
    "two filters a channel": lambda: Branches(12, 24, 2, 12, window=7),
    "mixer": lambda: Mixer(24),
}


@pytest.mark.parametrize("channels_last", few([False, True], True))
@pytest.mark.parametrize("name", few(BLOCKS, at=[0, 1]))
def test_a_block_is_one_convolution(name: str, channels_last: bool) -> None:
    torch.manual_seed(0)
    block = BLOCKS[name]().eval().requires_grad_(False)
    channels = next(m for m in block.modules() if isinstance(m, nn.Conv2d)).in_channels
    x = torch.randn(2, channels, 13, 10)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    lowered = lower_to_mgx(block, [x], fallback="error")
    assert_close(lowered(x).numpy(), block(x).numpy(), scale=10)
    programs = [m.program for m in lowered.modules() if isinstance(m, MGXModule)]
    kernels = [step.kernel for p in programs for step in p.executable.steps]  # type: ignore[union-attr]
    assert sum("convolution" in k or "depthwise" in k for k in kernels) == 1, kernels

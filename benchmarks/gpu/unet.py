"""A latent diffusion model with the sizes of Stable Diffusion 1: its U-Net, 860 million parameters, and its decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTHS = (320, 640, 1280, 1280)
HEADS, TEXT, TIME = 8, 768, 1280


class Residual(nn.Module):
    """Two convolutions, each behind a group norm and SiLU; between them the step of the diffusion, if any, is added."""

    def __init__(self, channels: int, width: int, steps: bool = True) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, channels), nn.Conv2d(channels, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(TIME, width) if steps else None
        self.skip = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None and time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Larger(nn.Module):
    """A convolution of the image, each pixel of which is there four times."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Attention(nn.Module):
    """Of the picture to itself, or to the text."""

    def __init__(self, width: int, of: int) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.k, self.v = nn.Linear(of, width, bias=False), nn.Linear(of, width, bias=False)

    def forward(self, x: Tensor, of: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (self.q(x), self.k(of), self.v(of)))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """One layer on the pixels: attention to itself, to the text, and GEGLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.enter, self.leave = (
            nn.GroupNorm(32, width),
            nn.Conv2d(width, width, 1),
            nn.Conv2d(width, width, 1),
        )
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.own, self.text = Attention(width, width), Attention(width, TEXT)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        y = self.enter(self.norm(x))
        shape = y.shape
        y = y.flatten(2).transpose(1, 2)
        z = self.norm1(y)
        y = y + self.own(z, z)
        y = y + self.text(self.norm2(y), text)
        value, gate = self.up(self.norm3(y)).chunk(2, -1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.leave(y.transpose(1, 2).reshape(shape))


class UNet(nn.Module):
    """Predicts the noise of latents."""

    def __init__(self) -> None:
        super().__init__()
        self.time1, self.time2 = nn.Linear(WIDTHS[0], TIME), nn.Linear(TIME, TIME)
        self.enter = nn.Conv2d(4, WIDTHS[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skips, channels = [WIDTHS[0]], WIDTHS[0]
        for level, width in enumerate(WIDTHS):
            for _ in range(2):
                self.down.append(self._block(channels, width, level < 3))
                channels = width
                skips.append(channels)
            if level < 3:
                self.down.append(nn.ModuleList([nn.Conv2d(channels, channels, 3, 2, 1)]))
                skips.append(channels)
        self.middle1, self.middle2 = Residual(channels, channels), Residual(channels, channels)
        self.middle = Transformer(channels)
        for level, width in reversed(list(enumerate(WIDTHS))):
            for k in range(3):
                block = self._block(channels + skips.pop(), width, level < 3)
                if level and k == 2:
                    block.append(Larger(width))
                self.up.append(block)
                channels = width
        self.norm, self.leave = nn.GroupNorm(32, channels), nn.Conv2d(channels, 4, 3, padding=1)

    @staticmethod
    def _block(channels: int, width: int, attends: bool) -> nn.ModuleList:
        return nn.ModuleList([Residual(channels, width), *([Transformer(width)] if attends else [])])

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        """Latents {N, 4, 64, 64}, the step's embedding {N, 320}, text {N, 77, 768} to noise like the latents."""
        time = self.time2(F.silu(self.time1(step)))
        x = self.enter(x)
        skips = [x]
        for block in self.down:
            x = _run(block, x, time, text)
            skips.append(x)
        x = self.middle2(self.middle(self.middle1(x, time), text), time)
        for block in self.up:
            x = _run(block, torch.cat([x, skips.pop()], 1), time, text)
        return self.leave(F.silu(self.norm(x)))


def _run(block: nn.Module, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
    for part in block.children():
        if isinstance(part, Residual):
            x = part(x, time)
        elif isinstance(part, Transformer):
            x = part(x, text)
        else:
            x = part(x)
    return x


def unet_inputs(batch: int) -> tuple[Tensor, ...]:
    """Latents of pictures of 512 pixels, a step, a text."""
    return torch.randn(batch, 4, 64, 64), torch.randn(batch, WIDTHS[0]), torch.randn(batch, 77, TEXT)


def decoder() -> nn.Module:
    """Makes pictures of 512 pixels of latents {N, 4, 64, 64}; without the attention of its middle."""
    parts = [nn.Conv2d(4, 512, 3, padding=1), Residual(512, 512, False), Residual(512, 512, False)]
    channels = 512
    for width in (512, 512, 256, 128):
        parts += [Residual(c, width, False) for c in (channels, width, width)]
        parts += [Larger(width)] if width > 128 else []
        channels = width
    return nn.Sequential(*parts, nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 3, 3, padding=1))

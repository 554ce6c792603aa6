"""A small diffusion model: its U-Net compiled once in fp16, called at every step.

    python -m examples.diffusion

The weights are random: what is shown is how the loop of a real pipeline looks, and that its pictures are eager's.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, STEPS, GUIDANCE = 16, 5, 3.0


class Residual(nn.Module):
    """A convolution behind a group norm, and the step of the diffusion."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, channels), nn.Conv2d(channels, width, 3, padding=1)
        self.time, self.skip = nn.Linear(WIDTH, width), nn.Conv2d(channels, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """{n, channels, h, w} to {n, width, h, w}."""
        return self.skip(x) + self.conv(F.silu(self.norm(x))) + self.time(time)[:, :, None, None]


class UNet(nn.Module):
    """Predicts the noise in latents {n, 4, 8, 8}, at a step {n} between 0 and 1, for a text {n, tokens, WIDTH}."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(WIDTH, WIDTH)
        self.enter, self.down = nn.Conv2d(4, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1)
        self.first, self.middle = Residual(WIDTH, WIDTH), Residual(WIDTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.last, self.leave = Residual(2 * WIDTH, WIDTH), nn.Conv2d(WIDTH, 4, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        """The noise, like the latents."""
        angles = step[:, None] * torch.arange(1, WIDTH // 2 + 1)
        time = F.silu(self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        wide = self.first(self.enter(x), time)
        x = self.middle(self.down(wide), time)
        tokens = x.flatten(2).mT
        x = x + self.attention(tokens, text, text, need_weights=False)[0].mT.reshape(x.shape)
        x = F.interpolate(x, scale_factor=2.0)
        return self.leave(F.silu(self.last(torch.cat([x, wide], 1), time)))


def sample(unet: Callable[..., Tensor], noise: Tensor, text: Tensor) -> Tensor:
    """Latents by DDIM with guidance: each step asks for the noise with the text and without it, in one batch."""
    kept = torch.linspace(0.02, 1.0, STEPS + 1)  # how much of the picture there is, against noise
    both = torch.cat([text, torch.zeros_like(text)])
    x = noise
    for now, then in pairwise(kept):
        with_text, without = unet(torch.cat([x, x]), (1 - now).expand(2 * len(x)), both).chunk(2)
        guess = without + GUIDANCE * (with_text - without)
        picture = (x - (1 - now).sqrt() * guess) / now.sqrt()
        x = then.sqrt() * picture + (1 - then).sqrt() * guess
    return x


def main() -> None:
    """Compare the latents with those of eager mode in fp32."""
    torch.manual_seed(0)
    unet, noise, text = UNet().eval(), torch.randn(1, 4, 8, 8), torch.randn(1, 7, WIDTH)
    compiled = torch.compile(unet, backend="migraphx", options={"fp16": True, "fallback": "error"})
    with torch.no_grad():
        want, got = sample(unet, noise, text), sample(compiled, noise, text)
    error = (got - want).norm() / want.norm()
    print(f"{STEPS} steps, relative error {error:.1e}")
    assert error < 0.01


if __name__ == "__main__":
    main()

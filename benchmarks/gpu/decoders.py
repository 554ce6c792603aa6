"""One token of a language model beside a cache of keys and values: plain modules from tensors to logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder; `kv_heads` of keys and values are shared by groups of `heads`."""

    vocabulary: int
    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int


LLAMA_1B = Shape(32000, 2048, 8192, 16, 32, 8)
GPT2 = Shape(50257, 768, 3072, 12, 12, 12)


class LlamaLayer(nn.Module):
    """RMS norms, rotary positions, grouped heads, SwiGLU."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s, self.head = s, s.width // s.heads
        self.norm1, self.norm2 = nn.RMSNorm(s.width, 1e-5), nn.RMSNorm(s.width, 1e-5)
        self.q, self.o = nn.Linear(s.width, s.width, bias=False), nn.Linear(s.width, s.width, bias=False)
        self.k = nn.Linear(s.width, s.kv_heads * self.head, bias=False)
        self.v = nn.Linear(s.width, s.kv_heads * self.head, bias=False)
        self.gate, self.up = nn.Linear(s.width, s.inner, bias=False), nn.Linear(s.width, s.inner, bias=False)
        self.down = nn.Linear(s.inner, s.width, bias=False)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x {1, 1, width}; keys and values {1, kv_heads, past, head}; cos and sin {head}."""
        y = self.norm1(x)
        q = rotated(self.q(y).view(1, 1, self.s.heads, self.head).transpose(1, 2), cos, sin)
        k = rotated(self.k(y).view(1, 1, self.s.kv_heads, self.head).transpose(1, 2), cos, sin)
        v = self.v(y).view(1, 1, self.s.kv_heads, self.head).transpose(1, 2)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(1, 1, self.s.width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, by halves."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Gpt2Layer(nn.Module):
    """Layer norms, biases, GELU by tanh."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s, self.head = s, s.width // s.heads
        self.norm1, self.norm2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
        self.qkv, self.o = nn.Linear(s.width, 3 * s.width), nn.Linear(s.width, s.width)
        self.up, self.down = nn.Linear(s.width, s.inner), nn.Linear(s.inner, s.width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """As LlamaLayer; positions are in `x` already."""
        q, k, v = (t.view(1, 1, self.s.heads, self.head).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.o(mixed.transpose(1, 2).reshape(1, 1, self.s.width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Decoder(nn.Module):
    """Logits of the next token."""

    def __init__(self, s: Shape, layer: type[nn.Module], norm: type[nn.Module]) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(s.vocabulary, s.width), nn.Parameter(torch.zeros(s.width))
        self.layers = nn.ModuleList([layer(s) for _ in range(s.layers)])
        self.norm, self.logits = norm(s.width), nn.Linear(s.width, s.vocabulary, bias=False)

    def forward(self, token: Tensor, past: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """token {1, 1}, past {layers, 2, 1, kv_heads, tokens, head} to {1, 1, vocabulary}."""
        x = self.embedding(token) + self.place
        for k, layer in enumerate(self.layers):
            x = layer(x, past[k, 0], past[k, 1], cos, sin)
        return self.logits(self.norm(x))


def llama_step() -> nn.Module:
    """One token of a Llama of a billion parameters."""
    return Decoder(LLAMA_1B, LlamaLayer, nn.RMSNorm)


def gpt2_step() -> nn.Module:
    """One token of GPT-2."""
    return Decoder(GPT2, Gpt2Layer, nn.LayerNorm)


def step_inputs(s: Shape, past: int) -> tuple[Tensor, ...]:
    """A token, a cache of so many, and the rotation of its place."""
    head = s.width // s.heads
    angle = past / 10000 ** (torch.arange(0, head, 2) / head)
    angles = torch.cat([angle, angle])
    cache = torch.randn(s.layers, 2, 1, s.kv_heads, past, head)
    return torch.randint(0, s.vocabulary, (1, 1)), cache, angles.cos(), angles.sin()

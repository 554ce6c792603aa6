"""Text generation with transformers' language models: `model.generate()` on caches that grow in place."""

from torch_migraphx.generation.caches import GrowingLayer, grow_in_place
from torch_migraphx.generation.model import compile_generation

__all__ = ["GrowingLayer", "compile_generation", "grow_in_place"]

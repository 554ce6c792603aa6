"""The torch.compile road; importing it registers the backends."""

from torch_migraphx.dynamo.backends import migraphx_aot_backend, migraphx_backend, migraphx_pretraced_backend

__all__ = ["migraphx_aot_backend", "migraphx_backend", "migraphx_pretraced_backend"]

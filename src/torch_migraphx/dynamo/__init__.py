"""The torch.compile road: the backends `migraphx`, `migraphx_aot` and `migraphx_pretraced`."""

from torch._dynamo import register_backend

from torch_migraphx.dynamo.backends import migraphx_aot_backend, migraphx_backend, migraphx_pretraced_backend

__all__ = ["migraphx_aot_backend", "migraphx_backend", "migraphx_pretraced_backend", "register"]


def register() -> None:
    """Make the backends known to torch.compile by name, where the package is not installed."""
    register_backend(migraphx_backend, name="migraphx")
    register_backend(migraphx_aot_backend, name="migraphx_aot")
    register_backend(migraphx_pretraced_backend, name="migraphx_pretraced")

"""The torch.compile road: the backends `migraphx`, `migraphx_aot` and `migraphx_pretraced`."""

import threading

from torch._dynamo.backends import registry
from torch._dynamo.backends.registry import register_backend

from torch_migraphx.dynamo.backends import migraphx_aot_backend, migraphx_backend, migraphx_pretraced_backend

__all__ = ["migraphx_aot_backend", "migraphx_backend", "migraphx_pretraced_backend", "register"]

BACKENDS = {
    "migraphx": migraphx_backend,
    "migraphx_aot": migraphx_aot_backend,
    "migraphx_pretraced": migraphx_pretraced_backend,
}
_registering = threading.Lock()


def register() -> None:
    """Make the backends known to torch.compile by name, unless they are.

    Torch does so when a name is first used, but not for two threads at once: one of them is told "duplicate name". Call
    this before threads that compile.
    """
    with _registering:
        for name, backend in BACKENDS.items():
            if name not in registry._COMPILER_FNS:
                register_backend(backend, name=name)

"""How operators become calls of kernels. Importing this package fills GPU, the registry."""

from importlib import import_module
from pkgutil import iter_modules

from migraphx.targets.gpu.lower.registry import GPU

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["GPU"]

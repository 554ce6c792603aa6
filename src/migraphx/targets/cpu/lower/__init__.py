"""How operators become calls of kernels. Importing this package fills CPU, the registry."""

from importlib import import_module
from pkgutil import iter_modules

from migraphx.targets.cpu.lower.registry import CPU

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CPU"]

"""How operators become calls of kernels; importing this package declares the lowerings of target cpu."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

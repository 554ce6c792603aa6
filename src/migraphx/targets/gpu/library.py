"""Work that a library does instead of a kernel of ours: what the engine must know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from migraphx.ir.size import is_open
from migraphx.targets.common.call import Call

if TYPE_CHECKING:
    from migraphx.targets.gpu.accelerator import Accelerator


class Unusable(RuntimeError):
    """The library that a program was compiled for is not here, or is another version."""


Append = Callable[[Sequence[int], int], None]
"""append(pointers, stream): the call's pointers in the order of its views, and the handle of a stream."""


class Library(Protocol):
    """An algorithm of a library, chosen when the program is compiled. A frozen dataclass whose fields JSON holds.

    Workspace is a view that the call writes, so that it lies in the arena. A graph's node of a library cannot be told
    of other addresses, so what it reads and writes of a caller's is copied at the border.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def prepare(self, device: Accelerator) -> Append:
        """Load and plan all that a launch needs; called before anything is recorded. Unusable where it can't be."""
        ...


LibraryCall = Call[Library]
Own = TypeVar("Own", bound=Library)


class Versioned(Protocol):
    """A library that is loaded."""

    version: int


F = TypeVar("F", bound=Versioned)


def needed(found: F | None, name: str, version: int, package: str) -> F:
    """The library that a program was compiled for; Unusable where it is not here, or another version."""
    if found is None:
        raise Unusable(f"the program was compiled for {name}, which is not installed: pip install {package}")
    if found.version != version:
        raise Unusable(f"the program was compiled for {name} {version}, here is {found.version}")
    return found


L = TypeVar("L", bound=type)
_declared: dict[str, type] = {}


def declare(library: L) -> L:
    """Let files name a class of libraries; TypeError for a second one of that name."""
    if library.__name__ in _declared:
        raise TypeError(f"library {library.__name__!r} is declared twice")
    _declared[library.__name__] = library
    return library


def named(name: str) -> type:
    """The declared class of that name; ValueError for none."""
    if name not in _declared:  # its module was not needed so far
        for module in iter_modules([str(Path(__file__).with_name("libraries"))]):
            import_module(f"migraphx.targets.gpu.libraries.{module.name}")
    if name not in _declared:
        raise ValueError(f"this build has no library {name!r}")
    return _declared[name]


def at(library: Own, value: Callable[[int], int]) -> Own:
    """The same with `value` of each of its numbers."""

    def of(own: Any) -> Any:
        if isinstance(own, tuple):
            return tuple(map(of, own))
        return own if isinstance(own, (bool, str)) else value(own)

    return replace(library, **{f.name: of(getattr(library, f.name)) for f in fields(library)})


def is_open_library(library: Library) -> bool:
    """Whether numbers of it differ from run to run."""
    return any(is_open(getattr(library, f.name)) for f in fields(library))


class LibraryWork:
    """A library's work with its pointers."""

    def __init__(self, append: Append, values: Sequence[int]) -> None:
        self._append, self.values = append, tuple(values)

    def bind(self, values: Sequence[int]) -> None:
        self.values = tuple(values)

    def launch(self, stream: int) -> None:
        self._append(self.values, stream)

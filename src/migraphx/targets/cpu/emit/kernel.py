"""Kernels of target cpu: functions in C++."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migraphx.targets.common.call import Call


@dataclass(frozen=True)
class Instances:
    """Instances of a header's function templates, by their declarations: one object, which all programs share."""

    header: str
    functions: tuple[str, ...]
    calls: tuple[str, ...] = ()  # functions of other instances
    stops: bool = False  # whether they look for a reason to end the run


@dataclass(frozen=True)
class Kernel:
    """The C++ of one kernel, `$name` standing for its name; equal texts are one kernel.

    Defines `void $name(const Team& t, char* const* p, const int64_t* a, char* scratch)`, where p points to the
    first element of every view and a holds the call's numbers; and, where `scratch` is set,
    `int64_t ${name}_scratch(const int64_t* a)`: bytes per thread.
    """

    text: str
    headers: tuple[str, ...] = ()
    scratch: bool = False
    instances: tuple[Instances, ...] = ()
    heavy: bool = False  # most of the compiler's work is here and not in `instances`
    coarse: bool = False  # parts of a thread's share do some of the same work, and so are to be few


CppCall = Call[Kernel]


def function(name_lines: Sequence[str]) -> str:
    """A kernel's definition round its statements."""
    body = "\n    ".join(line for text in name_lines for line in text.split("\n"))
    return f"void $name(const Team& t, char* const* p, const int64_t* a, char* scratch) {{\n    {body}\n}}\n"

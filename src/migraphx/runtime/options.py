"""The options of a compilation: one frozen object, documented once."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from operator import index
from typing import Any

MOST_THREADS = 4096  # OpenMP runtimes crash where the system refuses them a thread


@dataclass(frozen=True)
class CompileOptions:
    """What `program.compile` takes besides the target."""

    offload_copy: bool = field(
        default=True, metadata={"help": "the program returns its own outputs; else the caller passes main:#output_k"}
    )
    fast_math: bool = field(
        default=True,
        metadata={"help": "allow rewrites that change rounding (within the tolerance table), such as Winograd"},
    )
    exhaustive_tune: bool = field(
        default=False, metadata={"help": "upstream's option; no target has kernel variants to time yet"}
    )
    num_threads: int = field(
        default=0, metadata={"help": "threads of one run; 0: what affinity and cgroup quota allow"}
    )
    max_specialisations: int = field(
        default=512, metadata={"help": "for how many lengths a program with dynamic shapes stays compiled"}
    )

    def __post_init__(self) -> None:
        if not 0 <= self.num_threads <= MOST_THREADS:
            raise ValueError(f"num_threads={self.num_threads!r} is not in 0 .. {MOST_THREADS}")
        if self.max_specialisations < 1:
            raise ValueError(f"max_specialisations={self.max_specialisations!r} is less than 1")

    @classmethod
    def of(cls, **given: Any) -> CompileOptions:
        """From keywords; TypeError for an unknown one, naming the nearest, and for a wrong type."""
        known = [f.name for f in fields(cls)]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise TypeError(
                    f"unknown compile option {name!r}"
                    + (f"; did you mean {near[0]!r}?" if near else f"; known: {known}")
                )
        return cls(**{f.name: _checked(f, given[f.name]) for f in fields(cls) if f.name in given})


def _checked(option: Field, value: Any) -> Any:
    if isinstance(option.default, bool):
        if value not in (0, 1):
            raise TypeError(f"compile option {option.name!r} must be True or False, got {value!r}")
        return bool(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"compile option {option.name!r} must be a whole number, got {value!r}")
    return index(value)

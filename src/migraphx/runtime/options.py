"""The options of a compilation: one frozen object, documented and checked by its fields."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from math import inf
from operator import index
from typing import Any, Protocol, Self, TypedDict

NATIVE = "native"
ISAS = (NATIVE, "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The instruction sets that `isa` can name: this processor's, or a level of the x86-64 ABI."""
MOST_THREADS = 4096  # OpenMP runtimes crash where the system refuses them a thread


class Tunable(Protocol):
    """What the options ask of a target."""

    name: str
    tunes: bool
    levels: bool


class MoreKeywords(TypedDict, total=False):
    """For type checkers: what `program.compile` takes besides the options that upstream's takes by position."""

    num_threads: int
    max_specialisations: int
    isa: str


class CompileKeywords(MoreKeywords, total=False):
    """For type checkers: the fields of CompileOptions as keywords; a test holds them equal."""

    offload_copy: bool
    fast_math: bool
    exhaustive_tune: bool


@dataclass(frozen=True)
class CompileOptions:
    """What `program.compile` takes besides the target. The fields say what an option means, and the values it takes.

    TypeError where an option has another type than its default, ValueError where it has no such value.
    """

    offload_copy: bool = field(
        default=True, metadata={"help": "the program returns its own outputs; else the caller passes main:#output_k"}
    )
    fast_math: bool = field(
        default=True,
        metadata={"help": "allow rewrites that change rounding (within the tolerance table), such as Winograd"},
    )
    exhaustive_tune: bool = field(
        default=False,
        metadata={"help": "time the kernels that could compute a product or convolution, and keep the fastest"},
    )
    num_threads: int = field(
        default=0,
        metadata={"help": "threads of one run; 0: what affinity and cgroup quota allow", "most": MOST_THREADS},
    )
    max_specialisations: int = field(
        default=512,
        metadata={"help": "for how many sets of lengths a program with dynamic shapes stays compiled", "least": 1},
    )
    isa: str = field(
        default=NATIVE,
        metadata={
            "help": "target cpu: the instruction set of the code, which saved code needs wherever it runs; native: all "
            "that this processor has",
            "choices": ISAS,
        },
    )

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f, getattr(self, f.name)))

    @classmethod
    def of(cls, **given: Any) -> Self:
        """From keywords; TypeError for an unknown one, naming the nearest."""
        known = [f.name for f in fields(cls) if f.init]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}"
                raise TypeError(f"unknown option {name!r}; {hint}")
        return cls(**given)

    def compile_keywords(self) -> CompileKeywords:
        """The keywords of `program.compile`, without what a subclass has beside them."""
        return CompileKeywords(**{f.name: getattr(self, f.name) for f in fields(CompileOptions)})

    def check_target(self, target: Tunable) -> None:
        """ValueError where an option asks for what the target cannot do."""
        if self.exhaustive_tune and not target.tunes:
            raise ValueError(f"target {target.name!r} has no kernels to choose among: it refuses exhaustive_tune=True")
        if self.isa != NATIVE and not target.levels:
            raise ValueError(f"target {target.name!r} makes no code for a processor: it refuses isa={self.isa!r}")


def _checked(option: Field[Any], value: Any) -> Any:
    """`value` in the type of the option's default, or as the option's own `check` makes it."""
    name, metadata = f"option {option.name!r}", option.metadata
    if check := metadata.get("check"):
        return check(value)
    if isinstance(option.default, bool):
        if value not in (0, 1):
            raise TypeError(f"{name} must be True or False, got {value!r}")
        return bool(value)
    if isinstance(option.default, str):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a text, got {value!r}")
        choices = metadata.get("choices") or [value]
        if value not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    least, most = metadata.get("least", 0), metadata.get("most", inf)
    if not least <= index(value) <= most:
        raise ValueError(f"{name} must be at least {least} and at most {most}, got {value}")
    return index(value)

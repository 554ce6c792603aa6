"""The options of a lowering: one frozen object, from which `lower_to_mgx` and `torch.compile` take theirs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import migraphx

PRECISIONS = {"fp32": None, "fp16": "quantize_fp16", "bf16": "quantize_bf16"}
"""The values of `lower_precision`, and the function of migraphx that does it."""
FALLBACKS = ("torch", "error")
"""The values of `fallback`."""


@dataclass(frozen=True)
class Options:
    """How a graph becomes a module. ValueError where an option has no such value, or the target is unknown."""

    target: str = field(default="cpu", metadata={"help": "the engine's target: cpu, or ref (slow, the meaning)"})
    lower_precision: str = field(
        default="fp32", metadata={"help": "fp32 keeps the model's types; fp16 and bf16 compute floats in these"}
    )
    min_acc_module_size: int = field(
        default=10,
        metadata={
            "help": "where a graph has to be cut: the fewest operators worth a piece of their own in the engine; "
            "a convolution or a matrix product counts as ten"
        },
    )
    exhaustive_tune: bool = field(
        default=False, metadata={"help": "upstream's option; no target has kernel variants to time yet"}
    )
    save_subgraph_programs: bool = field(
        default=False, metadata={"help": "write each piece's program to mgx_<n>.mxr in the working folder"}
    )
    frozen: bool = field(
        default=False,
        metadata={
            "help": "torch.compile: the weights never change after the first call, so that no call looks whether they "
            "did; writes to them, and other memory given to them, are not seen (lower_to_mgx always keeps the weights "
            "that it was given)"
        },
    )
    verbose_log: bool = field(default=False, metadata={"help": "log every node with what it became"})
    fallback: str = field(
        default="torch",
        metadata={"help": "what the engine can't take runs in torch; with error, FallbackError lists it instead"},
    )

    def __post_init__(self) -> None:
        migraphx.get_target(self.target)  # an unknown one is an error before anything is lowered for it
        if self.fallback not in FALLBACKS:
            raise ValueError(f"fallback is {' or '.join(FALLBACKS)}; got {self.fallback!r}")
        if self.lower_precision not in PRECISIONS:
            raise ValueError(f"lower_precision is {', '.join(PRECISIONS)}; got {self.lower_precision!r}")

    @classmethod
    def of(cls, **given: Any) -> Options:
        """From keywords; an unknown one is a TypeError that names the nearest."""
        known = [f.name for f in fields(cls)]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}"
                raise TypeError(f"unknown option {name!r}; {hint}")
        return cls(**given)

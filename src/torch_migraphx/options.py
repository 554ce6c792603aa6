"""The options of a lowering: those of a compilation and the bridge's own, in one frozen object."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypedDict

import migraphx
from migraphx import CompileOptions
from torch_migraphx.devices import TARGETS, type_of
from torch_migraphx.report.report import Recorder, Report

PRECISIONS = {"fp32": None, "fp16": "quantize_fp16", "bf16": "quantize_bf16"}
"""The values of `lower_precision`, and the function of migraphx that does it."""
AUTO = "auto"
"""The target of the device that the inputs lie on."""
FALLBACKS = ("torch", "error")
"""The values of `fallback`."""


class ModuleKeywords(TypedDict, total=False):
    """For type checkers: the options of a compilation that MGXModule takes as keywords."""

    fast_math: bool
    exhaustive_tune: bool
    num_threads: int
    max_specialisations: int
    isa: str


class LoweringKeywords(ModuleKeywords, total=False):
    """For type checkers: the fields of Options that `lower_to_mgx` takes as keywords; a test holds them equal."""

    target: str
    lower_precision: str
    min_acc_module_size: int
    save_subgraph_programs: bool
    verbose_log: bool
    fallback: str
    report: str | os.PathLike[str] | Recorder | None


@dataclass(frozen=True)
class Options(CompileOptions):
    """How a graph becomes a module: `torch.compile(options=)` takes all of it, `lower_to_mgx` all but `frozen`.

    TypeError where an option has another type than its default, ValueError where it has no such value, the target is
    unknown, or cannot do what is asked.
    """

    offload_copy: bool = field(default=False, init=False)  # torch makes the outputs
    max_specialisations: int = field(
        default=64,
        metadata={
            "help": "torch.compile: for how many sets of lengths and of weights a graph stays compiled",
            "least": 1,
        },
    )
    target: str = field(
        default=AUTO,
        metadata={"help": "the engine's target: cpu, gpu, or ref (slow, the meaning); auto: where the inputs lie"},
    )
    lower_precision: str = field(
        default="fp32",
        metadata={
            "help": "fp32 keeps the model's types; fp16 and bf16 compute floats in these",
            "choices": list(PRECISIONS),
        },
    )
    min_acc_module_size: int = field(
        default=10,
        metadata={
            "help": "where a graph has to be cut: the fewest operators worth a piece of their own in the engine; "
            "a convolution or a matrix product counts as ten"
        },
    )
    save_subgraph_programs: bool = field(
        default=False, metadata={"help": "write each piece's program to mgx_0.mxr, ... in the working folder"}
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
        metadata={
            "help": "what the engine can't take runs in torch; with error, FallbackError lists it instead",
            "choices": FALLBACKS,
        },
    )

    report: str | os.PathLike[str] | Recorder | None = field(
        default=None,
        metadata={
            "help": "write a page of what became of the model to this .html file: its stages, kernels and their cost, "
            "what runs in torch and why; or fill a torch_migraphx.Report",
            "check": Report.of,
        },
    )

    def __post_init__(self) -> None:
        precision = getattr(self.lower_precision, "value", self.lower_precision)  # upstream's is an enum
        object.__setattr__(self, "lower_precision", str(precision).lower())
        super().__post_init__()
        if self.target != AUTO:
            self.check_target(migraphx.get_target(self.target))  # before anything is lowered for it

    @property
    def recorder(self) -> Recorder | None:
        """The report that is to be filled, if any."""
        return Report.of(self.report)

    def beside(self, samples: Iterable[Any]) -> Self:
        """With a target: where none was named, the one of the device that the tensors among the samples lie on."""
        return self if self.target != AUTO else replace(self, target=TARGETS[type_of(samples)])

    def module_keywords(self) -> ModuleKeywords:
        """The options of a compilation, as MGXModule takes them: it gives the outputs itself."""
        return ModuleKeywords(
            **{f.name: getattr(self, f.name) for f in fields(CompileOptions) if f.name != "offload_copy"}
        )

    @classmethod
    def of_lowering(cls, **given: Any) -> Self:
        """From the keywords of `lower_to_mgx`."""
        if "frozen" in given:
            raise TypeError(
                "frozen is an option of torch.compile; lower_to_mgx always keeps the weights that it was given"
            )
        return cls.of(**given)


def stated(options: Options) -> str:
    """What differs from the defaults, as keywords; the report itself is left out."""
    given = ((f.name, getattr(options, f.name)) for f in fields(options) if f.init and f.name != "report")
    default = Options()
    return ", ".join(f"{name}={value!r}" for name, value in given if value != getattr(default, name)) or "the defaults"

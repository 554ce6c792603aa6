"""The options of a lowering: those of a compilation and the bridge's own, in one frozen object."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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
UPSTREAM = {
    "verbose": "verbose_log",
    "save_mxr": "save_subgraph_programs",
    "fp16": "lower_precision='fp16'",
    "bf16": "lower_precision='bf16'",
}
"""Torch-MIGraphX's names of options of its backend, and ours."""


class ModuleKeywords(TypedDict, total=False):
    """For type checkers: the options of a compilation that MGXModule takes by keyword alone."""

    fast_math: bool
    num_threads: int
    max_specialisations: int
    isa: str


class LoweringKeywords(ModuleKeywords, total=False):
    """For type checkers: the fields of Options that `lower_to_mgx` takes by keyword alone; a test holds them equal."""

    exhaustive_tune: bool
    int4_weights: bool
    target: str
    fallback: str
    report: str | os.PathLike[str] | Recorder | None


@dataclass(frozen=True)
class Options(CompileOptions):
    """How a graph becomes a module. `torch.compile(options=)` takes all, `lower_to_mgx` what is not for that only.

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
    int4_weights: bool = field(
        default=False,
        metadata={
            "help": "weights of matrix products take 4 bits (migraphx.quantize_int4_weights); what they multiply stays "
            "float, half or bf16"
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
            "compile_only": "lower_to_mgx always keeps the weights that it was given",
            "help": "torch.compile: the weights never change after the first call, so that no call looks whether they "
            "did; writes to them, and other memory given to them, are not seen (lower_to_mgx always keeps the weights "
            "that it was given)",
        },
    )
    use_aot: bool = field(
        default=False,
        metadata={
            "compile_only": "use_aten=True traces by torch.export",
            "help": "torch.compile: always through AOTAutograd and ATen operators, even where a graph needs neither",
        },
    )
    deallocate: bool = field(
        default=False,
        metadata={
            "compile_only": "the engine reads the weights of the model where they lie",
            "help": "torch.compile: taken, and changes nothing: the engine reads torch's weights where they lie, so "
            "there is no second copy to free",
        },
    )
    save_compiled: str = field(
        default="",
        metadata={
            "compile_only": "save what it returns by torch.save",
            "help": "torch.compile: a file to which the compiled graph is saved, with its weights, which are frozen",
        },
    )
    load_compiled: str = field(
        default="",
        metadata={
            "compile_only": "load what was saved by torch.load",
            "help": "torch.compile: a file of save_compiled; what it holds runs, and nothing is compiled",
        },
    )
    verbose_log: bool = field(default=False, metadata={"help": "log every node with what it became, to stderr"})
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
        for name in ("save_compiled", "load_compiled"):
            if isinstance(path := getattr(self, name), os.PathLike):
                object.__setattr__(self, name, os.fspath(path))
        super().__post_init__()
        if self.target != AUTO:
            self.check_target(migraphx.get_target(self.target))  # before anything is lowered for it

    @property
    def coarsest(self) -> str:
        """The narrowest type that a float of the model may take: `int4`, or one of PRECISIONS."""
        return "int4" if self.int4_weights else self.lower_precision

    @property
    def recorder(self) -> Recorder | None:
        """The report that is to be filled, if any."""
        return Report.of(self.report)

    def beside(self, samples: Iterable[Any]) -> Self:
        """With a target: where none was named, the one of the device that the tensors among the samples lie on."""
        return self if self.target != AUTO else replace(self, target=TARGETS[type_of(samples)])

    def module_keywords(self) -> ModuleKeywords:
        """The options of a compilation that MGXModule takes by keyword alone: it gives the outputs itself."""
        return ModuleKeywords(**{name: getattr(self, name) for name in ModuleKeywords.__annotations__})

    @classmethod
    def of(cls, **given: Any) -> Self:
        """From keywords, Torch-MIGraphX's too; TypeError for an unknown one, naming the nearest.

        ValueError where two contradict each other.
        """
        return super().of(**_in_our_names(given))

    @classmethod
    def of_lowering(cls, **given: Any) -> Self:
        """From the keywords of `lower_to_mgx`."""
        for f in fields(cls):
            if f.name in given and (instead := f.metadata.get("compile_only")):
                raise TypeError(f"{f.name} is an option of torch.compile; for lower_to_mgx: {instead}")
        return cls.of(**given)


def stated(options: Options) -> str:
    """What differs from the defaults, as keywords; the report itself is left out."""
    given = ((f.name, getattr(options, f.name)) for f in fields(options) if f.init and f.name != "report")
    default = Options()
    return ", ".join(f"{name}={value!r}" for name, value in given if value != getattr(default, name)) or "the defaults"


def _in_our_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by our names; upstream's `fp16` and `bf16` are values of `lower_precision`."""
    result: dict[str, Any] = {}
    for name, value in given.items():
        ours, _, fixed = UPSTREAM.get(name, name).partition("=")
        if fixed and not isinstance(value, bool | int):
            raise TypeError(f"option {name!r} must be True or False, got {value!r}")
        if fixed and not value:
            continue
        value = fixed.strip("'") if fixed else value
        if result.setdefault(ours, value) != value:
            raise ValueError(f"option {name!r} means {ours}={value!r}, but {result[ours]!r} is given too")
    return result

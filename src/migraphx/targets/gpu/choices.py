"""Which configuration computes a product, a convolution or an attention: one measured, else a cost model's guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from migraphx.targets.gpu.facts import H200, Facts
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.libraries.blas import Gemm
from migraphx.targets.gpu.libraries.dnn import Plans
from migraphx.targets.gpu.library import LibraryCall


@dataclass(frozen=True)
class Problem:
    """What is computed, as the table of measured winners knows it.

    `shape`: of a product batch, rows, columns, depth. `epilogue`: the label of what follows.
    """

    family: str
    shape: tuple[int, ...]
    types: tuple[str, ...]
    epilogue: str = ""

    @property
    def key(self) -> str:
        return f"{self.bare} {self.epilogue}".strip()

    @property
    def bare(self) -> str:
        """The key of the problem without its epilogue, which seldom decides how sums are divided best."""
        return " ".join((self.family, "x".join(map(str, self.shape)), *self.types))


@dataclass(frozen=True)
class Config:
    """How a kernel divides its work: rows, columns and depth of a tile; parts of the depth; warps and stages.

    `tail`: parts of the depth of each tile from number `whole` on, which would leave most of the device idle.
    """

    kernel: str
    m: int
    n: int
    k: int
    split: int = 1
    warps: int = 4
    stages: int = 3
    group: int = 8
    whole: int = 0
    tail: int = 1

    def __str__(self) -> str:
        if self.kernel in LIBRARIES:
            return f"{self.kernel}'s algorithm {self.group}"
        if self.kernel == APART:
            return "two products"
        parts = [f"{self.split} parts"] * (self.split > 1) + [f"{self.tail} parts of the last tiles"] * (self.tail > 1)
        tile = f"tiles {self.m}x{self.n}x{self.k}, {self.warps} warps, {self.stages} stages"
        return f"{self.kernel} ({', '.join([tile, *parts])})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def shared(self, itemsize: int) -> int:
        """Bytes that the tiles in flight take."""
        return (self.m + self.n) * self.k * itemsize * max(self.stages, 1)


LIBRARY = "cublasLt"  # the kernel of configurations that a library computes; `group` counts its algorithms
DNN = "cudnn"  # likewise, of convolutions
LIBRARIES = {LIBRARY, DNN}
APART = "apart"  # the kernel of a configuration that computes as two products what one kernel could
WORTH_ASKING = 2e9  # operations; the answer takes a millisecond

Build = Callable[[Config], Sequence[GpuCall | LibraryCall]]
"""The calls of a configuration."""


@dataclass(frozen=True)
class Offer:
    """What a library has for a problem: configurations, the calls of one, and microseconds that any may take."""

    configs: Sequence[Config]
    build: Build
    cost: float


NOTHING = Offer((), lambda config: (), 0.0)


@dataclass(frozen=True)
class Choice:
    """What was chosen for a problem, at what estimate (microseconds; None: it was measured), and against what."""

    problem: Problem
    config: Config
    estimate: float | None
    others: tuple[tuple[Config, float], ...] = ()

    def against(self, other: Config, estimate: float) -> str:
        """Why another configuration was not taken."""
        known = "which was measured to be best" if self.estimate is None else f"about {self.estimate:.1f} us"
        return f"{other}, about {estimate:.1f} us, beside {self.config}, {known}"


def _as_candidate(winner: Config, candidates: Sequence[Config]) -> Config | None:
    """The winner, where it is a candidate here; of another layout, or version of a library, that library's best."""
    if winner in candidates:
        return winner
    return next((c for c in candidates if c.kernel == winner.kernel and c.kernel in LIBRARIES), None)


@dataclass
class Choices:
    """The facts of a device, measured winners by `Problem.key`, and what has been chosen so far.

    `measure`, where there is one, times candidates: it takes the problem and candidates, best guess first, and what
    builds the calls of one, and gives the winner. `recall`: the winner of an earlier measurement, or None.
    `algorithms`, `plans`: cuBLASLt's ways to compute a product, cuDNN's to compute a convolution.
    """

    facts: Facts = H200
    table: Mapping[str, Config] = field(default_factory=dict[str, Config])
    measure: Callable[[Problem, Sequence[Config], Build], Config] | None = None
    recall: Callable[[Problem], Config | None] | None = None
    algorithms: Callable[[Gemm], list[Gemm]] | None = None
    plans: Plans | None = None
    made: list[Choice] = field(default_factory=list)

    def pick(
        self, problem: Problem, candidates: Iterable[Config], cost: Callable[[Config], float],
        build: Build | None = None,
    ) -> Config:  # fmt: skip
        """The configuration to use."""
        found, estimate = [*self.winners(problem)], None
        ranked = sorted(((cost(c), n, c) for n, c in enumerate(candidates)), key=lambda r: r[:2])
        guesses = [c for _, _, c in ranked]
        if self.measure is not None and build is not None:
            found = [self.measure(problem, guesses, build)]
        config = next((c for w in found if (c := _as_candidate(w, guesses))), None)
        if config is None:
            estimate, _, config = ranked[0]
        self.made.append(Choice(problem, config, estimate, tuple((c, t) for t, _, c in ranked[:4] if c != config)))
        return config

    def known(self, problem: Problem) -> Config | None:
        """The measured winner, if there is one."""
        return next(self.winners(problem), None)

    def winners(self, problem: Problem) -> Iterator[Config]:
        """What was measured to be best on this device, then where the table was made, last of all with other epilogues.

        bf16 is as many bytes as half and multiplied as fast, so what is best for half is for it, too.
        """
        if found := self.recall(problem) if self.recall else None:
            yield found
        half = replace(problem, types=tuple("half" if t == "bf16" else t for t in problem.types))
        yield from (self.table[k] for k in (problem.key, problem.bare, half.key, half.bare) if k in self.table)

    def asks_library(self, problem: Problem, flops: float, library: str = LIBRARY) -> bool:
        """Whether a library is asked for its ways: to time them, where one has won, and for large problems."""
        known = self.known(problem)
        return self.measure is not None or (flops >= WORTH_ASKING if known is None else known.kernel == library)

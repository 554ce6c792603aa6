"""python -m benchmarks.quantization: accuracy and speed of int8 on trained models, and its speed on ResNets.

Two models are trained here on real data: a small convolutional network on scikit-learn's digits (1,797 scans), and a
transformer that predicts the next character of some sources of Python's own library. A row a form: the metric on data
that it was not trained on, milliseconds of a call (median and 90th percentile, all forms in this process, in turn), and
how many times quicker than our fp32 it is. "torch" are eager's forms, in floats and of torch's own quantization (FX
graph mode, or dynamic); all others run in the engine. `--isa avx2` holds both to AVX2, as far as torch lets itself be
held.
"""

import argparse
import copy
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.ao.quantization as ao
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from benchmarks.engines import ISAS, held_to
from benchmarks.models import import_torchvision, randomize
from torch_migraphx.dynamo.quantization import (
    MGXQuantizer,
    convert_pt2e,
    export_for_quantization,
    prepare_pt2e,
    quantize,
)
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.quantization import get_migraphx_backend_config, get_migraphx_qconfig_mapping
from torch_migraphx.fx.quantization.calibration import RANGES

Metric = Callable[[nn.Module], float]
CONTEXT, WIDTH = 64, 64


class Digits(nn.Module):
    """Pictures {N, 1, 8, 8} to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.head = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.first(x))), 2)
        return self.head(F.relu(self.norm2(self.second(x))).flatten(1))


class Block(nn.Module):
    """Attention that sees what came before, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        shape = (x.shape[0], x.shape[1], 4, WIDTH // 4)
        q, k, v = (t.reshape(shape).transpose(1, 2) for t in self.query_key_value(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Characters(nn.Module):
    """Characters {N, CONTEXT} to the scores of the next one, at each place."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(vocabulary, WIDTH), nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.letters(x) + self.places)))


def fit(model: nn.Module, batch: Callable[[], tuple[Tensor, Tensor]], steps: int, rate: float) -> nn.Module:
    """Train on cross entropy."""
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    for _ in range(steps):
        x, y = batch()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def digits(steps: int) -> tuple[nn.Module, list[Tensor], Metric]:
    """The trained network, calibration data, and the share of 797 other scans that it reads."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    x, y = torch.tensor(found.images[:, None] / 16).float(), torch.tensor(found.target)

    def batch() -> tuple[Tensor, Tensor]:
        some = torch.randint(0, 1000, (128,))
        return x[some], y[some]

    def metric(model: nn.Module) -> float:
        with torch.no_grad():
            return float((model(x[1000:]).argmax(1) == y[1000:]).float().mean())

    return fit(Digits(), batch, steps, 3e-3), [x[:797], x[203:1000]], metric


def characters(steps: int) -> tuple[nn.Module, list[Tensor], Metric]:
    """The trained transformer, calibration data, and the share of characters of an unseen text that it guesses."""
    modules = (argparse, inspect, json, statistics, copy, typing, subprocess)
    text = "".join(inspect.getsource(m) for m in modules)
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(c) for c in text])
    border = len(codes) * 9 // 10

    def windows(starts: Tensor) -> tuple[Tensor, Tensor]:
        at = starts[:, None] + torch.arange(CONTEXT)
        return codes[at], codes[at + 1]

    def batch() -> tuple[Tensor, Tensor]:
        return windows(torch.randint(0, border - CONTEXT - 1, (64,)))

    held = torch.arange(border, len(codes) - CONTEXT - 1, CONTEXT)[:256]

    def metric(model: nn.Module) -> float:
        x, y = windows(held)
        with torch.no_grad():
            return float((model(x).argmax(-1) == y).float().mean())

    model = fit(Characters(len(letters)), batch, steps, 2e-3)
    calibration = [windows(torch.randint(0, border - CONTEXT - 1, (len(held),)))[0] for _ in range(2)]
    return model, calibration, metric


def in_engine(model: nn.Module, x: Tensor) -> nn.Module:
    """All of it: what could not run in the engine is an error."""
    return lower_to_mgx(model, [x], suppress_accuracy_check=True, fallback="error")


def pt2e(model: nn.Module, data: Sequence[Tensor], **options: Any) -> nn.Module:
    """Quantized by MGXQuantizer."""
    prepared = prepare_pt2e(export_for_quantization(model, (data[0],)), MGXQuantizer(**options))
    with torch.no_grad():
        for x in data:
            prepared(x)
    return convert_pt2e(prepared)


def by_fx(model: nn.Module, data: Sequence[Tensor], mapping: Any, backend: Any = None) -> nn.Module:
    """Quantized by torch's FX graph mode."""
    prepared = prepare_fx(copy.deepcopy(model), mapping, (data[0],), backend_config=backend)
    with torch.no_grad():
        for x in data:
            prepared(x)
    return convert_fx(prepared, backend_config=backend)


def torchs_own(model: nn.Module, data: Sequence[Tensor], convolutional: bool) -> nn.Module:
    """Quantized for torch's own kernels."""
    if convolutional:
        return by_fx(model, data, ao.get_default_qconfig_mapping("x86"))
    return ao.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)


def forms_of(model: nn.Module, data: Sequence[Tensor], metric: Metric, convolutional: bool) -> dict[str, nn.Module]:
    """Each form of a model, by name."""
    theirs = torchs_own(model, data, convolutional)
    found = {"torch fp32": model, "torch int8": theirs, "fp32": in_engine(model, data[0])}
    found["torch's int8 model"] = in_engine(theirs, data[0])
    if convolutional:
        fx = by_fx(model, data, get_migraphx_qconfig_mapping(), get_migraphx_backend_config())
        found["FX"] = in_engine(fx, data[0])
    for method in ("histogram", *RANGES):
        found[f"PT2E {method}"] = in_engine(pt2e(model, data, calibration=method), data[0])
    found["PT2E asymmetric"] = in_engine(pt2e(model, data, asymmetric_activations=True), data[0])
    mixed = quantize(model, data, metric, 0.001)
    print(mixed)
    found["mixed"] = in_engine(mixed.model, data[0])
    return found


def resnet(name: str) -> tuple[dict[str, nn.Module], Tensor]:
    """A ResNet in floats and in int8, torch's and ours, and a picture."""
    model, x = randomize(getattr(import_torchvision().models, name)(weights=None)).eval(), torch.randn(1, 3, 224, 224)
    ours = {"fp32": in_engine(model, x), "PT2E histogram": in_engine(pt2e(model, [x]), x)}
    return {"torch fp32": model, "torch int8": torchs_own(model, [x], True), **ours}, x


def speeds(forms: dict[str, nn.Module], x: Tensor, seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds of calls, in turn, for so long: p50, p90, and how many times quicker than fp32."""
    spent: dict[str, list[float]] = {form: [] for form in forms}
    end = time.perf_counter() + seconds
    with torch.no_grad():
        while time.perf_counter() < end or len(spent["fp32"]) < 8:
            for form, module in forms.items():
                module(x)  # what ran before has left its data in the caches
                start = time.perf_counter()
                module(x)
                spent[form].append((time.perf_counter() - start) * 1e3)
    kept = {form: sorted(values[3:]) for form, values in spent.items()}
    middle = {form: statistics.median(values) for form, values in kept.items()}
    return {
        form: {
            "p50 ms": middle[form],
            "p90 ms": values[len(values) * 9 // 10],
            "fp32 / it": middle["fp32"] / middle[form],
        }
        for form, values in kept.items()
    }


def hold(isa: str) -> None:
    """Begin again with what holds engines to an instruction set, which they ask for when they are imported."""
    wanted = held_to(isa)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        again = [sys.executable, "-m", "benchmarks.quantization", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **wanted})


def table(name: str, rows: dict[str, dict[str, float]]) -> str:
    """A line a form."""
    titles = list(next(iter(rows.values())))
    lines = [f"\n{name:24}" + "".join(f"{title:>11}" for title in titles)]
    return "\n".join(
        lines + [f"  {form:22}" + "".join(f"{row[t]:11.4f}" for t in titles) for form, row in rows.items()]
    )


def main() -> None:
    """Train, quantize, measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization", description=__doc__)
    parser.add_argument("--models", default="digits,characters", help="of digits and characters; empty: none")
    parser.add_argument("--speeds", default="resnet18,resnet50", help="torchvision's models; empty: none")
    parser.add_argument("--steps", type=int, default=400, help="of training")
    parser.add_argument("--seconds", type=float, default=10, help="of turns of a model's forms")
    parser.add_argument("--isa", choices=ISAS, default="native", help="instruction set that engines are held to")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = parser.parse_args()
    hold(given.isa)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in filter(None, given.models.split(",")):
        torch.manual_seed(0)
        model, data, metric = {"digits": digits, "characters": characters}[name](given.steps)
        forms = forms_of(model, data, metric, name == "digits")
        found = speeds(forms, data[0], given.seconds)
        results[name] = {form: {"metric": metric(module), **found[form]} for form, module in forms.items()}
        print(table(name, results[name]), flush=True)
    for name in filter(None, given.speeds.split(",")):
        torch.manual_seed(0)
        results[name] = speeds(*resnet(name), given.seconds)
        print(table(name, results[name]), flush=True)
    if given.output:
        given.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

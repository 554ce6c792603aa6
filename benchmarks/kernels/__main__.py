"""GFLOP/s of dot and convolution, the share of the multiply-add peak measured in the same run, and torch's.

`python -m benchmarks.kernels [--threads 2] [--seconds 0.2] [--flags="-mavx2 -mfma -mf16c"]` prints one line a
shape; `--json FILE` also writes them. Winograd lines count the FLOPs of the direct convolution, so they may
pass 100 %.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from benchmarks.machine import describe, measure_floors
from migraphx.targets.cpu.emit.structs import Conv
from migraphx.targets.cpu.pack.conv import pack_planar

HEADERS = Path(__file__).parents[2] / "src" / "migraphx" / "targets" / "cpu" / "kernels"
FLAGS = ["-O3", "-std=c++20", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-Wno-psabi", "-fopenmp", "-fPIC", "-shared"]
# rows, columns, depth: BERT-base of 128 tokens, ViT-B/16, GPT-2's logits, a classifier of one row
DOTS = [
    *[(128, n, k) for n, k in ((768, 768), (2304, 768), (3072, 768), (768, 3072))],
    *[(197, n, k) for n, k in ((768, 768), (2304, 768), (3072, 768), (768, 3072))],
    *[(64, 50257, 768), (1, 50257, 768), (1, 1000, 2048)],
]
# size, input channels, output channels, kernel, stride, padding: ResNet-50, DenseNet's growth, first layers
CONVS = [
    *[(224, 3, 64, 7, 2, 3), (224, 3, 32, 3, 2, 1), (224, 3, 96, 4, 4, 0), (224, 3, 768, 16, 16, 0)],
    *[(56, 64, 64, 3, 1, 1), (28, 128, 128, 3, 1, 1), (14, 256, 256, 3, 1, 1), (7, 512, 512, 3, 1, 1)],
    *[(56, 128, 128, 3, 2, 1), (28, 256, 256, 3, 2, 1), (14, 512, 512, 3, 2, 1)],
    *[(56, 64, 64, 1, 1, 0), (56, 64, 256, 1, 1, 0), (56, 256, 64, 1, 1, 0), (56, 256, 512, 1, 2, 0)],
    *[(28, 512, 128, 1, 1, 0), (28, 128, 512, 1, 1, 0), (28, 512, 1024, 1, 2, 0)],
    *[(14, 1024, 256, 1, 1, 0), (14, 256, 1024, 1, 1, 0), (14, 1024, 2048, 1, 2, 0)],
    *[(7, 2048, 512, 1, 1, 0), (7, 512, 2048, 1, 1, 0)],
    *[(size, 128, 32, 3, 1, 1) for size in (56, 28, 14, 7)],
    *[(112, 16, 96, 1, 1, 0), (112, 32, 16, 1, 1, 0), (56, 24, 144, 1, 1, 0), (56, 144, 24, 1, 1, 0)],
]
P, Q = 5 / 8, 3 / 2  # the points of winograd.hpp
PP, QQ = 2 * P**2 * (P**2 - Q**2), 2 * Q**2 * (Q**2 - P**2)
PLACES = np.array(
    [[1 / (P * Q) ** 2, 0, 0]]
    + [[1 / PP, s * P / PP, P**2 / PP] for s in (1, -1)]
    + [[1 / QQ, s * Q / QQ, Q**2 / QQ] for s in (1, -1)]
    + [[0, 0, 1]]
)


@dataclass(frozen=True)
class Row:
    """One measurement: best GFLOP/s of ours and torch, and the largest error over the largest output."""

    name: str
    ours: float
    torch: float
    error: float


def build(flags: list[str], folder: str) -> ctypes.CDLL:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("the benchmark needs a C++ compiler: install g++ or clang++, or set CXX")
    target, source = Path(folder, "kernels.so"), Path(__file__).with_name("kernels.cpp")
    subprocess.run([compiler, *FLAGS, *flags, f"-I{HEADERS}", source, "-o", target], check=True)
    lib = ctypes.CDLL(str(target))
    for name in ("conv_bytes", "planar_bytes", "winograd_bytes", "gemm_bytes"):
        getattr(lib, name).restype = ctypes.c_int64
    return lib


def best(call: Callable[[], object], seconds: float) -> float:
    """Least seconds of a call, after two that warm up: other programs can only make one slower."""
    call()
    call()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def aligned(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def pack(b: np.ndarray, width: int) -> np.ndarray:
    """[..., k, n] -> [..., panels, k, width] as gemm.hpp wants it."""
    *outer, k, n = b.shape
    panels = -(-n // width)
    wide = np.zeros((*outer, k, panels * width), np.float32)
    wide[..., :n] = b
    return aligned(np.moveaxis(wide.reshape(*outer, k, panels, width), -2, -3))


def error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


def pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(a.ctypes.data) for a in arrays]


def measure_dot(lib: ctypes.CDLL, m: int, n: int, k: int, threads: int, seconds: float) -> Row:
    rng = np.random.default_rng(0)
    a, b = (aligned(rng.standard_normal(s, dtype=np.float32)) for s in ((m, k), (k, n)))
    out = aligned(np.full((m, n), np.nan, np.float32))
    scratch = aligned(np.empty(threads * lib.gemm_bytes(), np.uint8))
    packed, sizes = pack(b, lib.columns()), (ctypes.c_int64 * 4)(m, n, k, k)
    args = [*pointers(a, packed, out, scratch), threads]
    ours = best(lambda: lib.run_gemm(sizes, *args), seconds)
    ta, tb = torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(b.T)).t()
    theirs, flops = best(lambda: torch.mm(ta, tb), seconds), 2e-9 * m * n * k
    return Row(f"dot {m} x {k} x {n}", flops / ours, flops / theirs, error(out, a @ b))


def torch_conv(x: torch.Tensor, w: torch.Tensor, stride: int, pad: int) -> Callable[[], torch.Tensor]:
    """oneDNN's convolution on weights that it has laid out itself: what a compiled torch model runs."""
    spatial = ((pad, pad), (stride, stride), (1, 1), 1)
    packed = torch.ops.mkldnn._reorder_convolution_weight(w.contiguous(), *spatial, list(x.shape))
    return lambda: torch.ops.mkldnn._convolution_pointwise(x, packed, None, *spatial, "none", [], "")


def measure_conv(lib: ctypes.CDLL, case: tuple[int, ...], threads: int, seconds: float) -> Iterator[Row]:
    size, ic, oc, kernel, stride, pad = case
    rng = np.random.default_rng(0)
    x = aligned(rng.standard_normal((1, size, size, ic), dtype=np.float32))
    w = rng.standard_normal((oc, ic, kernel, kernel), dtype=np.float32)
    tx, tw = torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(w)
    want = torch.conv2d(tx.double(), tw.double(), None, stride, pad).permute(0, 2, 3, 1).numpy()
    out = aligned(np.full(want.shape, np.nan, np.float32))
    high, wide = want.shape[1:3]
    window = (1, size, size), (1, high, wide), (1, kernel, kernel), (1, stride, stride), (1, 1, 1), (0, pad, pad)
    numbers = [1, ic, oc, 1, ic, *chain(*window)]
    sizes, flops = (ctypes.c_int64 * len(numbers))(*numbers), 2e-9 * want.size * ic * kernel**2
    theirs = flops / best(torch_conv(tx, tw, stride, pad), seconds)
    direct = pack(w.transpose(2, 3, 1, 0).reshape(kernel**2 * ic, oc), lib.columns())
    runs = [("conv", lib.run_conv, x, sizes, direct, lib.conv_bytes(sizes))]
    if ic <= 4 and kernel <= 7:
        picture = aligned(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
        planes = 1, ic, oc, ic * size**2, size**2, size, size, size, high, wide, kernel, stride, pad, pad
        of = (ctypes.c_int64 * len(planes))(*planes)
        runs.append(("planar", lib.run_planar, picture, of, pack_planar(w, lib.columns()), lib.planar_bytes(of)))
    if Conv(1, ic, oc, 1, ic, *window).suits_winograd:
        u = np.einsum("ai,ocij,bj->abco", PLACES, w, PLACES).reshape(36, ic, oc)
        runs.append(("winograd", lib.run_winograd, x, sizes, pack(u, lib.columns()), lib.winograd_bytes(sizes)))
    for name, call, image, of, weights, scratch_bytes in runs:
        scratch = aligned(np.empty(threads * scratch_bytes, np.uint8))
        args = [of, *pointers(image, weights, out, scratch), threads]
        ours = best(lambda call=call, args=args: call(*args), seconds)
        title = f"{name} {size}x{size} {ic}->{oc} {kernel}x{kernel}/{stride}"
        yield Row(title, flops / ours, theirs, error(out, want))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each measurement")
    parser.add_argument("--flags", default="-march=native", help="instruction set, as the compiler wants it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    peak = measure_floors(options.threads).flops / 1e9
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        lib = build(options.flags.split(), folder)
        print(f"multiply-add peak of {options.threads} threads, -march=native: {peak:.0f} GFLOP/s")
        for dot in DOTS:
            rows.append(measure_dot(lib, *dot, options.threads, options.seconds))
            show(rows[-1], peak)
        for case in CONVS:
            for row in measure_conv(lib, case, options.threads, options.seconds):
                rows.append(row)
                show(row, peak)
    if options.json:
        report = {"machine": describe(), "peak": peak, "rows": [asdict(r) for r in rows]}
        options.json.write_text(json.dumps(report, indent=1))


def show(row: Row, peak: float) -> None:
    ours = f"{row.ours:7.0f} GFLOP/s {100 * row.ours / peak:4.0f} %"
    theirs = f"torch {row.torch:5.0f}  x {row.ours / row.torch:4.2f}"
    print(f"{row.name:34}{ours}  {theirs}  error {row.error:.0e}", flush=True)


if __name__ == "__main__":
    main()

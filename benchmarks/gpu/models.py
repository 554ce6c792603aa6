"""Whole models on a GPU: torch's modes and OpenMGX, each in a process of its own.

`python -m benchmarks.gpu.models [--cases resnet50_b1,bert_16x384] [--engines eager,openmgx] [--output FILE]` prints a
table and writes JSON. A process builds the model with random weights, answers once (`first`: seconds from the finished
build to the first answer, imports and compilation in it), compares with eager in float64 on the same device,
and then measures synchronised calls: their median. Inputs lie on the device; weights are random, as zeros run faster.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
from torch import Tensor, nn

import migraphx
from benchmarks.gpu.decoders import GPT2, LLAMA_1B, gpt2_step, llama_step, step_inputs
from benchmarks.gpu.unet import UNet, unet_inputs
from benchmarks.models import bert, gpt2, import_transformers, randomize, torchvision_model

Run = Callable[[], Any]
PROCESS_SECONDS = 400
LOCK = Path(gettempdir(), "openmgx_benchmark.lock")
AHEAD = 2  # processes: one imports and builds its model while the other has the device


@dataclass(frozen=True)
class GpuCase:
    """A model with inputs in the type that it is measured in; integers stay what they are."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    dtype: torch.dtype = torch.float16
    image: bool = False


class Logits(nn.Module):
    """A language model reduced to its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        """Token ids {batch, tokens} to logits {batch, tokens, vocabulary}."""
        return self.model(input_ids=input_ids, use_cache=False).logits


class Hidden(nn.Module):
    """A model reduced to its last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).last_hidden_state


def llama_1b() -> nn.Module:
    """A Llama of about a billion parameters."""
    library = import_transformers()
    config = library.LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=4096,
    )
    return Logits(library.LlamaForCausalLM(config))


def whisper_encoder() -> nn.Module:
    """Whisper-tiny's encoder."""
    library = import_transformers()
    config = library.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, num_mel_bins=80
    )
    return Hidden(library.models.whisper.modeling_whisper.WhisperEncoder(config))


def _vision(name: str, batch: int, dtype: torch.dtype = torch.float16) -> GpuCase:
    return GpuCase(lambda: torchvision_model(name), lambda: (torch.randn(batch, 3, 224, 224),), dtype, image=True)


def _text(build: Callable[[], nn.Module], batch: int, tokens: int, dtype: torch.dtype = torch.float16) -> GpuCase:
    return GpuCase(build, lambda: (torch.randint(0, 30000, (batch, tokens)),), dtype)


CASES = {
    "resnet50_b1": _vision("resnet50", 1),
    "resnet50_b32": _vision("resnet50", 32),
    "bert_16x384": _text(bert, 16, 384),
    "vit_b16_b32": _vision("vit_b_16", 32),
    "gpt2_64": _text(gpt2, 1, 64),
    "llama1b_prefill_2048": _text(llama_1b, 1, 2048),
    "gpt2_decode_1024": GpuCase(gpt2_step, lambda: step_inputs(GPT2, 1024)),
    "llama1b_decode_1024": GpuCase(llama_step, lambda: step_inputs(LLAMA_1B, 1024)),
    "unet_b2": GpuCase(UNet, lambda: unet_inputs(2), image=True),
    "whisper_tiny_encoder": GpuCase(whisper_encoder, lambda: (torch.randn(1, 80, 3000),)),
    "efficientnet_b0_b1": _vision("efficientnet_b0", 1),
    "convnext_tiny_b32": _vision("convnext_tiny", 32),
    "mobilenet_v2_b1": _vision("mobilenet_v2", 1),
    "resnet50_b1_fp32": _vision("resnet50", 1, torch.float32),
    "resnet50_b32_fp32": _vision("resnet50", 32, torch.float32),
    "bert_16x384_fp32": _text(bert, 16, 384, torch.float32),
}


def _eager_graph(model: nn.Module, inputs: tuple[Tensor, ...]) -> Run:
    """Eager, captured once."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = model(*inputs)

    def run() -> Tensor:
        graph.replay()
        return answer

    return run


def _lowered(model: nn.Module, inputs: tuple[Tensor, ...]) -> Run:
    import torch_migraphx.fx as fx  # other engines must not pay for it

    lowered = fx.lower_to_mgx(model, list(inputs))
    return lambda: lowered(*inputs)


def quantized_module(
    type: str, model: nn.Module, inputs: tuple[Tensor, ...], **options: Any
) -> tuple[Any, tuple[Tensor, ...]]:
    """Ours with products of this type, calibrated with the inputs, and what it takes.

    int8 of the model in float, as all sums but the last become integers; fp8 in the model's own type.
    """
    import torch_migraphx.fx as fx
    from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
    from torch_migraphx.fx.tracer.aten_tracer import aten_tracer

    if type == "int8":
        model, inputs = model.float(), tuple(x.float() if x.is_floating_point() else x for x in inputs)
    try:
        traced = acc_tracer.trace_leaves(model, list(inputs))
    except acc_tracer.AccTraceError:
        traced = aten_tracer.trace(model, list(inputs))
    interpreter = fx.MGXInterpreter(traced, list(inputs))
    program = interpreter.run()
    names = interpreter.get_input_names()
    samples = {n: x.cpu().numpy() for n, x in zip(names, inputs, strict=True)}
    NARROW[type](program, migraphx.get_target("gpu"), [samples])
    return fx.MGXModule(program, names, interpreter.get_output_names(), target="gpu", **options), inputs


NARROW: dict[str, Callable[..., None]] = {
    "int8": partial(migraphx.quantize_int8, ins_names=("dot", "convolution", "add")),
    "fp8": migraphx.quantize_fp8,
}


def _quantized(type: str) -> Callable[[nn.Module, tuple[Tensor, ...]], Run]:
    def make(model: nn.Module, inputs: tuple[Tensor, ...]) -> Run:
        module, given = quantized_module(type, model, inputs)
        return lambda: module(*given)

    return make


def _compiled(frozen: bool) -> Callable[[nn.Module, tuple[Tensor, ...]], Run]:
    def make(model: nn.Module, inputs: tuple[Tensor, ...]) -> Run:
        compiled = torch.compile(model, backend="migraphx", options={"frozen": frozen})
        return lambda: compiled(*inputs)

    return make


def _by_inductor(mode: str, freezing: bool = False) -> Callable[[nn.Module, tuple[Tensor, ...]], Run]:
    def make(model: nn.Module, inputs: tuple[Tensor, ...]) -> Run:
        from torch._inductor import config  # other engines must not pay for it

        config.freezing = freezing
        compiled = torch.compile(model, mode=mode)
        return lambda: compiled(*inputs)

    return make


ENGINES: dict[str, Callable[[nn.Module, tuple[Tensor, ...]], Run]] = {
    "eager": lambda model, inputs: lambda: model(*inputs),
    "eager_graph": _eager_graph,
    "inductor": _by_inductor("default"),
    "reduce_overhead": _by_inductor("reduce-overhead"),
    "reduce_overhead_freezing": _by_inductor("reduce-overhead", freezing=True),
    "max_autotune": _by_inductor("max-autotune"),
    "openmgx_fx": _lowered,
    "openmgx": _compiled(frozen=False),
    "openmgx_frozen": _compiled(frozen=True),
    "openmgx_int8": _quantized("int8"),
    "openmgx_fp8": _quantized("fp8"),
}
OURS = ("openmgx_fx", "openmgx", "openmgx_frozen", "openmgx_int8", "openmgx_fp8")
TORCHS = [name for name in ENGINES if name not in OURS]


def measured(case: GpuCase, engine: str, device: str, seconds: float, aside: bool) -> dict[str, Any]:
    """One engine on one case, in this process: from the first use of the device on it waits for its turn.

    `aside`: it compiles while another process has its turn, so that `first` says little.
    """
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = randomize(case.build())
    inputs = case.inputs()
    torch.backends.cudnn.allow_tf32 = False  # float is float; products are so by default
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        inputs = tuple(x.to(device) for x in inputs)
        exact = model.to(device, torch.float64)(*(x.double() if x.is_floating_point() else x for x in inputs))
        if aside:
            wait(device)
            fcntl.flock(lock, fcntl.LOCK_UN)
        run, found = answered(case, engine, device, model, inputs, exact)
        fcntl.flock(lock, fcntl.LOCK_EX)  # until this process ends the device is its own
        return found | timed(run, device, seconds)


def answered(
    case: GpuCase, engine: str, device: str, model: nn.Module, inputs: tuple[Tensor, ...], exact: Tensor
) -> tuple[Run, dict[str, Any]]:
    """The engine on the model, and what its first answer took and is worth."""
    model = model.to(device, case.dtype)
    if case.image and engine not in OURS:
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    inputs = tuple(x.to(case.dtype) if x.is_floating_point() else x for x in inputs)
    if device == "cuda":
        torch.cuda.empty_cache()
    begin = time.perf_counter()
    run = ENGINES[engine](model, inputs)
    answer = run()
    wait(device)
    first = time.perf_counter() - begin
    return run, {"first": first, "error": float((answer.double() - exact).abs().max() / exact.abs().max())}


def timed(run: Run, device: str, seconds: float) -> dict[str, Any]:
    """Synchronised calls for so many seconds."""
    for _ in range(5):
        run()
    wait(device)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        wait(device)
        times.append(time.perf_counter() - begin)
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    p90 = statistics.quantiles(times, n=10)[-1]
    return {"ms": 1e3 * statistics.median(times), "p90_ms": 1e3 * p90, "torch": memory}


def wait(device: str) -> None:
    """Until the device has nothing left to do."""
    if device == "cuda":
        torch.cuda.synchronize()


def in_a_process(case: str, engine: str, device: str, seconds: float, aside: bool) -> dict[str, Any]:
    """As `measured`, elsewhere; an engine that fails says why."""
    command = [sys.executable, "-m", "benchmarks.gpu.models", "--one", case, engine, "--device", device]
    command += ["--aside", "1"] if aside else []
    try:
        done = subprocess.run(
            [*command, "--seconds", str(seconds)], capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {PROCESS_SECONDS} s"}
    if done.returncode:
        return {"failed": done.stderr.strip()[-2000:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--engines", default=",".join([*TORCHS, "openmgx_fx", "openmgx", "openmgx_frozen"]))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--aside", type=int, default=0, help="compile in so many processes while another is measured")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("CASE", "ENGINE"), help="in this process; prints one line of JSON")
    chosen = parser.parse_args()
    if chosen.one:
        case, engine = chosen.one
        print(json.dumps(measured(CASES[case], engine, chosen.device, chosen.seconds, bool(chosen.aside))))
        return
    results: dict[str, dict[str, Any]] = {case: {} for case in chosen.cases.split(",")}
    jobs = [(case, engine) for case in results for engine in chosen.engines.split(",")]
    name = torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu"
    aside = bool(chosen.aside)
    with ThreadPoolExecutor(chosen.aside or AHEAD) as pool:
        made = pool.map(lambda job: in_a_process(job[0], job[1], chosen.device, chosen.seconds, aside), jobs)
        for (case, engine), found in zip(jobs, made, strict=True):
            results[case][engine] = found
            short = found.get("failed", "")[-300:] or {k: float(f"{v:.4g}") for k, v in found.items()}
            print(case, engine, short, flush=True)
            if chosen.output:
                about = {"device": name, "torch": torch.__version__, "results": results}
                chosen.output.write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()

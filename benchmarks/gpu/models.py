"""Whole models on a GPU: torch's modes and OpenMGX, each in a process of its own.

`python -m benchmarks.gpu.models [--cases resnet50_b1,bert_16x384] [--engines eager,openmgx] [--output FILE]` prints a
table and writes JSON. A process builds the model with random weights, answers once (`first`: seconds from the finished
build to the first answer, imports and compilation in it), compares with eager in float64 on the same device,
and then measures synchronised calls: their median. Inputs lie on the device; weights are random, as zeros run faster.
With `--together N` so many processes get ready side by side, which makes a long table short and `first` say little.
When all of them are ready the engines of a case take short turns, `--rounds` each, so that a device that gets warm is
so for all; nothing runs beside a turn. The median of the turns' medians counts, and of their 90th percentiles.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import torch
from torch import Tensor, nn

import migraphx
from benchmarks.gpu.decoders import GPT2, LLAMA_1B, gpt2_step, llama_step, step_inputs
from benchmarks.gpu.unet import UNet, decoder, unet_inputs
from benchmarks.models import bert, gpt2, import_transformers, randomize, torchvision_model

Run = Callable[[], Any]
FOUND = "found: "  # begins the lines of a process that are for the one that started it; Inductor prints JSON, too
PROCESS_SECONDS = 400


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
    "decoder_512": GpuCase(decoder, lambda: (torch.randn(1, 4, 64, 64),), image=True),
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
    "max_autotune_freezing": _by_inductor("max-autotune", freezing=True),
    "openmgx_fx": _lowered,
    "openmgx": _compiled(frozen=False),
    "openmgx_frozen": _compiled(frozen=True),
    "openmgx_int8": _quantized("int8"),
    "openmgx_fp8": _quantized("fp8"),
}
OURS = ("openmgx_fx", "openmgx", "openmgx_frozen", "openmgx_int8", "openmgx_fp8")
TORCHS = [name for name in ENGINES if name not in OURS]


def measured(case: GpuCase, engine: str, device: str, seconds: float) -> None:
    """One engine on one case, in this process.

    Prints what its first answer took and is worth, and for each line that comes what a call takes: JSON behind FOUND.
    """
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = randomize(case.build())
    torch.backends.cudnn.allow_tf32 = False  # float is float; products are so by default
    inputs = tuple(x.to(device) for x in case.inputs())
    exact = model.to(device, torch.float64)(*(x.double() if x.is_floating_point() else x for x in inputs))
    run, found = answered(case, engine, device, model, inputs, exact)
    print(FOUND + json.dumps(found), flush=True)
    for _ in sys.stdin:
        print(FOUND + json.dumps(timed(run, device, seconds)), flush=True)


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


class Process:
    """`measured`, elsewhere; an engine that fails says why."""

    def __init__(self, case: str, engine: str, device: str, seconds: float) -> None:
        self.case, self.engine = case, engine
        command = [sys.executable, "-m", "benchmarks.gpu.models", "--one", case, engine, "--device", device]
        self.child = subprocess.Popen(
            [*command, "--seconds", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: deque[str] = deque(maxlen=20)  # lines, if it fails
        self.limit = Timer(PROCESS_SECONDS, self.child.kill)
        self.limit.daemon = True
        self.limit.start()

    def found(self) -> dict[str, Any]:
        """What it finds next: at first what its first answer took; empty where it has ended."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(FOUND):
                return json.loads(line.removeprefix(FOUND))
            self.said.append(line)
        return {}

    def turn(self) -> dict[str, Any]:
        """What a call takes now; empty where it has ended."""
        assert self.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may have failed
            self.child.stdin.write("\n")
            self.child.stdin.flush()
        return self.found()

    def end(self) -> dict[str, Any]:
        """End it; how it failed, or nothing."""
        assert self.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()
        self.child.wait()
        self.limit.cancel()
        if self.child.returncode == -signal.SIGKILL:
            self.said.append(f"killed, perhaps after {PROCESS_SECONDS} s")
        return {"failed": "".join(self.said)[-2000:]} if self.child.returncode else {}


def in_turns(processes: Sequence[Process], rounds: int) -> list[dict[str, Any]]:
    """What a call of each takes, or how it failed; they take turns."""
    turns = [[process.turn() for process in processes] for _ in range(rounds)]
    found: list[dict[str, Any]] = []
    for process, own in zip(processes, zip(*turns, strict=True), strict=True):
        known = [turn for turn in own if turn]
        medians = {k: statistics.median(turn[k] for turn in known) for k in (known[0] if known else ())}
        found.append(medians | process.end())
    return found


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--engines", default=",".join([*TORCHS, "openmgx_fx", "openmgx", "openmgx_frozen"]))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each process")
    parser.add_argument("--together", type=int, default=1, help="so many get ready side by side")
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--one", nargs=2, metavar=("CASE", "ENGINE"), help="in this process; a line of JSON for each of its input"
    )
    chosen = parser.parse_args()
    if chosen.one:
        case, engine = chosen.one
        measured(CASES[case], engine, chosen.device, chosen.seconds)
        return
    results: dict[str, dict[str, Any]] = {case: {} for case in chosen.cases.split(",")}
    jobs = list(itertools.product(results, chosen.engines.split(",")))
    name = torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu"
    for begin in range(0, len(jobs), chosen.together):
        batch = jobs[begin : begin + chosen.together]
        processes = [Process(case, engine, chosen.device, chosen.seconds) for case, engine in batch]
        firsts = {process: process.found() for process in processes}
        for case, group in itertools.groupby(processes, lambda process: process.case):
            own = [*group]
            for process, turns in zip(own, in_turns(own, chosen.rounds), strict=True):
                found = results[case][process.engine] = firsts[process] | turns
                short = found.get("failed", "")[-300:] or {k: float(f"{v:.4g}") for k, v in found.items()}
                print(case, process.engine, short, flush=True)
            if chosen.output:
                about = {"device": name, "torch": torch.__version__, "results": results}
                chosen.output.write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()

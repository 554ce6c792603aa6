"""The engines: each makes a function of no arguments that compiles when first called and answers an array.

`prepare` (in a process of its own) leaves in the case's folder what the engines share: the inputs, eager's
answer, the ONNX file, the work to do. Engines that read ONNX never import torch.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]
MODEL, INT8_MODEL = "model.onnx", "model_int8.onnx"


@dataclass(frozen=True)
class Task:
    """What an engine gets: the model's name, the case's folder, the number of threads, the batch size."""

    model: str
    folder: Path
    threads: int
    batch: int = 1


def _lazily(compile_: Callable[[], Run]) -> Run:
    """A run whose first call compiles, so that every engine's first answer counts the same."""
    compiled: list[Run] = []

    def run() -> Any:
        if not compiled:
            compiled.append(compile_())
        return compiled[0]()

    return run


def _torch_model(task: Task, channels_last: bool = False) -> tuple[Any, tuple[Any, ...]]:
    import torch  # engines without torch must not pay for it

    from benchmarks.models import build  # imports torch

    torch.set_num_threads(task.threads)
    torch.set_grad_enabled(False)
    model, inputs = build(task.model, task.batch)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
    return model, inputs


def eager(task: Task) -> Run:
    """PyTorch as it is."""
    model, inputs = _torch_model(task)
    return lambda: model(*inputs)


def dynamo(task: Task) -> Run:
    """torch.compile with a backend that does nothing: what Dynamo itself takes of every backend's time."""
    import torch

    model, inputs = _torch_model(task)
    compiled = torch.compile(model, backend="eager")
    return lambda: compiled(*inputs)


def _inductor(task: Task, freezing: bool, channels_last: bool) -> Run:
    import torch
    from torch._inductor import config

    model, inputs = _torch_model(task, channels_last)
    config.freezing = freezing
    compiled = torch.compile(model)
    return lambda: compiled(*inputs)


def inductor(task: Task) -> Run:
    """torch.compile with its defaults."""
    return _inductor(task, freezing=False, channels_last=False)


def inductor_freezing(task: Task) -> Run:
    """torch.compile with weights as constants."""
    return _inductor(task, freezing=True, channels_last=False)


def inductor_nhwc(task: Task) -> Run:
    """torch.compile, weights and inputs in channels-last."""
    return _inductor(task, freezing=False, channels_last=True)


def inductor_freezing_nhwc(task: Task) -> Run:
    """torch.compile with weights as constants, in channels-last."""
    return _inductor(task, freezing=True, channels_last=True)


def onnxruntime(task: Task) -> Run:
    """ONNX Runtime's CPU provider, all optimizations."""
    return _onnxruntime(task, MODEL)


def onnxruntime_int8(task: Task) -> Run:
    """The same on the model that its own quantize_static made."""
    return _onnxruntime(task, INT8_MODEL)


def _onnxruntime(task: Task, file: str) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = task.threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    arrays = load_inputs(task)

    def compile_() -> Run:
        path = str(task.folder / file)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
        return lambda: session.run(None, inputs)[0]

    return _lazily(compile_)


def openvino(task: Task) -> Run:
    """OpenVINO's CPU plugin in fp32, for latency."""
    import openvino as ov

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": task.threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    inputs = {i: ov.Tensor(x, shared_memory=True) for i, x in enumerate(load_inputs(task))}

    def compile_() -> Run:
        model = ov.Core().compile_model(task.folder / MODEL, "CPU", options)
        request = model.create_infer_request()

        def run() -> np.ndarray:
            request.infer(inputs)
            return request.get_output_tensor(0).data

        return run

    return _lazily(compile_)


def openmgx(task: Task) -> Run:
    """torch.compile(model, backend="migraphx")."""
    import torch

    model, inputs = _torch_model(task)
    compiled = torch.compile(model, backend="migraphx")
    return lambda: compiled(*inputs)


def openmgx_fx(task: Task) -> Run:
    """torch_migraphx.fx.lower_to_mgx(model, inputs)."""
    from torch_migraphx.fx import lower_to_mgx

    model, inputs = _torch_model(task)

    def compile_() -> Run:
        lowered = lower_to_mgx(model, list(inputs))
        return lambda: lowered(*inputs)

    return _lazily(compile_)


def openmgx_onnx(task: Task) -> Run:
    """migraphx.parse_onnx, compile, run: the engine without torch."""
    return _openmgx(task, MODEL)


def openmgx_qdq(task: Task) -> Run:
    """The same on the model that ONNX Runtime's quantize_static made."""
    return _openmgx(task, INT8_MODEL)


def openmgx_int8(task: Task) -> Run:
    """migraphx.quantize_int8 of the float model, calibrated on the case's inputs."""
    return _openmgx(task, MODEL, "quantize_int8")


def openmgx_int4(task: Task) -> Run:
    """migraphx.quantize_int4_weights of the float model."""
    return _openmgx(task, MODEL, "quantize_int4_weights")


def openmgx_fp16(task: Task) -> Run:
    """migraphx.quantize_fp16 of the float model."""
    return _openmgx(task, MODEL, "quantize_fp16")


def openmgx_bf16(task: Task) -> Run:
    """migraphx.quantize_bf16 of the float model."""
    return _openmgx(task, MODEL, "quantize_bf16")


def _openmgx(task: Task, file: str, quantize: str = "") -> Run:
    import migraphx

    arrays, target = load_inputs(task), migraphx.get_target("cpu")

    def compile_() -> Run:
        program = migraphx.parse_onnx(str(task.folder / file))
        inputs = dict(zip(program.get_parameter_names(), arrays, strict=True))
        if quantize == "quantize_int8":
            migraphx.quantize_int8(program, target, [inputs])
        elif quantize:
            getattr(migraphx, quantize)(program)
        program.compile(target)
        return lambda: program.run(inputs)[0]

    return _lazily(compile_)


ENGINES: dict[str, Callable[[Task], Run]] = {
    f.__name__: f
    for f in (
        eager,
        dynamo,
        inductor,
        inductor_freezing,
        inductor_nhwc,
        inductor_freezing_nhwc,
        onnxruntime,
        openvino,
        openmgx,
        openmgx_fx,
        openmgx_onnx,
        onnxruntime_int8,
        openmgx_qdq,
        openmgx_int8,
        openmgx_int4,
        openmgx_fp16,
        openmgx_bf16,
    )
}
READS_INT8 = {"onnxruntime_int8", "openmgx_qdq"}
READS_ONNX = READS_INT8 | {f"openmgx_{kind}" for kind in ("onnx", "int8", "int4", "fp16", "bf16")}
READS_ONNX |= {"onnxruntime", "openvino"}
ISAS: dict[str, dict[str, str]] = {
    "native": {},
    "avx2": {
        "OPENMGX_CXXFLAGS": "-march=x86-64-v3",
        "ONEDNN_MAX_CPU_ISA": "AVX2",  # torch's oneDNN and OpenVINO's; OpenVINO's own kernels (reductions) do not ask
        "ATEN_CPU_CAPABILITY": "avx2",  # ATen's kernels and Inductor's vectors
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",  # where MKL obeys: on Intel
    },
    "avx512": {  # of the first processors that had it: neither bfloat16 nor AMX
        "OPENMGX_CXXFLAGS": "-march=x86-64-v4",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    },
}
"""What an engine's process finds in its environment, by the instruction set that it is held to."""
NOT_HELD = {"onnxruntime", "onnxruntime_int8"}  # take all that the processor has: there is no such option
IMAGES_ALSO = {"inductor": "inductor_nhwc", "inductor_freezing": "inductor_freezing_nhwc"}


def held_to(isa: str) -> dict[str, str]:
    """What `ISAS` says; UnsupportedProcessor, which names it and what lacks, where this processor cannot run it."""
    held = ISAS[isa]
    if march := held.get("OPENMGX_CXXFLAGS"):
        from migraphx.targets.cpu.isa import check_processor  # peers' processes must not pay for it

        check_processor(march.removeprefix("-march="))
    return held


def load_inputs(task: Task) -> list[np.ndarray]:
    """The case's inputs, as `prepare` left them."""
    with np.load(task.folder / "case.npz") as arrays:
        return [arrays[name] for name in sorted(arrays.files) if name != "answer"]


def prepare(task: Task, onnx: bool) -> None:
    """Leave the case's inputs, eager's answer, the work it takes and, if asked, the ONNX file."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = _torch_model(task)
    counter = FlopCounterMode(display=False)
    with counter:
        answer = model(*inputs)
    arrays = {f"input{i}": x.numpy() for i, x in enumerate(inputs)}
    np.savez(task.folder / "case.npz", answer=answer.numpy(), **arrays)
    work = {"flops": counter.get_total_flops(), "bytes": _bytes_moved(model, inputs, answer)}
    (task.folder / "work.json").write_text(json.dumps(work))
    if onnx:
        torch.onnx.export(model, inputs, str(task.folder / MODEL), dynamo=True, verbose=False, external_data=False)


def prepare_int8(task: Task) -> None:
    """Quantize the ONNX file with ONNX Runtime's tool: QDQ, int8 weights with a scale a channel, uint8 activations."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quant_pre_process, quantize_static

    names = [i.name for i in onnx.load(str(task.folder / MODEL), load_external_data=False).graph.input]
    inputs = [dict(zip(names, load_inputs(task), strict=True))]

    class Reader(CalibrationDataReader):
        def get_next(self) -> Any:
            return inputs.pop() if inputs else None

    simple = str(task.folder / "model_simple.onnx")
    quant_pre_process(str(task.folder / MODEL), simple, skip_symbolic_shape=True)
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(simple, str(task.folder / INT8_MODEL), Reader(), **kinds)


def _bytes_moved(model: Any, inputs: tuple[Any, ...], answer: Any) -> int:
    """Bytes that cross memory at the least: inputs, answer and each weight once.

    Of a table that is only looked up, as much as is looked up is negligible and counts nothing.
    """
    import torch

    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    dense = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Linear)}
    weights = [p for p in model.parameters() if id(p) not in tables - dense]
    return sum(t.numel() * t.element_size() for t in (*weights, *inputs, answer))

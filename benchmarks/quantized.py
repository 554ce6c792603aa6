"""python -m benchmarks.quantized: the precisions of one model, ours and ONNX Runtime's, each in a process of its own.

Measured as `python -m benchmarks` does. Ours: the float model, quantize_int8, quantize_int4_weights, quantize_fp16,
quantize_bf16, and the model that ONNX Runtime's quantize_static made (QDQ); ONNX Runtime: the float and the QDQ
model. "error" is against eager in float, relative to the largest value.
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.__main__ import Options, dumps, measure
from benchmarks.machine import Meter
from benchmarks.models import CASES

PRECISIONS = {
    "onnxruntime": "ONNX Runtime fp32",
    "onnxruntime_int8": "ONNX Runtime int8 (QDQ)",
    "openmgx_onnx": "fp32",
    "openmgx_fp16": "fp16",
    "openmgx_bf16": "bf16",
    "openmgx_int4": "int4 weights",
    "openmgx_int8": "int8",
    "openmgx_qdq": "int8 (QDQ)",
}


def table(model: str, engines: dict[str, dict[str, Any]]) -> str:
    """Milliseconds, ratios to both of ONNX Runtime's and to our float latency (above 1: faster), errors."""
    lines = [f"{model:24}{'ms':>9}{'ORT fp32 / it':>15}{'ORT int8 / it':>15}{'our fp32 / it':>15}{'error':>10}"]
    seconds = {name: report["latency_s"] for name, report in engines.items() if "latency_s" in report}
    for name, title in PRECISIONS.items():
        if name not in seconds:
            lines.append(f"{title:24} failed: {engines[name]['failure'].strip().splitlines()[-1][:90]}")
            continue
        bases = (seconds.get(base) for base in ("onnxruntime", "onnxruntime_int8", "openmgx_onnx"))
        ratios = "".join(f"{base / seconds[name]:15.2f}" if base else f"{'-':>15}" for base in bases)
        lines.append(f"{title:24}{seconds[name] * 1e3:9.2f}{ratios}{engines[name]['error']:10.1e}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table for each model, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized", description=__doc__)
    parser.add_argument("--models", default="resnet50,bert", help=f"of {', '.join(CASES)}; default: resnet50,bert")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--retries", type=int, default=3, help="of a turn disturbed by other programs")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = vars(parser.parse_args())
    models = given.pop("models").split(",")
    if unknown := set(models) - set(CASES):
        parser.error(f"unknown models {sorted(unknown)}; known: {', '.join(CASES)}")
    options = Options(models=models, peers=list(PRECISIONS), lock=None, batch=1, busy=0, **given)
    meter, results = Meter(options.threads), {}
    for model in models:
        results[model] = measure(model, meter, options)
        print(table(model, results[model]["engines"]), flush=True)
    if options.output:
        options.output.write_text(dumps(results))


if __name__ == "__main__":
    main()

"""What the documentation of MIGraphX's driver lists, and what becomes of it here: hints in errors, a table in the docs.

Read from https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/reference/driver-options.html and earlier editions.
"""

from __future__ import annotations

from dataclasses import dataclass

READING = ("read", "params", "compile", "run", "time", "perf", "verify")
COMPILING = READING[2:]
PRINTING = ("read", "compile", "run")


@dataclass(frozen=True)
class Flag:
    """An option of upstream's: its spellings, the verbs that have it here, and what is to be said of it.

    Without verbs it does not exist here, and `note` says what does the same.
    """

    names: tuple[str, ...]
    verbs: tuple[str, ...]
    note: str = ""


LAYOUT = "concerns TensorFlow models alone, which are not read: taken, without an effect"
TENSORFLOW = (
    "TensorFlow models are not read: make ONNX of them first, with `python -m tf2onnx.convert --graphdef model.pb ...`"
)
RANGE = "a JSON object, or a number; quotes may be left out"

FLAGS = [
    Flag(("<input file>",), READING, "its type is told by its content"),
    Flag(("--test",), READING, "a matrix product, two inputs of {batch, 64, 256} and {batch, 256, 128}"),
    Flag(("--onnx",), READING),
    Flag(("--migraphx",), READING),
    Flag(("--migraphx-json",), READING),
    Flag(("--tf",), (), TENSORFLOW),
    Flag(("--model",), (), "no models are built in: name a file, or take --test"),
    Flag(("--batch",), READING),
    Flag(("--nhwc",), READING, LAYOUT),
    Flag(("--nchw",), READING, LAYOUT),
    Flag(("--skip-unknown-operators",), READING),
    Flag(("--trim", "-t"), READING),
    Flag(("--input-dim",), READING),
    Flag(("--dyn-input-dim",), READING, RANGE),
    Flag(("--default-dyn-dim",), READING, RANGE),
    Flag(("--optimize", "-O"), READING),
    Flag(("--apply-pass", "-p"), READING, "the names are this engine's own"),
    Flag(("--graphviz", "-g"), PRINTING),
    Flag(("--brief",), PRINTING),
    Flag(("--cpp",), PRINTING),
    Flag(("--json",), READING, "of every verb, the answer as one document; of `read` and `compile` upstream's form"),
    Flag(("--netron",), PRINTING),
    Flag(("--text",), PRINTING),
    Flag(("--binary",), PRINTING, "our own .mxr; upstream's msgpack by `migraphx.save(p, path, format='msgpack')`"),
    Flag(("--py",), PRINTING, "--python too"),
    Flag(("--output", "-o"), READING),
    Flag(("--fill0",), COMPILING),
    Flag(("--fill1",), COMPILING),
    Flag(("--gpu",), COMPILING, "NVIDIA's"),
    Flag(("--cpu",), COMPILING, "the default"),
    Flag(("--ref",), COMPILING),
    Flag(("--enable-offload-copy",), COMPILING),
    Flag(("--disable-fast-math",), COMPILING),
    Flag(("--exhaustive-tune",), COMPILING),
    Flag(("--fp16",), COMPILING),
    Flag(("--bf16",), COMPILING),
    Flag(("--int8",), COMPILING),
    Flag(("--fp8",), COMPILING, "fp8e4m3fn, where upstream has the FNUZ kind of AMD's GPUs"),
    Flag(("--int4-weights",), COMPILING),
    Flag(("--fp-to-double",), (), "verify --ref-use-double lets ref compute in double precision"),
    Flag(("--iterations", "-n"), ("perf", "time")),
    Flag(("--detailed", "-d"), ("perf",), "where each instruction came from"),
    Flag(("--rms-tol",), ("verify",)),
    Flag(("--atol",), ("verify",)),
    Flag(("--rtol",), ("verify",)),
    Flag(("--per-instruction", "-i"), ("verify",)),
    Flag(("--reduce", "-r"), ("verify",)),
    Flag(("--bisect", "-b"), ("verify",)),
    Flag(("--ref-use-double",), ("verify",)),
    Flag(
        ("--compiled-model", "-c"),
        (),
        "verify compiles the model itself: what a file of a compiled program gives, `run` and `perf` show",
    ),
    Flag(("--list", "-l"), ("op", "onnx")),
]

VERBS = {
    "roctx": "there is no rocprof here: `perf --trace FILE` writes a trace for chrome://tracing and Perfetto",
    "tf": TENSORFLOW,
}
"""Upstream's verbs that do not exist here."""


def missing(word: str) -> str:
    """What is said of an option of upstream's that does not exist here; "" of any other."""
    return next((f.note for f in FLAGS if word in f.names and not f.verbs), "")

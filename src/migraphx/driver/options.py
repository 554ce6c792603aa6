"""The options that verbs share, by group; names, short forms and defaults are upstream's."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import fields

from migraphx.runtime.options import CompileOptions

FORMATS = {
    "text": "MIGraphX's listing (the default)",
    "graphviz": "a picture in Graphviz's language",
    "cpp": "C++ that builds the program",
    "python": "Python that builds the program",
    "netron": "a model that Netron opens",
    "binary": "an .mxr file (the default with --output)",
}
SHORT = {"graphviz": ["-g"], "python": ["--py"]}
SPELLING = {"offload_copy": "--enable-offload-copy"}
"""Where upstream's driver names a compile option otherwise than `--disable-x` (default on) or `--x` (default off)."""
PRECISIONS = {
    "fp16": "compute in half precision",
    "bf16": "compute in bfloat16",
    "int8": "compute in 8-bit integers, calibrated on the data of this run",
    "fp8": "compute in fp8e4m3fn, calibrated on the data of this run",
    "int4-weights": "keep weights in 4 bits",
}
LOG_LEVELS = ("none", "error", "warn", "info", "debug", "trace")


def add_common(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("answer and log")
    json = "print the answer as one JSON document; where it is a program, as upstream's"
    group.add_argument("--json", action="store_true", help=json)
    group.add_argument("--output", "-o", metavar="FILE", help="write the answer to a file")
    group.add_argument("--log-level", choices=LOG_LEVELS, default="warn", help="what is logged (default: warn)")
    group.add_argument("--log-file", metavar="FILE", help="log to a file instead of standard error")


def add_input(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    told = "the model; its type is told by its content"
    group.add_argument("file", nargs="?", default="", metavar="<input file>", help=told)
    group.add_argument("--test", action="store_true", help="a small matrix product in place of a file")
    for layout in ("nhwc", "nchw"):
        taken = f"of TensorFlow models; taken for upstream's scripts, without an effect ({layout.upper()})"
        group.add_argument(f"--{layout}", dest="layouts", action="append_const", const=layout, default=[], help=taken)
    kinds = group.add_mutually_exclusive_group()
    for kind, what in (("onnx", "ONNX"), ("migraphx", "MIGraphX (.mxr)"), ("migraphx-json", "MIGraphX JSON")):
        reading = f"read the file as {what}"
        kinds.add_argument(f"--{kind}", dest="file_type", action="store_const", const=kind, help=reading)
    group.add_argument(
        "--batch", type=positive, default=1, metavar="N", help="length of dimensions that the model leaves open"
    )
    group.add_argument("--input-dim", **_many("@name d1 d2 dn"), help="dimensions of an input")
    group.add_argument("--dim-param", **_many("@name d"), help="a named dimension: 8, or {min:1,max:8,optimals:[4]}")
    group.add_argument("--dyn-input-dim", **_many('@name "[{min:1,max:8},d2]"'), help="dynamic dimensions of an input")
    group.add_argument("--default-dyn-dim", metavar='"{min:1,max:8}"', help="dimensions that the model leaves open")
    group.add_argument("--output-names", **_many("name"), help="return these values of the ONNX graph instead")
    group.add_argument("--trim", "-t", type=natural, default=0, metavar="N", help="drop N instructions from the end")
    group.add_argument("--skip-unknown-operators", action="store_true", help="read on past operators not supported")
    strict = "refuse ONNX nodes that are not as the standard has them (default: read what they mean, log one line)"
    group.add_argument("--strict", action="store_true", help=strict)
    group.add_argument("--debug-symbols", action="store_true", help="note the exporter's source lines; show origins")
    group.add_argument("--optimize", "-O", action="store_true", help="simplify after reading")
    group.add_argument(
        "--apply-pass", "-p", action="append", default=[], metavar="PASS", help="run a pass (repeat, or a,b,c)"
    )


def add_format(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("form of the program")
    kinds = group.add_mutually_exclusive_group()
    for name, what in FORMATS.items():
        flags = [f"--{name}", *SHORT.get(name, [])]
        kinds.add_argument(*flags, dest="format", action="store_const", const=name, help=what)
    group.add_argument("--brief", action="store_true", help="a picture without attributes, shapes and literals")


def add_data(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("inputs (random where nothing else is said)")
    group.add_argument("--fill0", **_many("name"), help="zeros")
    group.add_argument("--fill1", **_many("name"), help="ones")
    group.add_argument("--load-arg", **_many("@name file"), help="what argument.save wrote, or an .npy file")


def add_compile(parser: ArgumentParser) -> None:
    """`--gpu --cpu --ref`, one flag a field of CompileOptions, and the precisions."""
    group = parser.add_argument_group("compilation")
    targets = group.add_mutually_exclusive_group()
    for name in ("gpu", "cpu", "ref"):
        purpose = f"compile for {name}" + (" (the default)" if name == "cpu" else "")
        targets.add_argument(f"--{name}", dest="target", action="store_const", const=name, help=purpose)
    for field in fields(CompileOptions):
        flag = SPELLING.get(field.name, _flag(field.name, field.default))
        meaning = field.metadata["help"]
        if isinstance(field.default, bool):
            off = flag.startswith("--disable-")
            action = "store_false" if off else "store_true"
            group.add_argument(flag, dest=field.name, action=action, help=f"do not {meaning}" if off else meaning)
        elif isinstance(field.default, str):
            choices = field.metadata["choices"]
            group.add_argument(flag, dest=field.name, choices=choices, default=field.default, help=meaning)
        else:
            group.add_argument(flag, dest=field.name, type=natural, default=field.default, metavar="N", help=meaning)
    for name, what in PRECISIONS.items():
        group.add_argument(f"--{name}", action="append_const", dest="precisions", const=name, default=[], help=what)


def compile_options(args: Namespace) -> CompileOptions:
    """The one frozen object from the flags that derive from it."""
    return CompileOptions.of(**{f.name: getattr(args, f.name) for f in fields(CompileOptions)})


def add_model(parser: ArgumentParser) -> None:
    """What verbs take that compile a model: the model, its inputs, the options."""
    for add in (add_input, add_data, add_compile):
        add(parser)


def add_iterations(parser: ArgumentParser) -> None:
    parser.add_argument("--iterations", "-n", type=positive, default=100, metavar="N", help="runs (default: 100)")


def natural(text: str) -> int:
    """0, 1, 2 ..."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def positive(text: str) -> int:
    """1, 2, 3 ..."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def from_zero(text: str) -> float:
    """A number from 0 on, infinity too."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ArgumentTypeError(f"{text!r} is no number from 0 on")
    return value


def _flag(name: str, default: object) -> str:
    return f"--{'disable-' if default is True else ''}{name.replace('_', '-')}"


def _many(metavar: str) -> dict:
    """An option that takes several words and may be repeated."""
    return {"nargs": "+", "action": "extend", "default": [], "metavar": metavar}

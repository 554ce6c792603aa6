"""From the command line's file to a program: read, trim, simplify, run passes, quantize, compile."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import migraphx
from migraphx.api.argument import argument
from migraphx.api.program import program, published
from migraphx.driver import dims
from migraphx.driver.options import compile_options
from migraphx.driver.result import UsageError
from migraphx.driver.terminal import note
from migraphx.driver.upstream import LAYOUT
from migraphx.inspect.running import at_lens
from migraphx.ir.module import Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program
from migraphx.mxr.upstream_shapes import is_upstream
from migraphx.passes.dead_code import dead_code
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import SIMPLIFY
from migraphx.targets.registry import get_target
from migraphx.targets.target import Target

log = logging.getLogger(__name__)
DEFAULT_TARGET = "cpu"
Inputs = dict[str, argument]
QUANTIZERS: dict[str, Callable[[program], None]] = {
    "fp16": migraphx.quantize_fp16,
    "bf16": migraphx.quantize_bf16,
    "int4-weights": migraphx.quantize_int4_weights,
}
CALIBRATING: dict[str, Callable[[program, Target, list[Inputs]], None]] = {
    "int8": migraphx.quantize_int8,
    "fp8": migraphx.quantize_fp8,
}


def read_model(args: Namespace) -> program:
    """The program that the input options describe."""
    if args.test == bool(args.file):
        raise UsageError("name a model, or say --test" if not args.file else "--test takes the place of a file")
    for layout in args.layouts:
        log.warning("--%s %s", layout, LAYOUT)
    kind = "test" if args.test else args.file_type or file_type(Path(args.file))
    note(f"Reading: {args.file or '--test'}")
    if args.test:
        made = product(args.batch)
        _refuse_onnx_options(args, kind, False)
    elif kind == "onnx":
        made = migraphx.parse_onnx(args.file, **_onnx_options(args))
    else:
        made = migraphx.load(args.file)
        _refuse_onnx_options(args, kind, any(s.dynamic() for s in made.get_parameter_shapes().values()))
    return changed(made, args) if args.trim or args.optimize or args.apply_pass else made


def product(batch: int) -> program:
    """What `--test` reads: a matrix product of two inputs."""
    made = migraphx.program()
    main = made.get_main_module()
    shapes = {"a": [batch, 64, 256], "b": [batch, 256, 128]}
    a, b = (main.add_parameter(name, migraphx.shape(type="float", lens=lens)) for name, lens in shapes.items())
    main.add_return([main.add_instruction(migraphx.op("dot"), [a, b])])
    return made


def changed(made: program, args: Namespace) -> program:
    """Trimmed, simplified, and the chosen passes run; what came compiled is to be compiled again."""
    made = made.clone(compiled=False) if made.is_compiled() else made
    if args.trim:
        trim(made.graph.main, args.trim)
        made.graph.drop_unused_modules()
    if args.optimize:
        run_passes(made.graph, SIMPLIFY)
    try:
        migraphx.run_passes(made, [name for word in args.apply_pass for name in word.split(",") if name])
    except ValueError as error:
        raise UsageError(f"--apply-pass: {error}") from None
    return made


def file_type(path: Path) -> str:
    """By content: AMD's JSON and msgpack, our `.mxr`; anything else is ONNX unless it ends in `.mxr`."""
    with open(path, "rb") as file:
        head = file.read(64)
    if is_upstream(head):
        return "migraphx-json" if head.lstrip()[:1] == b"{" else "migraphx"
    ours = head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= os.path.getsize(path)
    return "migraphx" if ours or path.suffix == ".mxr" else "onnx"


def _onnx_options(args: Namespace) -> dict[str, Any]:
    """Keywords of parse_onnx, those alone that were given."""
    ranges = dims.one_each("--dyn-input-dim", args.dyn_input_dim, lambda v: dims.dimensions("--dyn-input-dim", v))
    lens = dims.lens("--input-dim", args.input_dim)  # of an input with ranges: its lengths in this run
    given: dict[str, Any] = {
        "map_input_dims": {name: lengths for name, lengths in lens.items() if name not in ranges},
        "dim_params": dims.one_each("--dim-param", args.dim_param, lambda v: dims.dimension("--dim-param", v)),
        "map_dyn_input_dims": ranges,
        "output_names": args.output_names,
        "skip_unknown_operators": args.skip_unknown_operators,
        "use_debug_symbols": args.debug_symbols,
        "strict": args.strict,
    }
    if args.default_dyn_dim:  # then the batch is what a run gets
        given["default_dyn_dim_value"] = dims.dimension("--default-dyn-dim", args.default_dyn_dim)
    else:
        given["default_dim_value"] = args.batch
    return {name: value for name, value in given.items() if value}


def _refuse_onnx_options(args: Namespace, kind: str, dynamic: bool) -> None:
    """What only an ONNX model can be told; the lengths of a run, any program with dynamic shapes."""
    names = (
        "input_dim",
        "dim_param",
        "dyn_input_dim",
        "default_dyn_dim",
        "output_names",
        "skip_unknown_operators",
        "strict",
    )
    for name in names:
        if getattr(args, name) and not (dynamic and name == "input_dim"):
            read = f"{args.file or 'what --test names'} was read as {kind}"
            raise UsageError(f"--{name.replace('_', '-')} needs an ONNX model; {read}")


def trim(main: Module, count: int) -> None:
    """Drop the last `count` instructions; what is left without a user is returned."""
    body = [i for i in main if i is not main.last or i.name != "@return"]
    kept = [i for i in body[: max(0, len(body) - count)] if not isinstance(i.op, Literal)]
    inside = set(kept)
    ends = [i for i in kept if not isinstance(i.op, Parameter) and not any(u in inside for u in i.users)]
    if not ends:
        raise UsageError(f"--trim {count} leaves nothing of {len(body)} instructions")
    main.replace_return(ends)
    dead_code(main)


# ---- compiling ----


def target_of(args: Namespace) -> Target:
    """The target of `--gpu --cpu --ref`, by default cpu."""
    return get_target(args.target or DEFAULT_TARGET)


def quantized(made: program, args: Namespace, inputs: Callable[[program], Inputs]) -> program:
    """The program in the precisions asked for, in their order; those that calibrate see the inputs of this run."""
    if made.is_compiled() and args.precisions:
        raise UsageError(f"--{args.precisions[0]}: {args.file} is compiled already")
    for name in args.precisions:
        note(f"Quantizing: {name}")
        if name in CALIBRATING:
            CALIBRATING[name](made, target_of(args), [inputs(made)])
        else:
            QUANTIZERS[name](made)
    return made


def compiled(made: program, args: Namespace, inputs: Callable[[program], Inputs]) -> program:
    """Quantized and compiled; what came compiled from a file stays so, unless another target is asked for."""
    target = target_of(args)
    quantized(made, args, inputs)
    if made.is_compiled():
        own = made.executable.target
        if args.target in (None, own):
            note(f"Compiled already, for {own}")
            return made
        made = made.clone(compiled=False)
    note("Compiling ...")
    made.compile(target, **compile_options(args).compile_keywords())
    return made


def at_lengths(made: program, inputs: Inputs) -> program:
    """A program with dynamic shapes as far as the lengths of these inputs make it static; others as they are."""
    static = at_lens(made.graph, {name: np.asarray(value) for name, value in inputs.items()}).program
    return made if static is made.graph else published(static)


def optimized(made: program, inputs: Inputs) -> Program:
    """What its target's passes made of a compiled program, for inputs of these lengths: the kernels that run."""
    copy = at_lengths(made, inputs).graph.clone()
    run_passes(copy, get_target(made.executable.target).passes)
    return copy

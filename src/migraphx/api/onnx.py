"""Reading ONNX models: `parse_onnx` and its kin."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Concatenate, ParamSpec

from migraphx.api.program import program, published
from migraphx.api.shape import dynamic_dimension
from migraphx.ir.operation import Unsupported
from migraphx.ir.shape import DynamicDimension
from migraphx.onnx.builder import Options
from migraphx.onnx.deferred import import_dynamic
from migraphx.onnx.describe import described
from migraphx.onnx.importer import operators
from migraphx.onnx.model import read, read_buffer

log = logging.getLogger(__name__)
Dim = int | dynamic_dimension
Given = ParamSpec("Given")


@dataclass(frozen=True)
class ModelBytes:
    """A model in memory, in place of its file."""

    model: bytes


def parse_onnx(
    filename: str | os.PathLike[str] | ModelBytes,
    default_dim_value: int = 1,
    map_input_dims: Mapping[str, Any] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: int | None = None,
    limit_max_iterations: int | None = None,
    dim_params: Mapping[str, Dim] | None = None,
    use_debug_symbols: bool = False,
    external_data_path: str = "",
    output_names: Sequence[str] = (),
    default_dyn_dim_value: dynamic_dimension | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[Dim]] | None = None,
    strict: bool = False,
) -> program:
    """The program of an ONNX file.

    `map_input_dims` gives whole shapes by input (a list of shapes for a sequence), `dim_params` lengths by the names
    that the model gives its dimensions, `default_dim_value` the rest; of one name all have the length that a whole
    shape gives. A length may be a range, a `shape.dynamic_dimension`: in `dim_params`, in `map_dyn_input_dims` (whole
    shapes) and as `default_dyn_dim_value` (in place of `default_dim_value`). Nodes whose lengths are known only in a
    run stay nodes of ONNX in the program (operator `onnx`), which the target converts for the lengths that arrive.
    Operators that are not supported are all listed in one error, unless `skip_unknown_operators`: then the program can
    be read but not run. A Loop without a trip count makes as many trips as its condition wants, at most
    `max_loop_iterations` where that is given (upstream's always stop, by default after 10 trips); without it, one that
    must be unrolled and makes more than 10 trips is an error. A Loop that states more trips than `limit_max_iterations`
    (65535 where it is not given) is refused; where it is given, it also bounds a Loop without a trip count, or with the
    largest int64 for one. `use_debug_symbols` adds the exporter's source lines to instructions' origins. External data
    must lie inside `external_data_path`, by default the model's folder. `output_names` returns these values of the
    graph instead of its outputs.

    A node that is not as the standard has it, but whose meaning is plain (an attribute of another opset, an integer
    where a float is meant, an operator of another domain), is read as what it means, and one line of the log says so
    for the file; `strict` refuses it.

    Weights are views of the mapped file (copies where they are not aligned): it must not be written to while
    the program is in use. OnnxError (a ValueError) names the file and the node; FileNotFoundError.
    """
    if default_dyn_dim_value is not None and default_dim_value != 1:
        raise ValueError("give default_dim_value or default_dyn_dim_value, not both")
    options = Options(
        default_dim_value=_dim(default_dim_value if default_dyn_dim_value is None else default_dyn_dim_value),
        map_input_dims=_whole_shapes(map_input_dims or {}, map_dyn_input_dims or {}),
        dim_params={n: _dim(d) for n, d in (dim_params or {}).items()},
        skip_unknown_operators=skip_unknown_operators,
        max_loop_iterations=max_loop_iterations,
        limit_max_iterations=limit_max_iterations,
        use_debug_symbols=use_debug_symbols,
        output_names=tuple(output_names),
        strict=strict,
    )
    name = "the model" if isinstance(filename, ModelBytes) else filename
    read_from = partial(read_buffer, filename.model) if isinstance(filename, ModelBytes) else partial(read, filename)
    made = import_dynamic(read_from(external_data_path), options, print_program_on_error)
    if made.deviations:
        first, *more = made.deviations
        rest = f", and {len(more)} more" if more else ""
        log.warning("%s is not as ONNX has it (strict=True refuses it): %s%s", name, first, rest)
    return published(made.program)


def _with_options_of(
    parse: Callable[Concatenate[Any, Given], program],
) -> Callable[[Callable[..., program]], Callable[Concatenate[bytes, Given], program]]:
    """The signature of a function that hands its keywords on, for readers and type checkers."""

    def stated(function: Callable[..., program]) -> Callable[Concatenate[bytes, Given], program]:
        (source, *_), (_, *options) = (signature(f).parameters.values() for f in (function, parse))
        function.__signature__ = signature(parse).replace(parameters=[source, *options])
        return function

    return stated


@_with_options_of(parse_onnx)
def parse_onnx_buffer(onnx_buffer: bytes, *args: Any, **named: Any) -> program:
    """As `parse_onnx`, from a serialized ModelProto; external data needs `external_data_path`."""
    return parse_onnx(ModelBytes(onnx_buffer), *args, **named)


def get_onnx_operators() -> list[str]:
    """The names of the operators that `parse_onnx` converts."""
    return operators()


def describe_onnx_operator(name: str) -> list[dict[str, Any]]:
    """Domain, opsets, inputs, outputs and attributes of the operators of this name that `parse_onnx` converts.

    `domain.name` names one alone. ValueError where there is none, with the nearest name.
    """
    return described(name)


def _whole_shapes(static: Mapping[str, Any], ranges: Mapping[str, Any]) -> dict[str, Any]:
    if twice := static.keys() & ranges.keys():
        raise ValueError(f"map_input_dims and map_dyn_input_dims both give {min(twice)!r}")
    return {name: _lens(dims) for name, dims in {**static, **ranges}.items()}


def _lens(dims: Any) -> Any:
    """An input's lens; a list of them for a sequence; None for an optional that is empty."""
    if dims is None:
        return None
    return [_lens(d) if isinstance(d, Sequence) else _dim(d) for d in dims]


def _dim(dim: Dim) -> int | DynamicDimension:
    """A length or a range; ValueError for a length that is none."""
    if isinstance(dim, dynamic_dimension):
        return dim._impl.min if dim.is_fixed() else dim._impl
    if int(dim) != dim or dim < 0:
        raise ValueError(f"a dimension must be a length, is {dim!r}")
    return int(dim)


def parse_tf(
    filename: str | os.PathLike[str],
    is_nhwc: bool = True,
    batch_size: int = 1,
    map_input_dims: Mapping[str, Any] | None = None,
    output_names: Sequence[str] = (),
) -> program:
    """Unsupported: upstream's reader of frozen TensorFlow graphs is not here; the message says which way there is."""
    raise Unsupported(
        f"parse_tf: TensorFlow graphs are not read; convert {os.fspath(filename)!r} to ONNX "
        "(python -m tf2onnx.convert) and give that file to migraphx.parse_onnx"
    )

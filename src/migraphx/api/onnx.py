"""Reading ONNX models: `parse_onnx` and its kin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from migraphx.api.program import program
from migraphx.api.shape import dynamic_dimension
from migraphx.ir.program import Program
from migraphx.onnx.builder import Options
from migraphx.onnx.graph import Model
from migraphx.onnx.importer import import_model, operators
from migraphx.onnx.model import read, read_buffer

Dim = int | dynamic_dimension


def parse_onnx(
    filename: str | os.PathLike[str],
    default_dim_value: int = 1,
    map_input_dims: Mapping[str, Any] | None = None,
    dim_params: Mapping[str, Dim] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: int = 10,
    use_debug_symbols: bool = False,
    external_data_path: str = "",
    output_names: Sequence[str] = (),
) -> program:
    """The program of an ONNX file. Its shapes are static.

    `map_input_dims` gives whole shapes by input (a list of shapes for a sequence), `dim_params` lengths by the
    names that the model gives its dimensions, `default_dim_value` the rest. Operators that are not supported are
    all listed in one error, unless `skip_unknown_operators`: then the program can be read but not run.
    `max_loop_iterations` bounds a Loop without trip count. `use_debug_symbols` adds the exporter's source lines
    to instructions' origins. External data must lie inside `external_data_path`, by default the model's folder.
    `output_names` returns these values of the graph instead of its outputs.

    Weights are views of the mapped file (copies where they are not aligned): it must not be written to while
    the program is in use. OnnxError (a ValueError) names the file and the node; FileNotFoundError.
    """
    options = _options(
        default_dim_value,
        map_input_dims,
        dim_params,
        skip_unknown_operators,
        max_loop_iterations,
        use_debug_symbols,
        output_names,
    )
    return _program(read(filename, external_data_path), options, print_program_on_error)


def parse_onnx_buffer(
    onnx_buffer: bytes,
    default_dim_value: int = 1,
    map_input_dims: Mapping[str, Any] | None = None,
    dim_params: Mapping[str, Dim] | None = None,
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: int = 10,
    use_debug_symbols: bool = False,
    external_data_path: str = "",
    output_names: Sequence[str] = (),
) -> program:
    """As `parse_onnx`, from a serialized ModelProto; external data needs `external_data_path`."""
    options = _options(
        default_dim_value,
        map_input_dims,
        dim_params,
        skip_unknown_operators,
        max_loop_iterations,
        use_debug_symbols,
        output_names,
    )
    return _program(read_buffer(onnx_buffer, external_data_path), options, print_program_on_error)


def get_onnx_operators() -> list[str]:
    """The names of the operators that `parse_onnx` converts."""
    return operators()


def _options(
    default_dim_value: int,
    map_input_dims: Mapping[str, Any] | None,
    dim_params: Mapping[str, Dim] | None,
    skip_unknown_operators: bool,
    max_loop_iterations: int,
    use_debug_symbols: bool,
    output_names: Sequence[str],
) -> Options:
    return Options(
        default_dim_value=_static(default_dim_value),
        map_input_dims={n: _lens(dims) for n, dims in (map_input_dims or {}).items()},
        dim_params={n: _static(d) for n, d in (dim_params or {}).items()},
        skip_unknown_operators=skip_unknown_operators,
        max_loop_iterations=max_loop_iterations,
        use_debug_symbols=use_debug_symbols,
        output_names=tuple(output_names),
    )


def _lens(dims: Any) -> Any:
    """An input's lens; a list of them for a sequence; None for an optional that is empty."""
    if dims is None:
        return None
    return [_lens(d) if isinstance(d, Sequence) else _static(d) for d in dims]


def _static(dim: Dim) -> int:
    """A length; ValueError for one that is negative or known only at run time."""
    if isinstance(dim, dynamic_dimension):
        if not dim.is_fixed():
            raise ValueError(f"{dim!r}: dynamic shapes are not supported; give one length")
        dim = dim.min
    if int(dim) != dim or dim < 0:
        raise ValueError(f"a dimension must be a length, is {dim!r}")
    return int(dim)


def _program(model: Model, options: Options, print_program_on_error: bool) -> program:
    return published(import_model(model, options, print_program_on_error).program)


def published(impl: Program) -> program:
    """The public face of an engine program."""
    made = program()
    made._graph = lambda: impl
    made._impl  # noqa: B018  # one graph, whoever asks
    return made

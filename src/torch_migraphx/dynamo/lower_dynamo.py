"""`lower_aten_to_mgx`: a graph of ATen operators, as AOTAutograd gives it, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torch_migraphx.fx.fx2mgx import MGXInterpreter
from torch_migraphx.fx.lower_graph import compiled, lower
from torch_migraphx.fx.lowered import LoweredModule
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.options import Options


def lower_aten_to_mgx(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> LoweredModule:
    """A module that computes what `gm` does: its parts in the engine are MGXModules; `gm` itself is not changed.

    `example_inputs` are samples for its inputs. `kwargs` are the options of the backend (`fp16`, `verbose`, ...), whose
    errors they have.
    """
    with torch.no_grad():
        made = lower(gm, example_inputs, Options.of(**kwargs))
    lowered = LoweredModule(made, made.graph, class_name=type(gm).__name__)
    lowered.refusals = tuple(made.meta.get("refusals", ()))
    return lowered.eval()


def lower_subgraph(module: fx.GraphModule, inputs: Sequence[Any], name: str = "prog", **kwargs: Any) -> MGXModule:
    """The module of a graph that the engine takes as a whole; ConversionError or UnsupportedNodes where it does not.

    With `save_mxr` the program is written to `name`.mxr in the working folder.
    """
    options = Options.of(**kwargs).beside(inputs)
    interpreter = MGXInterpreter(module, inputs, verbose_log=options.verbose_log)
    program = interpreter.run()
    return compiled(program, interpreter.get_input_names(), interpreter.get_output_names(), options, name)

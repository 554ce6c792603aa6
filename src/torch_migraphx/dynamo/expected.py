"""What a graph will need of the C++ compiler begins to be compiled before the graph is known, or before it is lowered.

torch's tracing takes a second or more and one core. What all products and attentions of a type share is most of what a
first compilation costs, and needs no more than the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch
from torch import fx
from torch.nn.functional import scaled_dot_product_attention

import migraphx
from torch_migraphx.fx.graph_info import value_of

TYPES = {torch.float32: "float_type", torch.float16: "half_type", torch.bfloat16: "bf16_type", torch.bool: "bool_type"}


def expect_graph(gm: fx.GraphModule) -> None:
    """Begin with what the attentions of a graph of Dynamo's need, on target cpu."""
    for n in gm.graph.find_nodes(op="call_function", target=scaled_dot_product_attention):
        query = n.args[0] if n.args else n.kwargs["query"]
        mask = n.kwargs.get("attn_mask", n.args[3] if len(n.args) > 3 else None)
        expect(*(getattr(value_of(m), "dtype", None) if isinstance(m, fx.Node) else None for m in (query, mask)))


@cache
def expect(type: torch.dtype | None, mask: torch.dtype | None = None) -> None:
    """Begin with what products of a type need, and attention whose mask is of the other type; once a process."""
    if type not in TYPES or mask not in (*TYPES, None) or not hasattr(migraphx, "compile_ahead"):
        return
    made = migraphx.program()
    main = made.get_main_module()

    def parameter(name: str, lens: Iterable[int], of: torch.dtype = type) -> migraphx.instruction_ref:
        return main.add_parameter(name, migraphx.shape(type=TYPES[of], lens=list(lens)))

    weights = main.add_literal(migraphx.generate_argument(migraphx.shape(type=TYPES[type], lens=[64, 64])))
    results = [main.add_instruction(migraphx.op("dot"), [parameter("x", (64, 64)), weights])]
    keys = [parameter(name, (1, 1, 64, 64)) for name in ("k", "v")]
    for queries in (1, 64):  # which are two kernels
        operands = [parameter(f"q{queries}", (1, 1, queries, 64)), *keys]
        if mask is not None:
            operands.append(parameter(f"mask{queries}", (1, 1, queries, 64), mask))
        results.append(main.add_instruction(migraphx.op("attention"), operands))
    main.add_return(results)
    migraphx.compile_ahead(made, migraphx.get_target("cpu"))

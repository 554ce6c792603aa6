"""What a node of a graph is, where it comes from, and why it has no acc operator or converter.

Tracers note it in `node.meta`: "val" (a fake tensor; Dynamo calls it "example_value"), "tensor_meta", "stack_trace",
"nn_module_stack", "acc_unmapped" (why it has no acc operator).
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.converter import converter_of, target_name

BORDER = "migraphx_border"
"""The key in `meta` of a node that only puts together, or takes apart, what the engine cannot hold."""
STATIC_CHECKS = frozenset({torch.ops.aten._assert_tensor_metadata.default})
"""Checks that the trace itself has made: types and devices of a graph are fixed."""
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


# ---- what it is


def value_of(node: fx.Node) -> Any:
    """The fake value of a node, or a number; None where no tracer knew it."""
    return node.meta.get("val", node.meta.get("example_value"))


def called(node: fx.Node) -> str:
    """What a node calls or reads: `acc_ops.relu`, `module encoder`, `input x`, `constant weight`."""
    plain = {"call_module": "module ", "placeholder": "input ", "get_attr": "constant "}
    return f"{plain[node.op]}{node.target}" if node.op in plain else target_name(node.target)


def is_python(target: Any) -> bool:
    """Whether a target is a function of Python's own, to be called on numbers and tuples."""
    module = getattr(target, "__module__", None)
    return module in ("_operator", "operator", "math", "builtins") or target in (torch.sym_float, torch.sym_int)


def tensor_metadata(value: Any) -> Any:
    """torch.fx's TensorMetadata of a strided tensor, or of each one of a tuple or list (None in between)."""
    if isinstance(value, torch.Tensor) and not foreign(value):
        return TensorMetadata(
            shape=value.shape,
            dtype=value.dtype,
            requires_grad=value.requires_grad,
            stride=value.stride(),
            memory_format=None,
            is_quantized=False,
            qparams={},
        )
    if isinstance(value, tuple | list):
        return tuple(tensor_metadata(v) for v in value)
    return None


def set_value(node: fx.Node, value: Any) -> None:
    """Record the fake `value` of `node` as `meta["val"]` and `meta["tensor_meta"]`."""
    node.meta["val"] = value
    meta = tensor_metadata(value)
    if meta is not None:
        node.meta["tensor_meta"] = meta


# ---- where it comes from


def origin_of(node: fx.Node) -> str:
    """The line of Python that a node comes from, as `file:line in function`; "" where it is not known."""
    frames = FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    return "{}:{} in {}".format(*frames[-1]) if frames else ""


def described(node: fx.Node) -> str:
    """`%name = target, from file:line in function`."""
    origin = origin_of(node)
    return f"%{node.name} = {called(node)}" + (f", from {origin}" if origin else "")


def copy_origin(old: fx.Node, new: fx.Node) -> None:
    """Give `new` the source line and the module path of `old`."""
    for key in ("stack_trace", "nn_module_stack"):
        if key in old.meta:
            new.meta[key] = old.meta[key]


# ---- why it stays in torch


def note_unmapped(node: fx.Node, why: str) -> None:
    """Record why a node has no acc operator."""
    node.meta["acc_unmapped"] = why


def draws(target: Any) -> bool:
    """Whether an operator draws random numbers."""
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def unmapped(node: fx.Node) -> str:
    """Why a node has no acc operator; "" where no tracer said so."""
    return node.meta.get("acc_unmapped", "")


def _of_tensors(node: fx.Node) -> bool:
    """Whether a function of Python's own reads a tensor; the results of others are taken apart by such functions."""
    return any(isinstance(value_of(n), torch.Tensor) for n in node.all_input_nodes)


def refusal(node: fx.Node) -> str:
    """Why a node has no converter; "" where it has one."""
    if node.op in ("placeholder", "get_attr", "output"):
        return ""
    if converter_of(node) is not None or (
        node.op == "call_function" and is_python(node.target) and not _of_tensors(node)
    ):
        return ""
    if node.op == "call_function" and draws(node.target):
        return "torch draws the random numbers, so that they are eager's"
    if node.op == "call_module" and not unmapped(node):
        return f"module {node.target} stays whole (a leaf module, a scripted one, or hooks)"
    return unmapped(node) or f"{target_name(node.target)} has no converter"

"""Recurrent layers as upstream's programs hold them.

There an lstm is its hidden states, and what takes a last state looks at the layer that it comes from: its direction,
its sequences' lengths, its cell states. Here an lstm is the tuple of both states, and attributes say the rest.
Activations are operators there, names here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation, operation
from migraphx.ops.control import GetTupleElem
from migraphx.ops.recurrent import ACTIVATIONS, LastCell, LastState, Lstm, Recurrent

LENGTHS = 4  # which input of a layer they are


def as_ours(module: Module, op: Operation, inputs: Sequence[Instruction]) -> tuple[Operation, list[Instruction]]:
    """An operator of upstream's that is to be added to the module, and its inputs, as they are here."""
    if isinstance(op, GetTupleElem):
        return op, list(inputs)
    state = int(isinstance(op, LastCell))
    plain = [_element(module, i, state) if isinstance(i.op, Lstm) else i for i in inputs]
    layer = layer_of(inputs[0]) if isinstance(op, LastState) and inputs else None
    if layer is None:
        return op, plain
    direction = layer.op.attributes()["direction"]
    lens = layer.inputs[LENGTHS : LENGTHS + 1]
    if not lens or lens[0].name == "undefined":
        return operation(op.name, direction=direction), plain
    return operation("rnn_var_sl_last_output", direction=direction), [*plain, *lens]


def layer_of(ins: Instruction) -> Instruction | None:
    """The layer whose states these are."""
    source = ins.inputs[0] if isinstance(ins.op, GetTupleElem) else ins
    return source if isinstance(source.op, Recurrent) else None


def stands_for_layer(ins: Instruction) -> bool:
    """Whether upstream writes the lstm itself in this place: its hidden states, or cells of which the last is taken."""
    if not isinstance(ins.op, GetTupleElem) or not isinstance(ins.inputs[0].op, Lstm):
        return False
    return ins.op.index == 0 or all(isinstance(user.op, LastCell) for user in ins.users)


def _element(module: Module, lstm: Instruction, index: int) -> Instruction:
    found = (u for u in lstm.users if isinstance(u.op, GetTupleElem) and u.op.index == index and u.owner is module)
    return next(found, None) or module.add_instruction(GetTupleElem(index=index), [lstm])


def activations_read(attributes: dict[str, Any]) -> dict[str, Any]:
    """A layer's attributes: the operators' names, and their constants in the order of those that have any."""
    functions = attributes.get("actv_func") or ()
    if not all(isinstance(f, dict) for f in functions):
        return attributes
    names = [str(f.get("name")) for f in functions]
    given = [(f.get("operator") or {}).get("alpha") for f in functions]
    return attributes | {"actv_func": names, "actv_alpha": [a for a in given if a is not None]}


def activations_written(op: Recurrent) -> list[dict[str, Any]]:
    """Every direction's activations as operators."""
    names = op.actv_func or op.default
    names = names if len(names) > len(op.default) else names * op.directions
    left, made = list(op.actv_alpha), []
    for name in names:
        constants, _ = ACTIVATIONS[name]
        own = {"alpha": left.pop(0) if left else constants[0]} if constants else {}
        made.append({"name": name, "operator": own})
    return made

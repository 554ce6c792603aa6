"""About how long calls take.

The figures are rough: between half and ten times what processors of these years take. They decide into how many parts
a long step is divided, so that a run can be ended between them.
"""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.call import Call

# On one thread, in nanoseconds or per nanosecond.
CALL = 200.0
BYTES = 20.0
PRODUCTS, OPERATIONS = 100.0, 10.0  # of dots and convolutions, of anything else
DEAR = {"roialign": 50.0, "multinomial": 50.0, "lrn": 20.0, "topk": 10.0}  # an element
CUSTOM = 50.0  # an element of a user's operator: nobody knows

INDIVISIBLE = 5e6  # at most, where each part would read the whole again: program.hpp makes no parts of so little


def nanoseconds(call: Call, ins: Instruction | None, flops: int) -> int:
    """About how long a call takes one thread; `ins` is what it was lowered from."""
    if call.kernel is None:
        return 0
    spent = CALL + call.bytes / BYTES
    if ins is None:
        return int(spent)
    spent += flops / (PRODUCTS if _multiplies(ins) else OPERATIONS)
    each = CUSTOM if isinstance(ins.op, CustomOperation) else DEAR.get(ins.name, 0.0)
    if each:
        spent += each * max(i.shape.elements for i in (ins, *ins.inputs) if i.shape.type != "tuple")
    if ins.name == "nonzero" or ins.name.startswith("scatternd_"):
        spent = min(spent, INDIVISIBLE)
    return int(spent)


def _multiplies(ins: Instruction) -> bool:
    return ins.op.contraction or (ins.name == "group" and any(i.op.contraction for i in ins.modules[0]))

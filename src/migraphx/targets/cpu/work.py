"""About how long calls take.

The figures are rough: between half and ten times what processors of these years take. They decide two things that need
no more: whether work is so little that a second thread costs more than it saves (`crew.py`), and into how many parts a
long step is divided, so that a run can be ended between them.
"""

from __future__ import annotations

from functools import reduce

from migraphx.ir.module import Instruction
from migraphx.ir.size import least_of, most_of
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.call import Call
from migraphx.targets.cpu.emit.kernel import Kernel

# On one thread, in nanoseconds or per nanosecond.
CALL = 200
BYTES = 20
PRODUCTS, OPERATIONS = 100, 5  # of dots and convolutions, of anything else
CUSTOM = 50  # an element of a user's operator: nobody knows

INDIVISIBLE = 5_000_000  # at most, where parts would read the same again and again: program.hpp makes none of so little


def nanoseconds(call: Call[Kernel], ins: Instruction | None, flops: int) -> int:
    """About how long a call takes one thread; `ins` is what it was lowered from."""
    if call.kernel is None:
        return 0
    if ins is None:
        return CALL + call.bytes // BYTES
    multiplies = any(i.op.contraction for i in (ins, *(i for m in ins.modules for i in m)))
    rate = PRODUCTS if multiplies else OPERATIONS
    spent = CALL + (call.bytes * rate + flops * BYTES) // (BYTES * rate)
    if isinstance(ins.op, CustomOperation):
        elements = (i.shape.elements for i in (ins, *ins.inputs) if i.shape.type != "tuple")
        spent += CUSTOM * reduce(most_of, elements)
    if any(i.stops for i in call.kernel.instances) or ins.name == "nonzero" or ins.name.startswith("scatternd_"):
        spent = least_of(spent, INDIVISIBLE)  # these kernels, the engine of products among them, look for a stop
    return spent

"""About how long calls take, and how many threads a program is worth.

The figures are rough: between half and ten times what processors of these years take. They decide two things that need
no more: whether work is so little that a second thread costs more than it saves, and into how many parts a long step
is divided, so that a run can be ended between them.
"""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.call import Call
from migraphx.targets.cpu.codegen import FLOW, steps_words
from migraphx.targets.cpu.emit.kernel import Kernel

# On one thread, in nanoseconds or per nanosecond.
CALL = 200.0
BYTES = 20.0
PRODUCTS, OPERATIONS = 100.0, 5.0  # of dots and convolutions, of anything else
CUSTOM = 50.0  # an element of a user's operator: nobody knows

INDIVISIBLE = 5e6  # at most, where parts would read the same again and again: program.hpp makes none of so little

SHARE = 50e3  # nanoseconds of work that are worth a thread: waking one takes about as long
BARRIER = 5e3  # what passing from kernel to kernel costs several threads; more on busy machines
TRIPS = 1000  # of a loop, at most, as far as they count here


def nanoseconds(call: Call[Kernel], ins: Instruction | None, flops: int) -> int:
    """About how long a call takes one thread; `ins` is what it was lowered from."""
    if call.kernel is None:
        return 0
    spent = CALL + call.bytes / BYTES
    if ins is None:
        return int(spent)
    multiplies = any(i.op.contraction for i in (ins, *(i for m in ins.modules for i in m)))
    spent += flops / (PRODUCTS if multiplies else OPERATIONS)
    if isinstance(ins.op, CustomOperation):
        spent += CUSTOM * max(i.shape.elements for i in (ins, *ins.inputs) if i.shape.type != "tuple")
    if call.kernel.instances or ins.name == "nonzero" or ins.name.startswith("scatternd_"):
        spent = min(spent, INDIVISIBLE)  # these kernels, the engine of products among them, look for a stop themselves
    return int(spent)


def threads_worth(table: np.ndarray, most: int) -> int:
    """How many threads, 1 to `most`, run the program of this table fastest."""
    steps = steps_words(table)
    times = np.ones(len(steps))
    for n, (kernel, numbers, *_) in enumerate(steps):
        if kernel < 0 and table[numbers] == FLOW["LOOP"]:
            times[n + 1 : table[numbers + 2]] *= min(table[numbers + 3], TRIPS)
    divided = (steps[:, -1] - BARRIER * (steps[:, 0] >= 0)) @ times
    return min(most, max(1, int(divided / SHARE)))

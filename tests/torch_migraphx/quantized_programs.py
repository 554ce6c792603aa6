"""What a lowered module's programs multiply in."""

from collections import Counter

from torch import nn

from torch_migraphx.fx.mgx_module import MGXModule

PRODUCTS = ("quant_convolution", "quant_dot", "dot_int4", "convolution", "dot")


def kernels(lowered: nn.Module) -> Counter[str]:
    """How many products of each kind the kernels of all programs compute."""
    found: Counter[str] = Counter()
    for m in lowered.modules():
        if isinstance(m, MGXModule):
            found.update(step.kernel.split()[0] for step in m.program.executable.steps if step.kernel)  # type: ignore[union-attr]
    return Counter({name: found[name] for name in PRODUCTS})

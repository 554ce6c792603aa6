"""Write SUPPORT.md, the tables of what is supported, from the code: `python -m tools.support`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

import migraphx
import migraphx.targets.cpu.target  # the target is imported late; this registers its lowerings
import torch_migraphx  # registers the converters
from migraphx.ir.builder import COMPOSITES
from migraphx.ir.operation import OPERATIONS
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.targets.cpu.lower import CPU
from tools.upstream_names import NAMES, existing
from torch_migraphx.fx.complex_rules import RULES
from torch_migraphx.fx.converter import target_name
from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.decompose import all_decompositions
from torch_migraphx.fx.graph_info import draws
from torch_migraphx.options import UPSTREAM

REWRITTEN = {
    "softmax", "logsoftmax", "quantizelinear", "dequantizelinear",
    "rnn", "gru", "lstm", "rnn_last_hs_output", "rnn_last_cell_output",
    "rnn_var_sl_last_output", "rnn_var_sl_shift_output", "rnn_var_sl_shift_sequence",
    "allocate", "outline", "capture", "fill", "fixed_pad", "concat_past_present", "gqa_rotary_embedding",
    "broadcast_with_dims", "broadcast_for_dot", "dimensions_of", "dynamic_range",
    "select_module", "unique", "nonzero_exact", "as_length",
}  # fmt: skip
"""Become other operators before a target lowers them, or run on the host because their size depends on data."""
RELEASE = ".".join(torch.__version__.split(".")[:2])
HEAD = """# What is supported

Written by `python -m tools.support` from the declarations themselves; a test holds it to them.
Anything else is an error that names the operator and where it comes from, or runs in torch with one log line.
"""


def ours(declared: Any) -> bool:
    """Whether the packages declare it, and not a test that runs in the same process."""
    return declared.__module__.partition(".")[0] in ("migraphx", "torch_migraphx")


def on_cpu(name: str) -> bool:
    """Whether the cpu target runs an operator: by a lowering of its own, inside a fused kernel, or rewritten."""
    declared = OPERATIONS[name]
    return name in CPU.operators() or name in REWRITTEN or issubclass(declared, Pointwise | Reduction)


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([row(*head), row(*["---"] * len(head)), *(row(*r) for r in rows)]) + "\n"


def operators() -> str:
    rows = []
    for name, cls in sorted(OPERATIONS.items()):
        if not name.startswith("@") and ours(cls):
            meaning = (cls.__doc__ or "").strip().splitlines()[0]
            rows.append((f"`{name}`", meaning, "yes", "yes" if on_cpu(name) else "no"))
    return table(("operator", "meaning", "ref", "cpu"), rows)


def converters() -> str:
    groups: dict[object, list[str]] = defaultdict(list)
    for target, converter in CONVERTERS.items():
        if not ours(converter.function) or target_name(target).startswith("torchao."):  # declared once it is imported
            continue
        groups[converter.function].append(target_name(target))
    rows = []
    for names in groups.values():
        acc = sorted(n for n in names if n.startswith("acc_ops"))
        rows.append((", ".join(f"`{n}`" for n in acc), ", ".join(f"`{n}`" for n in sorted(set(names) - set(acc)))))
    return table(("acc operators", "ATen overloads and others"), sorted(rows))


def core() -> str:
    """How the core ATen operators of the installed torch run, and which do not."""
    table, kinds = all_decompositions(), defaultdict(list)
    for operator in core_operators():
        if operator in CONVERTERS:
            kind = "converter"
        elif operator in RULES:
            kind = "pairs"
        elif draws(operator) and operator not in table:
            kind = "drawn"
        elif operator._schema.is_mutable:
            kind = "mutable"
        else:
            kind = "parts" if operator in table else "torch"
        kinds[kind].append(f"`{operator}`")
    count = {kind: len(names) for kind, names in kinds.items()}
    engine = count["converter"] + count["parts"] + count["pairs"]
    named = {kind: ", ".join(sorted(names)) for kind, names in kinds.items()}
    return (
        f"Of the {sum(count.values())} core ATen operators of torch {RELEASE}, {engine} run in the engine: "
        f"{count['converter']} by a converter, {count['parts']} taken apart ({named['parts']}), {count['pairs']} on "
        f"pairs of real numbers ({named['pairs']}). Torch draws the random numbers ({named['drawn']}), so that they "
        f"are eager's, and has made functional what writes to its inputs ({named['mutable']}). "
        f"In torch: {named.get('torch', 'none')}.\n"
    )


def core_operators() -> list[torch._ops.OpOverload]:
    """Those that torch's tag says are core."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default") if "aten::" in name else None
        if operator is not None and torch.Tag.core in operator.tags:
            found.append(operator)
    return found


def options() -> str:
    """Every option of a compilation and of a lowering, once; where the two differ in the default, both stand there."""
    engine = {f.name: f for f in fields(migraphx.CompileOptions)}
    bridge = {f.name: f for f in fields(torch_migraphx.Options) if f.init}
    rows = []
    for name in engine | bridge:
        both = [f for f in (engine.get(name), bridge.get(name)) if f is not None]
        defaults = " / ".join(dict.fromkeys(f"`{f.default!r}`" for f in both))
        meanings = "; ".join(dict.fromkeys(f.metadata["help"] for f in both))
        given = ["`program.compile`, driver"] * (name in engine) + ["torch"] * (name in bridge)
        rows.append((f"`{name}`", defaults, ", ".join(given), meanings))
    return table(("option", "default", "given to", "meaning"), rows)


def upstream() -> str:
    """Which of Torch-MIGraphX's public names can be imported here."""
    rows = []
    for module, names in NAMES.items():
        found = existing(module, names)
        cells = (", ".join(f"`{n}`" for n in names if (n in found) == here) for here in (True, False))
        rows.append((f"`{module}`", *cells))
    return table(("module", "exists", "does not exist"), rows)


def document() -> str:
    """The whole of SUPPORT.md."""
    onnx = ", ".join(f"`{n}`" for n in sorted(migraphx.get_onnx_operators()))
    composites = ", ".join(f"`{n}`" for n, f in sorted(COMPOSITES.items()) if ours(f))
    return "\n".join(
        [
            HEAD,
            "## Options\n",
            "Torch: `lower_to_mgx`, `torch.compile(options=...)`; of a compilation alone, `MGXModule` too.\n",
            options(),
            "## Operators of the engine\n",
            operators(),
            f"Composites (`migraphx.macro`), on every target: {composites}.\n",
            "## PyTorch\n",
            converters(),
            core(),
            "## Names of Torch-MIGraphX\n",
            "Its backend's options have its names too: "
            + ", ".join(f"`{theirs}` is `{ours}`" for theirs, ours in UPSTREAM.items())
            + "; `use_aot`, `deallocate`, `exhaustive_tune`, `save_compiled` and `load_compiled` are as above.\n",
            upstream(),
            "## ONNX\n",
            f"{onnx}.\n",
        ]
    )


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("SUPPORT.md").write_text(document())

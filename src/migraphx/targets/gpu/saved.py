"""Programs in files: the plan and the kernels' code are used where this machine keeps them, or where they are trusted.

A plan is as powerful as code, since its kernels write where it says. So a file only names it: it comes from the local
cache, or from a file that is trusted, and it states how large the blocks must be that the file brings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.targets.common import sections
from migraphx.targets.common.cache import digest, lookup, obtain
from migraphx.targets.common.call import Flow
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.views import Move
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.binaries import SUFFIX, Binary
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.library import Library, named
from migraphx.targets.gpu.plan import Control, Delegated, Launched, Operand, Place, Plan, Task

FORMAT = "gpu plan 2"
PLAN = ".plan"


def write(
    chip: str, plan: Plan, outline: Outline, weights: Sequence[np.ndarray], codes: Sequence[Binary]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """JSON data and named tensors, from which `read` makes the same again; the cache keeps the plan from now on."""
    packed = [code.to_bytes() for code in codes]
    keys = [_kept(data) for data in packed]
    text = json.dumps({"plan": plan_data(plan), "needs": _sizes(outline, weights), "codes": keys}).encode()
    key = _key(chip, text)
    obtain(key, PLAN, lambda path: path.write_bytes(text))
    data, tensors = sections.write(outline, weights)
    data |= {"format": FORMAT, "chip": chip, "plan": key}
    bundle = json.dumps([len(p) for p in packed]).encode() + b"\n" + b"".join(packed)
    return data, tensors | {"plan.code": _bytes(text), "code": _bytes(bundle)}


def read(
    data: Mapping[str, Any], tensors: Mapping[str, np.ndarray], trust_code: bool, device: Accelerator
) -> tuple[Plan, Outline, list[np.ndarray], list[Binary]] | None:
    """What `write` was given, or None where the plan or its code is for another chip, neither kept nor trusted."""
    if (data["format"], data["chip"]) != (FORMAT, device.chip):
        return None
    text = _kept_plan(data["plan"], device.chip)
    if text is None and trust_code:
        text = tensors["plan.code"].tobytes()
    if text is None:
        return None
    held = json.loads(text)
    codes = _codes(held["codes"], tensors["code"] if trust_code else None)
    if codes is None:
        return None
    outline, weights = sections.read(data, tensors)
    if _sizes(outline, weights) != held["needs"]:
        raise ValueError("its plan was made for blocks of other sizes than this program's")
    return read_plan(held["plan"]), outline, weights, codes


def _key(chip: str, text: bytes) -> str:
    return digest(FORMAT, chip, text)


def _kept_plan(key: str, chip: str) -> bytes | None:
    """A plan from the cache, where it is one for this chip."""
    path = lookup(key, PLAN)
    text = path.read_bytes() if path else None
    return text if text is not None and _key(chip, text) == key else None


def _kept(data: bytes) -> str:
    """The key under which the cache keeps code by what it is, so that who knows the key needs no Triton."""
    key = digest(data)
    obtain(key, SUFFIX, lambda path: path.write_bytes(data))
    return key


def _codes(keys: Sequence[str], bundle: np.ndarray | None) -> list[Binary] | None:
    """The kernels' code from the cache, or from a file's bundle that is trusted."""
    paths = [lookup(key, SUFFIX) for key in keys]
    if all(paths):
        return [Binary.of(path.read_bytes()) for path in paths if path]
    if bundle is None:
        return None
    head, _, rest = bundle.tobytes().partition(b"\n")
    ends = np.cumsum([0, *json.loads(head)])
    parts = [rest[start:end] for start, end in pairwise(ends)]
    for part in parts:
        _kept(part)
    return [Binary.of(part) for part in parts]


def _sizes(outline: Outline, weights: Sequence[np.ndarray]) -> dict[str, Any]:
    """Bytes of every block, by kind."""
    return {
        "arena": outline.arena_bytes,
        "input": [s.bytes for s in outline.parameters.values()],
        "output": [s.bytes for s in outline.outputs],
        "weight": [Shape.of(w).bytes for w in weights],
        "checks": len(outline.checks),
        "steps": len(outline.steps),
    }


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


# ---- plans as JSON ----


def plan_data(plan: Plan) -> dict[str, Any]:
    """Texts, which kernels share, stand once."""
    texts = list(dict.fromkeys(k.source for k in plan.kernels))
    kernels = [asdict(k) | {"source": texts.index(k.source)} for k in plan.kernels]
    tasks = list(map(_task_data, plan.tasks))
    return {"texts": texts, "kernels": kernels, "tasks": tasks, "arena": plan.arena, "slots": plan.slots}


def read_plan(data: Mapping[str, Any]) -> Plan:
    kernels = []
    for fields in data["kernels"]:
        constants = tuple((name, value) for name, value in fields["constants"])
        parts = {"arguments": tuple(fields["arguments"]), "divisible": tuple(fields["divisible"])}
        kernels.append(Kernel(**fields | parts | {"source": data["texts"][fields["source"]], "constants": constants}))
    return Plan(tuple(kernels), tuple(map(_task, data["tasks"])), data["arena"], data["slots"])


def _place_data(place: Place) -> list[Any]:
    return [place.kind, place.index, place.offset, [[m.slot, m.step, m.phase, m.mask] for m in place.moves]]


def _place(data: Sequence[Any]) -> Place:
    kind, index, offset, moves = data
    return Place(kind, index, offset, tuple(Move(*m) for m in moves))


def _task_data(task: Task) -> dict[str, Any]:
    if isinstance(task, Control):
        operands = [[_place_data(o.place), o.type, o.lens, o.strides] for o in task.operands]
        flow = {"flow": int(task.kind), "slot": task.slot, "target": task.target, "numbers": task.numbers}
        return flow | {"operands": operands}
    places = [_place_data(p) for p in task.places]
    if isinstance(task, Delegated):
        return {"library": type(task.library).__name__, "fields": asdict(task.library), "places": places}
    return {"kernel": task.kernel, "grid": task.grid, "places": places, "numbers": task.numbers}


def _task(data: Mapping[str, Any]) -> Task:
    if "flow" in data:
        operands = tuple(Operand(_place(p), t, tuple(lens), tuple(steps)) for p, t, lens, steps in data["operands"])
        return Control(Flow(data["flow"]), data["slot"], data["target"], tuple(data["numbers"]), operands)
    places = tuple(map(_place, data["places"]))
    if "library" in data:
        return Delegated(_library(data["library"], data["fields"]), places)
    grid = tuple(data["grid"])
    return Launched(data["kernel"], grid, places, tuple(data["numbers"]))


def _library(name: str, fields: Mapping[str, Any]) -> Library:
    return named(name)(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})

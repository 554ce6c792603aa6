"""Triton's text to a device's code: the program of a process of its own, and the only import of Triton.

It needs neither torch nor a GPU. Standard input has one job a line (JSON), standard output one answer a line: the
facts of a launch, or what went wrong. `binaries.py` starts it. Triton's stages are driven here, since
`triton.compile` spends a second on hashing its own library and keeps a cache that anybody may write to; the way is the
same from Triton 3.5 to 3.9.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

FIRST_PDL = 90  # compute capability from which on a kernel may start while the one before it ends
FIRST_FP8 = 89  # from which on fp8e4m3fn is converted by one instruction
HIDDEN = 2  # pointers that follow a kernel's arguments: global scratch, profile scratch
OBJECTS = 100_000  # new ones between two collections of garbage, which were a sixth of a compilation's time
WAITS = "# now what others wrote"  # emit/shell.py puts it into texts
ASKS = {"prefetch_columns"}  # functions of kernels/ahead.py
ARITHMETIC = {"assume", "program_id", "arange", "cdiv", "minimum", "maximum", "where"}  # of triton.language
DESCRIBES = {"make_tensor_descriptor"}  # which writes to memory that nobody else has: each launch's own (state.py)
WAITS_FOR_ALL = "wgmma.wait_group.sync.aligned 0;"
MAY_BEGIN = re.compile(r":$|\b(bra|brx|call|wgmma)\b")  # products: a statement of PTX, or what others lead to
WAIT = "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait"


def causes(error: BaseException) -> list[BaseException]:
    """An error and what led to it: Triton says where first, and what was wrong last."""
    return [error, *(causes(error.__cause__) if error.__cause__ else [])]


def target_of(chip: str) -> GPUTarget:
    """`cuda:90` or `hip:gfx942`."""
    backend, model = chip.split(":")
    return GPUTarget("cuda", int(model), 32) if backend == "cuda" else GPUTarget("hip", model, 64)


def touches_no_memory(statement: ast.stmt, functions: dict[str, ast.FunctionDef]) -> bool:
    """Whether it is arithmetic, describes, or asks for weights; `functions`: those that it may call."""
    for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="tl"), attr=name) if name in ARITHMETIC | DESCRIBES:
                pass
            case ast.Name(id=name) if name in ASKS:
                pass
            case ast.Name(id=name) if name in functions:
                inner = functions[name].body
                if not all(touches_no_memory(s, functions) for s in inner):
                    return False
            case _:
                return False
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr)


def waiting(source: str, name: str) -> str:
    """The text, where kernel `name` waits for the one before it, and then lets the next one start.

    It waits where it says WAITS, else behind what it computes of its arguments alone: all that a kernel reads or
    overwrites may be the work of those before it, but for weights. What is gained is the time between two kernels:
    blocks of the next one are there when the last of this one ends, they know their places, have made their tensor
    descriptors, and the weights that they want are on their way. To start it before the wait is slower on an H200:
    blocks that wait take the place of those that work.
    """
    tree = ast.parse(source)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    body = function.body[1:] if ast.get_docstring(function) is not None and len(function.body) > 1 else function.body
    lines = source.splitlines()
    indent = " " * body[0].col_offset
    own = range(body[0].lineno - 1, function.end_lineno or body[0].lineno)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    reads = next(s for s in body if s is body[-1] or not touches_no_memory(s, functions))
    at = next((n for n in own if lines[n] == indent + WAITS), reads.lineno - 1)
    lines[at:at] = [f"{indent}gdc_wait()", f"{indent}gdc_launch_dependents()"]
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    lines[first - 1 : first - 1] = [WAIT]
    return "\n".join(lines) + "\n"


def loaded(path: Path, name: str, known: dict[str, bool]) -> Any:
    """The function `name` of a file, whose text is told what the chip has."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for fact in known.keys() & vars(module).keys():
        vars(module)[fact] = triton.language.constexpr(known[fact])
    return getattr(module, name)


def compiled(job: dict[str, Any]) -> dict[str, Any]:
    """Write the code of a job's kernel to its path `code`; what a launch must know."""
    target = target_of(job["chip"])
    pdl = target.backend == "cuda" and int(target.arch) >= FIRST_PDL
    path = Path(job["folder"]) / f"kernel_{job['key']}.py"
    path.write_text(waiting(job["source"], job["name"]) if pdl else job["source"])
    fp8 = target.backend == "cuda" and int(target.arch) >= FIRST_FP8
    function = loaded(path, job["name"], {"NATIVE_FP8": fp8, "PREFETCHES": pdl})
    constants = dict(job["constants"])
    given = iter(job["arguments"])
    signature = {n: "constexpr" if n in constants else next(given) for n in function.arg_names}
    if (left := list(given)) or constants.keys() - signature.keys():
        raise TypeError(f"{job['name']} takes {function.arg_names}, not {left} and {list(constants)}")
    taken = [n for n, n_type in enumerate(signature.values()) if n_type != "constexpr"]
    attributes = {(taken[k],): [["tt.divisibility", 16]] for k in job["divisible"]}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    code, facts, texts = _stages(source, target, job["options"])
    if "ptx" in texts:
        parameters = texts["ptx"].split(".entry", 1)[1].split(")", 1)[0].count(".param")
        if parameters != len(taken) + HIDDEN:
            raise TypeError(f"{job['name']}: the code takes {parameters} arguments, the text {len(taken)} and {HIDDEN}")
    if facts.get("profile_scratch_size") or facts.get("launch_cooperative_grid") or facts.get("tensordesc_meta"):
        raise TypeError(f"{job['name']} needs profile scratch, a cooperative launch or host descriptors")
    Path(job["code"]).write_bytes(code)
    return {
        "name": facts["name"],
        "shared": facts["shared"],
        "threads": facts["num_warps"] * target.warp_size,
        "blocks": facts["num_ctas"],
        "scratch": facts.get("global_scratch_size") or 0,
        "hidden": HIDDEN,
        "pdl": pdl,
        "triton": triton.__version__,
    }


def waiting_once(ptx: str) -> str:
    """PTX that waits for no products (wgmma) where it has waited for all and begun none since.

    Triton waits for each of two sums by itself. Behind a second wait ptxas (C7515) takes what follows for a change of
    sums that are not there yet, and lets every product wait for the one before it.
    """
    lines, waited = list[str](), False
    for line in ptx.splitlines():
        word = line.split("//", 1)[0].strip()
        if word == WAITS_FOR_ALL and waited:
            continue
        waited = word == WAITS_FOR_ALL or (waited and not MAY_BEGIN.search(word))
        lines.append(line)
    return "\n".join(lines) + "\n"


def _stages(source: ASTSource, target: GPUTarget, given: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """The code, what the stages say of it, and the stages' texts."""
    backend: Any = make_backend(target)  # whose base class declares less than all of them have
    options = backend.parse_options(dict(given))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    implementation = backend.get_codegen_implementation(options)
    module: Any = source.make_ir(target, options, implementation, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    facts, texts = {"target": target, **options.__dict__}, {}
    for name, stage in stages.items():
        module = stage(module, facts)
        if isinstance(module, str):
            texts[name] = module = waiting_once(module) if name == "ptx" else module
    return module, facts, texts


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the compiler prints is no answer
    gc.freeze()
    gc.set_threshold(OBJECTS)
    for line in sys.stdin:
        try:
            answer = {"facts": compiled(json.loads(line))}
        except Exception as error:
            answer = {"error": "\n".join(f"{type(e).__name__}: {e}" for e in causes(error))}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

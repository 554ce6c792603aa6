"""The rules of the house, held by test; see ARCHITECTURE.md."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checks import breaches, size_breaches

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "src"


def python(code: str) -> str:
    """What `code` prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tracked() -> list[Path]:
    """The project's files: those git knows, or, outside a checkout, all but the environment's."""
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=PROJECT)
    if done.returncode == 0:
        return [p for name in done.stdout.split("\0") if name and (p := PROJECT / name).is_file()]
    return [p for p in PROJECT.rglob("*") if p.is_file() and ".venv" not in p.parts]


def test_sources_keep_the_rules():
    assert not (found := breaches(SOURCE)), "\n".join(found)


def test_helpers_are_small_too():
    """Tests, benchmarks and examples obey the same limits of size."""
    found = []
    for folder in ("tests", "benchmarks", "examples"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            source = path.read_text()
            found += size_breaches(path.relative_to(PROJECT), source, ast.parse(source))
    assert not found, "\n".join(found)


BROKEN = {
    "migraphx/ops/low.py": ("from migraphx.passes import manager\n", "may not import migraphx.passes"),
    "migraphx/passes/side.py": ("from ..runtime import executable\n", "may not import migraphx.runtime"),
    "migraphx/ops/wild.py": ("from migraphx.ir import *\n", "wildcard"),
    "migraphx/mxr/deep.py": ("def f():\n    from migraphx.ir import shape\n", "hidden import"),
    "migraphx/onnx/heavy.py": ("import torch.nn\n", "only the bridge"),
    "migraphx/ir/up.py": ("import migraphx\n", "may not import migraphx"),
    "migraphx/ir/text.py": ("LATE = {'onnx': 'migraphx.onnx.deferred'}\n", "may not import migraphx.onnx"),
    "migraphx/targets/cpu/lower.py": ("from ..ref import target\n", "may not import target ref"),
    "migraphx/inspect/facts.py": (
        "from migraphx.targets.cpu.peaks import measure\n",
        "only targets/cpu and the registry",
    ),
    "migraphx/driver/late.py": ("PEAKS = 'migraphx.targets.gpu.peaks'\n", "only targets/gpu and the registry"),
    "torch_migraphx/inner.py": ("from migraphx.ir import Shape\n", "may not import migraphx.ir"),
    "migraphx/ir/long.py": ("def f():\n" + "    x = 1\n" * 60, "at most 60"),
    "migraphx/ir/longer.py": ("x = 1\n" * 601, "at most 600"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_breach_is_found(name, tmp_path):
    for room in ("ir", "ops", "passes", "runtime", "mxr", "onnx", "targets/cpu", "targets/ref"):
        (tmp_path / "migraphx" / room).mkdir(parents=True)
    source, message = BROKEN[name]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(source)
    found = breaches(tmp_path)
    assert len(found) == 1 and message in found[0], found


def test_circles_of_files_are_found(tmp_path):
    """Imports for types alone too; what only leads to a circle, or comes of it, is not named."""
    sources = {
        "shape": "", "operation": "from migraphx.ir import shape\nif TYPE_CHECKING:\n    from .module import Module\n",
        "module": "from migraphx.ir.dynamic import infer\n", "dynamic": "import migraphx.ir.operation\n",
        "program": "from migraphx.ir.module import Module\n",
    }  # fmt: skip
    (tmp_path / "migraphx" / "ir").mkdir(parents=True)
    for name, source in sources.items():
        (tmp_path / "migraphx" / "ir" / f"{name}.py").write_text(source)
    circle = ", ".join(f"migraphx/ir/{name}.py" for name in ("dynamic", "module", "operation"))
    assert breaches(tmp_path) == [f"import each other: {circle}"]


def test_rooms_that_import_from_each_other_are_found(tmp_path):
    """At every level, even where no file is part of a circle."""
    sources = {
        "lower.py": "from torch_migraphx.fx.builder import Builder\n",
        "fx/builder.py": "",
        "fx/module.py": "import torch_migraphx.lower\n",
        "fx/tracer/nodes.py": "from ..converters.first import one\n",
        "fx/converters/first.py": "",
        "fx/converters/second.py": "from torch_migraphx.fx.tracer import names\n",
        "fx/tracer/names.py": "",
    }
    for name, source in sources.items():
        path = tmp_path / "torch_migraphx" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert [text.partition(":")[0] for text in breaches(tmp_path)] == [
        "torch_migraphx/fx/converters and torch_migraphx/fx/tracer import from each other",
        "torch_migraphx/fx and torch_migraphx/lower.py import from each other",
    ]


def test_nobody_looks_behind_the_public_seams():
    """`program.graph`, `program.executable` and `Module.append` are there for tests, tools and the driver too."""
    private = re.compile(r"\._(impl|executable|link)\b")
    folders = [PROJECT / name for name in ("tests", "tools", "benchmarks", "examples", "src/migraphx/driver")]
    files = [p for folder in folders for p in sorted(folder.rglob("*.py"))]
    found = [f"{p.relative_to(PROJECT)}: {m[0]}" for p in files for m in private.finditer(p.read_text())]
    assert not found, "\n".join(found)


def test_engine_imports_without_torch_and_onnx():
    loaded = python("import sys, migraphx; print(*sys.modules)").split()
    heavy = {"torch", "onnx", "triton", "transformers", "torchvision", "scipy", "sklearn"} & set(loaded)
    assert not heavy, f"import migraphx loads {sorted(heavy)}"


def test_engine_works_where_torch_is_missing():
    block = "import sys; sys.modules['torch'] = None; import migraphx; migraphx.get_target('cpu')"
    python(block)


def test_what_runs_programs_imports_nothing_that_compiles():
    loaded = python("import sys, migraphx; migraphx.load; migraphx.get_target('cpu'); print(*sys.modules)").split()
    compiling = ("migraphx.passes.rewrite", "migraphx.targets.cpu.lower", "migraphx.targets.cpu.emit.structs")
    assert "migraphx.targets.cpu.executable" in loaded and not {*compiling, "migraphx.writers"}.intersection(loaded)


def test_importing_changes_no_configuration():
    python(
        "import logging, os, warnings, ml_dtypes, numpy\n"  # what these two do is theirs
        "def state():\n"
        "    return list(logging.root.handlers), logging.root.level, warnings.filters[:], dict(os.environ)\n"
        "before = state()\n"
        "import migraphx\n"
        "assert state() == before"
    )


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_passes(command):
    ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "."]
    done = subprocess.run(ruff, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_names_a_path_of_one_machine():
    words = ["/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/", "/.lib" + "rary"]
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{path.relative_to(PROJECT)}: {word}" for word in words if word in text]
    assert not found, "\n".join(found)

"""Saved programs: what comes back, what is shared, what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.operation import operation
from migraphx.ir.shape import Shape
from migraphx.mxr import container
from tests.tolerances import tolerance

RNG = np.random.default_rng(5)


def program() -> migraphx.program:
    p = migraphx.program()
    main = p.graph.main
    i = main.add_parameter("indices", Shape("int64", (3,)))
    x = main.add_parameter("x", Shape("float", (3, 24)))
    b = Builder(main, origin="model.py:3")
    table = b.literal(RNG.standard_normal((50, 24)).astype(np.float32))
    transposed = b.literal(RNG.standard_normal((40, 24)).astype(np.float32).T)
    h = b.add(b.gather(table, i, axis=0), x)
    main.add_return([b.softmax(b.dot(h, transposed), axis=1), h])
    return p


INPUTS = {"indices": np.array([4, 0, 49]), "x": RNG.standard_normal((3, 24)).astype(np.float32)}


def outputs(p: migraphx.program) -> list[np.ndarray]:
    return [np.array(a) for a in p.run(INPUTS)]


def compiled(target: str = "cpu") -> migraphx.program:
    p = program()
    p.compile(migraphx.get_target(target))
    return p


def test_uncompiled_round_trip(tmp_path: Path) -> None:
    p = program()
    migraphx.save(p, tmp_path / "a.mxr")
    q = migraphx.load(tmp_path / "a.mxr")
    assert q == p and not q.is_compiled()
    for r in (p, q):
        r.compile(migraphx.get_target("ref"))
    for a, b in zip(outputs(p), outputs(q), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_compiled_round_trip(tmp_path: Path, target: str) -> None:
    p = compiled(target)
    migraphx.save(p, tmp_path / "a.mxr")
    q = migraphx.load(tmp_path / "a.mxr")
    assert q.is_compiled() and q == p
    assert q.get_parameter_shapes() == p.get_parameter_shapes()
    r = migraphx.load_buffer(migraphx.save_buffer(p))
    for a, b, c in zip(outputs(p), outputs(q), outputs(r), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_compiled_programs_stay_so_under_the_name_of_amds_format(tmp_path: Path, target: str) -> None:
    """AMD's own examples save and load compiled programs with format="msgpack"."""
    p = program()
    p.compile(migraphx.get_target(target), offload_copy=False)
    migraphx.save(p, tmp_path / "a.mxr", format="msgpack")
    for q in (migraphx.load(tmp_path / "a.mxr", format="msgpack"), migraphx.load(tmp_path / "a.mxr")):
        assert q.is_compiled() and q.get_parameter_names() == ["indices", "x", "main:#output_0", "main:#output_1"]
        buffers = [np.empty((3, 40), np.float32), np.empty((3, 24), np.float32)]
        q.run(INPUTS | {f"main:#output_{k}": buffer for k, buffer in enumerate(buffers)})
        for buffer, wanted in zip(buffers, outputs(p), strict=True):
            np.testing.assert_array_equal(buffer, wanted)
    assert migraphx.load_buffer(migraphx.save_buffer(p, "msgpack"), "msgpack").is_compiled()
    for save in (lambda **how: migraphx.save(p, tmp_path / "b.json", **how), partial(migraphx.save_buffer, p)):
        with pytest.raises(ValueError, match=r"'json' holds no compiled program: save clone\(compiled=False\)"):
            save(format="json")
    assert not (tmp_path / "b.json").exists()
    migraphx.save(p.clone(compiled=False), tmp_path / "b.json", format="json")
    assert migraphx.load(tmp_path / "b.json") == p


def test_any_safetensors_reader_reads_it(tmp_path: Path) -> None:
    p = compiled()
    migraphx.save(p, tmp_path / "a.mxr", code=True)
    with safe_open(tmp_path / "a.mxr", "np") as file:
        names = set(file.keys())
        assert file.metadata()["format"] == "openmgx 1"
        literal = next(v for i in p.graph.main if (v := i.literal) is not None and v.shape == (50, 24))
        assert any(np.array_equal(file.get_tensor(n), literal) for n in names if n.startswith("literal"))
    assert "compiled.code" in names
    tensors, _ = container.read(tmp_path / "a.mxr")
    assert all(a.__array_interface__["data"][0] % 64 == 0 for a in tensors.values())


def test_weights_read_as_they_are_are_written_once(tmp_path: Path) -> None:
    migraphx.save(compiled(), tmp_path / "a.mxr")
    tensors, metadata = container.read(tmp_path / "a.mxr")
    tables = [n for n, a in tensors.items() if a.shape == (50, 24)]
    assert len(tables) == 1
    assert tables[0] in json.loads(metadata["compiled"])["tensors"].values()


def load_elsewhere(path: Path, cache: Path, **options: bool) -> subprocess.CompletedProcess[str]:
    """Load in a process with an empty cache and no compiler."""
    script = (
        "import numpy as np, migraphx, sys\n"
        f"p = migraphx.load({str(path)!r}, **{options!r})\n"
        "x = np.zeros((3, 24), np.float32)\n"
        "print(np.array(p.run({'indices': np.array([4, 0, 49]), 'x': x})[1]).sum())\n"
    )
    environment = os.environ | {"OPENMGX_CACHE": str(cache), "CXX": "/nonexistent/c++"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_a_saved_program_runs_without_what_compiles(tmp_path: Path) -> None:
    """A process of its own loads no operator, nor the narrow types of another package, until somebody asks for one."""
    migraphx.save(compiled(), tmp_path / "a.mxr", code=True)
    script = (
        "import numpy as np, migraphx, sys\n"
        f"p = migraphx.load({str(tmp_path / 'a.mxr')!r}, trust_code=True)\n"
        "p.run({'indices': np.array([4, 0, 49]), 'x': np.zeros((3, 24), np.float32)})\n"
        "late = ['migraphx.ops', 'migraphx.targets.cpu.target', 'migraphx.targets.cpu.codegen', 'ml_dtypes', 'torch']\n"
        "print([name for name in late if name in sys.modules])\n"
        "print(migraphx.op('relu'), migraphx.shape(type='bf16', lens=[2]).type_size(), 'gather' in str(p))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", "relu 2 True"], done.stderr


@pytest.mark.slow
def test_operators_of_onnx_are_known_in_a_process_that_read_no_onnx(tmp_path: Path) -> None:
    p = migraphx.program()
    main = p.graph.main
    x = main.add_parameter("x", Shape("float", (3,)))
    main.add_return([main.add_instruction(operation("unknown", op="Magic"), [x])])
    migraphx.save(p, tmp_path / "a.mxr")
    script = f"import migraphx; print(migraphx.load({str(tmp_path / 'a.mxr')!r}))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    assert subprocess.check_output([sys.executable, "-c", script], env=environment, text=True).strip() == str(p).strip()


def test_code_of_a_file_runs_only_with_trust(tmp_path: Path) -> None:
    p = compiled()
    migraphx.save(p, tmp_path / "a.mxr", code=True)
    refused = load_elsewhere(tmp_path / "a.mxr", tmp_path / "empty")
    assert refused.returncode and "needs a C++ compiler" in refused.stderr
    trusted = load_elsewhere(tmp_path / "a.mxr", tmp_path / "empty", trust_code=True)
    assert not trusted.returncode, trusted.stderr
    want = np.array(p.run(INPUTS | {"x": np.zeros((3, 24), np.float32)})[1]).sum()
    assert float(trusted.stdout) == pytest.approx(want, rel=tolerance(np.float32).rtol)


def test_trust_in_a_file_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """It says so, and compiles; where it can't, for want of a compiler, the error says that."""
    p = compiled()
    migraphx.save(p, tmp_path / "a.mxr")
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "fresh"))
    q = migraphx.load(tmp_path / "a.mxr", trust_code=True)
    assert re.search(r"a\.mxr: it was saved without code=True and holds no code.*compiling it again", caplog.text)
    assert "cannot be used" not in caplog.text, "a cache that is not there yet is no fault"
    for a, b in zip(outputs(p), outputs(q), strict=True):
        np.testing.assert_array_equal(a, b)
    alone = load_elsewhere(tmp_path / "a.mxr", tmp_path / "empty", trust_code=True)
    assert alone.returncode and "holds no code" in alone.stderr and "needs a C++ compiler" in alone.stderr


@pytest.mark.parametrize("cut", [0, 5, 8, 200, -1])
def test_truncated_file(tmp_path: Path, cut: int) -> None:
    migraphx.save(program(), tmp_path / "a.mxr")
    data = (tmp_path / "a.mxr").read_bytes()
    (tmp_path / "b.mxr").write_bytes(data[:cut])
    with pytest.raises(container.FileError, match=r"b\.mxr"):
        migraphx.load(tmp_path / "b.mxr")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def parts():
        yield b"new"
        raise OSError("no space left")

    (tmp_path / "a.mxr").write_bytes(b"old")
    with pytest.raises(OSError, match=r"no space left.*a\.mxr"):
        container.replace_file(tmp_path / "a.mxr", parts())
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.mxr", b"old")]


def test_no_file_and_other_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        migraphx.load(tmp_path / "none.mxr")
    container.write(tmp_path / "w.mxr", {"w": np.zeros(3, np.float32)}, {"format": "pt"})
    with pytest.raises(container.FileError, match="not a 'openmgx 1' file"):
        migraphx.load(tmp_path / "w.mxr")

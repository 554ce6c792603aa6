"""Files of programs that are compiled for all lengths: another process compiles nothing, whatever length comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.mxr import container
from tests.tolerances import assert_close

W = np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)
LENGTHS = [(1, 1), (6, 2), (40, 33), (3, 1)]


def compiled(optimals: tuple[int, ...] = ()) -> migraphx.program:
    """Softmax of a product, of {n, t, 8}, that ran once, or was compiled for optimal lengths alone."""
    p = migraphx.program()
    main = p.graph.main
    open_ = [DynamicDimension(1, 64, optimals, symbol=s) for s in "nt"]
    x = main.add_parameter("x", Shape("float", dyn_dims=(*open_, DynamicDimension(8, 8))))
    b = Builder(main)
    main.add_return([b.softmax(b.dot(x, b.broadcast_for_dot(b.literal(W), x)), axis=-1)])
    p.compile(migraphx.get_target("cpu"))
    if not optimals:
        p.run({"x": np.ones((3, 10, 8), np.float32)})
    return p


def given(n: int, t: int) -> np.ndarray:
    return np.random.default_rng(n * 100 + t).standard_normal((n, t, 8)).astype(np.float32)


def want(x: np.ndarray) -> np.ndarray:
    e = np.exp((x @ W) - (x @ W).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_the_cache_has_the_code() -> None:
    p = migraphx.load_buffer(migraphx.save_buffer(compiled()))
    for lens in LENGTHS:
        assert_close(np.array(p.run({"x": given(*lens)})[0]), want(given(*lens)))
    executable: Any = p.executable
    assert executable.region.forms.waited == 0 < len(executable.region.forms)


@pytest.mark.parametrize("optimals", [(), (4,)])
def test_the_file_has_the_code(optimals: tuple[int, ...], tmp_path: Path) -> None:
    """A process with an empty cache and no compiler."""
    migraphx.save(compiled(optimals), tmp_path / "p.mxr", code=True)
    np.savez(tmp_path / "x.npz", *(given(*lens) for lens in LENGTHS))
    script = (
        "import numpy as np, migraphx, sys\n"
        "p = migraphx.load(sys.argv[1] + '/p.mxr', trust_code=True)\n"
        "ys = [np.array(p.run({'x': x})[0]) for x in np.load(sys.argv[1] + '/x.npz').values()]\n"
        "np.savez(sys.argv[1] + '/y.npz', *ys)\n"
    )
    environment = os.environ | {"OPENMGX_CACHE": str(tmp_path / "empty"), "CXX": "/nonexistent/c++"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=True)
    for lens, y in zip(LENGTHS, np.load(tmp_path / "y.npz").values(), strict=True):
        assert_close(y, want(given(*lens)))


def forms(data: dict[str, Any]) -> dict[str, Any]:
    (own,) = data["dynamic"]["forms"]
    return own


Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]
REFUSED: dict[str, tuple[Change, str]] = {
    "short weights": (lambda d, t: t.update({n: a.ravel()[:1] for n, a in t.items()}), "weights of other sizes"),
    "fewer weights": (lambda d, t: forms(d).update(weights=0), "weights of other sizes"),
    "another type": (lambda d, t: d["dynamic"]["parameters"][0][1].update(type="int8"), "other parameters"),
    "another length": (
        lambda d, t: d["dynamic"]["parameters"][0][1]["dyn_dims"].__setitem__(2, [4, 4, []]),
        "other dimensions",
    ),
    "a table in the file": (
        lambda d, t: (forms(d).update(form="0" * 40), t.update({"form0.form.code": np.zeros(9, np.uint8)})),
        "",
    ),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_files_made_to_harm(attack: str, caplog: pytest.LogCaptureFixture) -> None:
    change, why = REFUSED[attack]
    tensors, metadata = container.from_bytes(migraphx.save_buffer(compiled()))
    whole = json.loads(metadata["compiled"])
    own = {name: tensors[t] for name, t in whole["tensors"].items()}
    change(whole["data"], own)
    tensors |= {f"mine.{name}": array for name, array in own.items()}
    whole["tensors"] = {name: f"mine.{name}" for name in own}
    buffer = container.to_bytes(tensors, metadata | {"compiled": json.dumps(whole)})
    if why:
        with pytest.raises(ValueError, match=why):
            migraphx.load_buffer(buffer).run({"x": np.ones((2, 3, 4), np.float32)})
    else:
        caplog.set_level("INFO")
        p = migraphx.load_buffer(buffer)
        assert "compiling it again" in caplog.text
        assert_close(np.array(p.run({"x": given(2, 3)})[0]), want(given(2, 3)))

"""Files made to harm: without `trust_code` nothing runs that was not compiled here, nor on buffers of other sizes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.mxr import container
from migraphx.targets.common.cache import folder

Data = dict[str, Any]
Tensors = dict[str, np.ndarray]
X = np.random.default_rng(6).standard_normal((2, 3, 8, 8)).astype(np.float32)


def compiled(sizes: tuple[int, ...] = (2, 3, 5, 6)) -> migraphx.program:
    """A scaling by a constant, and images of other sizes: weights that are numbers and weights that are places."""
    p = migraphx.program()
    main = p.graph.main
    x = main.add_parameter("x", Shape("float", X.shape))
    b = Builder(main)
    scale = b.literal(np.arange(1, 9, dtype=np.float32))
    main.add_return([b.resize(b.mul(*b.common(x, scale)), sizes=sizes, mode="linear")])
    p.compile(migraphx.get_target("cpu"))
    return p


def answer(p: migraphx.program) -> np.ndarray:
    return np.array(p.run({"x": X})[0])


def changed(change: Callable[[Data, Tensors], object]) -> migraphx.program:
    """The program as a file brings it whose compiled part was changed."""
    tensors, metadata = container.from_bytes(migraphx.save_buffer(compiled()))
    whole = json.loads(metadata["compiled"])
    own = {name: tensors[t] for name, t in whole["tensors"].items()}
    change(whole["data"], own)
    tensors |= {f"mine.{name}": array for name, array in own.items()}
    whole["tensors"] = {name: f"mine.{name}" for name in own}
    return migraphx.load_buffer(container.to_bytes(tensors, metadata | {"compiled": json.dumps(whole)}))


def planted(place: Path, data: Data, key: str, suffix: str) -> None:
    """Name a whole entry that lies outside of the cache."""
    place.mkdir(exist_ok=True)
    for kind in (suffix, f"{suffix}.sha256"):
        shutil.copy(folder() / f"{data[key]}{kind}", place / f"evil{kind}")
    data[key] = str(place / "evil")


def saved(p: migraphx.program) -> Data:
    """What a file says of a compiled program; the cache holds what it names."""
    return json.loads(container.from_bytes(migraphx.save_buffer(p))[1]["compiled"])["data"]


def negative() -> migraphx.program:
    """A program of other code."""
    p = migraphx.program()
    main = p.graph.main
    main.add_return([Builder(main).neg(main.add_parameter("x", Shape("float", X.shape)))])
    p.compile(migraphx.get_target("cpu"))
    return p


def shorter(tensors: Tensors) -> None:
    tensors |= {name: array.ravel()[:1] for name, array in tensors.items()}


RANGE, TUPLE = (
    {"type": "float", "dyn_dims": [[1, 8, []]] * 4},
    {"sub_shapes": [{"type": "float", "lens": [2, 3, 6, 6], "strides": [108, 36, 6, 1]}]},
)
LARGER, OTHER_SIZES = (2, 3, 10, 6), "compiled for buffers of other sizes"
REFUSED: dict[str, tuple[Callable[[Data, Tensors], object], str]] = {
    "no arena": (lambda d, t: d.update(arena_bytes=0), OTHER_SIZES),
    "short weights": (lambda d, t: shorter(t), OTHER_SIZES),
    "fewer weights": (lambda d, t: d.update(weights=0), OTHER_SIZES),
    "short input": (lambda d, t: d["parameters"][0][1].update(lens=[2, 3, 8, 7]), OTHER_SIZES),
    "input that goes back": (lambda d, t: d["parameters"][0][1].update(strides=[192, 64, 8, -1]), "stride"),
    "input of a range": (
        lambda d, t: d["parameters"][0].__setitem__(1, RANGE),
        "no memory's shape",
    ),
    "tuple for an output": (lambda d, t: d["outputs"].__setitem__(0, TUPLE), "no memory's shape"),
    "short output": (lambda d, t: d["outputs"][0].update(lens=[2, 3, 5, 5]), OTHER_SIZES),
    "no output": (lambda d, t: d.update(outputs=[]), OTHER_SIZES),
    "table of a larger program": (lambda d, t: d.update(table=saved(compiled(LARGER))["table"]), OTHER_SIZES),
    "no object": (lambda d, t: d.update(object=None), "malformed"),
    "list for a shape": (lambda d, t: d.update(parameters=[["x"]]), "malformed|unpack"),
    "arena that is no number": (lambda d, t: d.update(arena_bytes="many"), "malformed|invalid literal"),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_refused(attack: str) -> None:
    change, why = REFUSED[attack]
    with pytest.raises(ValueError, match=why):
        changed(change)


COMPILED_AGAIN: dict[str, Callable[[Data, Tensors, Path], object]] = {
    "object elsewhere": lambda d, t, place: planted(place, d, "object", ".so"),
    "table elsewhere": lambda d, t, place: planted(place, d, "table", ".table"),
    "unknown object": lambda d, t, place: d.update(object="0" * 40),
    "table for an object": lambda d, t, place: d.update(object=d["table"]),
    "table of another object": lambda d, t, place: d.update(table=saved(negative())["table"]),
    "code inside": lambda d, t, place: (
        d.update(object="0" * 40),
        t.update(code=np.zeros(100, np.uint8), **{"table.code": np.full(100, 1 << 40)}),
    ),
    "another machine": lambda d, t, place: d.update(machine=""),
}


@pytest.mark.parametrize("attack", COMPILED_AGAIN)
def test_compiled_again(attack: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    p = changed(lambda d, t: COMPILED_AGAIN[attack](d, t, tmp_path / "place"))
    assert "compiling it again" in caplog.text
    np.testing.assert_array_equal(answer(p), answer(compiled()))
    assert p.executable.library_path.parent == folder()  # type: ignore[attr-defined]


def test_weights_are_numbers_never_places() -> None:
    """Whatever weights a file brings, what is read lies where it lay."""
    seen: list[np.ndarray] = []

    def wild(data: Data, tensors: Tensors) -> None:
        seen.extend(tensors.values())
        tensors |= {name: np.full_like(array, np.nan) for name, array in tensors.items()}

    assert np.isnan(answer(changed(wild))).all()
    assert len(seen) > 1 and all(array.dtype == np.float32 for array in seen)


@pytest.mark.parametrize("options", [{"num_threads": 10**9}, {"num_threads": -1}, {"max_specialisations": 0}])
def test_options_out_of_range(options: dict[str, int]) -> None:
    tensors, metadata = container.from_bytes(migraphx.save_buffer(compiled()))
    whole = json.loads(metadata["compiled"])
    whole["options"] |= options
    with pytest.raises(container.FileError, match=next(iter(options))):
        migraphx.load_buffer(container.to_bytes(tensors, metadata | {"compiled": json.dumps(whole)}))


def test_a_target_that_is_not_there_names_the_file() -> None:
    tensors, metadata = container.from_bytes(migraphx.save_buffer(compiled()))
    whole = json.loads(metadata["compiled"]) | {"target": "abacus"}
    with pytest.raises(container.FileError, match="buffer: unknown target 'abacus'"):
        migraphx.load_buffer(container.to_bytes(tensors, metadata | {"compiled": json.dumps(whole)}))


def test_tensors_that_are_not_aligned() -> None:
    """Kernels expect elements at multiples of their size."""
    data = migraphx.save_buffer(compiled())
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            entry["data_offsets"] = [n + 1 for n in entry["data_offsets"]]
    text = json.dumps(header).encode()
    moved = len(text).to_bytes(8, "little") + text + b"?" + data[8 + length :]
    tensors, _ = container.from_bytes(moved)
    assert all(array.flags.aligned for array in tensors.values())
    np.testing.assert_array_equal(answer(migraphx.load_buffer(moved)), answer(compiled()))

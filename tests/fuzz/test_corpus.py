"""What once broke a reader is refused now, and the fuzzer finds what breaks one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import migraphx
from migraphx.ir.operation import operation
from migraphx.mxr import msgpack
from tests.onnx.one_node import one_node
from tools import fuzz, fuzz_run
from tools.mutate import in_json, in_message, in_text, messages

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_past_findings(path: Path) -> None:
    assert fuzz.attempt(path.stem.partition("-")[0], path.read_bytes()) is None


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """A whole file of each surface."""
    model = one_node("Conv", [np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)], pads=[1, 1, 1, 1])
    program = migraphx.parse_onnx_buffer(model)
    made = {form: migraphx.save_buffer(program, form) for form in ("mxr", "json", "msgpack")}
    return made | {"onnx": model, "text": str(program).encode()}


@pytest.mark.slow
def test_a_model_that_is_run(files: dict[str, bytes]) -> None:
    assert fuzz.attempt("run", files["onnx"]) is None
    assert fuzz.attempt("run", files["onnx"][:-9]) is None
    with pytest.raises(fuzz_run.Refused):
        fuzz_run.worded(partial(operation, "softmax", axes=1))
    with pytest.raises(ValueError, match="reshape"):  # in NumPy's words
        fuzz_run.worded(np.zeros(3).reshape, 2)


@pytest.mark.parametrize("surface", [s for s in fuzz.READERS if s != "run"])
def test_a_few_attempts(surface: str, files: dict[str, bytes]) -> None:
    whole = files[surface]
    assert fuzz.attempt(surface, whole) is None
    made = [fuzz.input_of(surface, [whole], 7, n) for n in range(150)]
    assert made[:20] == [fuzz.input_of(surface, [whole], 7, n) for n in range(20)]
    assert len(set(made)) > 100
    for number, data in enumerate(made):
        assert fuzz.attempt(surface, data) is None, f"attempt {number}"


def test_findings_are_kept_one_for_each_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(data: bytes) -> None:
        raise ZeroDivisionError if data == b"zero" else KeyError

    monkeypatch.setitem(fuzz.READERS, "text", (broken, ValueError))
    for data in (b"zero", b"one", b"two"):
        trace = fuzz.attempt("text", data)
        assert trace is not None
        fuzz.keep("text", data, trace, tmp_path)
    kept = sorted(p.read_bytes() for p in tmp_path.glob("text-*.bin"))
    assert kept == [b"one", b"zero"]


def test_hang_and_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(data: bytes) -> None:
        if data:
            raise ValueError("refused")
        while True:
            pass

    monkeypatch.setattr(fuzz, "SECONDS", 0.05)
    monkeypatch.setitem(fuzz.READERS, "text", (slow, ValueError))
    assert fuzz.attempt("text", b"x") is None
    assert "Hang" in (fuzz.attempt("text", b"") or "")


def test_damage_keeps_the_form(files: dict[str, bytes]) -> None:
    rng = np.random.default_rng(0)
    message = onnx.ModelProto.FromString(files["onnx"])
    assert {m.DESCRIPTOR.name for m in messages(message)} >= {"ModelProto", "GraphProto", "NodeProto"}
    before = message.SerializeToString()
    for _ in range(5):
        in_message(message, rng)
    assert message.SerializePartialToString() != before
    value = msgpack.unpack(files["msgpack"])
    whole = msgpack.pack(value)
    assert sum(in_json(value, rng) != value for _ in range(20)) > 10 and msgpack.pack(value) == whole
    assert in_text("a b c 1 2 3\nd", rng) != "a b c 1 2 3\nd"

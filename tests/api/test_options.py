"""The options of a compilation: one object, whose fields every way in takes."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import Any, get_type_hints

import numpy as np
import pytest

import migraphx
from migraphx.driver.main import main
from migraphx.runtime.options import CompileKeywords, CompileOptions


def doubled() -> migraphx.program:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[2]))
    m.add_return([m.add_instruction(migraphx.op("add"), [x, x])])
    return p


def test_type_checkers_know_every_option() -> None:
    hints = get_type_hints(CompileOptions)
    assert get_type_hints(CompileKeywords) == hints == {f.name: type(f.default) for f in fields(CompileOptions)}
    assert all(f.metadata["help"] for f in fields(CompileOptions))


def test_the_signature_of_compile_repeats_no_other_default() -> None:
    defaults = {f.name: f.default for f in fields(CompileOptions)}
    parameters = inspect.signature(migraphx.program.compile).parameters.values()
    named = {p.name: p.default for p in parameters if p.name not in ("self", "t", "compile_mode", "more")}
    assert named.items() <= defaults.items()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"num_threads": "2"}, TypeError, "option 'num_threads' must be a whole number, got '2'"),
        ({"num_threads": True}, TypeError, "whole number"),
        ({"num_threads": -1}, ValueError, "option 'num_threads' must be at least 0 and at most 4096, got -1"),
        ({"max_specialisations": 0}, ValueError, "'max_specialisations' must be at least 1"),
        ({"fast_math": None}, TypeError, "option 'fast_math' must be True or False, got None"),
    ],
)
def test_wrong_values(given: dict[str, Any], error: type[Exception], message: str) -> None:
    """However the object is made."""
    for make in (CompileOptions, CompileOptions.of):
        with pytest.raises(error, match=message):
            make(**given)


def test_names() -> None:
    with pytest.raises(TypeError, match="unknown option 'numthreads'; did you mean 'num_threads'"):
        CompileOptions.of(numthreads=2)
    with pytest.raises(TypeError, match="unknown option 'x'; the options are offload_copy, fast_math, "):
        CompileOptions.of(x=2)
    with pytest.raises(FrozenInstanceError):
        CompileOptions().fast_math = False  # type: ignore[misc]
    assert CompileOptions.of(fast_math=0, num_threads=2) == CompileOptions(fast_math=False, num_threads=2)


def test_tuning_is_refused_where_nothing_can_be_tuned(tmp_path: Any, capsys: pytest.CaptureFixture) -> None:
    message = r"target 'ref' .*exhaustive_tune=True"
    p = doubled()
    with pytest.raises(ValueError, match=message):
        p.compile(migraphx.get_target("ref"), exhaustive_tune=True)
    assert not p.is_compiled()
    with pytest.raises(ValueError, match=message):
        migraphx.verify_program(p, "ref", {"x": [1.0, 2.0]}, exhaustive_tune=True)
    migraphx.save(p, str(tmp_path / "p.mxr"))
    assert main(["compile", str(tmp_path / "p.mxr"), "--ref", "--exhaustive-tune"]) != 0
    assert "target 'ref'" in capsys.readouterr().err


def test_compile_modes() -> None:
    modes = migraphx.compile_modes
    assert {m.name: m.value for m in modes} == {"eager": 0, "balanced": 50, "max": 100}
    for mode in modes:
        p = doubled()
        p.compile(migraphx.get_target("ref"), compile_mode=mode)
        assert p.run({"x": np.array([1, 2], np.float32)})[0].tolist() == [2, 4]
    with pytest.raises(TypeError, match="compile_mode must be of"):
        migraphx.program().compile(migraphx.get_target("ref"), compile_mode=50)  # type: ignore[arg-type]

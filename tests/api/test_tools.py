"""What upstream keeps to C++ or its driver, from Python: on a migraphx.program, with arrays, tensors and arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import migraphx
from migraphx.targets.gpu import device, driver

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def program() -> migraphx.program:
    p = migraphx.program()
    m = p.get_main_module()
    m.set_origin("line 7")
    x = m.add_parameter("x", migraphx.shape("float", [4, 6]))
    w = m.add_literal(np.eye(6, 3, dtype=np.float32))
    y = m.add_instruction(migraphx.op("dot"), [x, w])
    dead = m.add_instruction(migraphx.op("exp"), [y])
    m.add_return([m.add_instruction(migraphx.op("relu"), [y])])
    assert dead.outputs() == []
    return p


def names(p: migraphx.program) -> list[str]:
    return [i.name() for i in p.get_main_module()]


def test_passes_by_name() -> None:
    p = program()
    migraphx.run_passes(p, ["dead_code"])
    assert names(p) == ["@literal", "@param", "dot", "relu", "@return"]
    migraphx.run_passes(p, ["fuse_pointwise", "fuse_epilogue"])
    assert names(p) == ["@literal", "@param", "group", "@return"]
    with pytest.raises(ValueError, match="unknown pass 'dead_cod'; did you mean 'dead_code'"):
        migraphx.run_passes(p, ["dead_cod"])
    p = program()
    p.compile(migraphx.get_target("ref"))
    with pytest.raises(RuntimeError, match="before compiling"):
        migraphx.run_passes(p, ["dead_code"])


@pytest.mark.parametrize("target", ["cpu", migraphx.get_target("cpu")])
def test_verification(target: Any) -> None:
    p = program()
    for given in (X, torch.from_numpy(X), migraphx.argument(X)):
        assert migraphx.verify_program(p, target, {"x": given}, double=True).passed
    checks = migraphx.verify_instructions(p, target, {"x": X}, fast_math=False)
    assert [c.origin for c in checks] == ["line 7"] * 3 and all(c.passed for c in checks)
    assert migraphx.bisect(p, target, {"x": X}).kind == "none"
    assert migraphx.reduce_program(p, target, {"x": X}) is None
    with pytest.raises(TypeError, match="unknown option 'fast_mth'; did you mean 'fast_math'"):
        migraphx.verify_program(p, target, {"x": X}, fast_mth=True)  # type: ignore[call-arg]


def test_reduced_programs_are_programs() -> None:
    from migraphx.inspect import Tolerance  # the public class, where a tolerance is needed

    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [4, 6]))
    y = m.add_instruction(migraphx.op("exp"), [x])
    m.add_return([m.add_instruction(migraphx.op("relu"), [y])])
    found = migraphx.reduce_program(p, "cpu", {"x": X * 7}, Tolerance(0, 0, 0), double=True)
    assert found is not None, "float is not double"
    small: Any = found.program
    assert isinstance(small, migraphx.program) and "exp" in names(small) and "relu" not in names(small)
    assert "exp" in found.instruction


def test_trace_gives_references_and_arguments() -> None:
    seen: list[tuple[str, list[int]]] = []

    def show(ins: migraphx.instruction_ref, value: Any) -> None:
        assert isinstance(value, migraphx.argument)
        seen.append((ins.name(), value.get_shape().lens()))

    (out,) = migraphx.run_trace(program(), {"x": X}, show)
    assert seen == [("@literal", [6, 3]), ("@param", [4, 6]), ("dot", [4, 3]), ("exp", [4, 3]), ("relu", [4, 3])]
    np.testing.assert_array_equal(np.array(out), np.maximum(X[:, :3], 0))


def test_report_and_explanation() -> None:
    p = program()
    with pytest.raises(RuntimeError, match="compile the program"):
        migraphx.performance_report(p, {"x": X})
    p.compile(migraphx.get_target("cpu"))
    report = migraphx.performance_report(p, {"x": X}, runs=3)
    assert report.steps[-1].origin == "line 7" and len(report.runs) == 3
    assert "line 7" in str(migraphx.explain(program(), "cpu"))


def test_a_loaded_program_still_knows_its_steps(tmp_path: Any) -> None:
    p = program()
    p.compile(migraphx.get_target("cpu"))
    migraphx.save(p, tmp_path / "p.mxr")
    again = migraphx.performance_report(migraphx.load(tmp_path / "p.mxr"), {"x": X}, runs=1)
    assert [s.text for s in again.steps] == [s.text for s in p.executable.steps]


def test_other_formats(tmp_path: Any) -> None:
    p = program()
    p.write_netron_output(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_text() == migraphx.to_netron(p)
    assert migraphx.to_graphviz(p).startswith("digraph") and "line 7" not in migraphx.to_graphviz(p, brief=True)
    assert "make_program" in migraphx.to_cpp(p) and "migraphx.op('dot')" in p.to_py()
    assert json.loads(migraphx.to_netron(p))["graph"]["node"][0]["opType"] == "dot"
    assert json.loads(migraphx.to_json(p))["modules"]["main"]["nodes"][2]["name"] == "dot"


def test_without_a_gpu_its_functions_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    library = replace(driver.CUDA_DRIVER, file="libnothing.so.1")
    monkeypatch.setattr(device, "cuda_driver", lambda: driver.Driver(library))
    value = migraphx.argument(X)
    calls = {
        "allocate_gpu": lambda: migraphx.allocate_gpu(value.get_shape(), host=True),
        "to_gpu": lambda: migraphx.to_gpu(value),
        "from_gpu": lambda: migraphx.from_gpu(value),
        "gpu_sync": migraphx.gpu_sync,
    }
    for name, call in calls.items():
        with pytest.raises(RuntimeError, match=f"{name} needs the target gpu: .*libnothing.so.1"):
            call()


def test_enumerations() -> None:
    mode = migraphx.op.pooling_mode
    assert [(m.name, m.value) for m in mode] == [("average", 0), ("max", 1), ("lpnorm", 2)]
    assert [d.name for d in migraphx.op.rnn_direction] == ["forward", "reverse", "bidirectional"]
    assert migraphx.op("pooling", mode=mode.max) == migraphx.op("pooling", mode="max")
    types: Any = migraphx.shape.type_t
    assert migraphx.op("convert", target_type=types.half_type) == migraphx.op("convert", target_type="half")
    numbers = {t.name: t.value for t in types}
    upstream = {"bool_type": 0, "half_type": 1, "float_type": 2, "uint64_type": 11, "bf16_type": 15, "tuple_type": 17}
    assert upstream.items() <= numbers.items()


def test_arguments_by_upstreams_names() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter(name="x", shape=migraphx.shape(type="float", lens=[2]))
    c = m.add_literal(data=np.ones(2, np.float32))
    y = m.add_instruction(op=migraphx.op("add"), args=[x, c], mod_args=[])
    m.add_return(args=[y])
    p.compile(t=migraphx.get_target("ref"), offload_copy=True, fast_math=True, exhaustive_tune=False)
    (out,) = p.run_async({"x": np.ones(2, np.float32)}, 0, "ihipStream_t")
    view = migraphx.argument_from_pointer(shape=out.get_shape(), address=out.data_ptr())
    assert view == out and view.tolist() == [2.0, 2.0]
    made = migraphx.generate_argument(s=migraphx.shape("float", [9]), seed=3)
    assert made == migraphx.generate_argument(migraphx.shape("float", [9]), 3) and max(map(abs, made.tolist())) <= 1
    assert made != migraphx.generate_argument(migraphx.shape("float", [9]), 4)
    assert migraphx.fill_argument(s=migraphx.shape("int8", [2]), value=3).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"add_instruction: the operator must be a migraphx\.op"):
        m.add_instruction("add", [x, c])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'z' needs a migraphx\.shape"):
        m.add_parameter("z", [2])  # type: ignore[arg-type]

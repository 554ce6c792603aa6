"""The names that instructions carry: given by callers, by exporters, kept by files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import migraphx

S = migraphx.shape(type="float", lens=[2, 3])


def built() -> tuple[migraphx.program, dict[str, Any]]:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", S, debug_symbols=["in:x"])
    w = m.add_literal(np.ones((2, 3), np.float32), debug_symbols=["weights:w"])
    y = m.add_instruction(migraphx.op("add"), [x, w], debug_symbols=["b", "a", "b"])
    z = m.add_instruction(migraphx.op("relu"), [y], [])
    (g,) = m.add_macro(migraphx.macro("gemm", alpha=2.0, transB=True), [z, w], debug_symbols=["macro:gemm"])
    r = m.add_return([g], debug_symbols=["out:0"])
    return p, {"x": x, "w": w, "y": y, "z": z, "g": g, "r": r}


def symbols(p: migraphx.program) -> list[set[str]]:
    return sorted((i.get_debug_symbols() for i in p.get_main_module()), key=sorted)


def test_what_is_added_keeps_its_names() -> None:
    p, made = built()
    found = {name: i.get_debug_symbols() for name, i in made.items()}
    assert found == {
        "x": {"in:x"}, "w": {"weights:w"}, "y": {"a", "b"}, "z": set(), "g": {"macro:gemm"}, "r": {"out:0"},
    }  # fmt: skip
    assert symbols(p).count({"macro:gemm"}) >= 2
    m = p.get_main_module()
    (e,) = m.insert_macro(made["g"], migraphx.macro("einsum", equation="ij,kj->ik"), [made["z"], made["w"]], (), ["e"])
    assert e.get_debug_symbols() == {"e"}
    assert m.replace_return([e], debug_symbols=["other"]).get_debug_symbols() == {"other"}
    assert p.clone().get_main_module().get_returns()[0].get_debug_symbols() == {"e"}


@pytest.mark.parametrize("format", ["msgpack", "json"])
def test_files_keep_names(tmp_path: Path, format: str) -> None:
    p, _ = built()
    migraphx.save(p, tmp_path / "p", format=format)
    assert symbols(migraphx.load(tmp_path / "p", format=format)) == symbols(p)


def test_without_names() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    m.set_origin("line 3")
    y = m.add_instruction(migraphx.op("neg"), [m.add_parameter("x", S)], debug_symbols=[])
    assert m.add_return([y]).get_debug_symbols() == y.get_debug_symbols() == set()


def test_what_are_no_names() -> None:
    m = migraphx.program().get_main_module()
    for given in ("name", [3]):
        with pytest.raises(TypeError, match="debug_symbols must be a list of names"):
            m.add_parameter("x", S, debug_symbols=given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gemm runs no modules"):
        m.add_macro(migraphx.macro("gemm"), [], [m])


def test_names_of_onnx_nodes() -> None:
    value = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    graph = helper.make_graph([node], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    named = migraphx.parse_onnx_buffer(data, use_debug_symbols=True)
    assert any("act" in symbol for names in symbols(named) for symbol in names)
    assert not any(symbols(migraphx.parse_onnx_buffer(data)))

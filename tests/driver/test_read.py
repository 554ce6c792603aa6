"""`read`, `params` and `compile`: the model's file, its dimensions, and every form of the program."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from onnx import helper

import migraphx
from migraphx.driver.main import main
from migraphx.driver.result import Exit
from migraphx.ir.text import parse_program, program_text
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import SIMPLIFY
from migraphx.targets.registry import get_target
from tests.driver.driving import drive, small
from tests.onnx.one_node import model

NAME = r'"[^"]+"'
DOT_LINES = re.compile(
    rf"digraph \{{|\s*\}}|\s*rankdir=\w+;|\s*node \[.*\];|\s*subgraph {NAME} \{{|\s*label={NAME};"
    rf"|\s*{NAME}( -> {NAME})?( \[.*\])?;"
)


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def test_text_is_the_program(file, capsys):
    answer = drive(capsys, "read", file, "--batch", 3)
    assert answer.code == 0 and "Reading:" in answer.err
    direct = migraphx.parse_onnx(file, default_dim_value=3)
    assert answer.out == program_text(direct.graph)
    assert program_text(parse_program(answer.out)) == answer.out


def test_params(file, capsys):
    answer = drive(capsys, "params", file, "--input-dim", "@x", 5, 16)
    assert answer.out.splitlines() == [
        "x: float_type, {5, 16}, {16, 1}",
        "main:#output_0: float_type, {5, 8}, {8, 1}",
    ]
    found = drive(capsys, "params", file, "--dim-param", "@batch", 7, "--json").data
    assert found["inputs"]["x"]["lens"] == [7, 16] and found["outputs"]["main:#output_0"]["lens"] == [7, 8]
    both = drive(capsys, "params", file, "--input-dim", "@x", 2, 16, "--input-dim", "@x", 3, 16).out
    assert both.startswith("x: float_type, {3, 16}")


@pytest.mark.parametrize("form", ["graphviz", "json", "netron", "cpp", "python"])
def test_forms(file, capsys, form):
    answer = drive(capsys, "read", file, f"--{form}")
    assert answer.code == 0
    if form == "graphviz":
        assert all(DOT_LINES.fullmatch(line) for line in answer.out.splitlines())
    elif form == "json":
        assert [n["name"] for n in answer.data["modules"]["main"]["nodes"]][-2:] == ["softmax", "@return"]
    elif form == "netron":
        assert [n["opType"] for n in answer.data["graph"]["node"]][:1] == ["dot"]
    elif form == "cpp":
        assert "#include <migraphx/migraphx.hpp>" in answer.out and 'operation("softmax"' in answer.out
    else:
        made: dict = {}
        exec(answer.out, made)
        assert [i.name() for i in made["p"].get_main_module()][-2:] == ["softmax", "@return"]


def test_short_forms_and_brief(file, capsys):
    assert drive(capsys, "read", file, "-g").out == drive(capsys, "read", file, "--graphviz").out
    assert drive(capsys, "read", file, "--py").out == drive(capsys, "read", file, "--python").out
    assert "lens" not in drive(capsys, "read", file, "-g", "--brief").out


def test_output_is_binary_and_is_read_by_its_content(file, capsys, tmp_path):
    saved = tmp_path / "program"
    assert drive(capsys, "read", file, "-o", saved).out == ""
    assert drive(capsys, "read", saved).out == drive(capsys, "read", file).out
    text = tmp_path / "program.txt"
    drive(capsys, "read", file, "--text", "--output", text)
    assert text.read_text() == drive(capsys, "read", file).out


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_amds_files_are_read_by_their_content(file, capsys, tmp_path, form):
    saved = tmp_path / "program"
    migraphx.save(migraphx.parse_onnx(file), saved, format=form)
    assert drive(capsys, "read", saved).out == drive(capsys, "read", file).out
    flag = "--migraphx-json" if form == "json" else "--migraphx"
    assert drive(capsys, "params", saved, flag).out == drive(capsys, "params", file).out
    refused = drive(capsys, "read", saved, "--input-dim", "@x", 2, 16)
    assert refused.code == 2 and "needs an ONNX model" in refused.err


def test_binary_on_standard_output(file, capsysbinary):
    assert main(["read", str(file), "--binary"]) == 0
    assert capsysbinary.readouterr().out == migraphx.save_buffer(migraphx.parse_onnx(file))


def test_trim_optimize_and_passes(file, capsys):
    names = [line.split(" = ")[1].split("(")[0] for line in drive(capsys, "read", file, "-t", 2).out.splitlines()[4:]]
    assert names[-2:] == ["add", "@return"]
    direct = migraphx.parse_onnx(file).graph
    run_passes(direct, SIMPLIFY)
    assert drive(capsys, "read", file, "-O").out == program_text(direct)
    fused = drive(capsys, "read", file, "-p", "fuse_reduce,fuse_pointwise", "-p", "dead_code").out
    assert "fused_reduce" in fused and "pointwise" in fused


def test_compile_prints_what_runs(file, capsys):
    direct = migraphx.parse_onnx(file).graph
    run_passes(direct, get_target("cpu").passes)
    assert drive(capsys, "compile", file).out == program_text(direct)
    assert drive(capsys, "compile", file, "--ref").out == drive(capsys, "read", file).out
    half = drive(capsys, "compile", file, "--fp16", "--ref").out
    assert "half_type" in half


def test_output_names(file, capsys):
    out = drive(capsys, "read", file, "--output-names", "s", "h").out
    assert "relu" not in out and re.search(r"@return\(@\d+,@\d+\)", out)


def test_dynamic_dimensions_reach_the_importer(file, capsys):
    answer = drive(capsys, "params", file, "--dim-param", "@batch", "{min:2, max:2}")
    assert answer.out.startswith("x: float_type, {2, 16}")
    ways = (
        ["--dim-param", "@batch", "{min:1, max:8}"],
        ["--dyn-input-dim", "@x", "[{min:1, max:8}, 16]"],
        ["--default-dyn-dim", "{min:1, max:8}", "--batch", 4],
    )
    for words in ways:
        shape = drive(capsys, "params", file, *words, "--json").data["inputs"]["x"]
        direct = migraphx.parse_onnx(file, dim_params={"batch": migraphx.shape.dynamic_dimension(1, 8)})
        assert shape["shape"] == str(direct.get_parameter_shapes()["x"]) and shape["lens"] == []
        assert [(d["min"], d["max"]) for d in shape["dyn_dims"]] == [(1, 8), (16, 16)]


def test_unknown_operators(tmp_path, capsys):
    path = tmp_path / "odd.onnx"
    nodes = [helper.make_node("Twist", ["x"], ["y"], domain="odd")]
    path.write_bytes(model(nodes, {"x": np.zeros(3, np.float32)}, ["y"]))
    refused = drive(capsys, "read", path)
    assert refused.code == Exit.UNSUPPORTED and "odd.Twist" in refused.err
    assert "unknown" in drive(capsys, "read", path, "--skip-unknown-operators").out


def test_debug_symbols_show_origins(file, capsys):
    assert "fc (MatMul)" not in drive(capsys, "read", file).out
    out = drive(capsys, "read", file, "--debug-symbols").out
    assert "/* fc (MatMul) */" in out
    assert program_text(parse_program(out)) == drive(capsys, "read", file).out


def test_type_flag_wins(file, capsys):
    answer = drive(capsys, "read", file, "--migraphx")
    assert answer.code == 3 and str(file) in answer.err
    assert onnx.load(file).graph.node  # nothing was wrong with it
    assert json.loads(drive(capsys, "params", file, "--onnx", "--json").out)["inputs"]

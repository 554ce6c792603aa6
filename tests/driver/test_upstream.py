"""What upstream's documentation lists: each option is taken, or an error says what to do instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import defs

import migraphx
from migraphx.driver.main import build_parser
from migraphx.driver.result import Exit
from migraphx.driver.upstream import FLAGS, VERBS
from migraphx.onnx.registry import CONVERTERS
from tests.driver.driving import drive, small

DOCUMENTED = """
    read params compile run perf verify op onnx tf time roctx
    --help -h --test --model --onnx --tf --migraphx --migraphx-json --batch --nhwc --nchw --skip-unknown-operators
    --trim -t --input-dim --dyn-input-dim --default-dyn-dim --optimize -O --apply-pass -p --graphviz -g --brief --cpp
    --json --netron --text --binary --py --output -o --fill0 --fill1 --gpu --cpu --ref --enable-offload-copy
    --disable-fast-math --exhaustive-tune --fp16 --bf16 --int8 --fp8 --int4-weights --fp-to-double --iterations -n
    --detailed -d --rms-tol --atol --rtol --per-instruction -i --reduce -r --bisect -b --ref-use-double
    --compiled-model -c --list -l
"""
"""The words of https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/reference/driver-options.html."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return small(tmp_path)


def test_nothing_that_is_documented_is_left_out() -> None:
    _, parsers = build_parser()
    known = {name for f in FLAGS for name in f.names} | VERBS.keys() | parsers.keys() | {"--help", "-h"}
    assert set(re.findall(r"\S+", DOCUMENTED)) <= known


def test_options_are_taken_by_the_verbs_that_the_table_names() -> None:
    _, parsers = build_parser()
    for flag in FLAGS:
        for verb in flag.verbs:
            missing = {n for n in flag.names if n[0] == "-"} - set(parsers[verb].options())
            assert not missing, (verb, missing)


@pytest.mark.parametrize("flag", [f for f in FLAGS if not f.verbs], ids=lambda f: f.names[0])
def test_options_that_do_not_exist_say_what_does_the_same(flag, file, capsys) -> None:
    for name in flag.names:
        answer = drive(capsys, "verify", file, name)
        assert answer.code == Exit.USAGE and f"unexpected {name!r}; {flag.note}" in answer.err


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_do_not_exist_say_what_does_the_same(verb, capsys) -> None:
    answer = drive(capsys, verb, "x")
    assert answer.code == Exit.USAGE and f"unknown verb {verb!r}; {VERBS[verb]}" in answer.err


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("compile", "--bisect"), "verify"),
        (("read", "--detailed"), "perf"),
        (("params", "--netron"), "read, compile, run"),
        (("verify", "--iterations=3"), "time, perf"),
        (("op", "--fp16"), "compile, run, time, perf, verify, explain"),
    ],
)
def test_options_of_other_verbs_say_which(words, where, file, capsys) -> None:
    answer = drive(capsys, words[0], file, *words[1:])
    order = {verb: k for k, verb in enumerate(build_parser()[1])}
    named = ", ".join(sorted(where.split(", "), key=order.__getitem__))
    assert answer.code == Exit.USAGE and f"unexpected {words[1]!r}; it is an option of {named}" in answer.err


def test_layouts_are_taken_and_said_to_mean_nothing(file, capsys) -> None:
    plain = drive(capsys, "params", file)
    for layout in ("--nhwc", "--nchw"):
        answer = drive(capsys, "params", file, layout)
        assert answer.code == 0 and answer.out == plain.out
        assert f"{layout} concerns TensorFlow models alone" in answer.err
    assert "TensorFlow" not in plain.err


def test_the_model_of_test(capsys) -> None:
    data = drive(capsys, "run", "--test", "--ref", "--batch", "2", "--fill1", "a", "b", "--json").data
    np.testing.assert_array_equal(data["outputs"][0]["values"], np.full((2, 64, 128), 256))
    assert drive(capsys, "verify", "--test", "--ref").code == 0
    assert (
        "dot(a,b)" in drive(capsys, "read", "--test").out
        and "a: float_type, {1, 64" in drive(capsys, "params", "--test").out
    )
    assert drive(capsys, "time", "--test", "--ref", "-n", "1").code == 0


def test_a_model_is_a_file_or_that_of_test(file, capsys) -> None:
    for words, message in (
        (("read",), "name a model, or say --test"),
        (("read", file, "--test"), "--test takes the place of a file"),
        (
            ("read", "--test", "--default-dyn-dim", "{min:1,max:2}"),
            "--default-dyn-dim needs an ONNX model; what --test",
        ),
    ):
        answer = drive(capsys, *words)
        assert answer.code == Exit.USAGE and message in answer.err


# ---- one operator of ONNX


def test_an_operator_of_the_standard(capsys) -> None:
    (found,) = drive(capsys, "onnx", "Conv", "--json").data
    schema = defs.get_schema("Conv")
    assert found["domain"] == "ai.onnx" and schema.since_version == max(found["versions"]) and 1 in found["versions"]
    assert [i["name"] for i in found["inputs"]] == ["X", "W", "B"] and found["inputs"][2]["optional"]
    assert set(found["attributes"]) == set(schema.attributes) and "tensor(float)" in found["outputs"][0]["types"]
    text = drive(capsys, "onnx", "Conv").out
    assert (
        "opsets that changed it: 1, 11" in text and "input B (optional): " in text and "converted: from opset 1" in text
    )


def test_an_operator_of_several_domains(capsys) -> None:
    both = drive(capsys, "onnx", "Gelu", "--json").data
    assert [d["domain"] for d in both] == ["ai.onnx", "com.microsoft"]
    assert drive(capsys, "onnx", "com.microsoft.Gelu", "--json").data == both[1:]
    assert drive(capsys, "onnx", "ai.onnx.Gelu", "--json").data == both[:1]


def test_an_operator_that_is_expanded_and_one_that_is_gone(capsys) -> None:
    schemas: Any = defs.get_all_schemas()  # type stubs lack what they have
    expanded = next(s.name for s in schemas if s.has_function and ("", s.name) not in CONVERTERS)
    assert "converted: as the standard's own function defines it" in drive(capsys, "onnx", expanded).out
    assert "deprecated: the latest opsets have it no more" in drive(capsys, "onnx", "Upsample").out


def test_every_operator_that_can_be_read_is_described() -> None:
    for name in migraphx.get_onnx_operators():
        assert all(d["converted_since"] for d in migraphx.describe_onnx_operator(name) if "." in name), name


def test_an_unknown_operator(capsys) -> None:
    answer = drive(capsys, "onnx", "Covn")
    assert answer.code == Exit.USAGE and "no ONNX operator 'Covn' can be read; did you mean 'Conv'?" in answer.err
    assert drive(capsys, "onnx", "NoSuchThingAtAll").err.rstrip().endswith("can be read")

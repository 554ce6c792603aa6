"""`run` and `time`: data, targets, precisions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import migraphx
from migraphx.api.inputs import random_inputs
from tests.driver.driving import drive, small, wanted
from tests.onnx.one_node import model
from tests.tiers import few
from tests.tolerances import assert_close


@pytest.fixture
def file(tmp_path):
    return small(tmp_path)


def outputs(answer):
    assert answer.code == 0, answer.err
    return [np.array(o["values"], np.float32) for o in answer.data["outputs"]]


@pytest.mark.parametrize("target", ["cpu", "ref"])
@pytest.mark.parametrize(("option", "value"), [("--fill0", 0.0), ("--fill1", 1.0)])
def test_filled(file, capsys, target, option, value):
    (found,) = outputs(drive(capsys, "run", file, "--batch", 3, f"--{target}", option, "x", "--json"))
    assert_close(found, wanted(np.full((3, 16), value, np.float32)))


def test_loaded(file, capsys, tmp_path):
    x = np.random.default_rng(5).standard_normal((2, 16)).astype(np.float32)
    migraphx.argument(x).save(tmp_path / "x.arg")
    np.save(tmp_path / "x.npy", x)
    for name in ("x.arg", "x.npy"):
        words = ("--batch", 2, "--load-arg", "@x", tmp_path / name, "--json", "--enable-offload-copy")
        assert_close(outputs(drive(capsys, "run", file, *words))[0], wanted(x))
    np.save(tmp_path / "ints.npy", x.astype(np.int32))
    refused = drive(capsys, "run", file, "--batch", 2, "--load-arg", "@x", tmp_path / "ints.npy")
    assert refused.code == 3 and "int32_type" in refused.err
    short = drive(capsys, "run", file, "--batch", 3, "--load-arg", "@x", tmp_path / "x.npy")
    assert short.code == 3 and "must have shape" in short.err


def test_more_than_memory_holds(file, capsys):
    refused = drive(capsys, "run", file, "--batch", 10**14)
    assert refused.code == 3 and "Unable to allocate" in refused.err


def test_random_data_is_the_same_each_time(file, capsys):
    first, second = (outputs(drive(capsys, "run", file, "--ref", "--json"))[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_text_has_the_program_and_the_answer(file, capsys):
    out = drive(capsys, "run", file, "--ref").out
    assert out.startswith('module: "main"') and "#output_0: float_type, {1, 8}, {8, 1}: [[" in out
    assert drive(capsys, "run", file, "--ref", "-g").out == drive(capsys, "read", file, "-g").out


def test_compiled_file(file, capsys, tmp_path):
    saved = tmp_path / "compiled.mxr"
    drive(capsys, "compile", file, "-o", saved)
    answer = drive(capsys, "run", saved, "--json", "--fill1", "x")
    assert "Compiled already, for cpu" in answer.err
    assert_close(outputs(answer)[0], wanted(np.ones((1, 16), np.float32)))
    for again in ("--ref", "-O"):
        assert "Compiling" in drive(capsys, "run", saved, again).err
    late = drive(capsys, "run", saved, "--fp16")
    assert late.code == 2 and "compiled already" in late.err


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_dynamic_shapes_run_at_the_batch(file, capsys, target):
    words = ("--dim-param", "@batch", "{min:1, max:8, optimals:[2]}", f"--{target}", "--fill1", "x", "--json")
    (found,) = outputs(drive(capsys, "run", file, *words, "--batch", 3))
    assert_close(found, wanted(np.ones((3, 16), np.float32)))
    refused = drive(capsys, "run", file, *words, "--batch", 9)
    assert refused.code == 2 and "dimension 0 must be in [1, 8], is 9" in refused.err
    ranges = ("--dyn-input-dim", "@x", "[{min:4,max:8}, {min:1,max:99}]", "--input-dim", "@x", 5, 16)
    (found,) = outputs(drive(capsys, "run", file, "--fill1", "x", f"--{target}", *ranges, "--json"))
    assert found.shape == (5, 8)
    answer = drive(capsys, "run", file, f"--{target}", *ranges[:3])
    assert answer.code == 2 and "--input-dim @x" in answer.err


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "fp8", "int4-weights"])
def test_precisions(file, capsys, precision):
    answer = drive(capsys, "run", file, "--batch", 2, f"--{precision}", "--json", "--ref")
    assert f"Quantizing: {precision}" in answer.err
    program = migraphx.parse_onnx(file, default_dim_value=2)
    x = migraphx.generate_argument(program.get_parameter_shapes()["x"])
    target = migraphx.get_target("ref")
    quantize = getattr(migraphx, f"quantize_{precision.replace('-', '_')}")
    quantize(program, *([target, [{"x": x}]] if precision in ("int8", "fp8") else []))
    program.compile(target)
    np.testing.assert_array_equal(outputs(answer)[0], np.asarray(program.run({"x": x})[0]))
    assert not np.array_equal(outputs(answer)[0], wanted(np.asarray(x)))


@pytest.mark.slow
def test_precisions_on_cpu(file, capsys):
    for words in (["--bf16"], ["--int8", "--fp16"]):
        assert drive(capsys, "verify", file, *words, "--rms-tol", 0.02, "--atol", 0.02).code == 0


def test_an_index_out_of_range_is_the_inputs_fault(capsys, tmp_path):
    path = tmp_path / "gather.onnx"
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"], name="pick")]
    path.write_bytes(model(nodes, {"i": np.zeros(3, np.int64)}, ["y"], {"t": np.ones((4, 2), np.float32)}))
    np.save(tmp_path / "i.npy", np.array([0, 1, 9]))
    for target in ("--cpu", "--ref"):
        answer = drive(capsys, "run", path, target, "--load-arg", "@i", tmp_path / "i.npy")
        assert answer.code == 3 and "9" in answer.err


def embeddings(folder, *, difference=False):
    """Words, kinds and positions of {batch, tokens}, as a BERT adds them; kinds by what is not followed, on request."""
    lens = (7, ["batch", "tokens"])
    nodes = [
        helper.make_node("Cast", ["ids"], ["narrow"], to=6),
        helper.make_node("Gather", ["words", "narrow"], ["w"]),
        helper.make_node("Sub", ["type_ids", "ids" if difference else "none"], ["k"]),
        helper.make_node("Gather", ["kinds", "k"], ["t"]),
        helper.make_node("CumSum", ["mask", "one"], ["count"]),
        helper.make_node("Gather", ["places", "count"], ["p"]),
        helper.make_node("Sum", ["w", "t", "p"], ["s"]),
        helper.make_node("MatMul", ["s", "dense"], ["y"]),
    ]
    rng = np.random.default_rng(6)
    sizes = {"words": 300, "kinds": 2, "places": 12, "dense": 4}
    constants = {n: rng.standard_normal((k, 4)).astype(np.float32) for n, k in sizes.items()}
    constants |= {"none": np.array(0), "one": np.array(1)}
    path = folder / "embeddings.onnx"
    path.write_bytes(model(nodes, {"ids": lens, "type_ids": lens, "mask": lens}, ["y"], constants))
    return path


BATCH = ("--input-dim", "@ids", 2, 5, "@type_ids", 2, 5, "@mask", 2, 5)


@pytest.mark.parametrize(
    "words",
    few(
        [
            ("verify",),
            ("verify", "--per-instruction"),
            ("run", "--ref", "--int8"),
            ("time", "--ref", "-n", 2),
            ("perf", "--ref", "-n", 2),
            ("run", "--ref", "--dyn-input-dim", "@ids", "[{min:1,max:4},{min:1,max:8}]"),
        ],
        at=[0],
    ),
)
def test_random_indices_are_in_range(words, capsys, tmp_path):
    answer = drive(capsys, words[0], embeddings(tmp_path), *words[1:], *BATCH)
    assert answer.code == 0, answer.err


def test_random_indices_reach_the_whole_range(tmp_path):
    p = migraphx.parse_onnx(embeddings(tmp_path), map_input_dims={n: [9, 6] for n in ("ids", "type_ids", "mask")})
    made = random_inputs(p, p.get_parameter_shapes())
    found = {name: (a.array.min(), a.array.max()) for name, a in made.items()}
    assert found["type_ids"] == (0, 1) and found["mask"] == (0, 1)
    assert 0 <= found["ids"][0] < 50 and 250 < found["ids"][1] < 300
    q = random_inputs(p, p.get_parameter_shapes())
    assert all(np.array_equal(made[name], q[name]) for name in made)
    migraphx.quantize_int8(p, migraphx.get_target("ref"))  # which calibrates with random inputs


def test_indices_that_nobody_can_draw(capsys, tmp_path):
    """The message names the inputs and what helps."""
    path = embeddings(tmp_path, difference=True)
    for verb in ("run", "time", "verify", "perf"):
        answer = drive(capsys, verb, path, "--ref", *BATCH)
        assert answer.code == 3 and "ids, type_ids" in answer.err and "--fill0 ids" in answer.err, answer.err
    assert drive(capsys, "run", path, "--ref", *BATCH, "--fill0", "ids", "type_ids").code == 0


def test_time(file, capsys):
    answer = drive(capsys, "time", file, "-n", 12, "--batch", 4)
    lines = answer.out.splitlines()
    assert lines[0] == "Batch size: 4" and lines[1].startswith("Rate: ") and lines[2].startswith("Total time: ")
    data = drive(capsys, "time", file, "--iterations", 12, "--json").data
    assert len(data["runs"]) == 12 and data["median"] == pytest.approx(np.median(data["runs"]))
    assert data["p90"] == pytest.approx(np.percentile(data["runs"], 90)) and data["min"] <= data["mean"] <= data["max"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fill1", "y"], "has no input 'y'"),
        (["--load-arg", "@z", "f"], "has no input 'z'"),
        (["--load-arg", "f"], "belongs to no name"),
        (["--input-dim", "@x", "a"], "'a' is no length"),
        (["--apply-pass", "fuse_pointwisee"], "did you mean 'fuse_pointwise'?"),
        (["--trim", "99"], "leaves nothing"),
        (["--iterations", "3"], "unexpected '--iterations'"),
    ],
)
def test_wrong_words(file, capsys, words, message):
    answer = drive(capsys, "run", file, "--ref", *words)
    assert answer.code == 2 and message in answer.err

"""Programs that a function writes once their lengths are known."""

from typing import Any

import numpy as np
import pytest

import migraphx


def halves(main: migraphx.module, inputs: list[migraphx.instruction_ref]) -> list[migraphx.instruction_ref]:
    """relu of the first half of the rows; and how many there are, as an int64."""
    (x,) = inputs
    rows = x.shape().lens()[0]
    cut = main.add_instruction(migraphx.op("slice", axes=[0], starts=[0], ends=[rows // 2]), [x])
    return [main.add_instruction(migraphx.op("relu"), [cut]), main.add_sizes([rows, 4])]


def program() -> migraphx.program:
    dims = [migraphx.shape.dynamic_dimension(0, 32), migraphx.shape.dynamic_dimension(4, 4)]
    outputs = [migraphx.shape("float", dyn_dims=dims), migraphx.shape("int64", [2])]
    return migraphx.deferred_program({"x": ("float", [("rows", 1, 64), 4])}, halves, outputs)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_lengths_are_known_when_they_come(target: str) -> None:
    made = program()
    made.compile(migraphx.get_target(target))
    for rows in (6, 9, 40):
        x = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)
        half, count = made.run({"x": x})
        np.testing.assert_array_equal(np.array(half), np.maximum(x[: rows // 2], 0))
        assert np.array(count).tolist() == [rows, 4]
    executable: Any = made.executable
    assert target == "ref" or len(executable.region.forms) == 1
    x = np.random.default_rng(1).standard_normal((12, 4)).astype(np.float32)
    half, count = np.empty((6, 4), np.float32), np.empty(2, np.int64)
    run = made.at({"x": x.shape})
    assert (run is None) == (target == "ref")
    if run is None:
        return
    run([x.ctypes.data], [half.ctypes.data, count.ctypes.data])
    np.testing.assert_array_equal(half, np.maximum(x[:6], 0))
    assert count.tolist() == [12, 4] and executable.steps
    known: Any = run
    assert known.current() and [o.lens for o in known.outputs] == [(6, 4), (2,)]
    executable.region._look_again()  # as where a better form was compiled
    assert not known.current()


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_inputs_keep_their_order(target: str) -> None:
    def less(main: migraphx.module, inputs: list[migraphx.instruction_ref]) -> list[migraphx.instruction_ref]:
        return [main.add_instruction(migraphx.op("sub"), inputs)]

    made = migraphx.deferred_program(
        {n: ("float", [("rows", 1, 64)]) for n in "ba"}, less,
        [migraphx.shape("float", dyn_dims=[migraphx.shape.dynamic_dimension(1, 64)])],
    )  # fmt: skip
    made.compile(migraphx.get_target(target))
    b, a = np.random.default_rng(2).standard_normal((2, 5)).astype(np.float32)
    np.testing.assert_array_equal(np.array(made.run({"a": a, "b": b})[0]), b - a)
    for names in (("a", "b"), ("b", "a")):
        made.at(dict.fromkeys(names, (5,)))
    executable: Any = made.executable
    assert target == "ref" or len(executable.region.specialisations) == 1  # in whatever order lens are given


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_conversion_goes_on_when_data_has_told_lengths(target: str) -> None:
    """One of two outputs is as long as data says; the other waits for lengths once more."""
    any_length = migraphx.shape.dynamic_dimension(0, 12)
    one = migraphx.shape.dynamic_dimension(1, 1)
    outputs = [migraphx.shape("float", dyn_dims=[any_length]), migraphx.shape("int64", dyn_dims=[one, any_length])]

    def chosen(main: migraphx.module, inputs: list[migraphx.instruction_ref]) -> list[migraphx.instruction_ref]:
        x, places = inputs
        rows = main.add_instruction(migraphx.op("transpose", permutation=[1, 0]), [places])
        kept = main.add_instruction(migraphx.op("gathernd"), [x, rows])
        return [kept, main.add_instruction(migraphx.op("nonzero_exact"), [kept])]

    def start(main: migraphx.module, inputs: list[migraphx.instruction_ref]) -> list[migraphx.instruction_ref]:
        x = main.add_instruction(migraphx.op("relu"), inputs)
        return migraphx.add_deferred(
            main, chosen, [x, main.add_instruction(migraphx.op("nonzero_exact"), [x])], outputs
        )

    made = migraphx.deferred_program({"x": ("float", [3, 4])}, start, outputs)
    made.compile(migraphx.get_target(target))
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32) - seed + 1
        kept, places = (np.array(a) for a in made.run({"x": x}))
        np.testing.assert_array_equal(kept, x[x > 0])
        np.testing.assert_array_equal(places, [np.arange(kept.size)])


def test_it_cannot_be_saved(tmp_path) -> None:
    with pytest.raises(ValueError, match="converted: a Python function writes it"):
        migraphx.save(program(), tmp_path / "p.mxr")


def test_errors_name_what_is_wrong() -> None:
    made = migraphx.deferred_program(
        {"x": ("float", [("rows", 1, 64), 4])},
        lambda main, inputs: [main.add_instruction(migraphx.op("reshape", dims=[3, 5]), inputs)],
        [migraphx.shape("float", [3, 5])],
    )
    made.compile(migraphx.get_target("cpu"))
    with pytest.raises(ValueError, match=r"reshape: 8 elements do not fit dims"):
        made.run({"x": np.ones((2, 4), np.float32)})


def test_what_refuses_sizes_is_compiled_for_each_length(caplog: pytest.LogCaptureFixture) -> None:
    def plain(main: migraphx.module, inputs: list[migraphx.instruction_ref]) -> list[migraphx.instruction_ref]:
        rows = inputs[0].x_rows() if fault else inputs[0].shape().lens()[0]  # type: ignore[attr-defined]
        if type(rows) is not int:
            raise NotImplementedError("a plain number of rows is needed")
        return [main.add_instruction(migraphx.op("relu"), inputs)]

    made = migraphx.deferred_program({"x": ("float", [("rows", 1, 64), 4])}, plain, [migraphx.shape("float", [3, 4])])
    made.compile(migraphx.get_target("cpu"))
    fault = False
    with caplog.at_level("INFO", "migraphx.targets.common.forms"):
        for rows in (3, 5):
            x = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)
            np.testing.assert_array_equal(np.array(made.run({"x": x})[0]), np.maximum(x, 0))
    assert "not compiled for all lengths: a plain number of rows is needed" in caplog.text
    executable: Any = made.executable
    assert len(executable.region.forms) == 0
    fault = True  # of ours: it goes to who runs the program
    with pytest.raises(AttributeError, match="x_rows"):
        made.run({"x": np.ones((7, 4), np.float32)})

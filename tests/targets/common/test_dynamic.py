"""Programs with dynamic shapes give the static programs' answers, on both targets."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.shape import UNKNOWN, DynamicDimension, Shape
from migraphx.ir.text import parse_program, program_text
from migraphx.targets.common import forms as forms_of_many
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.dynamic import CompiledSpecialisation
from migraphx.targets.cpu.executable import CpuExecutable
from migraphx.targets.cpu.target import CpuTarget
from tests.tolerances import assert_close

dimension = migraphx.shape.dynamic_dimension
RNG = np.random.default_rng(0)
W = RNG.standard_normal((6, 5)).astype(np.float32)


def network(batch, length) -> migraphx.program:
    """relu(softmax(x w) reshaped), where either dimension may be a length or a range."""
    p = migraphx.program()
    m = p.get_main_module()
    dims = [d if isinstance(d, dimension) else dimension(d, d) for d in (batch, length, 6)]
    fixed = all(d.is_fixed() for d in dims)
    s = migraphx.shape("float", [d.min for d in dims]) if fixed else migraphx.shape("float", dyn_dims=dims)
    x = m.add_parameter("x", s)
    rows = m.add_instruction(migraphx.op("reshape", dims=[-1, 6]), [x])
    y = m.add_instruction(migraphx.op("dot"), [rows, m.add_literal(W)])
    m.add_return([m.add_instruction(migraphx.op("softmax", axis=1), [y])])
    return p


def compiled(p: migraphx.program, target: str, **options) -> migraphx.program:
    p.compile(migraphx.get_target(target), **options)
    return p


def executable(p: migraphx.program) -> Any:
    return p.executable


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_dynamic_equals_static_for_random_sizes(target):
    p = compiled(network(dimension(1, 8), dimension(1, 9)), target)
    assert str(p.get_output_shapes()[0]) == "dynamic, float_type, {[1, 72, {}], [5, 5, {}]}"
    for batch, length in RNG.integers(1, 8, (4, 2)).tolist():
        x = RNG.standard_normal((batch, length, 6)).astype(np.float32)
        (want,) = compiled(network(batch, length), "ref").run({"x": x})
        (got,) = p.run({"x": x})
        assert_close(np.array(got), np.array(want))
        (got,) = p.run({"x": np.asfortranarray(x)})
        assert_close(np.array(got), np.array(want))


def test_optimal_lengths_are_compiled_ahead_and_old_ones_forgotten():
    p = compiled(network(dimension(1, 8, {2, 4}), 3), "cpu", max_specialisations=3)
    assert executable(p).specialisations == 2
    for n in (1, 2, 3, 5, 2):
        p.run({"x": np.ones((n, 3, 6), np.float32)})
    assert executable(p).specialisations == 3


def test_a_growing_length_keeps_one_object_and_little_memory():
    """As in decoding with a cache: what a new length costs is a table, what waits for the next run is bounded."""
    p = compiled(network(dimension(1, 64), 3), "cpu")
    for n in range(2, 40):
        p.run({"x": np.ones((n, 3, 6), np.float32)})
    stages = [stage.executable for stage in executable(p).region.specialisations.values()]
    assert len({e.library_path for e in stages}) == 1 and len(stages) == 38
    assert len({id(e.memory) for e in stages}) == 1 and len(stages[0].memory) == 1
    executable(p).release()
    assert not any(e.holds_memory for e in stages)


def test_only_lengths_that_ran_last_keep_memory():
    """Of programs that are compiled for each length."""
    p = compiled(network(dimension(1, 64, set(range(2, 9))), 3), "cpu")
    for n in range(2, 9):
        p.run({"x": np.ones((n, 3, 6), np.float32)})
    stages = [stage.executable for stage in executable(p).region.specialisations.values()]
    assert len({e.library_path for e in stages}) == 1 and len(stages) == 7
    assert sum(e.holds_memory for e in stages) == 4
    executable(p).release()
    assert not any(e.holds_memory for e in stages)


def test_threads_share_a_program():
    p = compiled(network(dimension(1, 8), 3), "cpu", max_specialisations=2)

    def run(n: int) -> None:
        x = np.full((n, 3, 6), n, np.float32)
        (got,) = p.run({"x": x})
        z = np.exp(x.reshape(-1, 6) @ W - (x.reshape(-1, 6) @ W).max(1, keepdims=True))
        assert_close(np.array(got), z / z.sum(1, keepdims=True), scale=4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [1, 2, 3, 1, 2, 3, 1, 2] * 4))
    assert executable(p).specialisations == 2


def weights(p: migraphx.program) -> list[list[np.ndarray]]:
    """Those of each specialisation."""
    return [stage.executable.weights for stage in executable(p).region.specialisations.values()]


def places(p: migraphx.program) -> list[list[int]]:
    return [[w.ctypes.data for w in own] for own in weights(p)]


@pytest.mark.usefixtures("own_objects")
def test_specialisations_share_their_packed_weights(tmp_path):
    p = compiled(network(dimension(1, 8, {2, 4}), 3), "cpu", max_specialisations=3)
    p.run({"x": np.ones((5, 3, 6), np.float32)})
    assert places(p) == [places(p)[0]] * 3
    kept = [weakref.ref(w) for w in weights(p)[0] if w.size > W.size]
    assert kept, "packed, not the literal itself"
    migraphx.save(p, tmp_path / "p.mxr")
    again = migraphx.load(tmp_path / "p.mxr")
    again.run({"x": np.ones((6, 3, 6), np.float32)})
    assert places(again) == [places(again)[0]] * 3
    for n in (1, 2, 3):  # the first ones are forgotten, the weights are still in use
        p.run({"x": np.ones((n, 3, 6), np.float32)})
    assert places(p) == [places(p)[0]] * 3
    del p
    gc.collect()
    assert all(ref() is None for ref in kept)


def test_programs_share_equal_weights():
    a, b = (compiled(network(n, 3), "cpu") for n in (2, 4))
    x = np.ones((4, 3, 6), np.float32)
    want = np.array(b.run({"x": x})[0])
    migraphx.share_weights(b, [a])
    assert executable(a).weights and [id(w) for w in executable(b).weights] == [id(w) for w in executable(a).weights]
    np.testing.assert_array_equal(np.array(b.run({"x": x})[0]), want)
    with pytest.raises(RuntimeError, match="compile the programs first"):
        migraphx.share_weights(b, [network(2, 3)])


@pytest.mark.usefixtures("own_objects")
def test_constants_are_one_while_in_use():
    lasting = RNG.standard_normal((40, 40)).astype(np.float32)
    constants = Constants(lasting=lambda: [lasting])

    def made(source: np.ndarray, *key: str) -> np.ndarray:
        return constants.one((constants.identity(source), *key), lambda: np.ascontiguousarray(source.T))

    a = made(lasting)
    assert made(lasting.view()) is a and made(lasting, "other") is not a and made(lasting[:30]).shape == (40, 30)
    assert constants.identity(lasting) != constants.identity(lasting.copy()), "it lasts: nothing is compared"
    computed = lasting + 1
    assert made(computed.copy()) is made(computed) and made(lasting.T + 1) is not made(computed)
    assert constants.identity(lasting[0, :2]) == constants.identity(lasting[0, :2].copy())
    kept = weakref.ref(a)
    del a
    gc.collect()
    assert kept() is None and made(lasting) is made(lasting)


def test_constants_of_a_file_are_used():
    brought = RNG.standard_normal((40, 40)).astype(np.float32)
    constants = Constants([brought])
    assert constants.one("a", brought.copy) is brought and constants.one("b", lambda: brought + 1) is not brought


def test_a_saved_program_brings_its_forms(tmp_path, monkeypatch):
    p = compiled(network(dimension(1, 8), 3), "cpu")
    given = [np.full((n, 3, 6), n, np.float32) for n in (2, 5)]
    want = [np.array(p.run({"x": x})[0]) for x in given]
    migraphx.save(p, tmp_path / "p.mxr")
    with monkeypatch.context() as m:
        m.setattr(CpuTarget, "compile", None)
        m.setattr("migraphx.api.files.load_graph", None)
        again = migraphx.load(tmp_path / "p.mxr")
        for x, right in zip(given, want, strict=True):
            np.testing.assert_array_equal(np.array(again.run({"x": x})[0]), right)
    assert executable(again).specialisations == 2 and executable(again).threads == executable(p).threads
    x = np.ones((3, 3, 6), np.float32)
    assert_close(np.array(again.run({"x": x})[0]), np.array(p.run({"x": x})[0]))
    migraphx.save(again, tmp_path / "q.mxr")
    kept = executable(migraphx.load(tmp_path / "q.mxr")).region.forms
    assert len(kept) == len(executable(again).region.forms) == 1 and not kept.waited


def test_memory_given_for_outputs():
    p = compiled(network(dimension(1, 8), 3), "cpu", offload_copy=False)
    x, place = RNG.standard_normal((2, 3, 6)).astype(np.float32), np.full((6, 5), 9, np.float32)
    p.run({"x": x, "main:#output_0": place})
    assert_close(place, np.array(p.run({"x": x})[0]))
    for wrong in (np.zeros((5, 5), np.float32), np.zeros((5, 6), np.float32).T):
        with pytest.raises(ValueError, match="output 0 has shape"):
            p.run({"x": x, "main:#output_0": wrong})


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_sizes_that_depend_on_data(target):
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [4, 3]))
    positive = m.add_instruction(migraphx.op("relu"), [x])
    places = m.add_instruction(migraphx.op("nonzero_exact"), [positive])
    unique = m.add_instruction(migraphx.op("unique"), [places])
    values, counts = (m.add_instruction(migraphx.op("get_tuple_elem", index=k), [unique]) for k in (0, 3))
    doubled = m.add_instruction(migraphx.op("add"), [counts, counts])
    m.add_return([places, values, doubled, positive])
    assert program_text(parse_program(str(p))) == str(p)
    compiled(p, target)
    for _ in range(3):
        given = RNG.standard_normal((4, 3)).astype(np.float32)
        want = np.array(np.nonzero(given > 0))
        names, numbers = np.unique(want, return_counts=True)
        for got, wanted in zip(p.run({"x": given}), (want, names, 2 * numbers, np.maximum(given, 0)), strict=True):
            np.testing.assert_array_equal(np.array(got), wanted)
    if target == "cpu":
        assert [s.kernel for s in executable(p).steps].count("host") == 4
        for count in range(8):
            p.run({"x": np.sign(count - np.arange(12, dtype=np.float32)).reshape(4, 3)})
        for region in regions(executable(p).region):
            kept = {id(e.memory) for e in executables(region) if e.holds_memory}
            assert len(kept) <= 4
        assert any(e.holds_memory for r in regions(executable(p).region) for e in executables(r))
        executable(p).release()
        assert not any(e.holds_memory for r in regions(executable(p).region) for e in executables(r))


def regions(region: Any) -> Iterator[Any]:
    """A region, and those of its parts."""
    yield region
    for made in {id(v): v for v in region.specialisations.values()}.values():
        for part in getattr(made, "regions", [getattr(made, "rest", None)]):
            yield from regions(part) if part is not None else ()


def executables(region: Any) -> Iterator[Any]:
    """What is compiled for the lengths of a region, without those of its parts."""
    for made in region.specialisations.values():
        one = made if isinstance(made, CompiledSpecialisation) else getattr(made, "before", None)
        if one is not None:
            yield one.executable


def images(batch) -> migraphx.program:
    """Two convolutions whose way depends on how many tiles of pixels there are, and a mean of the pixels."""
    rng, p = np.random.default_rng(1), migraphx.program()
    m = p.get_main_module()
    dims = [d if isinstance(d, dimension) else dimension(d, d) for d in (batch, 16, 8, 8)]
    fixed = all(d.is_fixed() for d in dims)
    s = migraphx.shape("float", [d.min for d in dims]) if fixed else migraphx.shape("float", dyn_dims=dims)
    y = m.add_parameter("x", s)
    for _ in range(2):
        w = m.add_literal(rng.standard_normal((16, 16, 3, 3)).astype(np.float32))
        y = m.add_instruction(migraphx.op("convolution", padding=[1, 1, 1, 1]), [y, w])
    m.add_return([m.add_instruction(migraphx.op("reduce_mean", axes=[2, 3]), [y]), y])
    return p


def test_what_no_form_came_of_is_not_compiled_again(monkeypatch):
    tried: list[tuple[int, ...]] = []
    monkeypatch.setattr(forms_of_many.Forms, "_add", lambda _, lengths: tried.append(tuple(lengths)))
    p = compiled(network(dimension(1, 8), dimension(1, 9)), "cpu")
    x = RNG.standard_normal((1, 3, 6)).astype(np.float32)
    (want,) = compiled(network(1, 3), "ref").run({"x": x})
    for _ in range(2):
        (got,) = p.run({"x": x})
        assert_close(np.array(got), np.array(want))
        assert executable(p).region.forms.made({"x": (1, 3, 6)}) is None
    assert tried == [(2, 3), (1, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("first", [2, 9])
def test_a_program_for_other_lengths_serves_until_a_faster_one_is_compiled(first, monkeypatch):
    """The compilation begins behind the first run of such lengths, which has all cores."""
    events: list[str] = []
    begun = 0
    for of, name in ((forms_of_many, "begin_beside"), (CpuExecutable, "run")):
        real: Any = getattr(of, name)
        monkeypatch.setattr(of, name, lambda *a, n=name, f=real, **k: (events.append(n), f(*a, **k))[1])
    p = compiled(images(dimension(1, 4096)), "cpu")
    forms = executable(p).region.forms
    for n in (first, 2, 3, 9, 5, 40):  # four tiles an image; Winograd wants sixteen
        x = RNG.standard_normal((n, 16, 8, 8)).astype(np.float32)
        want = compiled(images(n), "ref").run({"x": x})
        for _ in range(2):
            events.clear()
            for got, wanted in zip(p.run({"x": x}), want, strict=True):
                assert_close(np.array(got), np.array(wanted), scale=144)
            assert events[0] == "run"
            begun += events.count("begin_beside")
            if forms.improving is not None:
                forms.improving.join()
    assert begun == 1
    assert len(forms) == 2 and forms.waited == 1  # for few tiles, for many
    assert len({id(form.memory) for form in forms}) == 1 and len(forms._forms[0].memory) == 1
    assert executable(p).region.specialisations.values()[-1].form is forms._forms[first < 4]


def test_what_follows_is_one_program_for_all_numbers_of_elements():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [4, 3]))
    places = m.add_instruction(migraphx.op("nonzero_exact"), [x])
    real = m.add_instruction(migraphx.op("convert", target_type=migraphx.shape.type_t.float_type), [places])
    total = m.add_instruction(migraphx.op("reduce_sum", axes=[1]), [real])
    m.add_return(
        [m.add_instruction(migraphx.op("sub"), [real, m.add_instruction(migraphx.op("sqrt"), [real])]), total, places]
    )
    compiled(p, "cpu")
    for count in (5, 7, 0, 12, 1, 3):
        given = np.maximum(np.sign(count - RNG.permutation(12).astype(np.float32)), 0).reshape(4, 3)
        less, total, found = map(np.array, p.run({"x": given}))
        want = np.array(np.nonzero(given))
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(total, want.sum(1, keepdims=True))
        assert_close(less, want - np.sqrt(want))
    rest = list(regions(executable(p).region))[-1]
    assert len(rest.specialisations) == 6 and len(rest.forms) <= 4  # of none, one, few, more


@pytest.mark.parametrize("seed", range(4))
def test_programs_that_data_cuts_again_and_again(seed):
    """Random chains of instructions whose sizes depend on data, for any number of rows: parts are for all lengths."""
    rng, p = np.random.default_rng(seed), migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", dyn_dims=[dimension(1, 64), dimension(3, 3)]))

    def op(name, *inputs, **attributes):
        return m.add_instruction(migraphx.op(name, **attributes), list(inputs))

    y, outputs = op("relu", x), []
    for _ in range(3):
        places = op("nonzero_exact", y)
        names = op("get_tuple_elem", op("unique", op("abs", places)), index=int(rng.integers(2)) * 3)
        outputs += [names, op("reduce_sum", places, axes=[1])] if rng.random() < 0.7 else [op("neg", y)]
        y = op("convert", op("sub", places, op("mul", places, places)), target_type=migraphx.shape.type_t.float_type)
    m.add_return([*outputs, y])
    ours, theirs = (compiled(p.clone(), t) for t in ("cpu", "ref"))
    for rows in (3, 7, 1, 30, 8):
        given = {"x": rng.standard_normal((rows, 3)).astype(np.float32)}
        for got, want in zip(ours.run(given), theirs.run(given), strict=True):
            assert_close(np.array(got), np.array(want))
    every = list(regions(executable(ours).region))
    assert len(every) >= 7 and max(len(r.forms) for r in every if r.forms is not None) <= 3
    assert all(type(v).__name__ != "SplitSpecialisation" for r in every if r.forms for v in r.specialisations.values())


@pytest.mark.parametrize("target", ["cpu"])
def test_values_decide_shapes(target):
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", dyn_dims=[dimension(1, 4), dimension(1, 1)]))
    dims = m.add_parameter("dims", migraphx.shape("int64", [2]))
    wide = m.add_instruction(migraphx.op("broadcast_with_dims"), [x, dims])
    lens = m.add_instruction(migraphx.op("dimensions_of", end=2), [wide])
    m.add_return([m.add_instruction(migraphx.op("neg"), [wide]), lens])
    compiled(p, target)
    for n, k in ((2, 3), (2, 5), (4, 3)):
        given = RNG.standard_normal((n, 1)).astype(np.float32)
        got, lens = p.run({"x": given, "dims": np.array([1, k])})
        np.testing.assert_array_equal(np.array(got), -np.broadcast_to(given, (n, k)))
        assert np.array(lens).tolist() == [n, k]


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_modules_that_take_dynamic_lengths(target):
    p, rows = migraphx.program(), migraphx.shape("float", dyn_dims=[dimension(1, 8), dimension(6, 6)])
    m, modules = p.get_main_module(), []
    x, chosen = m.add_parameter("x", rows), m.add_parameter("chosen", migraphx.shape("bool", [1]))
    for name in ("tanh", "neg"):
        inner = p.create_module(name)
        given = inner.add_parameter("given", rows)
        inner.add_return([inner.add_instruction(migraphx.op(name), [given])])
        modules.append(inner)
    branch = m.add_instruction(migraphx.op("if"), [chosen, x], modules)
    m.add_return([m.add_instruction(migraphx.op("get_tuple_elem", index=0), [branch])])
    assert str(p.get_output_shapes()[0]) == "dynamic, float_type, {[1, 8, {}], [6, 6, {}]}"
    compiled(p, target)
    for n, first in ((2, True), (3, False)):
        given = RNG.standard_normal((n, 6)).astype(np.float32)
        (got,) = p.run({"x": given, "chosen": np.array([first])})
        assert_close(np.array(got), np.tanh(given) if first else -given)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_bad_input(target):
    p = compiled(network(dimension(2, 8), 3), target)
    with pytest.raises(ValueError, match=r"'x': dimension 0 must be in \[2, 8\], is 9"):
        p.run({"x": np.ones((9, 3, 6), np.float32)})
    with pytest.raises(ValueError, match="'x' must have shape"):
        p.run({"x": np.ones((3, 6), np.float32)})
    with pytest.raises(ValueError, match="'x' must have shape"):
        p.run({"x": np.ones((3, 3, 6))})
    with pytest.raises(ValueError, match="another rank"):
        _squeezed()


def _squeezed() -> None:
    m = migraphx.program().get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", dyn_dims=[dimension(1, 4), dimension(2, 2)]))
    m.add_instruction(migraphx.op("squeeze"), [x])


def test_a_saved_program_stays_dynamic(tmp_path):
    p = compiled(network(dimension(1, 8), 3), "ref")
    migraphx.save(p, tmp_path / "p.mxr")
    again = migraphx.load(tmp_path / "p.mxr")
    x = np.ones((5, 3, 6), np.float32)
    assert_close(np.array(again.run({"x": x})[0]), np.array(p.run({"x": x})[0]))


def test_shapes_print_and_combine():
    dims = (DynamicDimension(1, 8, (2, 4)), DynamicDimension(3, 3))
    assert str(Shape("half", dyn_dims=dims)) == "dynamic, half_type, {[1, 8, {2, 4}], [3, 3, {}]}"
    assert Shape.of_dims("half", [DynamicDimension(2, 2), 3]) == Shape("half", (2, 3))
    assert UNKNOWN.dynamic and Shape.tuple_of([UNKNOWN]).dynamic
    with pytest.raises(ValueError, match="optimals"):
        DynamicDimension(1, 4, (5,))


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_small_operators_about_sizes(target):
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", dyn_dims=[dimension(1, 4), dimension(2, 2), dimension(3, 3)]))
    y = m.add_parameter("y", migraphx.shape("float", [3, 2]))
    end = m.add_parameter("end", migraphx.shape("int64", [1]))
    zero, two = (m.add_literal(np.array([n])) for n in (0, 2))
    product = m.add_instruction(migraphx.op("dot"), [x, m.add_instruction(migraphx.op("broadcast_for_dot"), [y, x])])
    lazy = m.add_instruction(migraphx.op("reshape_lazy", dims=[-1, 4]), [product])
    filled = m.add_instruction(migraphx.op("fill"), [m.add_literal(np.array([2.5], np.float32)), lazy])
    m.add_return([lazy, filled, m.add_instruction(migraphx.op("dynamic_range"), [zero, end, two])])
    compiled(p, target)
    for n in (1, 3):
        given, other = RNG.standard_normal((n, 2, 3)).astype("f"), RNG.standard_normal((3, 2)).astype("f")
        got = p.run({"x": given, "y": other, "end": np.array([n + 4])})
        assert_close(np.array(got[0]), (given @ other).reshape(n, 4))
        np.testing.assert_array_equal(np.array(got[1]), np.full((n, 4), 2.5, np.float32))
        assert np.array(got[2]).tolist() == list(range(0, n + 4, 2))

"""migraphx.program: building, compiling, running, and every wrong way to."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import migraphx

A = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
B = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
OUTPUT = "main:#output_"
TARGETS = ["ref", "cpu"]


def build(type: str = "float", lens: tuple[int, ...] = (2, 3), strides: list[int] | None = None) -> migraphx.program:
    """relu(x + y) and x + y."""
    p = migraphx.program()
    main, s = p.get_main_module(), migraphx.shape(type, lens, strides)
    x, y = main.add_parameter("x", s), main.add_parameter("yes", s)
    total = main.add_instruction(migraphx.op("add"), [x, y])
    main.add_return([main.add_instruction(migraphx.op("relu"), [total]), total])
    return p


def compiled(target: str = "cpu", **given: Any) -> migraphx.program:
    p = build(**given)
    p.compile(migraphx.get_target(target))
    return p


def answers(p: migraphx.program, x: Any, y: Any) -> list[np.ndarray]:
    return [np.array(a) for a in p.run({"x": x, "yes": y})]


def check(p: migraphx.program, x: Any, y: Any, total: Any) -> None:
    first, second = answers(p, x, y)
    np.testing.assert_array_equal(second, total)
    np.testing.assert_array_equal(first, np.maximum(total, np.asarray(0, total.dtype)))


@pytest.mark.parametrize("target", TARGETS)
def test_what_it_says(target: str) -> None:
    p = build()
    s = migraphx.shape("float", [2, 3])
    for step in range(2):
        assert p.get_parameter_names() == ["x", "yes"] and p.get_parameter_shapes() == {"x": s, "yes": s}
        assert p.get_output_shapes() == [s, s] and p.is_compiled() == bool(step)
        if not step:
            p.compile(migraphx.get_target(target))
    assert p == build() and repr(p) == repr(build()), "compiling changes nothing that is seen"
    q = p.clone(compiled=False)
    assert q == p and not q.is_compiled()
    q.compile(migraphx.get_target("ref"))
    check(q, A, B, A + B)
    r = p.clone()
    assert r == p and r.is_compiled() and not build().clone().is_compiled()
    check(r, A, B, A + B)


@pytest.mark.parametrize("target", TARGETS)
def test_a_clone_has_the_outputs_of_its_program_as_inputs(target: str) -> None:
    p = build()
    p.compile(migraphx.get_target(target), offload_copy=False)
    assert p.clone().get_parameter_names() == ["x", "yes", "main:#output_0", "main:#output_1"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type", ["float", "double", "half", "bf16", "int8", "int64", "uint8"])
def test_types(target: str, type: str) -> None:
    p = compiled(target, type=type)
    x, y = (np.asarray(migraphx.generate_argument(migraphx.shape(type, [2, 3]), n)) for n in (1, 2))
    check(p, x, y, x + y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("strides", [[3, 1], [1, 2], [7, 2]])
def test_inputs_of_any_layout(target: str, strides: list[int]) -> None:
    p = compiled(target, strides=strides)
    wide = np.zeros((4, 9), np.float32)
    wide[::2, ::3] = A
    frozen = A.copy()
    frozen.flags.writeable = False
    row = np.broadcast_to(A[:1], (2, 3))
    for x in (
        A,
        np.asfortranarray(A),
        wide[::2, ::3],
        A[::-1].copy()[::-1],
        A.astype(">f4"),
        frozen,
        torch.from_numpy(A),
    ):
        check(p, x, B, A + B)
        check(p, B, x, A + B)
    check(p, torch.from_numpy(A.T.copy()).T, torch.from_numpy(A).flip(0), A + A[::-1])
    check(p, migraphx.argument(np.asfortranarray(A)), migraphx.argument(B), A + B)
    check(p, row, B, row + B)


@pytest.mark.parametrize("target", TARGETS)
def test_bf16_tensors(target: str) -> None:
    p = compiled(target, type="bf16")
    x, y = torch.from_numpy(A).bfloat16(), torch.from_numpy(B.T.copy()).bfloat16().T
    want = (x + y).float().numpy()
    got = np.array(p.run({"x": x, "yes": y})[1])
    assert got.dtype.name == "bfloat16"
    np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lens", [(0, 3), (2, 0), (0,), ()])
def test_empty_and_scalar(target: str, lens: tuple[int, ...]) -> None:
    x = np.ones(lens, np.float32)
    check(compiled(target, lens=lens), x, torch.from_numpy(x), x + x)


@pytest.mark.parametrize("target", TARGETS)
def test_one_element_with_or_without_a_dimension(target: str) -> None:
    one = np.array(2.5, np.float32)
    for lens, strides, given in (((1,), [0], one), ((1,), None, one), ((), None, one.reshape(1))):
        p = compiled(target, lens=lens, strides=strides)
        first, second = answers(p, given, given)
        assert first.shape == second.shape == lens and second.tolist() in ([5.0], 5.0)
    with pytest.raises(ValueError, match=r"must have shape float_type, \{1\}"):
        compiled(target, lens=(1,)).run({"x": one.reshape(1, 1), "yes": one})


@pytest.mark.parametrize("target", TARGETS)
def test_nan_and_infinity(target: str) -> None:
    x = np.array([[np.nan, np.inf, -np.inf], [0, -0.0, 1]], np.float32)
    first, second = answers(compiled(target), x, np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(second, x)
    np.testing.assert_array_equal(first, np.maximum(x, 0))


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_given(target: str) -> None:
    p = build()
    p.compile(migraphx.get_target(target), offload_copy=False)
    assert p.get_parameter_names() == ["x", "yes", f"{OUTPUT}0", f"{OUTPUT}1"]
    first, second = np.full((2, 3), 9, np.float32), torch.full((2, 3), 9.0)
    got = p.run({"x": A, "yes": B, f"{OUTPUT}0": migraphx.argument(first), f"{OUTPUT}1": second})
    np.testing.assert_array_equal(second.numpy(), A + B)
    np.testing.assert_array_equal(first, np.maximum(A + B, 0))
    assert [a.data_ptr() for a in got] == [first.ctypes.data, second.data_ptr()]
    check(p, A, B, A + B)  # none given: new ones


def outputs(**change: Any) -> dict[str, Any]:
    made = {"x": A, "yes": B, f"{OUTPUT}0": np.zeros_like(A), f"{OUTPUT}1": np.zeros_like(A)}
    made.update({f"{OUTPUT}{k[1]}" if k[0] == "o" and k[1:].isdigit() else k: v for k, v in change.items()})
    return {k: v for k, v in made.items() if v is not None}


SHARED = np.zeros((4, 3), np.float32)
FROZEN = np.zeros((2, 3), np.float32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        (outputs(o1=None), ValueError, "output_1' .* is missing: give all"),
        (outputs(o0=None), ValueError, "output_0' .* is missing: give all"),
        (outputs(o0=np.zeros((3, 2), np.float32)), ValueError, "output_0' must have shape .*{2, 3}.* got .*{3, 2}"),
        (outputs(o0=np.zeros((2, 3))), ValueError, "output_0' must have shape float.* got double"),
        (outputs(o0=np.zeros((3, 2), np.float32).T), ValueError, "output_0' must have shape"),
        (outputs(o0=FROZEN), ValueError, "read-only"),
        (outputs(o0=migraphx.argument(FROZEN)), ValueError, "read-only"),
        (outputs(o0=[[0.0] * 3] * 2), TypeError, "memory to write to, got a list"),
        (outputs(o1=A), ValueError, "output 1 shares memory with input 0"),
        (outputs(o0=SHARED[:2], o1=SHARED[1:3]), ValueError, "outputs 0 and 1 share memory"),
        ({"x": A}, ValueError, "input 'yes' .*{2, 3}.* is missing; given: x"),
        ({"x": A, "yess": A}, ValueError, "'yes' .*is missing; did you mean it by 'yess'"),
        ({"x": A, "yes": A, "main:#output0": A}, ValueError, "no parameter 'main:#output0'; did you mean 'main:#outp"),
        ({"x": A, "yes": A, "zzz": A}, ValueError, "no parameter 'zzz'; it has x, yes, main:#output_0"),
        ({"x": A, "yes": A, 7: A}, ValueError, "no parameter 7"),
        ({"x": A, 7: A}, ValueError, "'yes' .* is missing; given: x, 7"),
        ({"x": A, "yes": A.astype(np.float64)}, ValueError, "'yes' must have shape float_type.*got double"),
        ({"x": A, "yes": A.T}, ValueError, "'yes' must have shape .*{2, 3}.*got .*{3, 2}"),
        ({"x": A, "yes": A[0]}, ValueError, "'yes' must have shape .*got .*, [{]3[}]"),
        ({"x": A, "yes": None}, ValueError, "'yes': no MIGraphX type"),
        ({"x": A, "yes": torch.ones(2, 3, requires_grad=True)}, BufferError, "'yes': .*detach"),
        ({"x": A, "yes": A.astype(np.complex64)}, ValueError, "'yes': no MIGraphX type"),
        ([A, A], TypeError, "must map names to values, got a list"),
    ],
)
def test_refused(target: str, params: Any, error: type[Exception], words: str) -> None:
    p = compiled(target)
    with pytest.raises(error, match=words):
        p.run(params)
    check(p, A, B, A + B)


def test_values_that_a_broadcast_parameter_cannot_hold() -> None:
    p = compiled(strides=[0, 1])
    same = np.broadcast_to(A[0], (2, 3))
    check(p, same, same.copy(), same + same)
    with pytest.raises(ValueError, match="must be equal where the stride is 0"):
        p.run({"x": A, "yes": same})


@pytest.mark.parametrize("target", TARGETS)
def test_compiling_wrongly(target: str) -> None:
    p = build()
    with pytest.raises(RuntimeError, match="compile the program before"):
        p.run({"x": A, "yes": B})
    with pytest.raises(TypeError, match=r"migraphx\.get_target"):
        p.compile(target)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'fast_mth'; did you mean 'fast_math'"):
        p.compile(migraphx.get_target(target), fast_mth=True)  # type: ignore[call-arg]
    wrong: Any = (("offload_copy", "yes"), ("fast_math", None), ("num_threads", "2"), ("num_threads", 1.0))
    for option, value in wrong:
        with pytest.raises(TypeError, match=f"option '{option}' must be"):
            p.compile(migraphx.get_target(target), **{option: value})
    p.compile(migraphx.get_target(target))
    with pytest.raises(RuntimeError, match="already compiled; compile clone"):
        p.compile(migraphx.get_target(target))
    with pytest.raises(ValueError, match=r"unknown target 'cpuu'.*ref, cpu.*did you mean 'cpu'"):
        migraphx.get_target("cpuu")
    with pytest.raises(ValueError, match="unknown target None"):
        migraphx.get_target(None)  # type: ignore[arg-type]
    p = migraphx.program()
    main = p.get_main_module()
    main.add_return([main.add_instruction(migraphx.op("topk"), [main.add_parameter("x", migraphx.shape())])])
    with pytest.raises(ValueError, match="returns a tuple, of topk: return its get_tuple_elem"):
        p.compile(migraphx.get_target(target))


@pytest.mark.parametrize("target", TARGETS)
def test_trivial_programs(target: str) -> None:
    p = migraphx.program()
    p.compile(migraphx.get_target(target))
    assert p.run({}) == [] and p.get_output_shapes() == []
    p = migraphx.program()
    main = p.get_main_module()
    x, c = main.add_parameter("x", migraphx.shape("float", [2, 3])), main.add_literal(B)
    main.add_return([x, c, x])
    p.compile(migraphx.get_target(target))
    a, b, again = p.run({"x": A})
    assert a == again == migraphx.argument(A) and b == migraphx.argument(B)
    assert len({a.data_ptr(), again.data_ptr(), A.ctypes.data, B.ctypes.data, b.data_ptr()}) == 5


@pytest.mark.parametrize("target", [None, *TARGETS])
def test_copies_and_pickles(target: str | None) -> None:
    p = build() if target is None else compiled(target)
    for made in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert made == p and made is not p and made.is_compiled() == p.is_compiled()
        if target:
            check(made, A, B, A + B)


def test_async_is_run() -> None:
    assert compiled().run_async({"x": A, "yes": B}, 0, "ihipStream_t")[1] == migraphx.argument(A + B)


@pytest.mark.parametrize("target", TARGETS)
def test_many_threads(target: str) -> None:
    p = compiled(target, lens=(64, 33))
    pairs = [np.random.default_rng(n).standard_normal((2, 64, 33)).astype(np.float32) for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for (x, y), made in zip(pairs * 20, pool.map(lambda pair: answers(p, *pair), pairs * 20), strict=True):
            np.testing.assert_array_equal(made[1], x + y)


def test_tensorflow_graphs_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'model.pb' to ONNX \(python -m tf2onnx.convert\).*parse_onnx"):
        migraphx.parse_tf("model.pb", is_nhwc=False, batch_size=2)

"""What NumPy computes of matrices, against torch.linalg: answers, errors, and where it runs."""

import numpy as np
import pytest
import torch

import migraphx
from migraphx.ir.operation import ShapeError, operation
from migraphx.ir.shape import Shape
from tests.ops.one_operator import infer
from tests.targets.common.test_dynamic import executable
from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx

RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((3, 5, 5)).astype(np.float32)


def of(name: str, *arrays: np.ndarray, **attributes: object) -> list[np.ndarray]:
    made = operation(name, **attributes).compute(*arrays)
    shape = infer(name, *map(Shape.of, arrays), **attributes)
    values, shapes = (made, shape.sub_shapes) if isinstance(made, tuple) else ((made,), (shape,))
    for value, own in zip(values, shapes, strict=True):
        assert (value.dtype, value.shape) == (own.numpy_dtype, own.lens)
    return list(values)


def test_what_has_no_answer_has_an_info() -> None:
    x = np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0]), np.full((3, 3), np.nan)]).astype(np.float32)
    for name in ("inv", "cholesky"):
        ours = of(name, x)
        theirs = getattr(torch.linalg, f"{name}_ex")(torch.from_numpy(x))
        np.testing.assert_array_equal(ours[1], theirs[1])
        np.testing.assert_array_equal(ours[0][0], theirs[0][0])
        assert np.isnan(ours[0][1:]).any((-1, -2)).all()
    assert of("cholesky", x[2:])[1].tolist() == [1]
    made, info = of("solve", x[:2], x[:2])
    np.testing.assert_array_equal(info, [0, 2])
    np.testing.assert_array_equal(made[0], x[0])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("lens", [(2, 4, 3), (3, 4), (0, 2, 2)])
def test_vectors_whose_sign_is_their_own(lens: tuple[int, ...], full: bool) -> None:
    x = RNG.standard_normal(lens)
    u, s, v = of("svd", x, full_matrices=full)
    assert_close(s, torch.linalg.svdvals(torch.from_numpy(x)).numpy())
    k = s.shape[-1]
    assert_close((u[..., :k] * s[..., None, :]) @ v[..., :k, :], x, scale=8)
    assert_close(u.swapaxes(-1, -2) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*lens[:-2], *u.shape[-1:] * 2)), scale=8)
    square = x.swapaxes(-1, -2) @ x
    values, vectors = of("eigh", square, upper=full)
    assert_close(values, torch.linalg.eigvalsh(torch.from_numpy(square)).numpy(), scale=8)
    assert_close(square @ vectors, vectors * values[..., None, :], scale=8)


def test_wrong_inputs_are_refused() -> None:
    square, wide = Shape("float", (3, 3)), Shape("float", (2, 3))
    for name in ("inv", "cholesky", "eig", "eigh", "slogdet", "matrix_exp"):
        with pytest.raises(ShapeError, match="takes square matrices"):
            infer(name, wide)
        with pytest.raises(ShapeError, match="takes float or double"):
            infer(name, Shape("half", (3, 3)))
    for name in ("solve", "solve_triangular"):
        with pytest.raises(ShapeError, match="another number of rows"):
            infer(name, square, wide)
        with pytest.raises(ShapeError, match="differ in type or batch"):
            infer(name, square, Shape("double", (3, 3)))
    with pytest.raises(ShapeError, match="m >= n"):
        infer("householder_product", wide, Shape("float", (2,)))
    with pytest.raises(IndexError, match="from 1 to 3"):
        of("lu_permutation", np.array([1, 4], np.int32), rows=3)


class Whitened(torch.nn.Module):
    """Linear algebra between what the engine compiles, and of constants alone."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.eye(4) * 3 + 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cov = x.mT @ x / x.shape[0] + torch.linalg.inv(self.w - 0.5 * self.w.mT)
        low = torch.linalg.cholesky(cov)
        white = torch.linalg.solve_triangular(low, x.mT, upper=False)
        return torch.relu(white), torch.logdet(cov), torch.linalg.solve(cov, x.mT).sum(0)


@pytest.fixture(scope="module")
def lowered() -> torch.nn.Module:
    return lower_to_mgx(Whitened(), [torch.randn(9, 4)], target="cpu", fallback="error")


def test_numpy_runs_it_between_what_is_compiled(lowered: torch.nn.Module) -> None:
    x = torch.randn(9, 4)
    for got, want in zip(lowered(x), Whitened()(x), strict=True):
        assert_close(got.numpy(), want.detach().numpy(), scale=8)
    (program,) = (m.program for m in lowered.modules() if hasattr(m, "program"))
    assert str(program).count("cholesky[") == 1


@pytest.mark.parametrize("road", ["lowered", "compiled"])
def test_errors_are_torchs(lowered: torch.nn.Module, road: str) -> None:
    error: type[Exception] = vars(torch.linalg)["LinAlgError"]
    model = Whitened().eval()
    made = lowered if road == "lowered" else torch.compile(model, backend="migraphx", options={"fallback": "error"})
    bad = torch.zeros(9, 4)
    bad[0, 0] = float("nan")
    with torch.no_grad(), pytest.raises(error) as theirs:
        model(bad)
    with torch.no_grad(), pytest.raises(error) as ours:
        made(bad)
    assert str(ours.value) == str(theirs.value)


def test_in_a_branch_it_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.matrix_exp, torch.relu, (x,))

    with pytest.raises(Exception, match="NumPy runs that, in no loop or branch"):
        lower_to_mgx(model, [torch.eye(3)], target="cpu", fallback="error")


def test_a_saved_program_runs(tmp_path) -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape("float", [3, 5, 5]))
    found = m.add_instruction(migraphx.op("inv"), [m.add_instruction(migraphx.op("tanh"), [x])])
    first = m.add_instruction(migraphx.op("get_tuple_elem", index=0), [found])
    constant = m.add_instruction(migraphx.op("tanh"), [m.add_literal(SQUARE)])  # known when the program is compiled
    known = m.add_instruction(migraphx.op("matrix_exp"), [constant])
    m.add_return([m.add_instruction(migraphx.op("relu"), [first]), m.add_instruction(migraphx.op("neg"), [known])])
    p.compile(migraphx.get_target("cpu"))
    assert [s.kernel for s in executable(p).steps].count("host") == 2  # the inverse, and what takes it apart
    file = str(tmp_path / "p.mxr")
    migraphx.save(p, file)
    for program in (p, migraphx.load(file)):
        got, other = program.run({"x": SQUARE})
        assert_close(np.array(other), -torch.matrix_exp(torch.from_numpy(SQUARE).tanh()).numpy(), scale=8)
        assert_close(np.array(got), torch.linalg.inv(torch.from_numpy(SQUARE).tanh()).relu().numpy(), scale=100)


def test_vectors_of_other_signs_are_no_error() -> None:
    for seed in range(6):
        x = torch.randn(5, 5, generator=torch.Generator().manual_seed(seed))
        lowered = lower_to_mgx(lambda x: torch.linalg.eigh(x + x.mT), [x], target="ref", fallback="error")
        assert_close(lowered(x)[1].abs().numpy(), torch.linalg.eigh(x + x.mT)[1].abs().numpy(), scale=64)


def test_it_is_explained_and_verified() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_instruction(migraphx.op("exp"), [m.add_parameter("x", migraphx.shape("float", [3, 5, 5]))])
    made = m.add_instruction(migraphx.op("matrix_exp"), [m.add_instruction(migraphx.op("matrix_exp"), [x])])
    m.add_return([m.add_instruction(migraphx.op("relu"), [made])])
    told = str(migraphx.explain(p, "cpu", why=True))
    assert told.count("matrix_exp(") == 2 and "relu" in told
    assert migraphx.verify_program(p, "cpu", {"x": 0.01 * SQUARE}).passed

"""What lower_to_mgx takes besides modules: ranges of lengths, exported and scripted programs; and other weights."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import sympy
import torch
from torch import nn
from torch.export import Dim, export
from torch.utils._sympy.value_ranges import ValueRanges

import migraphx
from migraphx.targets.cpu import toolchain
from tests.tiers import few, few_rows
from tests.tolerances import assert_close
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.any_size import AnySize
from torch_migraphx.fx.lowered import LoweredModule
from torch_migraphx.fx.tracer.aten_tracer.aten_tracer import AtenTraceError

X = torch.randn(3, 4)
BATCH = Dim("batch", min=1, max=16)
RANGE = {"min": 1, "max": 16}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"sum": self.linear(x).relu() + y, "more": (x.shape[0], x.reshape(-1))}


def check(lowered: nn.Module, model: nn.Module, *lengths: int) -> None:
    for n in lengths:
        x, y = torch.randn(n, 4), torch.randn(n, 4)
        with torch.no_grad():
            got, want = lowered(x, y), model(x, y)
        torch.testing.assert_close(got["sum"], want["sum"])
        assert got["more"][0] == n and torch.equal(got["more"][1], want["more"][1])


def compiled_for(lowered: LoweredModule) -> list[int]:
    """The batch sizes that programs exist for."""
    special: Any = lowered.specialised
    return [key[0][2] for key, _ in special._forms.items()]


@pytest.mark.parametrize(
    ("shapes", "at_once"),
    few_rows(
        [
            ({"x": {0: BATCH}, "y": {0: BATCH}}, []),
            (({0: {**RANGE, "optimals": [1, 4]}}, {0: RANGE}), [1, 4]),
            ([{0: migraphx.shape.dynamic_dimension(1, 16, {2})}, {0: Dim.AUTO}], [2]),
        ],
        at=[1],
    ),
    ids=["torch.export", "ranges", "dynamic_dimension"],
)
def test_other_lengths_are_no_error(shapes: Any, at_once: list[int]) -> None:
    model = Model().eval()
    lowered = lower_to_mgx(model, [X, X], dynamic_shapes=shapes, target="ref", fallback="error")
    assert compiled_for(lowered) == [*at_once, 3]  # the samples are compared with eager
    check(lowered, model, 3, 5, 1)
    for inputs, message in (
        ((torch.randn(17, 4),) * 2, "dimension 0 of input 'x' must be from 1 to 16; got 17"),
        ((torch.randn(3, 5),) * 2, "dimension 1 of input 'x' must be 4; got 5"),
        ((X, torch.randn(2, 4)), "dimension 0 of input 'y' is 2, and dimension 0 of input 'x', which must be equal"),
        ((X[0], X[0]), "input 'x' must have 2 dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            lowered(*inputs)
    with pytest.raises(TypeError, match="must be"):
        lowered(X.double(), X)


class Exact(nn.Module):
    """Sizes in views, as numbers, and of another input: what is returned is new, an input, a number, or None."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        rows = x.shape[0]
        made = self.linear(x).view(rows, 2, 2).transpose(0, 1).reshape(2, rows * 2)
        return {"x": x, "y": [made, made * y.sum() + rows, None], "n": (rows, rows * 3 + 1, 7), "same": x.reshape(-1)}


def test_one_program_for_all_lengths() -> None:
    model = Exact().eval()
    rows: Any = {"min": 1, "max": 16, "optimals": [4]}
    lowered: Any = lower_to_mgx(model, [X, torch.randn(6)], dynamic_shapes=({0: rows}, {0: Dim.AUTO}), target="cpu")
    for n, m in ((3, 6), (1, 2), (4, 9), (16, 5)):
        x, y = torch.randn(n, 4), torch.randn(m)
        with torch.no_grad():
            got, want = lowered(x, y), model(x, y)
        assert got["x"] is x and got["n"] == want["n"] and got["y"][2] is None
        assert torch.equal(got["same"], x.reshape(-1))
        for g, w in zip(got["y"][:2], want["y"][:2], strict=True):
            assert_close(g.numpy(), w.numpy(), scale=16)
    region = lowered.specialised._every.program.executable.region
    assert len(region.forms) <= 3  # of any length, of one row
    with torch.no_grad(), pytest.raises(ValueError, match="dimension 0 of input 'x' must be from 1 to 16; got 17"):
        lowered(torch.randn(17, 4), y)
    with pytest.raises(TypeError, match=r"input 'x' must be torch.float32; got torch.float64"):
        lowered(X.double(), y)
    with pytest.raises(RuntimeError, match="input 'y' requires a gradient"):
        lowered(X, y.requires_grad_())
    with pytest.raises(ValueError, match="input 'x' has the layout"):
        lowered(X.to_sparse(), y.detach())


def test_optimal_lengths_are_compiled_ahead_and_alone() -> None:
    model = nn.Linear(4, 4).eval()
    rows: Any = {"min": 1, "max": 16, "optimals": [1, 4]}
    lowered: Any = lower_to_mgx(model, [X], dynamic_shapes=({0: rows},), target="cpu", suppress_accuracy_check=True)
    region = lowered.specialised._every.program.executable.region
    alone = [key for key, made in region.specialisations.items() if type(made).__name__ == "CompiledSpecialisation"]
    assert [lens for (lens,), _ in alone] == [(1, 4), (4, 4)] and len(region.forms) == 1


@pytest.mark.slow
def test_a_dynamic_model_on_the_cpu_is_copied_and_saved() -> None:
    model = Model().eval()
    lowered = lower_to_mgx(model, [X, X], dynamic_shapes=({0: RANGE}, {0: RANGE}), target="cpu", max_specialisations=2)
    check(lowered, model, 2, 7, 9)
    assert compiled_for(lowered) == [7, 9]
    check(copy.deepcopy(lowered), model, 4)
    file = io.BytesIO()
    torch.save(lowered, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    check(read, model, 5, 6)
    assert isinstance(read.specialised._every, AnySize)


def test_lengths_that_the_model_fixes() -> None:
    model = nn.Linear(4, 4).eval()
    with pytest.raises(ValueError, match="the model fixes dimension 1 of input 0 to 4"):
        lower_to_mgx(model, [X], dynamic_shapes=({0: RANGE, 1: RANGE},), target="ref")
    with pytest.raises(ValueError, match="other lengths are compiled later and need the weights"):
        lower_to_mgx(model, [X], dynamic_shapes=({0: RANGE},), target="ref", release_weights=True)
    with pytest.raises(ValueError, match="none was said to be dynamic"):
        lower_to_mgx(model, [X], dynamic_shapes=(None,), target="ref")
    with pytest.raises(ValueError, match="has the sizes that it was made with"):
        lower_to_mgx(export(model, (X,)), dynamic_shapes=({0: RANGE},))


def test_an_exported_program_keeps_its_ranges() -> None:
    model = Model().eval()
    exported = export(model, (X, X.clone()), dynamic_shapes={"x": {0: BATCH}, "y": {0: BATCH}})
    lowered = lower_to_mgx(exported, target="ref")
    check(lowered, model, 3, 8)
    with pytest.raises(ValueError, match="from 1 to 16; got 20"):
        lowered(torch.randn(20, 4), torch.randn(20, 4))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_symbols_of_other_traces_are_no_lengths() -> None:
    exported = export(nn.ReLU(), (X,))
    exported._range_constraints = {sympy.Symbol("s99", integer=True): ValueRanges(2, 9)}
    lowered = lower_to_mgx(exported, target="ref")
    assert not hasattr(lowered, "specialised")
    assert torch.equal(lowered(X), X.relu())


@pytest.mark.slow
def test_scripted_models_run_in_the_engine() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.ReLU())
    scripted = torch.jit.script(model)
    with torch.no_grad():
        want = copy.deepcopy(model).eval()(X)
    programs: list[Any] = [scripted, torch.jit.trace(copy.deepcopy(model).eval(), X)]
    for program in programs:
        lowered = lower_to_mgx(program, [X], target="ref", fallback="error")
        torch.testing.assert_close(lowered(X), want)
    assert scripted.training and scripted[1].training  # as they were


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model_that_torch_cannot_convert() -> None:
    def grown(x: torch.Tensor, n: int) -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        while bool(x.sum() < n):
            x = x + 1
            made.append(x)
        return made

    with pytest.raises(AtenTraceError, match="torch cannot convert the scripted model"):
        lower_to_mgx(torch.jit.script(grown), [X, 3], target="ref")


# ---- other weights ----


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).eval()


IMAGE = torch.randn(2, 3, 6, 6)


@pytest.mark.parametrize("options", [{"target": "cpu"}, {"target": "ref", "use_aten": True}])
def test_weights_are_exchanged_without_a_compiler(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = net(), net()
    kept = copy.deepcopy(first.state_dict())
    with torch.no_grad():
        for name, p in second.state_dict().items():
            if p.is_floating_point() and not name.endswith("var"):
                p.add_(torch.randn_like(p))
    lowered = lower_to_mgx(first, [IMAGE], **options)
    file = io.BytesIO()
    torch.save(lowered, file)
    file.seek(0)
    monkeypatch.setattr(toolchain, "_compile", lambda *_, **__: pytest.fail("the compiler is called"))
    for module in (lowered, torch.load(file)):
        assert not any(module.load_state_dict(second.state_dict()))
        with torch.no_grad():
            torch.testing.assert_close(module(IMAGE), second(IMAGE), atol=1e-4, rtol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), kept.values(), strict=True))


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Twice(nn.Module):
    """Its answer is of a class of its own, so that files hold it as code."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Pair:
        y = self.inner(x)
        return Pair(y, y + 1)


@pytest.mark.parametrize(
    "copied", few([copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))], copy.deepcopy)
)
@pytest.mark.parametrize("model", [nn.Linear(4, 4), Twice()])
def test_copies_take_weights_too(model: nn.Module, copied: Callable[[Any], Any]) -> None:
    lowered = lower_to_mgx(model.eval(), [X], target="ref")
    other = copied(lowered)
    state = {name: torch.randn_like(x) for name, x in model.state_dict().items()}
    other.load_state_dict(state)
    assert isinstance(other, LoweredModule) and not other.train().training
    with torch.no_grad():
        want = torch.func.functional_call(model, state, (X,))
        torch.testing.assert_close(other(X), want)


def test_weights_that_do_not_fit() -> None:
    model = net()
    lowered, state = lower_to_mgx(model, [IMAGE], target="ref"), dict(model.state_dict())
    bias = state.pop("4.bias")
    with pytest.raises(RuntimeError, match=r"missing weights \['4.bias'\], unexpected names \['5.bias'\]"):
        lowered.load_state_dict({**state, "5.bias": bias})
    found = lowered.load_state_dict({**state, "5.bias": bias}, strict=False)
    assert found.missing_keys == ["4.bias"] and found.unexpected_keys == ["5.bias"]
    with pytest.raises(RuntimeError, match=r"is float32 \[2\]; got float32 \[3\]"):
        lowered.load_state_dict({**state, "4.bias": torch.ones(3)})
    with torch.no_grad():
        torch.testing.assert_close(lowered(IMAGE), model(IMAGE))
    dynamic = lower_to_mgx(nn.Linear(4, 4).eval(), [X], dynamic_shapes=({0: RANGE},), target="ref")
    with pytest.raises(RuntimeError, match="cannot change bias, weight: lower it again"):
        dynamic.load_state_dict(nn.Linear(4, 4).state_dict())

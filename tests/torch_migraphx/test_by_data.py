"""Models whose lengths depend on data: one program, which goes on when the data has told them."""

import io
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from tests.tiers import few
from tests.tolerances import assert_close
from tests.torch_migraphx.declared import OTHER_TYPES
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.any_size import AnySize
from torch_migraphx.fx.lower_graph import FallbackError
from torch_migraphx.report.report import Report

LINEAR = nn.Linear(4, 6).eval().requires_grad_(False)
TABLE = torch.arange(20.0).view(10, 2)


def some(seed: int) -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


def length(x: torch.Tensor) -> Any:
    n: Any = x.abs().long().sum().item()
    torch._check(n >= 0)
    return n


CASES: dict[str, Callable[[torch.Tensor], Any]] = {
    "elements": lambda x: (x * 2)[x > 0] + 1,
    "rows": lambda x: torch.relu(LINEAR(x[x[:, 0] > 0])).sum(0),
    "columns": lambda x: x[:, x[0] > 0] @ x[:, x[0] > 0].T,
    "a row of columns": lambda x: x[x[:, 0] > 0, 1],
    "one after the other": lambda x: (lambda y: y[y < 1].nonzero())(x[x > 0] * 1.0),
    "none": lambda x: torch.softmax(LINEAR(x[x[:, 0] > 100]), -1),
    "two beside each other": lambda x: torch.cat([x[x > 0], x[x < 0]]).sort().values,
    "places": lambda x: torch.where(x > 0),
    "put where they are": lambda x: torch.index_put(x, (x > 0,), x[x > 0] * 2),
    "values": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "gathered": lambda x: TABLE[(x.abs() * 2).long().clamp(max=9)[x > 0]].sum(0),
    "a length as a number": lambda x: (x[x > 0].shape[0], x + 1),
    "a length among tensors": lambda x: x[x > 0] * x[x > 0].numel(),
    "a sum as a number": lambda x: x * x.sum().item(),
    "a number alone": lambda x: (x.max().item(), (x * 3).long().sum().item()),
    "a number that is no length": lambda x: (x.abs().sum().long() * 10**15).item(),
    "as many ones": lambda x: torch.ones(length(x)).cumsum(0),
    "rows again": lambda x: torch.repeat_interleave(x, x[:, 0].abs().long() + 1, dim=0),
}


def same(got: Any, want: Any) -> None:
    torch.testing.assert_close(tree_leaves(got), tree_leaves(want), check_stride=False)


@pytest.mark.slow
def test_they_run_in_the_engine() -> None:
    """All of them as one model: torch.export takes longer for each than all else."""

    def every(x: torch.Tensor) -> dict[str, Any]:
        return {name: function(x) for name, function in cases.items()}

    cases = {name: f for name, f in CASES.items() if not (OTHER_TYPES and name == "values")}

    lowered = lower_to_mgx(every, [some(0)], target="ref", fallback="error")
    for seed in range(3):
        got, want = lowered(some(seed)), every(some(seed))
        for name in cases:
            same(got[name], want[name])


@pytest.mark.parametrize("backend", few(["migraphx", "migraphx_aot"], "migraphx"))
def test_torch_compile(backend: str) -> None:
    torch._dynamo.reset()

    def both(x: torch.Tensor) -> Any:
        return CASES["elements"](x), CASES["a length as a number"](x)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        options: Any = {"target": "ref", "fallback": "error"}
        compiled = torch.compile(both, backend=backend, fullgraph=True, options=options)
        for seed in range(3):
            same(compiled(some(seed)), both(some(seed)))


@pytest.mark.slow
def test_on_target_cpu_each_part_is_compiled_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 0]
        return torch.exp(y[y < 1]) * 3

    lowered = lower_to_mgx(function, [some(0)], target="cpu", fallback="error")
    for seed in range(5):
        same(lowered(some(seed)), function(some(seed)))
    same(lowered(-some(0).abs()), torch.zeros(0))


def test_dynamic_inputs_too() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] + 1).cumsum(0)

    lowered: Any = lower_to_mgx(function, [some(0)], dynamic_shapes=({0: {"min": 1, "max": 9}},), target="cpu")
    assert isinstance(lowered.specialised.every([some(0)]), AnySize)
    for rows in (3, 5, 3):
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
        same(lowered(x), function(x))


def test_a_file_holds_the_graph() -> None:
    function = CASES["rows"]
    lowered = lower_to_mgx(function, [some(0)], target="ref", fallback="error")
    torch.save(lowered, file := io.BytesIO())
    file.seek(0)
    same(torch.load(file, weights_only=False)(some(1)), function(some(1)))


@pytest.fixture(scope="module")
def elements() -> Any:
    """The first case, and the report of how it was lowered."""
    report = Report("elements")
    return lower_to_mgx(CASES["elements"], [some(0)], target="ref", fallback="error", report=report), report


def test_a_report_shows_the_graph(elements: Any) -> None:
    _, report = elements
    assert "aten.index.Tensor" in str(report) and not any(g.in_torch for g in report.content.graphs)


def test_wrong_inputs_are_refused(elements: Any) -> None:
    lowered, _ = elements
    with pytest.raises(ValueError, match=r"must be torch\.float32 \[3, 4\]"):
        lowered(torch.zeros(2, 4))
    with pytest.raises(TypeError, match=r"must be torch\.float32"):
        lowered(torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="requires a gradient"):
        lowered(some(0).requires_grad_())


def test_what_the_engine_lacks_is_said() -> None:
    with pytest.raises(FallbackError, match="airy_ai"):
        lower_to_mgx(lambda x: torch.special.airy_ai(x[x > 0]), [some(0)], target="ref", fallback="error")


def test_weights_of_four_bits_behind_what_the_data_tells() -> None:
    """As those of a program whose lengths are known."""
    layer, x = nn.Linear(64, 8).eval().requires_grad_(False), torch.randn(5, 64)
    rows = x[x[:, 0] > x[:, 0].median()]
    known = lower_to_mgx(layer, [rows], target="ref", int4_weights=True)(rows)
    lowered = lower_to_mgx(
        lambda x: layer(x[x[:, 0] > x[:, 0].median()]), [x], target="ref", fallback="error", int4_weights=True
    )
    same(lowered(x), known)
    assert 1e-3 < (known - layer(rows)).abs().max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_in_another_precision(precision: str) -> None:
    """Each part computes in it: the answer is near eager's, and not as near as in float."""
    function = CASES["rows"]
    x = some(1)
    made = lower_to_mgx(function, [some(0)], precision, target="ref", fallback="error")(x)
    assert_close(made.numpy(), function(x).numpy(), np.float16 if precision == "fp16" else ml_dtypes.bfloat16, scale=8)
    assert not torch.allclose(made, function(x), rtol=1e-6, atol=1e-7)

"""What has no converter is taken apart by torch, in either tracer's graph."""

import logging
import math
from collections.abc import Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_leaves

from tests.tiers import few
from tests.tolerances import assert_close
from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call
from tests.torch_migraphx.one_model import one_model
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.decompose import decompose
from torch_migraphx.fx.dtypes import to_numpy
from torch_migraphx.fx.fold import fold_elsewhere
from torch_migraphx.fx.lower_graph import Survey
from torch_migraphx.options import Options

PARTS = {
    "several results": lambda x: x.relu().kthvalue(2).values + x.median(1).indices,
    "method": lambda x: x.unfold(1, 2, 1) + 1,
    "through others": lambda x: torch.trapezoid(x) + torch.block_diag(x, x).sum(),
    "with a constant": lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x),
    "running": lambda x: torch.diff(x).cummax(1)[1],
    "windows": lambda x: nn.functional.max_pool1d(x[None], 2, return_indices=True)[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("use_aten", [False, True], ids=["acc", "aten"])
def test_all_of_it_runs_in_the_engine(use_aten: bool, caplog: Any) -> None:
    x = torch.randn(3, 5)
    function, inputs = one_model({name: (part, [x]) for name, part in PARTS.items()})
    with caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(function, inputs, target="ref", use_aten=use_aten)
    assert not caplog.records, caplog.text
    gots, wants = lowered(*inputs), function(*inputs)
    for name in PARTS:
        assert_close(gots[name].numpy(), wants[name].numpy())


def test_what_no_part_of_can_be_converted_stays_one_node(caplog: Any) -> None:
    model, x = Call(lambda x: torch.linalg.eigvals(x + 1j * x).abs().sort()[0] + 1), torch.randn(3, 3)
    lowered = lower_to_mgx(model, [x], target="ref")
    assert "linalg_eigvals" in caplog.text and "torch.complex64, a type that the engine does not have" in caplog.text
    assert_close(lowered(x).numpy(), model(x).numpy(), scale=4)


W, ROWS, OFFSETS = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 4, 1, 1]), torch.tensor([0, 2, 2, 5])
MASK = torch.tensor([True, False, True])
BIAS = torch.randn(4)
ODD_NUMBERS = torch.tensor([0.0, -0.0, 1, -1.5, 3e-41, -1e-45, 1.2e-38, 3.4e38, math.inf, -math.inf, math.nan])
SPELT = torch.tensor([[1, 1, 2], [3, 2, 3]])
CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
ENCODER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
PADDING = torch.tensor([[False, False, True], [False, False, False]])


def bag(mode: str, **how: Any) -> Any:
    return lambda i, o, w: F.embedding_bag(i, w, o, mode=mode, **how)


def grouped(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._grouped_mm(x, y, offs)


def both(pair: Any) -> torch.Tensor:
    """Two answers as one."""
    return torch.cat([pair[0], pair[1].to(pair[0].dtype)])


def groups(*ends: int) -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32)


def halves(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.bfloat16)


HOLES = torch.randn(4, 6)
HOLES[1, 2] = HOLES[3] = math.nan
TALL = torch.randn(5, 3)
OURS: dict[str, tuple[Any, list[torch.Tensor]]] = {
    "bags' sums": (bag("sum", padding_idx=1), [ROWS, OFFSETS, W]),
    "bags' means": (bag("mean", include_last_offset=True), [ROWS, torch.tensor([0, 2, 2, 7]), W]),
    "bags' maxima": (bag("max", padding_idx=-4), [ROWS, OFFSETS, W]),
    "weighted bags": (bag("sum", per_sample_weights=torch.arange(7.0)), [ROWS, OFFSETS, W]),
    "bags of one length": (lambda i, w: F.embedding_bag(i, w), [ROWS[:6].reshape(2, 3), W]),
    "histogram": (lambda x: torch.histc(x, 7), [torch.randn(5, 4)]),
    "histogram of a range": (lambda x: torch.histc(x, 6, -1, 1), [torch.randn(5, 4)]),
    "histogram of one number": (lambda x: torch.histc(x * 0, 4), [torch.randn(5, 4)]),
    "few rows by group": (grouped, [halves(2, 8), halves(3, 8, 8), groups(0, 1, 2)]),
    "rows by group": (grouped, [halves(40, 8), halves(3, 8, 8), groups(1, 30, 40)]),
    "columns by group": (grouped, [halves(3, 5, 8), halves(8, 24), groups(8, 8, 24)]),
    "depth by group": (grouped, [halves(8, 24), halves(24, 8), groups(8, 8, 24)]),
    "encoder layer": (ENCODER, [torch.randn(2, 3, 8)]),
    "padded encoder layer": (
        lambda x, m: ENCODER(x, src_key_padding_mask=m)[:, :2], [torch.randn(2, 3, 8), PADDING]
    ),
    "values for a mask": (lambda x, m, v: x.index_put((m,), v), [torch.randn(3, 4), MASK, torch.randn(2, 4)]),
    "a mask of the second dimension": (
        lambda x, m, v: torch.ops.aten.index_put(x, [None, m], v, True),
        [torch.randn(4, 3, 2), MASK, torch.randn(4, 2, 2)],
    ),
    "a number for a mask": (lambda x, m: x.index_put((m,), torch.tensor(2)), [torch.randn(3, 4), MASK]),
    "no value for a mask": (lambda x, m, v: x.index_put((m,), v), [torch.randn(3, 4), ~MASK | MASK, torch.randn(3, 4)]),
    "in-place parts": (lambda x: torch.isclose(x, x + 1e-9) & (torch.quantile(x, 0.3) < x), [torch.randn(4, 3)]),
    "a window": (lambda x: x * torch.kaiser_window(4), [torch.randn(3, 4)]),
    "flex_attention, scores": (
        lambda q: flex_attention(q, q, q, lambda s, b, h, i, j: s + BIAS[h] * (i - j)), [torch.randn(2, 4, 16, 8)]
    ),
    "flex_attention, blocks": (
        lambda q, k: flex_attention(q, k, k, block_mask=CAUSAL, enable_gqa=True, scale=0.3),
        [torch.randn(2, 4, 16, 8), torch.randn(2, 2, 16, 8)],
    ),
    "labels up to the first -1": (
        lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"), [torch.randn(9, 5), torch.randint(-1, 5, (9, 5))]
    ),
    "labels of one row": (F.multilabel_margin_loss, [torch.randn(5), torch.tensor([2, 0, -1, 1, 3])]),
    "next numbers": (torch.nextafter, [ODD_NUMBERS[:, None], ODD_NUMBERS]),
    "next doubles": (torch.nextafter, [ODD_NUMBERS.double()[:, None], ODD_NUMBERS.double()]),
    "mantissas": (lambda x: both(torch.frexp(x)), [ODD_NUMBERS]),
    "mantissas of halves": (lambda x: both(torch.frexp(x)), [ODD_NUMBERS.half()]),
    "first places that are not 0": (lambda x: torch.nonzero_static(x, size=4), [torch.randint(0, 2, (3, 2))]),
    "few places that are not 0": (lambda x: torch.nonzero_static(x, size=9, fill_value=7), [torch.eye(3)[:, None]]),
    "most frequent": (lambda x: both(torch.mode(x, 1)), [torch.randint(-2, 3, (4, 7, 2))]),
    "most frequent floats": (lambda x: both(torch.mode(x, 0)), [torch.tensor([[1, math.nan], [2, 3], [2, 3], [1, 4]])]),
    "slices by index": (
        lambda x, i, s: x.index_reduce(-1, i, s, "mean", include_self=False),
        [torch.randn(3, 4), torch.tensor([2, 0, 2]), torch.randn(3, 3)],
    ),
    "histogram of weights": (
        lambda x, w: both(torch.histogram(x, 5, range=(-1.0, 1.0), weight=w, density=True)),
        [torch.tensor([-1.0, -2, 1, 0.2, 0.6, -0.2, 3]), torch.rand(7)],
    ),
    "histogram of all": (lambda x: both(torch.histogram(x, 5)), [torch.randn(9)]),
    "short rows": (lambda i, w: F.embedding(i, w * 1, max_norm=1.0), [ROWS, W]),
    "pairs": (lambda x: torch.combinations(x, 2, True), [torch.randn(4)]),
    "quantiles": (lambda x: torch.quantile(x, torch.tensor([0.2, 1.0]), 1, True), [HOLES]),
    "quantiles of all": (lambda x: torch.quantile(x, 0.3, interpolation="nearest"), [torch.randn(4, 3)]),
    "quantiles without NaN": (lambda x: torch.nanquantile(x, 0.3, 1, interpolation="midpoint"), [HOLES]),
    "least squares": (lambda a, b: torch.vstack(torch.linalg.lstsq(a, b, driver="gels")[:2]), [TALL, TALL[:, 1:]]),
    "shortest solution": (lambda a, b: torch.linalg.lstsq(a.T, b.T).solution, [TALL, TALL[:3, 1:].T]),
    "numbers as classes": (lambda x: F.one_hot(x.abs()), [torch.randint(-3, 5, (3, 4))]),
    "parts that end at": (lambda x, i: both(torch.tensor_split(x, i)), [torch.randn(5, 3), torch.tensor([2])]),
    "ctc": (lambda x, t: torch.ctc_loss(x.log_softmax(-1), t, (8, 6), (3, 0)), [torch.randn(8, 2, 5), SPELT]),
    "ctc, nothing fits": (
        lambda x, t: torch.ctc_loss(x.log_softmax(-1), t, (8, 2), (3, 3), 4, 0, True),
        [torch.randn(8, 2, 5), SPELT],
    ),
    "ctc, one behind the other": (
        lambda x, t, i, n: F.ctc_loss(x.log_softmax(-1), t, i, n, reduction="sum"),
        [torch.randn(6, 2, 5), torch.tensor([1, 2, 2, 3, 1]), torch.tensor([5, 6]), torch.tensor([2, 3])],
    ),
    "covariances": (torch.cov, [torch.randn(3, 8)]),
    "weighted covariances": (
        lambda x, n, w: torch.cov(x, correction=0, fweights=n, aweights=w),
        [torch.randn(3, 8), torch.randint(1, 4, (8,)), torch.rand(8)],
    ),
    "covariances of integers": (torch.cov, [torch.randint(-5, 5, (3, 8))]),
    "correlations": (torch.corrcoef, [torch.randn(3, 8)]),
    "gaussian loss": (
        lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True, reduction="sum"),
        [torch.randn(3, 4), torch.randn(3, 4), torch.rand(3)],
    ),
    "shifts": (lambda x: (x << 2) + (x >> 1), [torch.randint(-9, 9, (5,))]),
}  # fmt: skip


ALONE = ("encoder layer", "numbers as classes", "parts that end at")
NOT_TRACED = ("padded encoder layer", "flex_attention, scores", "flex_attention, blocks", "short rows")
"""The symbolic tracer leaves these to torch.export."""
EXPORTED = (
    "pairs", "least squares", "shortest solution", "covariances", "weighted covariances", "covariances of integers",
    "correlations", "gaussian loss",
)  # fmt: skip
"""And these, whose lengths it does not know."""
NOT_EXPORTED = ("ctc", "ctc, nothing fits", "ctc, one behind the other")
"""Nor does it know those of these, which torch.export refuses."""


def together(names: Iterable[str]) -> Any:
    return one_model({name: OURS[name] for name in names})


MODELS: dict[str, Any] = {
    **{name: OURS[name] for name in ALONE},
    "not traced": together(NOT_TRACED),
    "exported": together(EXPORTED),
    "not exported": together(NOT_EXPORTED),
    "all others": together(name for name in OURS if name not in (*ALONE, *NOT_TRACED, *EXPORTED, *NOT_EXPORTED)),
}


@pytest.mark.parametrize("name", few(MODELS, "encoder layer", "numbers as classes", "parts that end at"))
def test_decompositions_of_ours(name: str, caplog: Any) -> None:
    function, inputs = MODELS[name]
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        lowered = lower_to_mgx(function, inputs, target="ref")
        assert "runs in torch" not in caplog.text, caplog.text
        gots, wants = (tree_leaves(f(*inputs)) for f in (lowered, function))
        for got, want in zip(gots, wants, strict=True):
            assert_close(to_numpy(got), to_numpy(want), scale=8)


def test_an_encoder_layer_of_an_empty_batch() -> None:
    torch._dynamo.reset()
    fast = torch.compile(ENCODER, backend="migraphx", options={"target": "ref", "fallback": "error"})
    with torch.no_grad():
        assert fast(torch.randn(0, 3, 8)).shape == (0, 3, 8)


def test_fewer_values_than_the_mask_has_places() -> None:
    lowered = lower_to_mgx(OURS["values for a mask"][0], OURS["values for a mask"][1], target="ref")
    with pytest.raises(IndexError):
        lowered(torch.randn(3, 4), torch.ones(3, dtype=torch.bool), torch.randn(2, 4))


def test_torch_draws_the_random_numbers(caplog: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x @ x, 0.4, True) @ x + torch.rand_like(x @ x)

    x = torch.randn(4, 4)
    with caplog.at_level(logging.INFO):
        lowered = lower_to_mgx(function, [x], target="ref", min_acc_module_size=1)
    assert "piece 2 of 2 of function runs in the engine" in caplog.text, caplog.text
    torch.manual_seed(1)
    got = lowered(x)
    torch.manual_seed(1)
    assert_close(got.numpy(), function(x).numpy(), scale=4)


def test_experts_of_transformers(caplog: Any) -> None:
    """Products of groups of rows in float go to an operator of that library, which torch cannot take apart."""
    moe = pytest.importorskip("transformers.integrations.moe", exc_type=(ImportError, RuntimeError))  # type: ignore[arg-type]
    x, y, ends = torch.randn(7, 3), torch.randn(4, 3, 5), groups(2, 2, 5, 6)
    lowered = lower_to_mgx(torch.ops.transformers.grouped_mm_fallback, [x, y, ends], target="ref")
    assert "runs in torch" not in caplog.text, caplog.text
    assert_close(lowered(x, y, ends).numpy(), moe._grouped_mm_fallback(x, y, ends).numpy(), scale=4)


def windows(x: torch.Tensor) -> torch.Tensor:
    """Numbers are written to masks as tensors in main memory, wherever the masks lie."""
    mask, kept = x.new_zeros(4, 5), x.clone()
    for row in range(3):
        mask[row : row + 1, 1:4] = row + 0.5
    kept[1:2].zero_()
    return mask + kept


def of_device(gm: fx.GraphModule, device: str) -> None:
    """Values of this device in place of those that depend on inputs: what a graph has that was traced there."""
    moved = set()
    with FakeTensorMode():
        for n in gm.graph.nodes:
            if n.op == "placeholder" or moved.intersection(n.all_input_nodes):
                moved.add(n)
                value = n.meta.get("val")
                if isinstance(value, torch.Tensor):
                    n.meta["val"] = torch.empty(value.shape, dtype=value.dtype, device=device)


@pytest.mark.parametrize("folded", [False, True])
def test_numbers_in_main_memory_are_constants_of_a_program_elsewhere(folded: bool) -> None:
    x = torch.randn(4, 5)
    gm = make_fx(torch.func.functionalize(windows, remove="mutations"), tracing_mode="fake")(x)
    decompose(gm)
    of_device(gm, "cuda")
    if folded:
        fold_elsewhere(gm, {}, "cuda")
        gm.recompile()
        assert torch.equal(gm(x), windows(x))
    samples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    survey = Survey(gm, samples, {}, Options.of(target="ref"), "cuda")
    survey.run()
    reasons = {r.why for r in survey.refused.values() if r.why}
    assert (not survey.refused) if folded else any("cpu" in why for why in reasons), reasons

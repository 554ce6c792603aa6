"""PT2E, torchao's configurations and mixed precision: what torch computes of the quantized graph, in integers."""

from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.models import import_torchvision, randomize
from tests.tiers import few
from tests.tolerances import QUANTIZED_ERROR
from tests.torch_migraphx.quantized_programs import kernels
from torch_migraphx.fx import lower_to_mgx

pytest.importorskip("torchao")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

from torchao.quantization import (  # noqa: E402
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
    quantize_,
)
from torchao.quantization.pt2e import move_exported_model_to_eval  # noqa: E402

from torch_migraphx.dynamo.quantization import (  # noqa: E402
    MGXQuantizer,
    convert_pt2e,
    export_for_quantization,
    prepare_pt2e,
    prepare_qat_pt2e,
    quantize,
)

INT4: Any = vars(torch)["int4"]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(torch.relu(self.second(x) + x), 2)
        return self.head(x.mean((2, 3)))


def calibrated(model: nn.Module, x: torch.Tensor, **options: Any) -> Any:
    prepared = prepare_pt2e(export_for_quantization(model, (x,)), MGXQuantizer(**options))
    with torch.no_grad():
        for k in range(3):
            prepared(x * (1 - k / 4))
    return convert_pt2e(prepared)


def close(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Where a rounding falls on the other side, some elements differ by a step; most do not."""
    off = (got - want).abs()
    return bool(off.max() < 0.03 * want.abs().max() and off.median() < 1e-5 * want.abs().max())


@pytest.mark.parametrize(
    "options",
    few([{}, {"asymmetric_activations": True}, {"per_ch_weights": False}, {"calibration": "mse"}], {}),
    ids=["default", "asymmetric", "one scale", "mse"],
)
def test_the_workflow_of_the_documents(options):
    """Export, prepare, calibrate, convert; then torch.compile, or lower_to_mgx."""
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    quantized = calibrated(model, x, **options)
    lowered = lower_to_mgx(quantized, [x], fallback="error")
    found = kernels(lowered)
    assert (found["quant_convolution"], found["quant_dot"], found["convolution"], found["dot"]) == (2, 1, 0, 0)
    torch._dynamo.reset()
    compiled = torch.compile(quantized, backend="migraphx", options={"fallback": "error"})
    with torch.no_grad():
        want = quantized(x)
        assert close(lowered(x), want) and close(compiled(x), want)
        assert (want - model(x)).norm() < 0.05 * model(x).norm()


@pytest.mark.slow
def test_a_resnet_is_one_program_of_integers():
    torch.manual_seed(0)
    resnet = import_torchvision().models.resnet
    model = randomize(resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1])).eval()
    x = torch.randn(1, 3, 32, 32)
    quantized = calibrated(model, x)
    lowered = lower_to_mgx(quantized, [x], fallback="error")
    found = kernels(lowered)
    assert (found["quant_convolution"], found["quant_dot"], found["convolution"], found["dot"]) == (12, 1, 0, 0)
    exact = lower_to_mgx(quantized, [x], target="ref", suppress_accuracy_check=True)
    with torch.no_grad():
        assert (lowered(x) - exact(x)).norm() < 0.02 * exact(x).norm()
        # Torch multiplies floats: some codes lie on the other side of a rounding, and the layers behind spread that,
        # until it costs what quantizing does: its own answers in float and in double may be some percent apart.
        assert (lowered(x) - quantized(x)).norm() < 1.5 * (model(x) - quantized(x)).norm()
        assert (lowered(x) - model(x)).norm() < 0.05 * model(x).norm()


class Products(nn.Module):
    """Transposed convolutions, and matrices that stand right of what is quantized."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1)
        self.grouped = nn.ConvTranspose2d(24, 6, 2, 2, groups=3, bias=False)
        self.spread = nn.Conv2d(6, 24, 1, bias=False)
        self.matrix, self.bias = nn.Parameter(torch.randn(16, 8)), nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = self.grouped(torch.relu(self.spread(torch.relu(self.up(x)))))
        return torch.addmm(self.bias, x.flatten(0, 2), self.matrix), x @ self.matrix, x.flatten(0, 2).mm(self.matrix)


@pytest.mark.slow
@pytest.mark.parametrize("asymmetric", [False, True])
def test_transposed_convolutions_and_matrices(asymmetric: bool):
    torch.manual_seed(0)
    model, x = Products().eval(), torch.randn(2, 4, 4, 4)
    quantized = calibrated(model, x, asymmetric_activations=asymmetric)
    assert quantized.code.count("dequantize_per_channel.default") == 6
    lowered = lower_to_mgx(quantized, [x], fallback="error")
    found = kernels(lowered)
    assert found["quant_convolution"] and found["quant_dot"]
    assert not found["convolution"] + found["dot"]
    with torch.no_grad():
        for got, want, real in zip(lowered(x), quantized(x), model(x), strict=True):
            assert close(got, want) and (want - real).norm() < 0.05 * real.norm()


def test_weights_are_not_folded():
    quantized = calibrated(Residual().eval(), torch.randn(2, 3, 8, 8))
    assert "quantize_per_channel" in quantized.code and not any(p.dtype == torch.int8 for p in quantized.buffers())


@pytest.mark.slow
def test_training_aware():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))  # a batch norm costs torchao half a minute
    prepared = prepare_qat_pt2e(export_for_quantization(model.train(), (x,)), MGXQuantizer(is_qat=True))
    optimizer = torch.optim.SGD(prepared.parameters(), 0.01)
    for _ in range(2):
        loss = prepared(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    quantized = convert_pt2e(prepared)
    move_exported_model_to_eval(quantized)
    lowered = lower_to_mgx(quantized, [x], fallback="error")
    assert kernels(lowered)["quant_convolution"] == 2
    with torch.no_grad():
        assert close(lowered(x), quantized(x))


@pytest.mark.slow
def test_reference_representation(monkeypatch):
    """Graphs that spell out the arithmetic of integers.

    torchao exports 24 functions to find and replace patterns, by Dynamo, which takes twice as long as without.
    """
    export = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *of, **how: export(*of, **{**how, "strict": False}))
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), torch.randn(3, 16)
    prepared = prepare_pt2e(export_for_quantization(model, (x,)), MGXQuantizer())
    prepared(x)
    quantized = convert_pt2e(prepared, use_reference_representation=True)
    with torch.no_grad():
        assert close(lower_to_mgx(quantized, [x], fallback="error")(x), quantized(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "kernel"),
    [
        (Int8DynamicActivationInt8WeightConfig(), "quant_dot"),
        (Int8WeightOnlyConfig(), "dot"),
        (Int8DynamicActivationIntxWeightConfig(weight_dtype=INT4, weight_granularity=PerGroup(16)), "dot_int4"),
        (IntxWeightOnlyConfig(weight_dtype=INT4, granularity=PerGroup(16)), "dot_int4"),
    ],
    ids=["a8w8", "w8", "a8w4", "w4"],
)
def test_configurations_of_torchao(config, kernel):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)).eval(), torch.randn(5, 64)
    quantize_(model, config)
    lowered = lower_to_mgx(model, [x], fallback="error")
    found = kernels(lowered)
    assert found[kernel] == 2 == found.total()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="migraphx", options={"fallback": "error"})
    with torch.no_grad():
        want = model(x)
        for got in (lowered(x), compiled(x)):
            assert close(got, want)


# ---- mixed precision ----


def decibels(model: nn.Module, x: torch.Tensor, want: torch.Tensor) -> float:
    with torch.no_grad():
        return float(20 * torch.log10(want.norm() / (model(x) - want).norm().clamp(min=1e-9)))


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["fp32", "fp16"])
def test_what_loses_most_stays_in_floats(keep):
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        want = model(x)
    whole = decibels(calibrated(model, x), x, want)
    found = quantize(
        model, [x, x / 2], lambda m: min(decibels(m, x, want), 60), 60 - whole - 2, keep=keep, times=keep == "fp32"
    )
    kept = [layer for layer in found.layers if not layer.quantized]
    assert 0 < len(kept) < 3
    assert max(layer.decibels for layer in kept) <= min(layer.decibels for layer in found.layers if layer.quantized)
    assert found.metric >= whole + 2
    lowered = lower_to_mgx(found.model, [x], fallback="error")
    products = kernels(lowered)
    assert products["quant_convolution"] + products["quant_dot"] == 3 - len(kept)
    with torch.no_grad():
        assert (lowered(x) - found.model(x)).norm() < QUANTIZED_ERROR * want.norm()
    assert {layer.name for layer in found.layers} == {"first", "second", "head"}
    assert f"{len(kept)} of 3 products stay in floats" in str(found)
    assert all((layer.int8_ms > 0) == (keep == "fp32") for layer in found.layers)


def test_a_budget_that_cannot_be_met():
    calls = iter([1.0, *[0.0] * 9])
    with pytest.raises(ValueError, match="every product in fp32"):
        quantize(Residual().eval(), [torch.randn(2, 3, 8, 8)], lambda m: next(calls), 0.5)


# ---- what is refused ----


def test_what_was_not_calibrated():
    prepared = prepare_pt2e(export_for_quantization(Residual().eval(), (torch.randn(2, 3, 8, 8),)), MGXQuantizer())
    with pytest.raises(ValueError, match="observers have seen no data"):
        convert_pt2e(prepared)


def test_wrong_models_and_quantizers():
    with pytest.raises(TypeError, match="export_for_quantization"):
        prepare_pt2e(Residual(), MGXQuantizer())  # type: ignore[arg-type]
    exported = export_for_quantization(Residual().eval(), (torch.randn(2, 3, 8, 8),))
    with pytest.raises(ValueError, match="is_qat=True"):
        prepare_qat_pt2e(exported, MGXQuantizer())
    with pytest.raises(ValueError, match="minmax, percentile, mse, entropy"):
        MGXQuantizer(calibration="best")
    with pytest.raises(TypeError, match="tuple of sample arguments"):
        export_for_quantization(Residual(), torch.randn(2, 3, 8, 8))  # type: ignore[arg-type]


class Random(nn.Module):
    """Some layers by chance: convolutions of every kind, sums, pooling, views, linear layers on tokens."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.kinds = torch.randint(0, 6, (6,), generator=g).tolist()
        self.layers = nn.ModuleList(nn.Identity() for _ in self.kinds)
        for k, kind in enumerate(self.kinds):
            if kind < 4:
                kernel, groups = ((1, 1), (3, 1), (3, 2), (3, 8))[kind]
                self.layers[k] = nn.Conv2d(8, 8, kernel, padding=kernel // 2, groups=groups, bias=k % 2 == 0)
            elif kind == 4:
                self.layers[k] = nn.Linear(8, 8)

    def forward(self, x):
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if kind < 4:
                x = torch.relu(layer(x)) if kind % 2 else layer(x) + x
            elif kind == 4:
                x = layer(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
            else:
                x = nn.functional.max_pool2d(x, 3, 1, 1)
        return x.mean((2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_models(seed):
    torch.manual_seed(seed)
    model, x = Random(seed).eval(), torch.randn(2, 8, 6, 6)
    quantized = calibrated(model, x, asymmetric_activations=bool(seed % 2))
    lowered = lower_to_mgx(quantized, [x], fallback="error")
    found = kernels(lowered)
    assert found["convolution"] + found["dot"] <= sum(kind == 3 for kind in model.kinds)  # depthwise ones may stay
    with torch.no_grad():
        want = quantized(x)
        assert (lowered(x) - want).norm() < 0.02 * want.norm()

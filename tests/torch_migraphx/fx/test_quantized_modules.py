"""Models of torch.ao.quantization against torch's own kernels: codes that agree, products of integers in the engine."""

import copy
from typing import Any

import pytest
import torch
import torch.ao.quantization as ao
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_fx, prepare_qat_fx

from tests.tiers import few, few_rows
from tests.torch_migraphx.quantized_programs import kernels
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.fx.lower_graph import FallbackError
from torch_migraphx.fx.quantization import get_migraphx_backend_config, get_migraphx_qconfig_mapping

X = torch.linspace(-1, 1, 2 * 3 * 6 * 6).reshape(2, 3, 6, 6)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.head(x.mean((2, 3))))


def trained(model):
    with torch.no_grad():
        for k in range(2):
            model.train()(X * (k + 1))
    return model.eval()


def prepared():
    model: Any = Net().train()
    model.qconfig = ao.get_default_qat_qconfig("x86")
    return trained(ao.prepare_qat(model))


def prepared_by_fx():
    return trained(prepare_qat_fx(Net().train(), ao.get_default_qat_qconfig_mapping("x86"), (X,)))


def observed():
    return prepare_fx(Net().eval(), ao.get_default_qconfig_mapping("x86"), (X,))


def of_steps(got: torch.Tensor, want: torch.Tensor, most: int = 1) -> bool:
    """Whether few elements differ, and by no more than some of 255 steps of the range."""
    step = float(want.max() - want.min()) / 100
    off = (got - want).abs() > 1e-5
    return bool((got - want).abs().max() <= most * step) and bool(off.float().mean() < 0.35)


@pytest.mark.parametrize("make", few([prepared, prepared_by_fx, observed], prepared_by_fx))
def test_what_still_observes_stays_in_torch(make, caplog):
    """Observers write to their model at each call in eval() too: lowering must not, and calls must as eager's do."""
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    fast = lower_to_mgx(model, [X], target="ref")  # the accuracy check runs both
    assert "runs in torch" in caplog.text
    with torch.no_grad():
        for k in (1, 3, 2):
            torch.testing.assert_close(fast(X * k), twin(X * k), rtol=1e-5, atol=1e-6)
    for name, want in twin.state_dict().items():
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(model.state_dict()[name], want, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("make", [prepared, prepared_by_fx])
def test_what_was_trained_runs_in_the_engine(make):
    """Fake quantizers that observe no more, and what convert makes of them."""
    torch.manual_seed(0)
    model = make().apply(ao.disable_observer)
    convert = ao.convert if make is prepared else convert_fx
    for form in (model, convert(copy.deepcopy(model))):
        fast = lower_to_mgx(form, [X], fallback="error")
        assert kernels(fast)["quant_convolution"] == 1
        with torch.no_grad():
            assert of_steps(fast(X), form(X), most=3)


@pytest.mark.slow
def test_an_exported_state_that_changes_is_named():
    with pytest.raises(RuntimeError, match=r"weight_fake_quant\.scale in place"):
        lower_to_mgx(prepared(), [X], target="ref", use_aten=True)


class Residual(nn.Module):
    """What the documents' models hold: convolutions, a sum, pooling, a linear layer."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d((self.second(x) + x).relu(), 2)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


@pytest.mark.parametrize(
    ("asymmetric", "convert"), few_rows([(False, convert_to_reference_fx), (True, convert_fx)], at=[1])
)
def test_the_workflow_of_the_documents(asymmetric, convert):
    """prepare_fx, calibration, convert_fx with our configurations: torch runs the model, and so do we, as integers."""
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    configurations = {
        "qconfig_mapping": get_migraphx_qconfig_mapping(asymmetric_activations=asymmetric),
        "backend_config": get_migraphx_backend_config(),
    }
    prepared = prepare_fx(model, example_inputs=(x,), **configurations)
    for k in range(3):
        prepared(x * (1 - k / 4))
    quantized = convert(prepared, **configurations)
    fast = lower_to_mgx(quantized, (x,), suppress_accuracy_check=True, fallback="error")
    found = kernels(fast)
    assert (found["quant_convolution"], found["quant_dot"], found["convolution"], found["dot"]) == (2, 1, 0, 0)
    with torch.no_grad():
        assert of_steps(fast(x), quantized(x), most=3)
        assert (fast(x) - model(x)).norm() < 0.05 * model(x).norm()


SEVEN_BITS = ao.default_per_channel_weight_observer.with_args(quant_min=-64, quant_max=63)
"""Of weights that meet a sigmoid's 8 bits: without VNNI torch adds pairs of products in 16 bits, which overflow."""


class Everything(nn.Module):
    """Every kind of module that eager mode converts, on values that stay quantized."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
        self.sum, self.numbers, self.beside = (torch.ao.nn.quantized.FloatFunctional() for _ in range(3))
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 5)
        self.hardswish, self.leaky, self.elu, self.sigmoid = nn.Hardswish(), nn.LeakyReLU(), nn.ELU(), nn.Sigmoid()
        self.drop, self.tanh = nn.Dropout(), nn.Tanh()

    def forward(self, x):
        x = self.hardswish(self.norm(self.conv(self.quant(x))))
        y = self.leaky(x)
        x = self.numbers.add_scalar(self.numbers.mul_scalar(self.elu(self.sum.add(x, y)), -2.0), 0.7)
        x = nn.functional.avg_pool2d(self.beside.cat([x, y], 1)[:, :4], 2)
        x = nn.functional.interpolate(self.sigmoid(self.tanh(x)), scale_factor=2.0, mode="bilinear")
        return self.head(self.drop(nn.functional.max_pool2d(x, 2)).clamp(0.1, 0.9).flatten(1))


def converted(model: Any, x: torch.Tensor) -> nn.Module:
    model.qconfig = ao.get_default_qconfig("x86")
    prepared = ao.prepare(model.eval())
    prepared(x)
    return ao.convert(prepared)


@pytest.mark.slow
def test_modules_of_eager_mode():
    torch.manual_seed(0)
    model: Any = Everything()
    x = torch.randn(2, 3, 8, 8)
    model.head.qconfig = ao.QConfig(ao.get_default_qconfig("x86").activation, SEVEN_BITS)
    quantized = converted(nn.Sequential(model, model.dequant), x)
    fast = lower_to_mgx(quantized, [x], fallback="error")
    assert kernels(fast)["quant_convolution"] == kernels(fast)["quant_dot"] == 1
    with torch.no_grad():
        assert of_steps(fast(x), quantized(x), most=3)


@pytest.mark.slow
def test_answers_that_stay_quantized():
    torch.manual_seed(0)
    x = torch.randn(2, 16)
    quantized = converted(nn.Sequential(ao.QuantStub(), nn.Linear(16, 5)), x)
    fast = lower_to_mgx(quantized, [x])
    assert kernels(fast)["quant_dot"] == 1
    with torch.no_grad():
        got, want = fast(x), quantized(x)
    assert got.is_quantized and got.dtype == want.dtype
    assert (got.q_scale(), got.q_zero_point()) == (want.q_scale(), want.q_zero_point())
    assert of_steps(got.dequantize(), want.dequantize(), most=3)


def recurrent(kind, **kwargs):
    class Only(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(6, 7, **kwargs)

        def forward(self, x):
            return self.layer(x)[0]

    return Only()


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.tanh = nn.LSTMCell(6, 6), nn.GRUCell(6, 6), nn.RNNCell(6, 6)
        self.relu = nn.RNNCell(6, 6, nonlinearity="relu")

    def forward(self, x):
        h, c = self.lstm(x)
        return self.relu(self.tanh(c, self.gru(x, h)))


@pytest.mark.parametrize(
    ("model", "kinds", "lens", "dtype"),
    few_rows(
        [
            (nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)), {nn.Linear}, (3, 16), torch.qint8),
            (nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)), {nn.Linear}, (2, 3, 16), torch.qint8),
            (nn.Sequential(nn.Linear(16, 8)), {nn.Linear}, (3, 16), torch.float16),
            (recurrent(nn.LSTM, num_layers=2, bidirectional=True), {nn.LSTM}, (2, 2, 6), torch.qint8),
            (recurrent(nn.GRU, batch_first=True), {nn.GRU}, (2, 3, 6), torch.qint8),
            (Cells(), {nn.LSTMCell, nn.GRUCell, nn.RNNCell}, (2, 6), torch.qint8),
        ],
        at=[0, 1],
    ),
    ids=["linear", "tokens", "half", "lstm", "gru", "cells"],
)
def test_dynamic_quantization(model, kinds, lens, dtype):
    """torch quantizes what comes; its scale depends on data, and the products are of integers all the same."""
    torch.manual_seed(0)
    quantized = ao.quantize_dynamic(model.eval(), kinds, dtype=dtype)
    x = torch.randn(lens)
    fast = lower_to_mgx(quantized, [x], fallback="error")
    assert (kernels(fast)["quant_dot"] > 0) == (dtype == torch.qint8)
    with torch.no_grad():
        want = quantized(x)
        assert (fast(x) - want).abs().max() < 5e-3 * want.abs().max()
        assert (fast(x) - want).abs().median() < 1e-5 * want.abs().max()


def test_embeddings_of_bytes():
    model = nn.Sequential(nn.Embedding(10, 16)).eval()
    model[0].qconfig = ao.float_qparams_weight_only_qconfig  # type: ignore[assignment]
    converted, indices = ao.convert(ao.prepare(model)), torch.tensor([[3, 0, 9]])
    fast = lower_to_mgx(converted, [indices], fallback="error")
    torch.testing.assert_close(fast(indices), converted(indices))


def test_embeddings_of_four_bits():
    table = torch.randn(10, 16)
    low = table.amin(1)
    scale = (table.amax(1) - low) / 15
    codes = torch.quantize_per_channel(table, scale, -low / scale, 0, torch.quint4x2)
    layer = torch.ao.nn.quantized.Embedding(10, 16, _weight=codes, dtype=torch.quint4x2)
    indices = torch.tensor([3, 0, 9])
    torch.testing.assert_close(lower_to_mgx(layer, [indices], fallback="error")(indices), layer(indices))


def test_what_torch_has_no_kernel_for_is_named(caplog):
    class Quotient(nn.Module):
        def forward(self, x):
            return torch.div(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), 2)

    with pytest.raises(FallbackError, match="quantize_per_tensor"):
        lower_to_mgx(Quotient(), [X], target="ref", fallback="error")
    assert "torch has no div of quantized tensors" in caplog.text


def test_a_type_without_codes_is_named(caplog):
    class Strange(nn.Module):
        def forward(self, x):
            return torch.quantize_per_tensor(x, 0.1, 0, torch.quint4x2).dequantize()

    with pytest.raises(FallbackError, match="quantize_per_tensor"):
        lower_to_mgx(Strange(), [X], target="ref", fallback="error")
    assert "quantization to torch.quint4x2" in caplog.text

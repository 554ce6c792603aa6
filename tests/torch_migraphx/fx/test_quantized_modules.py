"""Models prepared, observed and converted by torch.ao.quantization: eager's numbers, and no trace in the model."""

import copy
from typing import Any

import pytest
import torch
import torch.ao.quantization as ao
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx

from torch_migraphx.fx import lower_to_mgx

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


def converted():
    return ao.convert(prepared())


def converted_by_fx():
    return convert_fx(prepared_by_fx())


@pytest.mark.parametrize("make", [prepared, prepared_by_fx, observed, converted, converted_by_fx])
def test_eager_numbers_and_no_trace_in_the_model(make, caplog):
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


def test_an_exported_state_that_changes_is_named():
    with pytest.raises(RuntimeError, match=r"weight_fake_quant\.scale in place"):
        lower_to_mgx(prepared(), [X], target="ref", use_aten=True)

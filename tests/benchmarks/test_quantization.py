"""The accuracies of benchmarks.quantization, on a model that is hardly trained."""

import pytest
import torch

pytest.importorskip("torchao")
pytest.importorskip("sklearn")

from benchmarks.quantization import accuracies, digits


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_int8_reads_digits_as_floats_do():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, data, metric = digits(40)
        found = accuracies(model, data, metric, convolutional=True)
    assert found["torch fp32"] > 0.85
    for form, value in found.items():
        assert abs(value - found["torch fp32"]) < 0.02, form
    assert found["mixed"] >= found["torch fp32"] - 0.001 - 1e-9

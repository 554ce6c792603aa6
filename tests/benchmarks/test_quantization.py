"""The table of benchmarks.quantization, of a model that is hardly trained."""

import pytest
import torch

pytest.importorskip("torchao")
pytest.importorskip("sklearn")

from benchmarks.quantization import digits, forms_of, speeds


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_int8_reads_digits_as_floats_do():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, data, metric = digits(40)
        forms = forms_of(model, data[:1], metric, convolutional=True)
    found = {form: metric(module) for form, module in forms.items()}
    assert found["torch fp32"] > 0.85
    for form, value in found.items():
        assert abs(value - found["torch fp32"]) < 0.02, form
    assert found["mixed"] >= found["torch fp32"] - 0.001 - 1e-9
    timed = speeds({form: torch.nn.Flatten() for form in ("fp32", "mixed")}, data[0], 0)
    assert timed["fp32"]["fp32 / it"] == 1
    assert all(0 < row["p50 ms"] <= row["p90 ms"] for row in timed.values())

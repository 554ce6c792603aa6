"""Samples of what is as long as the data makes it, and of what picks or places elements."""

import torch

from tests.torch_migraphx.fx.converters.samples import Sample, each, f, i, m

RUNS = torch.tensor([[1, 1, 2], [2, 3, 3], [3, 3, 3]])
BOTH: list[Sample] = [{}, {"return_inverse": True, "return_counts": True}]
ONE: list[Sample] = [{"return_inverse": True}, {"return_counts": True}]
BY_DATA: dict[str, list[Sample]] = {
    "indexing.take": [{"input": f(3, 4), "index": i(2, 3)}, {"input": torch.tensor(2.0), "index": torch.tensor(0)}],
    **each(
        ["lengths_by_data.nonzero", "lengths_by_data.nonzero_numpy"],
        [{"input": i(3, 4, low=0, high=2)}, {"input": torch.tensor(2.0)}, {"input": torch.zeros(2, 3)}],
    ),
    "lengths_by_data.masked_select": [
        {"input": f(3, 4), "mask": m(3, 4)},
        {"input": f(3, 1), "mask": m(4)},
        {"input": torch.tensor(2.0), "mask": torch.tensor(True)},
        {"input": f(2, 3), "mask": torch.zeros(2, 3, dtype=torch.bool)},
    ],
    "lengths_by_data.unique": [
        *({"input": x, **b} for x in (i(3, 4), f(5), torch.tensor(3)) for b in BOTH),
        *({"input": x, **b} for x in (i(3, 4), f(2, 3)) for b in ONE),
    ],
    "lengths_by_data.unique_dim": [{"input": RUNS[[0, 1, 0, 2]], "dim": 0}, {"input": RUNS, "dim": -1, **BOTH[1]}],
    "lengths_by_data.unique_consecutive": [
        *({"input": RUNS, **b} for b in BOTH + ONE),
        {"input": RUNS[[0, 0, 1]], "dim": 0},
        {"input": torch.tensor(3.0), **BOTH[1]},
    ],
    "lengths_by_data.repeat_interleave": [
        {"repeats": torch.tensor([2, 0, 3], dtype=torch.int32)},
        {"repeats": torch.tensor([0, 0])},
        {"repeats": torch.tensor([2, 0, 3]), "output_size": 5},
        {"repeats": torch.zeros(0, dtype=torch.int64)},
    ],
    "lengths_by_data.bincount": [
        {"input": i(9, low=0)},
        {"input": i(9, low=0, dtype=torch.uint8), "weights": f(9), "minlength": 8},
        {"input": i(9, low=0), "weights": i(9)},
        {"input": i(0), "minlength": 2},
    ],
    "lengths_by_data.item": [{"input": torch.tensor(x)} for x in (3, -2, 0)],
    "shape.as_strided_scatter": [
        {"input": f(3, 3), "src": f(3), "size": [3], "stride": [4]},
        {"input": f(4, 3).t(), "src": f(2, 2), "size": [2, 2], "stride": [1, 5], "storage_offset": 2},
        {"input": f(3, 4), "src": f(0, 2), "size": [0, 2], "stride": [2, 1]},
    ],
}

"""Samples of the converters of quantization."""

import torch

from tests.torch_migraphx.fx.converters.samples import Sample, each, f, i

X, EPS = f(3, 4, 6), torch.finfo(torch.float32).eps
S8 = {"quant_min": -128, "quant_max": 127, "dtype": torch.int8}
U8 = {"quant_min": 0, "quant_max": 255, "dtype": torch.uint8}
NARROW = {"quant_min": -7, "quant_max": 7, "dtype": torch.int8}
U7 = {"quant_min": 3, "quant_max": 120, "dtype": torch.uint8}
WIDE = {"quant_min": -(2**15), "quant_max": 2**15 - 1, "dtype": torch.int16}
NUMBERS = [
    {"scale": 0.013, "zero_point": 0} | S8,
    {"scale": 0.013, "zero_point": -9} | S8,
    {"scale": 0.017, "zero_point": 131} | U8,
    {"scale": 0.21, "zero_point": 0} | NARROW,
    {"scale": 0.031, "zero_point": 60} | U7,
    {"scale": 0.0003, "zero_point": 11} | WIDE,
]
TENSORS = [
    sample | {"scale": torch.tensor([sample["scale"]]), "zero_point": torch.tensor([sample["zero_point"]])}
    for sample in NUMBERS
]
ALL_TENSORS = [sample | {k: torch.tensor(sample[k]) for k in ("quant_min", "quant_max")} for sample in TENSORS[:5]]
CODES = {
    torch.int8: i(3, 4, 6, low=-7, high=8, dtype=torch.int8),
    torch.uint8: i(3, 4, 6, low=3, high=120, dtype=torch.uint8),
    torch.int16: i(3, 4, 6, low=-3000, high=3000, dtype=torch.int16),
}
PER_TENSOR = [*NUMBERS, *TENSORS, *ALL_TENSORS]
CHANNELS = {"scales": f(4, low=0.01, high=0.03), "zero_points": i(4, low=-9, high=9), "axis": 1}
GROUPS = {"scales": f(6, 2, low=0.2, high=0.4), "zero_points": i(6, 2, low=-2, high=2), "group_size": 8}
TOKENS = {"scales": f(3, 4, 1, low=0.01, high=0.03), "zero_points": i(3, 4, 1, low=-9, high=9)}
BOUNDS = {"quant_min": -128, "quant_max": 127}
FAKE = [
    {"input": X, "scale": 0.013, "zero_point": -9} | BOUNDS,
    {"input": X, "scale": 0.3, "zero_point": 5, "quant_min": 0, "quant_max": 15},
]
BY_TENSORS = [
    {"input": X, "scale": torch.tensor([0.013]), "zero_point": torch.tensor([-9], dtype=torch.int32)} | BOUNDS
]
BY_CHANNEL = [
    {"input": X, "scales": CHANNELS["scales"], "zero_points": CHANNELS["zero_points"].int(), "axis": 1} | BOUNDS,
    {"input": X, "scales": f(6, low=0.1, high=0.3), "zero_points": i(6, low=0, high=9).int(), "axis": 2,
     "quant_min": 0, "quant_max": 15},
]  # fmt: skip

QUANTIZED: dict[str, list[Sample]] = {
    "quantized.quantize_per_tensor": [{"input": X} | sample for sample in PER_TENSOR],
    "quantized.dequantize_per_tensor": [{"input": CODES[sample["dtype"]]} | sample for sample in PER_TENSOR],
    **each(
        ["quantized.choose_qparams", "quantized.choose_qparams_symmetric"],
        [{"input": x, "eps": EPS} | sample for x in (X, X.abs(), -X.abs(), X * 0) for sample in (S8, U8)],
    ),
    "quantized.quantize_per_channel": [{"input": X} | CHANNELS | S8, {"input": X} | CHANNELS | NARROW],
    "quantized.dequantize_per_channel": [{"input": CODES[torch.int8]} | CHANNELS | S8],
    "quantized.quantize_per_channel_group": [{"input": f(6, 16)} | GROUPS | NARROW],
    "quantized.dequantize_per_channel_group": [
        {"input": i(6, 16, low=-8, high=8, dtype=torch.int8), "output_dtype": torch.float32} | GROUPS | bounds
        for bounds in (NARROW, {"quant_min": -8, "quant_max": 7, "dtype": torch.int8})
    ],
    **each(
        ["quantized.choose_qparams_per_token", "quantized.choose_qparams_per_token_asymmetric"],
        [{"input": x, "dtype": torch.int8} for x in (X, X.abs())],
    ),
    "quantized.quantize_per_token": [{"input": X} | TOKENS | S8],
    "quantized.dequantize_per_token": [
        {"input": CODES[torch.int8], "output_dtype": torch.float32} | TOKENS | S8,
    ],
    "quantized.fake_quantize_per_tensor_affine": [*FAKE, *BY_TENSORS],
    "quantized.fake_quantize_per_tensor_affine_cachemask": FAKE,
    "quantized.fake_quantize_per_channel_affine": BY_CHANNEL,
    "quantized.fake_quantize_per_channel_affine_cachemask": BY_CHANNEL,
    "quantized.fake_quantize_by_tensors": [
        BY_TENSORS[0] | {"fake_quant_enabled": torch.tensor([k], dtype=torch.uint8)} for k in (0, 1)
    ],
    "quantized.int_mm": [
        {
            "input": i(17, 16, low=-128, high=128, dtype=torch.int8),
            "mat2": i(16, 8, low=-128, high=128, dtype=torch.int8),
        }
    ],
    "quantized.convert_element_type": [{"input": X, "dtype": torch.float16}],
}

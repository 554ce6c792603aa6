"""The observer by histogram for PT2E quantization."""

from torchao.quantization.pt2e.observer import UniformQuantizationObserverBase

from torch_migraphx.fx.quantization.calibration import Calibrated


class CalibratedObserver(Calibrated, UniformQuantizationObserverBase):
    """The range of one tensor by `method`: minmax, percentile, mse or entropy."""

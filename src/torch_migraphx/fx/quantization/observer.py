"""The observer by histogram for torch's FX and eager-mode quantization."""

from torch.ao.quantization.observer import UniformQuantizationObserverBase

from torch_migraphx.fx.quantization.calibration import Calibrated


class CalibratedObserver(Calibrated, UniformQuantizationObserverBase):
    """The range of one tensor by `method`: minmax, percentile, mse or entropy."""

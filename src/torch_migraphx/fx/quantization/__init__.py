"""What torch's FX quantization needs to know of the engine: `prepare_fx` and `convert_fx` take both configurations."""

from torch_migraphx.fx.quantization.backend_config import get_migraphx_backend_config
from torch_migraphx.fx.quantization.qconfig import get_migraphx_qconfig, get_migraphx_qconfig_mapping

__all__ = ["get_migraphx_backend_config", "get_migraphx_qconfig", "get_migraphx_qconfig_mapping"]

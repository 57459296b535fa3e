"""What TensorRT-RTX has besides `polygraphy.backend.trt`."""

from polygraphy.adapters.tensorrt.rtx_config import CreateConfigRTX, create_config_rtx

__all__ = ["CreateConfigRTX", "create_config_rtx"]

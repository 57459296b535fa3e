"""Names for TensorRT-RTX, in addition to `polygraphy.backend.trt`."""

from polygraphy.adapters.tensorrt.engine.config import CreateConfigRTX, create_config_rtx
from polygraphy.mod.deferred import defer_names

__all__ = ["CreateConfigRTX", "create_config_rtx"]

__getattr__ = defer_names(globals(), submodules=("config",))

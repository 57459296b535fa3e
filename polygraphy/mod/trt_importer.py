"""The TensorRT in use, at the address from which scripts import it."""

from polygraphy.mod.deferred import defer_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.adapters.tensorrt.library.module import (
        lazy_import_trt,
        tensorrt_module_and_version_string,
    )

__all__ = ["lazy_import_trt", "tensorrt_module_and_version_string"]

# The module is named as a string, because this layer must not import others.
__getattr__ = defer_names(
    globals(), dict.fromkeys(__all__, "polygraphy.adapters.tensorrt.library.module")
)

"""The TensorRT in use, at the address from which scripts import it."""

from polygraphy.mod.deferred import defer_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.adapters.tensorrt.library.module import (
        lazy_import_trt,
        tensorrt_module_and_version_string,
    )

__all__ = ["lazy_import_trt", "tensorrt_module_and_version_string"]

# Their home is named as text, because this floor knows no other layer.
__getattr__ = defer_names(
    globals(), dict.fromkeys(__all__, "polygraphy.adapters.tensorrt.library.module")
)

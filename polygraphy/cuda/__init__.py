"""Device memory, streams, and the CUDA runtime."""

from polygraphy.adapters.cuda.array import DeviceArray, DeviceView
from polygraphy.adapters.cuda.device import Stream, use_device
from polygraphy.adapters.cuda.wrapper import Cuda, MemcpyKind, wrapper
from polygraphy.mod.deferred import defer_names

__all__ = ["Cuda", "DeviceArray", "DeviceView", "MemcpyKind", "Stream", "use_device", "wrapper"]

__getattr__ = defer_names(globals(), submodules=("cuda",))

"""The run side of a TensorRT without a GPU: engines are functions of NumPy.

Made of what the real modules were seen to do: a refusal is False and a line in the log, never an
exception; an unknown tensor gives dimensions of arbitrary content; an address that is not set ends
in False; shapes that depend on data come through an `IOutputAllocator`; with the older generation,
one context at a time uses a profile. Work happens when the CUDA stream gets to it, see `fake_cuda`.
"""

from tests.support.fake_tensorrt.module import FakeTensorRT
from tests.support.fake_tensorrt.names import COMPONENTS, Tensor, places

__all__ = ["COMPONENTS", "FakeTensorRT", "Tensor", "places"]

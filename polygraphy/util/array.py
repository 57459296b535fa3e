"""Functions for NumPy arrays, PyTorch tensors and views of device memory."""

from polygraphy.legacy import arrays
from polygraphy.legacy.arrays import *  # noqa: F403
from polygraphy.mod.deferred import defer_names

__all__ = []
__all__ += arrays.__all__
__getattr__ = defer_names(
    globals(),
    removed_names={
        "dispatch": "functools.singledispatch, or a function such as util.array.is_torch"
    },
)

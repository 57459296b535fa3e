"""Enumerations, dimensions, and the descriptions of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from enum import IntEnum
from math import ceil, prod
from typing import Any

import ml_dtypes
import numpy as np


class DataType(IntEnum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9
    FP4 = 10
    E8M0 = 11


NUMPY = {
    "FLOAT": np.dtype(np.float32), "HALF": np.dtype(np.float16), "INT8": np.dtype(np.int8),
    "INT32": np.dtype(np.int32), "BOOL": np.dtype(np.bool_), "UINT8": np.dtype(np.uint8),
    "FP8": np.dtype(ml_dtypes.float8_e4m3fn), "BF16": np.dtype(ml_dtypes.bfloat16),
    "INT64": np.dtype(np.int64), "INT4": np.dtype(ml_dtypes.int4),
    "FP4": np.dtype(ml_dtypes.float4_e2m1fn),
}  # fmt: skip
PACKED = ("INT4", "FP4")


class TensorIOMode(IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(IntEnum):
    DEVICE = 0
    HOST = 1


class TensorFormat(IntEnum):
    LINEAR = 0
    CHW2 = 1
    HWC8 = 2
    CHW4 = 3
    CHW16 = 4
    CHW32 = 5
    HWC = 8


COMPONENTS = {"CHW2": 2, "CHW4": 4, "CHW16": 16, "CHW32": 32, "HWC8": 8, "HWC": 1}


class ExecutionContextAllocationStrategy(IntEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class Severity(IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class Dims(Sequence[int]):
    """As TensorRT's: a sequence that is no tuple."""

    def __init__(self, shape: Sequence[int]) -> None:
        """Store a shape."""
        self._shape = [int(dim) for dim in shape]

    def __len__(self) -> int:
        """Return the number of axes."""
        return len(self._shape)

    def __getitem__(self, index: Any) -> Any:
        """Return the size of an axis, or a tuple for a slice."""
        found = self._shape[index]
        return tuple(found) if isinstance(index, slice) else found


class Tensor:
    """An input or output; -1 stands for a dimension that is not fixed.

    Profiles of a dynamic input, each (min, opt, max); `data_dependent` for an output whose shape
    only the function knows; `on_host` for the values of a shape tensor.
    """

    def __init__(
        self,
        name: str,
        dtype: str = "FLOAT",
        shape: Sequence[int] = (),
        *,
        profiles: Sequence[tuple[Any, Any, Any]] = (),
        on_host: bool = False,
        data_dependent: bool = False,
        tensor_format: str = "LINEAR",
        aliased: str | None = None,
    ) -> None:
        """Describe a tensor of an engine."""
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)
        self.profiles = [tuple(tuple(part) for part in profile) for profile in profiles]
        self.on_host, self.data_dependent = on_host, data_dependent
        self.format, self.aliased = tensor_format, aliased

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Return strides counted in vectors, as in TensorRT."""
        if self.format == "LINEAR":
            return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        _, c, h, w = shape
        vectors = ceil(c / COMPONENTS[self.format])
        if self.format.startswith("HWC"):
            return [h * w * vectors, 1, w * vectors, vectors]
        return [vectors * h * w, h * w, w, 1]


def places(tensor: Tensor, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield each index, and the position of its element in memory, counted in elements.

    They follow from the definition of the format, one by one, without a stride trick.
    """
    components, strides = COMPONENTS[tensor.format], tensor.strides(shape)
    for index in itertools.product(*map(range, shape)):
        n, c, h, w = index
        vector = n * strides[0] + c // components * strides[1] + h * strides[2] + w * strides[3]
        yield index, vector * components + c % components

"""Who lowers the precision in which a model computes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from polygraphy.domain.datatype import DataTypeEntry

__all__ = ["CalibrationCache", "PrecisionCaster", "Quantizer"]

CalibrationCache = Union[str, Path, IO[bytes], None]
"""Where what calibration found out is kept: a path, or a file that is open for reading and writing
bytes; None for nowhere.
"""


class PrecisionCaster(Protocol):
    """Rewrites a floating-point ONNX model so that it computes in a narrower floating-point
    type.
    """

    def cast(
        self,
        model: Any,
        dtype: DataTypeEntry,
        *,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Cast a model; its inputs and outputs keep their data types.

        Args:
            model: an `onnx.ModelProto`; it is not changed.
            dtype: the type to compute in, such as `DataType.FLOAT16`.
            keep_ops: operator types that keep their precision.
            keep_nodes: names of nodes that keep their precision; one without a name goes by those
                of the tensors that it computes.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be cast.
        """


class Quantizer(Protocol):
    """Rewrites a floating-point ONNX model into one with quantise and dequantise nodes."""

    def quantize(
        self,
        model: Any,
        calibration: Iterable[Mapping[str, Any]] | None,
        dtype: DataTypeEntry,
        *,
        method: str = "entropy",
        cache: CalibrationCache = None,
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Quantise a model.

        Args:
            model: an `onnx.ModelProto`; it is not changed.
            calibration: feed dictionaries from which value ranges are taken, or a function that
                returns such; nothing is asked of it where the cache suffices.
            dtype: the type to quantise to, such as `DataType.INT8`.
            method: how a range is chosen from the values that were seen: ``entropy``, ``minmax`` or
                ``percentile``.
            cache: where the ranges are read from if they are there, and else written to.
            keep_nodes: names of nodes whose inputs are not quantised; one without a name goes by
                those of the tensors that it computes.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be quantised.
            FileError: the cache cannot be read or written.
            InputError: there is no calibration data, or it does not fit the model.
        """

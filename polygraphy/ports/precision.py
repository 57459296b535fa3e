"""Who lowers the precision in which a model computes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.datatype import DataTypeEntry

__all__ = ["PrecisionCaster", "Quantizer"]


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
            keep_nodes: names of nodes that keep their precision.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be cast.
        """


class Quantizer(Protocol):
    """Rewrites a floating-point ONNX model into one with quantise and dequantise nodes."""

    def quantize(
        self, model: Any, calibration: Iterable[Mapping[str, Any]], dtype: DataTypeEntry
    ) -> Any:
        """Quantise a model.

        Args:
            model: an `onnx.ModelProto`; it is not changed.
            calibration: feed dictionaries from which value ranges are taken.
            dtype: the type to quantise to, such as `DataType.INT8`.

        Returns:
            Another `onnx.ModelProto`.

        Raises:
            ModelError: the model cannot be quantised.
            InputError: there is no calibration data, or it does not fit the model.
        """

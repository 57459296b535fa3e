"""Lowers the precision of a model on paper only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from typing import Any

from polygraphy.adapters.onnx_common.messages import inputs_of
from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.editing import CalibrationCache

_CAST_TO = (
    DataType.FLOAT16,
    DataType.BFLOAT16,
    DataType.FLOAT8E4M3FN,
    DataType.FLOAT8E5M2,
)
_QUANTIZED_TO = (DataType.INT8, DataType.FLOAT8E4M3FN, DataType.INT4, DataType.FLOAT4)


class FakePrecisionCaster:
    """Marks a copy of the model instead of casting it.

    Attributes:
        calls: data type, operators and nodes that keep their precision, per call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[DataTypeEntry, frozenset[str], frozenset[str]]] = []

    def cast(
        self,
        model: Any,
        dtype: DataTypeEntry,
        *,
        keep_ops: Collection[str] = (),
        keep_nodes: Collection[str] = (),
    ) -> Any:
        """Return a copy of the model whose metadata property ``cast_to`` names the data type.

        Raises:
            UsageError: `dtype` is no narrow floating-point type.
        """
        _require(dtype, _CAST_TO, "cast")
        self.calls.append((dtype, frozenset(keep_ops), frozenset(keep_nodes)))
        return _marked(model, "cast_to", dtype)


class FakeQuantizer:
    """Marks a copy of the model instead of quantising it.

    Attributes:
        calls: data type and number of calibration iterations, per call.
        kept: the nodes that keep their precision, per call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[DataTypeEntry, int]] = []
        self.kept: list[frozenset[str]] = []

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
        """Return a copy of the model whose metadata property ``quantized_to`` names the data type.

        All calibration data are asked for, as a quantiser would.

        Raises:
            UsageError: `dtype` is no type that models are quantised to.
            InputError: there are no calibration data, or not for all inputs.
        """
        _require(dtype, _QUANTIZED_TO, "quantised")
        wanted = _input_names(model)
        iterations = 0
        for feed_dict in calibration or ():
            missing = [name for name in wanted if name not in feed_dict]
            if missing:
                raise InputError(
                    f"The calibration data hold nothing for {', '.join(map(repr, missing))};"
                    f" the model's inputs are {wanted}."
                )
            iterations += 1
        if iterations == 0:
            raise InputError("There are no calibration data.")
        self.calls.append((dtype, iterations))
        self.kept.append(frozenset(keep_nodes))
        return _marked(model, "quantized_to", dtype)


def _require(dtype: DataTypeEntry, known: Collection[DataTypeEntry], what: str) -> None:
    if dtype not in known:
        raise UsageError(
            f"A model cannot be {what} to {dtype}.",
            hint=f"Available: {', '.join(map(str, known))}.",
        )


def _marked(model: Any, key: str, dtype: DataTypeEntry) -> Any:
    copy = deepcopy(model)
    mark = copy.metadata_props.add()
    mark.key, mark.value = key, str(dtype)
    return copy


def _input_names(model: Any) -> list[str]:
    """Name the inputs of a model; initialisers that older models list there are none."""
    return [value.name for value in inputs_of(model.graph)]

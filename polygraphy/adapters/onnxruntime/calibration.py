"""Measures in which ranges the tensors of a model lie, with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of, inputs_of, shape_of
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx, terminable
from polygraphy.domain.data.feed import fit_feed
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.errors import DataTypeConversionException, InputError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import find_facts

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


Ranges = Mapping[str, "tuple[float, float]"]
"""The smallest and the largest value of tensors, by name."""

METHODS = ("entropy", "minmax", "percentile")
"""How a range is chosen from what was seen.

``minmax`` takes everything in; ``percentile`` leaves out the outermost 0.01%; ``entropy`` cuts off
where the distribution of the quantised values tells most about that of the others.
"""

_PERCENTILE = 99.99
_BINS = {"entropy": 1024, "percentile": 2048}
_LEVELS = 128

onnx = mod.lazy_import("onnx")
calibrate = mod.lazy_import("onnxruntime.quantization.calibrate")


def measure(
    model: ModelProto, tensors: Sequence[str], data: Iterable[Mapping[str, Any]], method: str
) -> dict[str, tuple[float, float]]:
    """Run a model on all data and return the ranges of some of its tensors.

    Args:
        model: whose tensors; it stays as it is.
        tensors: names of tensors of numbers.
        data: feed dictionaries; casts that lose nothing are made. A data loader that does not know
            the inputs (its `input_metadata` is None) is given their metadata.
        method: one of `METHODS`.

    Raises:
        InputError: there are no data, or they do not fit the model.
        BackendError: ONNX Runtime cannot run the model.
    """
    metadata = _input_metadata(model)
    if getattr(data, "input_metadata", metadata) is None:
        describe_model(data, metadata, partial(find_facts, model))
    collector = _MinMax() if method == "minmax" else _Histograms(method)
    count = 0
    session = _session(model, tensors) if tensors else None
    for feed in _fitted(data, metadata):
        count += 1
        if session is not None:
            with translated_errors("run"):
                values = terminable(partial(session.run, list(tensors), feed))
            collector.add(dict(zip(tensors, values)))
    if not count:
        raise InputError(
            "There are no calibration data: the data loader yields nothing.",
            hint="A generator can be used once only: give a list, or a function that returns a new"
            " one.",
        )
    return collector.ranges() if tensors else {}


def _session(model: ModelProto, tensors: Sequence[str]) -> Any:
    """Return a session that hands out tensors; what is optimised away could not be measured."""
    with_outputs = _with_outputs(model, tensors)
    return SessionFromOnnx(with_outputs, graph_optimization_level="disable").call_impl()


def _with_outputs(model: ModelProto, tensors: Sequence[str]) -> ModelProto:
    """Return a copy of a model in which some tensors are outputs, too."""
    copy: ModelProto = copy_of(model)
    there = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in tensors if name not in there
    )
    return copy


def _fitted(
    data: Iterable[Mapping[str, Any]], metadata: TensorMetadata
) -> Iterator[dict[str, Any]]:
    noted: set[str] = set()
    for index, feed_dict in enumerate(data):
        missing = [name for name in metadata if name not in feed_dict]
        if missing:  # Calibrating with what has another name would be a guess.
            raise InputError(
                f"The calibration data of iteration {index} lack {', '.join(map(repr, missing))};"
                f" there is {list(feed_dict)}."
            )
        fitted, notes = fit_feed(feed_dict, metadata)
        for note in (*notes, *getattr(data, "notes", ())):
            if note not in noted:
                noted.add(note)
                G_LOGGER.warning(f"Calibration data: {note}")
        yield fitted


def _input_metadata(model: ModelProto) -> TensorMetadata:
    metadata = TensorMetadata()
    for value in inputs_of(model.graph):
        metadata.add(value.name, _dtype(value), shape_of(value.type.tensor_type))
    return metadata


def _dtype(value: ValueInfoProto) -> Any:
    try:
        return DataType.from_dtype(value.type.tensor_type.elem_type, "onnx")
    except DataTypeConversionException:
        return None


class _MinMax:
    """Keeps the smallest and the largest finite value."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}

    def add(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        for name, array in values.items():
            finite = array[np.isfinite(array)]
            low, high = self._seen.get(name, (0.0, 0.0))
            if finite.size:
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            self._seen[name] = (low, high)

    def ranges(self) -> dict[str, tuple[float, float]]:
        return self._seen


class _Histograms:
    """Keeps histograms, from which ONNX Runtime chooses the ranges."""

    def __init__(self, method: str) -> None:
        self._collector = calibrate.HistogramCollector(
            method=method,
            symmetric=True,
            num_bins=_BINS[method],
            num_quantized_bins=_LEVELS,
            percentile=_PERCENTILE,
            scenario="same",
        )

    def add(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        finite = {
            name: array[np.isfinite(array)].astype(np.float32) for name, array in values.items()
        }
        with redirect_stdout(StringIO()):  # It prints what it is doing.
            self._collector.collect(finite)

    def ranges(self) -> dict[str, tuple[float, float]]:
        with redirect_stdout(StringIO()):
            found = self._collector.compute_collection_result()
        return {name: (float(chosen[0]), float(chosen[1])) for name, chosen in found.items()}

"""How large networks and engines are, and what they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import Any, Union

from attrs import frozen

from polygraphy.domain.model.engine import EngineDescription, Layer, NetworkDescription
from polygraphy.domain.tensors.metadata import TensorMetadata

_UNKNOWN = "(unknown)"


@frozen
class EngineStatistics:
    """Sizes of a network or an engine; None where it does not tell.

    Attributes:
        layers: number of layers.
        ops: how often each type of layer occurs, the most frequent first.
        precisions: how many layers compute each data type, by their first output.
        parameters: number of elements of all weights, constants of the parser among them.
        weight_bytes: how many bytes they take.
        device_memory: bytes of memory for activations.
        input_bytes: how many bytes the inputs take.
        output_bytes: how many bytes the outputs take.
        io_unknown: the inputs and outputs that are left out there, because their shape or data type
            is not known.
        is_largest: whether inputs were counted as large as the first profile allows.
    """

    layers: int
    ops: Mapping[str, int]
    precisions: Mapping[str, int]
    parameters: int | None
    weight_bytes: int | None
    device_memory: int | None
    input_bytes: int
    output_bytes: int
    io_unknown: tuple[str, ...]
    is_largest: bool


def statistics_of_built(
    description: Union[NetworkDescription, EngineDescription],
) -> EngineStatistics:
    """Return the statistics of a network or an engine that was described with its layers."""
    largest: dict[str, Any] = {}
    if isinstance(description, EngineDescription) and description.profiles:
        tensors = description.profiles[0].tensors
        largest = {one.name: one.range[2] for one in tensors if one.range and not one.is_value}
    inputs, unknown_inputs = _size(description.inputs, largest)
    outputs, unknown_outputs = _size(description.outputs, largest)
    return EngineStatistics(
        layers=description.layer_count,
        ops=_sorted(layer.op or _UNKNOWN for layer in description.layers),
        precisions=_sorted(_precision(layer) for layer in description.layers),
        parameters=_get(description, NetworkDescription, "parameters"),
        weight_bytes=description.weight_bytes,
        device_memory=_get(description, EngineDescription, "device_memory"),
        input_bytes=inputs,
        output_bytes=outputs,
        io_unknown=(*unknown_inputs, *unknown_outputs),
        is_largest=any(
            -1 in tuple(shape or ())
            for name, (_, shape) in description.inputs.items()
            if name in largest
        ),
    )


def _get(description: Any, kind: type, name: str) -> int | None:
    """Return what only descriptions of one kind tell; None of others."""
    return getattr(description, name) if isinstance(description, kind) else None


def _precision(layer: Layer) -> str:
    dtypes = [dtype for dtype, _ in layer.outputs.values()]
    return str(dtypes[0]) if dtypes and dtypes[0] is not None else _UNKNOWN


def _sorted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _size(metadata: TensorMetadata, largest: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return how many bytes tensors take, and which could not be counted."""
    total, unknown = 0, []
    for name, (dtype, shape) in metadata.items():
        dims = largest.get(name, shape)
        itemsize = getattr(dtype, "itemsize", None)
        if (
            itemsize is None
            or dims is None
            or not all(isinstance(dim, int) and dim >= 0 for dim in dims)
        ):
            unknown.append(name)
        else:
            total += ceil(prod(dims) * itemsize)
    return total, unknown

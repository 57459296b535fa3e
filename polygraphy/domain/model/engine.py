"""Descriptions of networks and of built engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import Any, Union

from attrs import Factory, frozen

from polygraphy.domain.tensors.metadata import TensorMetadata


@frozen
class Layer:
    """One step of a network or an engine.

    Attributes:
        name: of the layer.
        op: its purpose, as the backend calls it; empty where an engine keeps names only.
        inputs: the tensors that it reads.
        outputs: the tensors that it writes.
        attributes: its constants by name; weights are arrays.
    """

    name: str
    op: str = ""
    inputs: TensorMetadata = Factory(TensorMetadata)
    outputs: TensorMetadata = Factory(TensorMetadata)
    attributes: Mapping[str, Any] = Factory(dict)


@frozen
class NetworkDescription:
    """A network that an engine can be built from.

    Attributes:
        name: of the network.
        is_strongly_typed: whether every layer computes in the data types of its inputs.
        inputs: its inputs; a dynamic dimension is -1.
        outputs: its outputs.
        layer_count: number of layers.
        layers: the layers; empty where these were not asked for.
        parameters: number of elements of all weights; None where that was not asked for.
        weight_bytes: size in bytes.
    """

    name: str
    is_strongly_typed: bool
    inputs: TensorMetadata
    outputs: TensorMetadata
    layer_count: int
    layers: tuple[Layer, ...] = ()
    parameters: int | None = None
    weight_bytes: int | None = None


@frozen
class ProfileTensor:
    """An input or output under one optimization profile.

    Attributes:
        name: of the tensor.
        is_input: whether it is an input.
        shape: its shape; a dimension is -1 where it depends on the data.
        range: of an input the smallest, the usual and the largest shape.
        is_value: whether `range` holds values instead: those of an input that is itself a shape.
    """

    name: str
    is_input: bool
    shape: tuple[int, ...]
    range: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None = None
    is_value: bool = False


@frozen
class EngineProfile:
    """One optimization profile: the allowed shapes of inputs and outputs."""

    tensors: tuple[ProfileTensor, ...]


@frozen
class EngineDescription:
    """A built engine.

    Attributes:
        name: of the network that it was built from.
        is_refittable: whether its weights can be exchanged.
        inputs: its inputs; a dynamic dimension is -1.
        outputs: its outputs, as the first profile makes them.
        device_memory: bytes of memory for activations.
        profiles: its optimization profiles.
        layer_count: number of layers, of all profiles together.
        layers: the layers, profile by profile; empty where these were not asked for.
        has_implicit_batch: whether shapes leave out the batch, as they could in the past.
        weight_bytes: the size of its weights in bytes; None if the engine does not tell.
    """

    name: str
    is_refittable: bool
    inputs: TensorMetadata
    outputs: TensorMetadata
    device_memory: int
    profiles: tuple[EngineProfile, ...]
    layer_count: int
    layers: tuple[Layer, ...] = ()
    has_implicit_batch: bool = False
    weight_bytes: int | None = None

    @property
    def layers_per_profile(self) -> int:
        """Return the number of layers in each profile."""
        return self.layer_count // max(1, len(self.profiles))

    def layers_of(self, profile: int) -> tuple[Layer, ...]:
        """Return the layers of one profile."""
        start = profile * self.layers_per_profile
        return self.layers[start : start + self.layers_per_profile]


_UNKNOWN = "(unknown)"


@frozen
class EngineStatistics:
    """Sizes of a network or an engine; None if unknown.

    Attributes:
        layers: number of layers.
        ops: the number of layers of each type, the most frequent first.
        precisions: the number of layers of each data type, by their first output.
        parameters: number of elements of all weights, constants of the parser among them.
        weight_bytes: size in bytes.
        device_memory: bytes of memory for activations.
        input_bytes: the size of the inputs in bytes.
        output_bytes: the size of the outputs in bytes.
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
        largest = {
            tensor.name: tensor.range[2]
            for tensor in tensors
            if tensor.range and not tensor.is_value
        }
    inputs, unknown_inputs = _size(description.inputs, largest)
    outputs, unknown_outputs = _size(description.outputs, largest)
    return EngineStatistics(
        layers=description.layer_count,
        ops=_count_sorted(layer.op or _UNKNOWN for layer in description.layers),
        precisions=_count_sorted(_precision(layer) for layer in description.layers),
        parameters=_attribute_of(description, NetworkDescription, "parameters"),
        weight_bytes=description.weight_bytes,
        device_memory=_attribute_of(description, EngineDescription, "device_memory"),
        input_bytes=inputs,
        output_bytes=outputs,
        io_unknown=(*unknown_inputs, *unknown_outputs),
        is_largest=any(
            -1 in tuple(shape or ())
            for name, (_, shape) in description.inputs.items()
            if name in largest
        ),
    )


def _attribute_of(description: Any, kind: type, name: str) -> int | None:
    """Return an attribute that only one kind of description has; None for other kinds."""
    return getattr(description, name) if isinstance(description, kind) else None


def _precision(layer: Layer) -> str:
    """Return the data type of the first output of a layer."""
    dtypes = [dtype for dtype, _ in layer.outputs.values()]
    return str(dtypes[0]) if dtypes and dtypes[0] is not None else _UNKNOWN


def _count_sorted(names: Iterable[str]) -> dict[str, int]:
    """Return the count of each name, the most frequent first."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _size(metadata: TensorMetadata, largest: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the size of tensors in bytes, and the names of tensors of unknown size."""
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

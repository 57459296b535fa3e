"""What a network consists of before it is built, and what the built engine consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Factory, frozen

from polygraphy.domain.tensors.metadata import TensorMetadata


@frozen
class Layer:
    """One step of a network or an engine.

    Attributes:
        name: of the layer.
        op: what it does, as the backend calls it; empty where an engine keeps names only.
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
        layer_count: how many layers there are.
        layers: the layers; empty where these were not asked for.
        parameters: number of elements of all weights; None where that was not asked for.
        weight_bytes: how many bytes they take.
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
    """An input or output under one optimisation profile.

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
    """One optimisation profile: what the inputs and outputs may look like."""

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
        profiles: its optimisation profiles.
        layer_count: how many layers there are, of all profiles together.
        layers: the layers, profile by profile; empty where these were not asked for.
        has_implicit_batch: whether shapes leave out the batch, as they could in the past.
        weight_bytes: how many bytes its weights take; None where the engine does not tell.
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
        """How many layers each profile has."""
        return self.layer_count // max(1, len(self.profiles))

    def layers_of(self, profile: int) -> tuple[Layer, ...]:
        """Return the layers that belong to one profile."""
        start = profile * self.layers_per_profile
        return self.layers[start : start + self.layers_per_profile]

"""Models that can be run one stretch of layers after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.facts import Facts
    from polygraphy.domain.layers import Layer, Stretch
    from polygraphy.domain.metadata import TensorMetadata

__all__ = ["LayeredModel", "LayeredModels"]


class LayeredModel(Protocol):
    """A model of which nothing but the structure needs to be in memory.

    Attributes:
        inputs: names, data types and shapes of its inputs.
        outputs: every tensor that is compared, in the order in which the model computes them.
        resident_weights: bytes of weights that it holds in memory.
    """

    inputs: TensorMetadata
    outputs: Sequence[str]
    resident_weights: int

    def facts(self) -> Facts:
        """Return what the model tells without being run."""

    def layers(self, shapes: Mapping[str, Sequence[int]]) -> list[Layer]:
        """Describe the nodes of the graph, in order, for inputs of these shapes."""

    def fixed(self) -> Collection[str]:
        """Return the tensors that cannot be handed from one stretch to another: those of unknown
        type, and what is no tensor.
        """

    def whole(self) -> Any:
        """Return the model with all that is compared as its outputs, to be run in one piece."""

    def unmarked(self) -> Any:
        """Return the model with its own outputs alone."""

    def part(self, stretch: Stretch) -> Any:
        """Return a model of some of its layers, with their weights: it takes inputs of the model
        and `stretch.inputs`, and makes what is compared or carried of what these layers compute.
        """


class LayeredModels(Protocol):
    """Opens models."""

    def open(self, model: Any, exclude_outputs: Sequence[str]) -> LayeredModel:
        """Read the structure of a model.

        Args:
            model: its path, the model itself (an ``onnx.ModelProto``, which stays as it is), or a
                loader, which makes a model that is changed.
            exclude_outputs: names and patterns of tensors that are not compared.

        Raises:
            FileError: the file, or one with its weights, is missing.
            ModelError: the file is no model.
            UsageError: a name does not exist, or nothing is left to compare.
        """
